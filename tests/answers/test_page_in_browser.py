"""The page in a real browser: what a visitor does, with mouse and keyboard, in light and dark, on a phone."""

import contextlib
import copy
import json
import re

import pytest

from tastespace.answers._page import PageRequests

from .conftest import EVIL, plainly, titles_on
from .page_server import serving

MOVE_TWO = """() => {
  const sliders = document.querySelectorAll(".tastes input");
  for (const [at, value] of [[0, "0"], [1, "3"]]) {
    sliders[at].value = value;
    sliders[at].dispatchEvent(new Event("input", { bubbles: true }));
  }
}"""


def shelf_items(found):
    return found.page.locator(".card .title").all_inner_texts()


def test_search_finds_a_person_by_keyboard_alone(visit, server, someone):
    found = visit(server.url).ready()
    page = found.page
    field = page.get_by_role("combobox", name="Find a person")
    while not field.evaluate("one => one === document.activeElement"):
        page.keyboard.press("Tab")
    page.keyboard.type(str(someone))
    page.wait_for_selector(f"[role=option] >> text={someone}")
    page.keyboard.press("Enter")
    page.wait_for_selector(".shelf")
    assert page.locator(".person h2").inner_text() == f"Person {someone}"
    assert page.url.endswith(f"#user={someone}")  # an address that can be sent to others
    shelves = server.requests.main.shelves(someone)["shelves"]
    assert page.locator(".shelf h3").all_inner_texts() == [one["name"][:1].upper() + one["name"][1:] for one in shelves]
    assert shelf_items(found) == [plainly(item["title"]) for shelf in shelves for item in shelf["items"]]
    assert page.locator(".shelf .share").first.inner_text() == f"{100 * shelves[0]['share']:.0f} % of the history"
    page.reload()
    found.ready()
    assert page.locator(".person h2").inner_text() == f"Person {someone}"


def test_back_returns_to_the_person_before(visit, server, requests):
    first, second = (one["user"] for one in requests.main.users(limit=2)["users"])
    found = visit(server.url).ready()
    page = found.page

    def shows(heading):
        page.wait_for_selector(f".person h2:text-is('{heading}')")

    def choose(user):
        page.get_by_role("combobox", name="Find a person").fill(str(user))
        page.wait_for_selector(f"[role=option][aria-selected=true] >> text='{user}'")
        page.keyboard.press("Enter")
        shows(f"Person {user}")

    choose(first)
    choose(second)
    page.go_back()
    shows(f"Person {first}")
    page.evaluate("user => { location.hash = `#user=${user}` }", second)  # as when one changes the address
    shows(f"Person {second}")
    page.go_back()
    shows(f"Person {first}")
    page.go_back()
    shows("People have more than one taste.")
    assert page.locator(".shelf").first.is_hidden()
    page.go_forward()
    shows(f"Person {first}")
    assert page.url.endswith(f"#user={first}")
    page.evaluate("location.hash = '#user=%'")  # cannot be read
    shows("People have more than one taste.")
    page.reload()
    found.ready()
    shows("People have more than one taste.")


def test_sliders_change_the_lists_at_once(visit, server, someone):
    found = visit(f"{server.url}#user={someone}").ready().settled()
    page, answers = found.page, server.requests.main
    first = answers.shelves(someone)["shelves"][0]
    slider = page.locator(".tastes input").first
    slider.focus()
    page.keyboard.press("Home")  # muted
    found.settled()
    assert slider.get_attribute("aria-valuetext") == "muted"
    muted = answers.shelves(someone, mute=first["interests"])["shelves"]
    assert shelf_items(found) == [plainly(item["title"]) for shelf in muted for item in shelf["items"]]
    assert "Muted: " in page.locator(".quiet-tastes").inner_text()
    page.keyboard.press("End")  # much more
    found.settled()
    boosted = answers.shelves(someone, boost=dict.fromkeys(first["interests"], 4.0))["shelves"]
    assert shelf_items(found) == [plainly(item["title"]) for shelf in boosted for item in shelf["items"]]
    page.get_by_role("button", name="One list").click()
    lists = []
    for diversity in (0.0, 1.0):
        page.locator(".diversity").fill(str(diversity))
        found.settled()
        expected = answers.recommendations(
            someone, k=20, diversity=diversity, boost=dict.fromkeys(first["interests"], 4.0)
        )
        lists.append(page.locator(".row .title").all_inner_texts())
        assert lists[-1] == [plainly(item["title"]) for item in expected["items"]]
    assert lists[0] != lists[1]
    for one in page.locator(".tastes input").all():
        one.fill("0")
    page.wait_for_selector("text=All tastes are muted")


