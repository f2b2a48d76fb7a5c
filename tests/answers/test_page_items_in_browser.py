"""Items on the page in a real browser: pictures, what a person does not want, the history, proportions, a phone."""

import polars as pl
import pytest

import tastespace as ts
from tastespace.answers._page import PageRequests
from tastespace.answers.display import Display

from .conftest import plainly
from .page_server import serving

PIXEL = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 3"><rect width="4" height="3" fill="red"/></svg>'
SHIFTS = """() => { window.shift = 0; new PerformanceObserver((list) => list.getEntries().forEach((one) => {
  if (!one.hadRecentInput) window.shift += one.value; })).observe({ type: "layout-shift", buffered: true }); }"""


@pytest.fixture(scope="module")
def pictured(page_model):
    """The model of the page with pictures; of the items some have none, and two hostile addresses."""
    frame = page_model.train_.item_attributes
    urls = [f"https://img.example/{n}.svg" if n % 3 else None for n in range(len(frame))]
    urls[1], urls[2] = "javascript:document.title='bad'", "data:text/html,<script>document.title='bad'</script>"
    model = ts.DPCML(**page_model.get_params())
    model.__dict__.update(page_model.__dict__)
    return model.set_item_attributes(frame.with_columns(pl.Series("image", urls)))


def test_pictures_load_lazily_without_shifting_the_page(visit, pictured, tmp_path):
    path = pictured.save_page(tmp_path / "town.html", [7], images="image")  # its policy lets only this host through
    asked = []

    def picture(route):
        asked.append(route.request.url)
        route.fulfill(content_type="image/svg+xml", body=PIXEL)

    found = visit("about:blank")
    page = found.page
    page.route("https://img.example/*", picture)
    page.add_init_script(f"({SHIFTS})()")
    page.goto(path.as_uri())
    found.errors.clear()  # about:blank has no storage
    found.ready().settled()
    page.wait_for_selector(".picture.loaded")
    images = page.locator(".card img")
    titles = page.locator(".card:has(img) .title").all_text_contents()
    assert images.evaluate_all("all => all.map((one) => one.alt)") == [f"Picture of {one}" for one in titles]
    assert set(images.evaluate_all("all => all.map((one) => one.loading)")) == {"lazy"}
    assert 0 < len(asked) < images.count()  # those to the right of what is seen wait
    assert page.evaluate("window.shift") < 0.02
    assert page.locator(".card .picture").count() == page.locator(".card").count()  # a letter where there is none
    assert page.evaluate("document.title") != "bad"
    page.get_by_role("button", name="History", exact=True).click()
    page.wait_for_selector(".past .picture")
    text = path.read_text(encoding="utf-8")
    assert "javascript:" not in text
    assert "data:text/html" not in text


def test_what_is_not_wanted_leaves_the_view_and_is_stored_by_a_button_alone(visit, requests):
    user = requests.main.users(limit=1)["users"][0]["user"]
    with serving(requests) as running:

        def posts():
            return [one[3]["events"] for one in running.asked if one[1] == "/v1/feedback"]

        found = visit(f"{running.url}#user={user}").ready().settled()
        page = found.page
        before = page.locator(".card .title").all_text_contents()
        first = page.locator(".dislike-button").first
        first.focus()
        page.keyboard.press("Enter")
        found.settled()
        shelves = requests.main.shelves(user)["shelves"]
        item = shelves[0]["items"][0]["item"]
        without = requests.main.shelves(user, exclude=[item])["shelves"]
        expected = [plainly(one["title"]) for shelf in without for one in shelf["items"]]
        assert page.locator(".card .title").all_text_contents() == expected
        assert expected != before
        assert page.evaluate("document.activeElement.className") == "chip undo"  # the keyboard goes on from there
        page.keyboard.press("Enter")
        found.settled()
        assert page.locator(".card .title").all_text_contents() == before
        assert (posts(), page.locator(".dislikes").inner_text()) == ([], "")
        first.click()
        page.get_by_role("button", name=f"Store “not interested” for Person {user}").click()
        page.get_by_role("button", name="Stored. Undo").wait_for()
        page.get_by_role("button", name="Stored. Undo").click()
        page.locator(".undo").wait_for(state="detached")
        assert posts() == [[{"user": user, "item": item, "kind": kind}] for kind in ("dislike", "undo")]
        running.keeps_profiles = False
        first.click()
        page.get_by_role("button", name="Store “not interested”").click()
        page.wait_for_selector("[role=alert]:has-text('Not stored')")
        assert page.locator(".dislikes .undo").count() == 1
        found.errors.clear()  # the browser itself reports the 403


