"""Pictures that pages show, and categories that they do not."""

import numpy as np
import polars as pl
import pytest
from starlette.testclient import TestClient

import tastespace as ts
from tastespace.answers._page import PageAnswers
from tastespace.answers.display import Display, pictures
from tastespace.errors import ParameterError
from tastespace.serve.app import create_app
from tastespace.serve.settings import ServerSettings
from tastespace.serve.state import ServerState

GOOD = ["https://img.example/a.jpg?w=1", "HTTP://Other.example:8080/b.png", "https://img.example"]
HOSTILE = [
    "javascript:alert(1)",
    " javascript:alert(1)",
    "data:image/svg+xml,<svg onload=alert(1)>",
    "//cdn.example/x.jpg",
    "/x.jpg",
    "https://user:secret@img.example/x.jpg",
    "https://img.example;script-src *",
    "https://img.example /x.jpg",
    "https://img.example/'x'.jpg",
    "https://img.example/a\nb",
    "https://*",
    "https://" + "a" * 3_000 + "/",
    "file:///etc/passwd",
]


def test_only_web_addresses_are_pictures():
    frame = pl.DataFrame({"item": range(len(GOOD + HOSTILE) + 2), "image": [*GOOD, *HOSTILE, None, " "]})
    found = pictures(frame, "image")
    assert found.addresses.to_list() == [*GOOD, *[None] * (len(HOSTILE) + 2)]
    assert found.sources == ("http://other.example:8080", "https://img.example")
    assert found.n_refused == len(HOSTILE)
    many = pl.DataFrame({"item": range(30), "image": [f"https://{n}.example/x" for n in range(30)]})
    assert pictures(many, "image").sources == ("https:",)


def test_the_column_is_named_or_found_by_its_name():
    frame = pl.DataFrame({"item": [1], "Poster_URL": ["https://a.example/1"], "photos": [["https://b.example/1", "x"]]})
    assert pictures(frame, "auto").column == "Poster_URL"
    assert pictures(frame, "photos").addresses.to_list() == ["https://b.example/1"]
    assert pictures(frame, None) is None
    assert pictures(None, "auto") is None
    assert pictures(frame.with_columns(Poster_URL=pl.lit("no address")), "auto") is None
    with pytest.raises(ParameterError, match=r"images='photo'.*'photos'.*mean"):
        pictures(frame, "photo")
    with pytest.raises(ParameterError, match="holds Int64; expected text"):
        pictures(pl.DataFrame({"item": [1], "image": [5]}), "image")


def test_hidden_categories_are_named_nowhere(page_model):
    shown = PageAnswers(page_model)
    named = ((user, one["name"]) for user in page_model.train_.users for one in shown.interests(user)["interests"])
    user, label = next((user, name) for user, name in named if not name.startswith("like "))
    category = label.split(", ")[0]
    assert category in shown.map()["categories"]
    hiding = PageAnswers(page_model, display=Display(hide_categories=(category, "Nonsense")))
    assert category not in hiding.map()["categories"]
    assert hiding.catalog.unknown_categories == ["Nonsense"]
    item = shown.recommendations(user)["items"][0]["item"]
    for told in (
        hiding.interests(user),
        hiding.shelves(user),
        hiding.recommendations(user),
        hiding.explanation(user, item),
    ):
        names = [one["name"] for one in told.get("interests", told.get("shelves", []))]
        names += [one["category"] for one in told.get("items", [])] + [told.get("interest_name")]
        assert not any(name and category in name.split(", ") for name in names)


def test_items_without_titles_are_shown_as_such(town):
    data = ts.Interactions.from_frame(town.interactions.to_frame())
    model = ts.DPCML(dim=8, n_interests=2, epochs=2, threads=1).fit(data, progress=False)
    answers = PageAnswers(model)
    names = [one["name"] for one in answers.interests(7)["interests"]]
    assert names
    assert all(name.startswith("like item ") for name in names)
    item = answers.recommendations(7, k=1)["items"][0]["item"]
    assert answers.explanation(7, item)["text"].startswith("Because you took item ")
    assert np.unique(names).size == len(names)


@pytest.fixture(scope="module")
def with_pictures(town):
    """A small model whose items have pictures on two hosts, and one hostile address."""
    urls = [f"https://img{n % 2}.example/{n}.jpg" for n in range(town.interactions.n_items)]
    urls[5] = "javascript:alert(1)"
    model = ts.DPCML(dim=8, n_interests=2, epochs=2, threads=1).fit(town.interactions, progress=False)
    attributes = town.interactions.item_attributes.with_columns(pl.Series("image", urls))
    return model.set_item_attributes(attributes)


def test_policies_name_the_hosts_of_pictures(with_pictures, tmp_path):
    with_pictures.save(tmp_path / "town.model")
    policies = []
    for display in (Display("auto"), Display()):
        settings = ServerSettings(tmp_path / "town.model", display=display)
        with TestClient(create_app(settings)) as client:
            policies.append(client.get("/").headers["content-security-policy"])
            images = client.get("/v1/map").json()["images"]
            assert client.get("/v1/model").json()["image_column"] == ("image" if display.images else None)
            assert len(images) == (200 if display.images else 0)
            assert "javascript:" not in client.get("/v1/map").text
    assert "img-src https://img0.example https://img1.example 'self' data: blob:;" in policies[0]
    assert "img-src 'self' data: blob:;" in policies[1]
    for images, expected in (
        ("image", "img-src data: https://img0.example https://img1.example;"),
        (None, "img-src data:;"),
    ):
        page = with_pictures.save_page(tmp_path / "a.html", users=[7], images=images).read_text(encoding="utf-8")
        assert expected in page
        assert ("https://img0.example/2.jpg" in page) == (images is not None)


def test_a_server_is_not_started_with_a_column_that_is_not_there(with_pictures, tmp_path):
    with_pictures.save(tmp_path / "town.model")
    with pytest.raises(ParameterError, match=r"'imag'.*Did you mean image"):
        ServerState(ServerSettings(tmp_path / "town.model", display=Display("imag")))
