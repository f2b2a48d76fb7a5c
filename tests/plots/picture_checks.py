"""What the tests of all pictures share: shelves made by hand, and checks of a figure's texts."""

from tastespace.plots.canvas import DPI, overlap
from tastespace.recommend.shelves import Shelf

LONG = "Dr. Strangelove or: How I Learned to Stop Worrying and Love the Bomb, in the version of 1964"


def shelf(interest, titles, label="Drama", because=("Casablanca", "Rear Window")):
    ids, past = [f"i{n}" for n in range(len(titles))], [f"p{n}" for n in range(len(because))]
    return Shelf(interest, (interest,), 0.25, label, ids, [0.0] * len(ids), past, list(titles), list(because))


def box_of(text):
    extent = text.get_window_extent()
    return extent.x0, extent.y0, extent.x1, extent.y1


def texts_of(figure):
    return [text for axes in figure.axes for text in axes.texts]


def assert_texts_fit(figure):
    """All texts are within the page and none lies upon another."""
    width, height = figure.get_size_inches() * DPI
    boxes = {text: box_of(text) for text in texts_of(figure)}
    for text, (left, bottom, right, top) in boxes.items():
        assert left >= 0, text
        assert bottom >= 0, text
        assert right <= width, text
        assert top <= height, text
    pairs = [(one, other) for one in boxes for other in boxes if one is not other]
    assert [(a.get_text(), b.get_text()) for a, b in pairs if overlap(boxes[a], boxes[b])] == []
