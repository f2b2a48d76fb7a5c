"""Figures, texts that fit, files."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tastespace.errors import DataError, ParameterError
from tastespace.plots import canvas

MAGIC = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}


@pytest.fixture
def figure():
    made = canvas.new_figure(2, 1)
    axes = canvas.whole_page(made, 2, 1)
    canvas.write(axes, 0.2, 0.4, "Tea & Jam <3", 9, canvas.color(1))
    return made


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf", ".PNG", ".Svg"])
def test_the_ending_says_what_is_written(figure, tmp_path, ending):
    path = canvas.save_figure(figure, tmp_path / "new" / "folders" / f"picture{ending}")
    assert path.read_bytes().startswith(MAGIC[ending.lower()])


def test_the_size_is_as_given(figure, tmp_path):
    import matplotlib.image

    dots = matplotlib.image.imread(canvas.save_figure(figure, tmp_path / "a.png"))
    assert dots.shape[:2] == (canvas.DPI, 2 * canvas.DPI)


@pytest.mark.parametrize("ending", canvas.ENDINGS)
def test_the_same_picture_is_the_same_file(figure, tmp_path, ending):
    one = canvas.save_figure(figure, tmp_path / f"one{ending}").read_bytes()
    other = canvas.save_figure(figure, tmp_path / f"other{ending}").read_bytes()
    assert one == other


def test_words_in_an_svg_are_words(figure, tmp_path, words):
    assert words(canvas.save_figure(figure, tmp_path / "a.svg")) == ["Tea & Jam <3"]


def test_settings_of_the_users_own_pictures_stay_as_they_are(figure, tmp_path):
    from matplotlib import rcParams

    before = dict(rcParams)
    canvas.save_figure(figure, tmp_path / "a.svg")
    assert dict(rcParams) == before


def test_no_window_is_opened(figure):
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    assert type(figure.canvas).__name__ == "FigureCanvasAgg"


@pytest.mark.parametrize("name", ["picture", "picture.jpeg", "picture.png.txt", ".png"])
def test_other_endings_are_refused(figure, tmp_path, name):
    with pytest.raises(ParameterError, match=r"ends in \.png, \.svg, \.pdf"):
        canvas.save_figure(figure, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_places_that_cannot_be_written_to(figure, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    for path in (tmp_path / "file" / "a.png", tmp_path / "folder.png", "/proc/none/a.svg"):
        with pytest.raises(DataError, match="cannot be written"):
            canvas.save_figure(figure, path)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ParameterError, match=r"pip install \"matplotlib>=3.8\" \(the plots extra\)"):
        canvas.new_figure(1, 1)


def test_colors_come_round_again():
    assert len(set(canvas.PALETTE)) == 8
    assert canvas.color(0) == canvas.PALETTE[0]
    assert canvas.color(8) == canvas.color(0)


@pytest.mark.parametrize("shade", canvas.PALETTE)
def test_words_are_darker_than_marks_and_easy_to_read(shade):
    def luminance(color):
        parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    assert luminance(canvas.deeper(shade)) < luminance(shade)
    # Large, bold words: three to one, by the guidelines for web content.
    assert (luminance(canvas.PAPER) + 0.05) / (luminance(canvas.deeper(shade)) + 0.05) >= 3


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("Casablanca (1942)", 17, "Casablanca (1942)"),
        ("Casablanca (1942)", 16, "Casablanca…"),
        ("Godfather: Part II, The (1974)", 24, "Godfather: Part II, The…"),
        ("Godfather: Part II, The (1974)", 23, "Godfather: Part II…"),
        ("An Incomprehensibilities", 12, "An Incompre…"),
        ("two\nlines\tand  spaces ", 40, "two lines and spaces"),
        ("bell\x07 and zero\x00", 40, "bell and zero"),
        (1234567, 5, "1234…"),
        ("", 5, ""),
    ],
)
def test_long_texts_are_cut_after_a_word(text, width, expected):
    assert canvas.shorten(text, width) == expected


@given(st.text(max_size=60), st.integers(4, 50))
def test_short_texts_stay_and_long_ones_fit(text, width):
    short = canvas.shorten(text, width)
    assert len(short) <= width
    assert short.isprintable()
    whole = canvas.shorten(text, 1_000)
    if len(whole) <= width:
        assert short == whole
    else:
        assert short.endswith("…")
        assert whole.startswith(short[:-1])


def test_texts_are_made_to_fit(figure):
    axes = figure.axes[0]
    wide = canvas.write(axes, 0, 0, "W" * 40, 9)
    canvas.fit_into(wide, 1.5, 0.5)
    assert wide.get_window_extent().width <= 1.5 * canvas.DPI
    small = canvas.write(axes, 0, 0, "i", 9)
    canvas.fit_into(small, 1.5, 0.5)
    assert small.get_fontsize() == 9


def test_a_dollar_sign_is_no_mathematics(figure, tmp_path, words):
    canvas.write(figure.axes[0], 0, 0, r"$\frac{A$AP} costs $5", 9)
    assert r"$\frac{A$AP} costs $5" in words(canvas.save_figure(figure, tmp_path / "a.svg"))
