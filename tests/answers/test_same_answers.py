"""A served page, a saved page and the widget give the same answers about one model."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest
from starlette.testclient import TestClient
from tests.required_services import skip_without_service

import tastespace as ts
from tastespace.answers._page import PageRequests
from tastespace.serve.app import create_app
from tastespace.serve.settings import Limits, ServerSettings

ROOT = Path(__file__).parents[2]
SERVED_ONLY = ("name", "version", "fitted", "generation", "metrics", "compare")
"""Facts of a model that depend on its file and its server."""
KINDS = ("dpcml", "blend", "ease", "floats")


def data_of(town, as_floats=False):
    """The town with several genres for each item, of which the first is rarely the one that is shown; named users."""
    data = town.interactions
    attributes = data.item_attributes.with_columns(
        pl.concat_list(pl.lit("Everything"), "genres", pl.when(pl.col("item") % 50 == 0).then(pl.lit("Rare"))).alias(
            "genres"
        )
    )
    people = pl.DataFrame({"user": data.users.series, "full_name": [f"Person {n:03}" for n in range(data.n_users)]})
    frame = pl.DataFrame(data.to_frame())
    if as_floats:
        frame = frame.with_columns(pl.col("user") + 0.5, pl.col("item").cast(pl.Float64))
        attributes = attributes.with_columns(pl.col("item").cast(pl.Float64))
        people = people.with_columns(pl.col("user") + 0.5)
    return ts.Interactions.from_frame(frame, item_attributes=attributes, user_attributes=people)


def fitted(kind, town):
    data = data_of(town, kind == "floats")
    # In the paper's form vectors stand apart after four epochs: each interest has a shelf of its own.
    small = {
        **ts.DPCML.paper_form(),
        "dim": 8,
        "n_interests": 3,
        "epochs": 4,
        "learning_rate": 0.1,
        "seed": 1,
        "threads": 1,
    }
    if kind == "ease":
        return ts.EASE().fit(data)
    if kind == "blend":
        return ts.Blend([ts.DPCML(**small), ts.EASE()], weights=[0.5, 0.5], threads=1).fit(data)
    model = ts.DPCML(**small).fit(data)
    return model.mute(data.users[7], [2]).boost(data.users[7], {0: 2.0})


@dataclass
class Faces:
    """One model behind a server, in a file, and in a notebook."""

    kind: str
    model: Any
    client: TestClient
    requests: PageRequests
    data: dict[str, Any]
    users: list[Any]

    @property
    def has_interests(self):
        return self.kind != "ease"

    def served(self, path, query=None, body=None):
        answer = (
            self.client.get(path, params=query) if body is None else self.client.post(path, json=body, params=query)
        )
        return answer.status_code, answer.json()

    def in_notebook(self, path, query=None, body=None):
        texts = {name: str(value) for name, value in (query or {}).items()}
        status, found = self.requests.answer("GET" if body is None else "POST", path, texts, body)
        return status, json.loads(json.dumps(found, allow_nan=False))

    def saved(self, *questions):
        """Answers of the page's own code, from the data inside the file."""
        if shutil.which("node") is None or not (ROOT / "page" / "node_modules" / "esbuild").is_dir():
            skip_without_service("node, or what `npm ci` installs in page/, is not here")
        asked = json.dumps({"data": self.data, "questions": questions})
        command = ["node", str(Path(__file__).parent / "ask_saved_page.mjs")]
        found = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=120, check=False)
        assert found.returncode == 0, found.stderr
        return json.loads(found.stdout)