def test_the_list_of_the_page_is_the_one_that_the_api_serves(visit, requests, page_model):
    """Of a person, whatever diversity the model is served with; the page asks for none of its own."""
    model = copy.copy(page_model)
    for served in (0.0, 0.6):
        model.set_served_diversity(served)
        lists = []
        with serving(PageRequests(model)) as running:
            for user in (7, 11):
                found = visit(f"{running.url}#user={user}").ready().settled()
                page = found.page
                page.get_by_role("button", name="One list").click()
                found.settled()
                status, api = running.requests.answer("GET", f"/v1/users/{user}/recommendations", {"k": "20"})
                assert status == 200
                lists.append([one["title"] for one in api["items"]])
                assert page.locator(".row .title").all_text_contents() == [*map(plainly, lists[-1])]
                assert page.locator(".diversity").input_value() == f"{served:g}"
            assert not [one for one in running.asked if "diversity" in one[2]]
        expected = [
            page_model.recommend(user, 20, diversity=served, titles=True)["title"].to_list() for user in (7, 11)
        ]
        assert lists == expected


def test_moving_sliders_stores_nothing_and_storing_can_be_undone(visit, requests):
    first, second = (one["user"] for one in requests.main.users(limit=2)["users"])
    with serving(requests) as running:

        def puts():
            return [one[1:] for one in running.asked if one[0] == "PUT"]

        def levels():
            return [one.input_value() for one in page.locator(".tastes input").all()[:2]]

        found = visit(f"{running.url}#user={first}").ready().settled()
        page = found.page
        before = shelf_items(found)
        button = {
            name: page.get_by_role("button", name=name)
            for name in (f"Store for Person {first}", "Reset to as it is", "Undo", "Back to what is stored")
        }
        store, reset, undo, back = button.values()
        assert [one.count() for one in button.values()] == [0, 0, 0, 0]
        page.evaluate(MOVE_TWO)
        found.settled()
        assert shelf_items(found) != before
        assert [one.count() for one in button.values()] == [1, 1, 0, 0]
        page.evaluate("user => { location.hash = `#user=${user}` }", second)
        page.wait_for_selector(f"text=Person {second}")
        page.go_back()
        page.wait_for_selector(f"text=Person {first}")
        found.settled()
        assert (levels(), puts()) == (["2", "2"], [])  # moved, left, and nothing was stored
        page.evaluate(MOVE_TWO)
        page.locator(".diversity").fill("0.4")
        reset.click()
        found.settled()
        assert (levels(), shelf_items(found), page.locator(".diversity").input_value()) == (["2", "2"], before, "0")
        page.evaluate(MOVE_TWO)
        assert "Storing changes all lists of this person" in page.locator(".keeping").inner_text()
        store.click()
        undo.wait_for()
        chosen = [one["interests"] for one in requests.main.shelves(first)["shelves"]]
        profile = {"mute": sorted(chosen[0]), "boost": {str(x): 2 for x in sorted(chosen[1])}}
        path = f"/v1/users/{first}/profile"
        assert puts() == [(path, {}, profile)]
        assert levels() == ["0", "3"]
        assert [one.count() for one in button.values()] == [0, 1, 1, 0]
        reset.click()  # of the view: what is stored stays
        found.settled()
        assert (levels(), len(puts())) == (["2", "2"], 1)
        back.click()
        found.settled()
        assert levels() == ["0", "3"]
        undo.click()
        undo.wait_for(state="detached")
        assert puts()[1:] == [(path, {}, {"mute": [], "boost": {}})]
        assert (levels(), shelf_items(found.settled())) == (["2", "2"], before)
        for one in page.locator(".tastes input").all():
            one.fill("0")
        assert store.is_disabled()  # a profile that mutes everything
        running.keeps_profiles = False
        page.locator(".tastes input").first.fill("4")
        store.click()
        page.wait_for_selector("[role=alert]:has-text('Not stored')")
        assert (levels()[0], undo.count(), store.count()) == ("4", 0, 1)
        found.errors.clear()  # the browser itself reports the 403