def test_the_history_by_taste_and_shelves_first_on_a_phone(visit, server, someone):
    found = visit(f"{server.url}#user={someone}", width=390, height=800).ready().settled()
    page = found.page
    places = {name: page.locator(name).first.bounding_box()["y"] for name in (".shelf", ".tuning", ".map")}
    assert places[".shelf"] < 400 < places[".tuning"] < places[".map"]
    order = page.evaluate("""[...document.querySelectorAll(".card button, .tastes input, .map-over")].map((one) =>
        one.closest(".card") ? 0 : one.closest(".tuning") ? 1 : 2)""")
    assert order[0] == 0  # so does the keyboard
    page.get_by_role("button", name="Tastes and map").click()
    page.wait_for_function("document.querySelector('.tuning').getBoundingClientRect().top < innerHeight")
    page.get_by_role("button", name="History", exact=True).click()
    page.wait_for_selector(".past")
    told = server.requests.main.interests(someone)
    shown = page.locator(".past .title").all_text_contents()
    assert sorted(shown) == sorted(plainly(one["title"]) for one in told["history"])
    for section in page.locator(".past").all():
        assert section.locator(".share").inner_text().split()[0] == str(section.locator(".row").count())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_bars_are_as_long_as_the_shares_that_they_show(visit, ease, tmp_path):
    with serving(PageRequests(ease)) as running:
        found = visit(f"{running.url}#user=7").ready().settled()
        page = found.page
        page.locator(".why-button").first.click()
        page.locator(".bars .bar").nth(2).wait_for(state="attached")
        item = running.requests.main.recommendations(7, k=1)["items"][0]["item"]
        expected = [one["weight"] for one in running.requests.main.explanation(7, item)["because"]]
        widths = page.locator(".bars .bar").evaluate_all(
            "all => all.map((one) => one.firstChild.getBoundingClientRect().width / one.getBoundingClientRect().width)"
        )
        assert widths == pytest.approx(expected, abs=0.01)
        assert page.locator(".bars .share").all_inner_texts() == [f"{round(100 * one)} %" for one in expected]


def test_items_without_titles_and_hidden_categories(visit, town):
    data = ts.Interactions.from_frame(
        town.interactions.to_frame(), item_attributes=town.interactions.item_attributes.drop("title")
    )
    model = ts.DPCML(dim=8, n_interests=2, epochs=2, threads=1).fit(data, progress=False)
    categories = PageRequests(model).main.map()["categories"]
    with serving(PageRequests(model, display=Display(hide_categories=tuple(categories[:2])))) as running:
        found = visit(f"{running.url}#user=7").ready().settled()
        items = [one["item"] for shelf in running.requests.main.shelves(7)["shelves"] for one in shelf["items"]]
        assert found.page.locator(".card .title").all_text_contents() == [f"item {one}" for one in items]
        shown = found.page.locator(".map-legend li").all_inner_texts()
        assert shown
        assert not {*shown, *found.page.locator(".card .detail").all_inner_texts()} & {*categories[:2]}
        assert not any(name in found.page.locator("body").inner_text() for name in categories[:2])


def test_after_the_tour_the_heading_is_below_the_bar(visit, server, someone):
    found = visit(f"{server.url}#user={someone}", first=True, height=500).ready()
    page = found.page
    for step in range(3):
        page.wait_for_selector(f".tour .overline:has-text('{step + 1} of 3')")
        page.keyboard.press("Enter")
    page.wait_for_selector(".tour", state="detached")
    bar = page.locator(".top").bounding_box()
    assert page.locator(".person h2").bounding_box()["y"] >= bar["y"] + bar["height"]