@pytest.fixture(scope="module", params=KINDS)
def faces(request, town, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    model = fitted(request.param, town)
    model.save(folder / "town.model")
    model = ts.load(folder / "town.model")
    users = [model.train_.users[row] for row in (7, 8, 71)]
    text = model.save_page(folder / "town.html", users).read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="tastespace-data">(.*?)</script>', text)[1])
    settings = ServerSettings(
        folder / "town.model", watch_seconds=0.0, limits=Limits(seconds=300.0, read_seconds=300.0), impressions=False
    )
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield Faces(request.param, model, client, PageRequests(model), data, users)


def questions(faces):
    """What the page asks a server: path, query and body."""
    user, item = faces.users[0], faces.model.train_.items[20]
    past = faces.model.train_.items_of(faces.users[1])[:4]
    person = f"/v1/users/{quote(str(user))}"
    yield "/v1/map", None, None
    for text in ("", "7", "person 07", "PERSON 1", "zzz"):
        yield "/v1/users", {"q": text, "limit": 12}, None
        yield "/v1/items/search", {"q": text, "limit": 24}, None
    yield "/v1/items/search", {"q": faces.model.train_.item_attributes["title"][20].upper()[:6]}, None
    yield f"/v1/items/{item}/similar", {"k": 5}, None
    for query in ({}, {"k": 20, "diversity": 0.5, "mute": "", "boost": ""}, {"because": "false", "exclude": str(item)}):
        yield f"{person}/recommendations", query, None
    yield f"{person}/recommendations", {"k": 5, "after": ""}, None
    yield f"{person}/recommendations", {"k": 5, "after": "x"}, None
    yield f"{person}/recommendations", {"k": 5, "include_seen": "true"}, None
    yield f"{person}/explanations/{item}", None, None
    yield "/v1/recommendations", None, {"histories": [past], "k": 4, "after": ""}
    yield "/v1/recommendations", None, {"users": [user, faces.users[2]], "k": 4, "include": [item, *past]}
    yield "/v1/recommendations", None, {"histories": [past], "k": 4}
    yield "/v1/recommendations", None, {"histories": [[]], "k": 6, "on_unknown": "popular"}
    yield "/v1/explanations", None, {"history": past, "item": item}
    for what in ("shelves", "interests"):  # refused by a model without interests
        for query in ({}, {"mute": "", "boost": ""}, {"mute": "1", "boost": "0:3"}):
            yield f"{person}/{what}", query, None
        yield f"/v1/{what}", None, {"history": past}
    yield f"{person}/recommendations", {"mute": "0,1,2"}, None
    yield f"{person}/recommendations", {"mute": "9"}, None
    for nobody in ("nobody", "12345"):
        yield f"/v1/users/{nobody}/recommendations", None, None
        yield f"{person}/explanations/{nobody}", None, None
    yield "/v1/explanations", None, {"history": [past[0], 10**6], "item": item}
    for wrong in (
        *({"k": text} for text in ("abc", "0", "1.5", "1_0", "10000000")),
        *({"because": text} for text in ("no", "False", "0", "null")),
        *({"boost": text} for text in ("x", "0", "0:x", "0:0", "0:nan", "1:2:3")),
        *({"diversity": text} for text in ("2", "-0.1", "nan", "x")),
        *({name: "x"} for name in ("mute", "mix", "on_unknown", "model")),
        *({name: "true"} for name in ("foo", "titles", "profile", "rules_key", "divercity")),
        {"model": "compare"},
        {"filter": "nothing = 1"},
    ):
        for what in ("recommendations", "shelves", f"explanations/{item}"):
            yield f"{person}/{what}", wrong, None
    yield f"/v1/items/{item}/similar", {"k": "x"}, None
    yield "/v1/users", {"limit": "0"}, None
    yield "/v1/items/search", {"k": "3"}, None
    yield "/v1/map", {"k": "3"}, None
    yield "/v1/model", {"q": "3"}, None
    yield "/v1/nothing", None, None
    for wrong in ({"k": "5"}, {"k": 0}, {"because": 1}, {"mix": "all"}, {"diversity": True}, {"on_unknown": "skip"}):
        yield "/v1/recommendations", None, {"users": [user], **wrong}
    for wrong in (
        *({"mute": value} for value in ("x", ["x"], [0, -1], [1.5], [True])),
        *({"boost": value} for value in ([1], {"0": 0}, {"0": "2"}, {"x": 2}, {"-1": 2})),
        *({name: 5} for name in ("include", "exclude")),
    ):
        yield "/v1/recommendations", None, {"users": [user], **wrong}
    for wrong in ({"users": 5}, {"histories": 5}):
        yield "/v1/recommendations", None, wrong


def test_the_widget_says_what_the_server_says(faces):
    for asked in questions(faces):
        (status, served), (own_status, own) = faces.served(*asked), faces.in_notebook(*asked)
        assert own_status == status, asked
        if status != 200:  # advice may name a request that only a server takes
            served, own = ({**one["error"], "advice": ""} for one in (served, own))
        for one in (served, own):  # ids are for logs, which only a server keeps
            assert one.pop("recommendation", None) is None
        assert own == served, asked


def test_facts_of_the_model_are_the_same(faces):
    served, own = faces.served("/v1/model")[1], faces.in_notebook("/v1/model")[1]
    saved = {**faces.data["model"], "can": served["can"]}  # a file cannot fold in, and has fewer mixes
    for name in served.keys() - set(SERVED_ONLY):
        assert served[name] == own[name] == saved[name]
    assert {name: faces.data["model"]["can"][name] for name in ("explain", "shelves")} == {
        name: served["can"][name] for name in ("explain", "shelves")
    }


def test_a_saved_page_has_the_map_and_the_items_of_the_server(faces):
    served = faces.served("/v1/map")[1]
    assert faces.data["map"] == served
    category = {
        item: served["categories"][code] for item, code in zip(served["items"], served["category"], strict=True)
    }
    assert (
        served["category"].count(served["categories"].index("Everything")) < 20
    )  # of all items: it says little of one
    assert "Rare" not in served["categories"]
    for person in faces.data["people"]:
        assert all(one["category"] == category[one["item"]] for one in person["pool"])
    (popular,) = faces.saved(["popular", 20])
    body = {"histories": [[]], "k": 20, "on_unknown": "popular"}
    listed = faces.served("/v1/recommendations", None, body)[1]["lists"][0]["items"]
    names = ("item", "title", "category", "rank", "score", "interest")
    assert popular == [{name: one[name] for name in names} for one in listed]


def test_a_saved_page_finds_people_as_the_server_does(faces):
    texts = ["", str(faces.users[0]), "person 07", "PERSON", "zzz"]
    inside = {one["user"] for one in faces.data["people"]}
    for text, found in zip(texts, faces.saved(*(["users", text] for text in texts)), strict=True):
        listed = faces.served("/v1/users", {"q": text or "person", "limit": 1000})[1]["users"]
        expected = [one for one in listed if one["user"] in inside]
        assert [{name: one[name] for name in ("user", "name", "n_items")} for one in found] == expected


@pytest.mark.parametrize("choices", [{"mute": [], "boost": {}}, {"mute": [1], "boost": {0: 3.0}}])
def test_a_saved_page_lists_what_the_server_lists(faces, choices):
    if choices["mute"] and not faces.has_interests:
        choices = {"mute": [], "boost": {}}
    several = [one for one in faces.data["people"] if len(one["interests"]["interests"]) > 1]
    assert len(several) >= 2 or not faces.has_interests
    for person in several if choices["mute"] else faces.data["people"]:
        query = {
            "mute": ",".join(map(str, choices["mute"])),
            "boost": ",".join(f"{x}:{factor}" for x, factor in choices["boost"].items()),
        }
        who, path = {"kind": "user", "user": person["user"]}, f"/v1/users/{quote(str(person['user']))}"
        mixes = (0.0, 0.5, 1.0) if faces.has_interests else (0.0,)
        asked = [["recommendations", who, 20, {**choices, "diversity": diversity}] for diversity in mixes]
        for diversity, found in zip(mixes, faces.saved(*asked), strict=True):
            served = faces.served(f"{path}/recommendations", {**query, "k": 20, "diversity": diversity})[1]["items"]
            assert found == served
        if not faces.has_interests:
            continue
        (found,) = faces.saved(["shelves", who, 8, choices])
        served = [one for one in faces.served(f"{path}/shelves", {**query, "k": 8})[1]["shelves"] if not one["muted"]]
        for shelf, expected in zip(found, served, strict=True):
            for name in ("interest", "interests", "name", "share", "reasons", "items"):
                assert shelf[name] == expected[name]


def test_a_saved_page_explains_as_the_server_does(faces):
    for person in faces.data["people"]:
        who, path = {"kind": "user", "user": person["user"]}, f"/v1/users/{quote(str(person['user']))}"
        listed = faces.served(f"{path}/recommendations", {"mute": "", "boost": "", "k": 10})[1]["items"]
        found = faces.saved(*(["explanation", who, one["item"]] for one in listed))
        for one, item in zip(found, listed, strict=True):
            assert one == faces.served(f"{path}/explanations/{item['item']}")[1]
        if faces.has_interests:
            (interests,) = faces.saved(["interests", who])
            assert interests == {**faces.served(f"{path}/interests")[1], "model": interests["model"]}