def test_a_newcomer_picks_items(visit, server):
    found = visit(server.url).ready()
    page, answers = found.page, server.requests.main
    page.get_by_role("button", name="I am new here").click()
    page.wait_for_selector(".pick")
    assert page.locator(".picker .primary").is_disabled()
    page.get_by_role("searchbox", name="Search the catalog").fill("jazz")
    others = page.locator(".pick .title").filter(has_not_text=re.compile("jazz", re.IGNORECASE))
    others.first.wait_for(state="detached")
    page.locator(".pick").nth(0).click()
    page.get_by_role("searchbox", name="Search the catalog").fill("")
    others.first.wait_for()
    page.locator(".pick[aria-pressed=false]").nth(4).click()
    picked = page.locator(".picker .chip").all_inner_texts()
    assert len(picked) == 2
    page.get_by_role("button", name="Show my tastes (2)").click()
    page.wait_for_selector(".shelf")
    catalog = answers.map()
    titles = [*map(plainly, catalog["titles"])]
    history = [catalog["items"][titles.index(title)] for title in picked]
    shelves = answers.shelves(history=history)["shelves"]
    assert shelf_items(found) == [plainly(item["title"]) for shelf in shelves for item in shelf["items"]]
    page.locator(".add-button").first.click()  # I like this, too
    found.page.wait_for_selector("text=3 items picked")
    page.locator(".why-button").first.click()
    assert page.locator(".why .lead").inner_text().startswith("Because you took")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["served", "saved"])
def test_why_this_of_a_blend_shows_shares_of_tastes_and_of_past_items(visit, blend, someone, tmp_path, kind):
    """Percent of the whole score: the bar of half of it is half as long, and past items add up to their taste."""
    requests = PageRequests(blend, name="blend")
    with contextlib.ExitStack() as running:
        if kind == "served":
            url = running.enter_context(serving(requests)).url
        else:
            url = blend.save_page(tmp_path / "blend.html", [someone]).as_uri()
        page = visit(f"{url}#user={someone}").ready().settled().page
        shelves = requests.main.shelves(someone)["shelves"]
        names = page.locator(".shelf h3").all_inner_texts()
        assert [one.casefold() for one in names] == [plainly(one["name"]).casefold() for one in shelves]
        for place in (0, len(shelves[0]["items"])):  # the first item of two shelves
            card = page.locator(".card").nth(place)
            shelf = shelves[0] if place == 0 else shelves[1]
            expected = requests.main.explanation(someone, shelf["items"][0]["item"])
            card.locator(".why-button").click()
            assert page.locator(".why .matches strong").inner_text() == plainly(expected["interest_name"])
            assert expected["interest_name"] == shelf["name"]
            for kind_of_bar, rows in (("tastes", expected["tastes"]), ("past", expected["because"])):
                shares = [row.get("share", row.get("weight")) for row in rows]
                kept = [share for share in shares if kind_of_bar == "past" or share >= 0.005]
                found = page.locator(f".bars.{kind_of_bar} li")
                assert found.locator(".share").all_inner_texts() == [f"{round(100 * one)} %" for one in kept]
                bars = found.locator(".bar").evaluate_all(
                    "all => all.map((one) => one.style.getPropertyValue('--share'))"
                )
                assert [float(one.removesuffix("%")) for one in bars] == pytest.approx([100 * one for one in kept])
            assert sum(one["share"] for one in expected["tastes"]) == pytest.approx(1.0)
            assert sum(one["weight"] for one in expected["because"]) <= expected["tastes"][0]["share"] + 1e-9
            page.keyboard.press("Escape")


@pytest.mark.slow
def test_why_this_explains_every_item(visit, server, someone):
    found = visit(f"{server.url}#user={someone}").ready().settled()
    page = found.page
    item = server.requests.main.shelves(someone)["shelves"][0]["items"][1]
    expected = server.requests.main.explanation(someone, item["item"])
    assert page.locator(".card").count() == page.locator(".why-button").count()
    page.locator(".why-button").nth(1).click()
    assert page.locator(".why h2").inner_text() == plainly(item["title"])
    assert page.locator(".why .lead").inner_text() == plainly(expected["text"])
    assert page.locator(".bars li").count() == len(expected["because"])
    assert page.locator(".bars .share").count() == 0  # nearness has no whole
    page.keyboard.press("Escape")
    page.wait_for_selector(".why", state="detached")


def test_a_region_of_the_map_limits_the_lists(visit, server, someone):
    found = visit(f"{server.url}#user={someone}").ready().settled()
    page = found.page
    page.get_by_role("button", name="Draw a region").click()
    box = page.locator(".map-over").bounding_box()
    corners = [(0.02, 0.02), (0.5, 0.02), (0.5, 0.98), (0.02, 0.98)]
    points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point, steps=4)
    page.mouse.up()
    page.wait_for_selector(".region .chip")
    found.settled()
    shown = int(re.search(r"from (\d+) item", page.locator(".region .chip").inner_text())[1])
    asked = [one for one in server.asked if one[1] == "/v1/recommendations"][-1][3]
    assert len(asked["include"]) == shown < 200
    places = server.requests.main.map()
    x_of = dict(zip(places["items"], places["x"], strict=True))
    titles = dict(zip(map(plainly, places["titles"]), places["items"], strict=True))
    limit = max(x_of[one] for one in asked["include"])
    outside = [one for one in places["items"] if one not in asked["include"]]
    assert limit <= min(x_of[one] for one in outside) + 0.2  # the left half, but for what is at the very edge
    assert all(titles[title] in asked["include"] for title in shelf_items(found))
    page.locator(".region .chip").click()
    found.settled()
    page.wait_for_selector(".region .chip", state="detached")
    # The same by keyboard: what is in view is the region.
    page.locator(".map-over").focus()
    for _ in range(5):
        page.keyboard.press("+")
    page.keyboard.press("Enter")
    page.wait_for_selector(".region .chip, .map-note:not(:empty)")


@pytest.mark.slow
def test_pointing_at_the_map_shows_titles(visit, server, someone):
    found = visit(f"{server.url}#user={someone}").ready().settled()
    page = found.page
    box = page.locator(".map-over").bounding_box()
    seen = set()
    for step in range(60):
        page.mouse.move(box["x"] + box["width"] * (0.05 + 0.014 * step), box["y"] + box["height"] * 0.3)
        page.mouse.move(box["x"] + box["width"] * (0.05 + 0.014 * step), box["y"] + box["height"] * 0.7)
        if page.locator(".map-tip").is_visible():
            seen.add(page.locator(".map-tip strong").inner_text())
    assert seen
    assert seen <= set(map(plainly, server.requests.main.map()["titles"]))


@pytest.mark.slow
def test_two_models_side_by_side(visit, server, someone):
    found = visit(f"{server.url}#user={someone}").ready().settled()
    page = found.page
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector(".column")
    left, right = page.locator(".column").all()
    ours = server.requests.main.recommendations(someone, k=20)["items"]
    theirs = server.requests.compare.recommendations(someone, k=20)["items"]
    assert left.locator(".title").all_inner_texts() == [plainly(one["title"]) for one in ours]
    assert right.locator(".title").all_inner_texts() == [plainly(one["title"]) for one in theirs]
    common = {one["item"] for one in ours} & {one["item"] for one in theirs}
    assert page.locator(".summary").inner_text() == f"{len(common)} of 20 items are in both lists."
    reasons = [
        tuple(one.explanation(someone, row["item"])["text"] for one in (server.requests.main, server.requests.compare))
        for row in theirs
    ]
    at = next(at for at, (first, second) in enumerate(reasons) if first != second)
    right.locator(".why-button").nth(at).click()  # the reasons of the second model
    assert page.locator(".why .lead").inner_text() == plainly(reasons[at][1])


@pytest.mark.slow
def test_interests_of_the_second_model_have_their_colors(visit, page_model, ease, someone, tmp_path):
    with serving(PageRequests(ease, page_model)) as turned:
        saved = ease.save_page(tmp_path / "ease.html", [someone], compare=page_model)
        shelves = page_model.shelves(someone, 8)
        listed = turned.requests.compare.recommendations(someone, k=20)["items"]
        taste_of = {x: taste for taste, shelf in enumerate(shelves) for x in shelf.interests}
        expected = [f"var(--interest-{taste_of[one['interest']]})" for one in listed]
        assert len(set(expected)) > 1
        for url in (f"{turned.url}#user={someone}", saved.as_uri()):
            page = visit(url).ready().settled().page
            page.get_by_role("button", name="Compare", exact=True).click()
            page.wait_for_selector(".column")
            right = page.locator(".column").nth(1)
            colors = right.locator(".row").evaluate_all("all => all.map(one => one.style.getPropertyValue('--color'))")
            assert colors == expected
            right.locator(".why-button").first.click()
            said = page_model.explain(someone, listed[0]["item"], words=True)
            assert page.locator(".why .lead").inner_text() == plainly(said)
            assert page.locator(".why .matches").count() == 1


@pytest.mark.slow
def test_light_and_dark(visit, server):
    def background(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light, dark = visit(server.url).ready(), visit(server.url, dark=True).ready()
    assert background(light.page) != background(dark.page)
    light.page.get_by_role("button", name="Light or dark").click()
    assert background(light.page) == background(dark.page)
    light.page.reload()
    assert background(light.ready().page) == background(dark.page)  # remembered


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 768])
def test_narrow_windows_need_no_sideways_scrolling(visit, server, someone, width):
    found = visit(f"{server.url}#user={someone}", width=width, height=640).ready().settled()
    assert found.page.evaluate("document.documentElement.scrollWidth") <= width
    found.page.locator(".why-button").first.click()
    box = found.page.locator(".why").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    home = visit(server.url, width=width, height=640).ready()
    cut = """one => {
        const style = getComputedStyle(one), pen = document.createElement("canvas").getContext("2d");
        pen.font = style.font;
        const room = one.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
        return pen.measureText(one.placeholder).width - room;
    }"""
    assert home.page.get_by_role("combobox").evaluate(cut) <= 0  # the placeholder is whole
    home.page.get_by_role("button", name="I am new here").click()
    home.page.wait_for_selector(".pick")
    assert home.page.evaluate("document.documentElement.scrollWidth") <= width


def test_titles_are_text(visit, server, someone):
    found = visit(server.url).ready()
    page = found.page
    page.get_by_role("button", name="I am new here").click()
    page.wait_for_selector(".pick")
    assert page.locator(".pick .title").first.text_content() == plainly(EVIL)  # the most popular item
    page.locator(".pick").first.click()
    page.get_by_role("button", name="Show my tastes").click()
    page.wait_for_selector(".shelf")
    page.locator(".why-button").first.click()
    assert plainly(EVIL) in page.locator(".why").text_content()
    assert not re.search("[\u202e\u0007]", page.content())
    assert page.locator(".card bdi.title").count() == page.locator(".card").count()
    assert page.locator("img").count() == 0
    assert page.title() == "tastespace"


@pytest.mark.slow
def test_the_tour_on_the_first_visit(visit, server):
    found = visit(server.url, first=True).ready()
    page = found.page
    titles = []
    for _ in range(3):
        page.wait_for_selector(f".tour .overline:has-text('{len(titles) + 1} of 3')")
        titles.append(page.locator(".tour h2").inner_text())
        page.keyboard.press("Enter")  # the button has the focus
    page.wait_for_selector(".tour", state="detached")
    assert len(set(titles)) == 3
    page.wait_for_selector(".shelf")  # the tour has shown someone
    page.reload()
    found.ready()
    assert page.locator(".tour").count() == 0


@pytest.mark.slow
def test_a_token_is_asked_for_and_kept(visit, requests, someone):
    with serving(requests, token="s3cret") as locked:
        found = visit(f"{locked.url}#user={someone}")
        page = found.page
        page.get_by_label("Token").last.fill("wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=was not accepted")
        page.get_by_label("Token").last.fill("s3cret")
        page.keyboard.press("Enter")
        found.ready()
        page.wait_for_selector(".shelf")
        page.reload()
        found.ready()
        found.errors.clear()  # the browser itself reports each 401
        by_address = visit(f"{locked.url}#token=s3cret&user={someone}").ready()
        assert by_address.page.locator(".person h2").inner_text() == f"Person {someone}"
        assert "s3cret" not in by_address.page.url


@pytest.mark.slow
def test_unknown_people_and_models_without_interests(visit, server, ease, tmp_path):
    found = visit(f"{server.url}#user=nobody").ready()

    def is_nobody(found, answers):
        popular = [one["title"] for one in answers.search(limit=20)["items"]]
        found.page.wait_for_selector(".rows")
        assert found.page.locator(".person h2").inner_text() == "There is nobody called nobody here."
        assert found.page.locator(".person .facts").inner_text() == "Here is what most people like."
        assert found.page.locator(".row .title").all_text_contents() == [plainly(one) for one in popular]
        assert found.page.locator("[role=alert], .taste, .tab, .why-button").count() == 0
        found.errors.clear()  # the browser itself reports the 404

    is_nobody(found, server.requests.main)
    found.page.evaluate("user => { location.hash = `#user=${user}` }", 7)
    found.page.wait_for_selector("text=Person 7")
    found.page.wait_for_selector(".shelf")
    with serving(PageRequests(ease)) as plain:
        saved = ease.save_page(tmp_path / "a.html", [7]).as_uri()
        for url in (plain.url, saved):
            is_nobody(visit(f"{url}#user=nobody").ready(), plain.requests.main)
        without = visit(f"{plain.url}#user=7").ready().settled()
        expected = plain.requests.main.recommendations(7, k=20)["items"]
        assert without.page.locator(".row .title").all_inner_texts() == [plainly(one["title"]) for one in expected]
        assert without.page.locator(".tastes").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_no_serious_findings_of_axe(visit, server, someone, dark):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

    def serious(page):
        found = axe.run(page).response["violations"]
        return [
            (one["id"], [node["html"][:120] for node in one["nodes"][:3]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]

    found = visit(f"{server.url}#user={someone}", dark=dark).ready().settled()
    page = found.page
    assert serious(page) == []
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector(".column")
    assert serious(page) == []
    page.get_by_role("button", name="History", exact=True).click()
    page.wait_for_selector(".past")
    assert serious(page) == []
    page.get_by_role("button", name="One list").click()
    found.settled()
    page.locator(".dislike-button").first.click()
    found.settled()
    page.locator(".why-button").first.click()
    assert serious(page) == []
    home = visit(server.url, dark=dark, first=True).ready()
    home.page.wait_for_selector(".tour")
    assert serious(home.page) == []
    home.page.keyboard.press("Escape")
    home.page.get_by_role("button", name="I am new here").click()
    home.page.wait_for_selector(".pick")
    assert serious(home.page) == []


def test_a_saved_page_works_without_a_server(visit, page_model, ease, tmp_path, someone):
    path = page_model.save_page(tmp_path / "town.html", [someone, 5], compare=ease)
    found = visit(path.as_uri()).ready().settled()
    page = found.page
    assert [one for one in found.requests if not one.startswith(("GET file:", "GET data:"))] == []
    frame = page_model.recommend(someone, 20, titles=True)
    page.get_by_role("button", name="One list").click()
    found.settled()
    assert page.locator(".row .title").all_text_contents() == [*map(plainly, frame["title"])]
    shelf = page_model.shelves(someone, 8)[0]
    page.locator(".tastes input").first.fill("4")
    found.settled()
    factors = dict.fromkeys(shelf.interests, 4.0)
    usual = page_model.recommend(someone, 20, boost=factors, titles=True)
    assert page.locator(".row .title").all_text_contents() == [*map(plainly, usual["title"])]
    assert page.get_by_role("button", name="Store for").count() == 0  # nothing to store it in
    page.get_by_role("button", name="Reset to as it is").click()
    found.settled()
    assert page.locator(".row .title").all_text_contents() == [*map(plainly, frame["title"])]
    page.locator(".tastes input").first.fill("4")
    page.locator(".diversity").fill("0.8")
    found.settled()
    factors = dict.fromkeys(shelf.interests, 4.0)
    boosted = page_model.recommend(someone, 20, diversity=0.8, boost=factors, titles=True)
    assert page.locator(".row .title").all_text_contents() == [*map(plainly, boosted["title"])]
    page.get_by_role("button", name="Shelves").click()
    found.settled()
    shelves = page_model.shelves(someone, 8, boost=factors)
    assert page.locator(".card .title").all_text_contents() == titles_on(shelves)
    page.locator(".why-button").first.click()
    assert page.locator(".why .lead").inner_text() == plainly(
        page_model.explain(someone, shelves[0].items[0], words=True)
    )
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector(".column")
    theirs = [*map(plainly, ease.recommend(someone, 20, titles=True)["title"])]
    assert page.locator(".column").nth(1).locator(".title").all_text_contents() == theirs
    assert page.get_by_role("button", name="I am new here").count() == 0


@pytest.mark.slow
def test_the_widget_asks_its_kernel(visit, page_model, server, someone, tmp_path):
    """The widget's script with a kernel that is a function of this process."""
    pytest.importorskip("anywidget")
    widget = page_model.explore(someone)
    sent = []
    widget.send = lambda content, buffers=None: sent.append(content)
    found = visit(server.url).ready()
    page = found.page
    page.evaluate("() => { document.body.replaceChildren(); delete document.body.dataset.ready }")

    def ask(message):
        widget._handle_custom_msg(json.loads(message), [])
        return json.dumps(sent.pop())

    page.expose_function("askKernel", ask)
    page.evaluate("user => { window.firstUser = user }", someone)
    page.evaluate(
        """async () => {
            const widget = (await import("/widget.js")).default;
            const listeners = [];
            const model = {
                get: () => window.firstUser,
                on: (_, act) => listeners.push(act),
                off: () => {},
                send: async (message) => {
                    const answer = JSON.parse(await window.askKernel(JSON.stringify(message)));
                    listeners.forEach((act) => act(answer));
                },
            };
            const el = document.createElement("div");
            document.body.append(el);
            widget.render({ model, el });
        }"""
    )
    found.ready()
    page.wait_for_selector(".shelf")
    shelves = page_model.shelves(someone, 8)
    assert page.locator(".card .title").all_text_contents() == titles_on(shelves)
