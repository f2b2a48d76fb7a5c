"""The page from `tastespace serve` itself."""

import subprocess
import sys

import pytest

from .conftest import plainly, titles_on


@pytest.fixture
def address(page_model, ease, tmp_path):
    """The address of a server in a process of its own."""
    page_model.save(tmp_path / "town.model")
    ease.save(tmp_path / "ease.model")
    arguments = ["serve", tmp_path / "town.model", "--compare", tmp_path / "ease.model", "--port", "0"]
    command = [sys.executable, "-c", "from tastespace.cli import main; main()", *map(str, arguments)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        line = server.stdout.readline()
        assert "http://" in line, line + server.stdout.read()
        yield line.split()[-1]
    finally:
        server.terminate()
        server.communicate(timeout=40)


@pytest.mark.slow
def test_the_page_and_the_server_understand_each_other(visit, address, page_model):
    found = visit(address).ready()
    page = found.page
    page.locator(".chips .chip").first.click()
    page.wait_for_selector(".shelf")
    user = int(page.url.rpartition("=")[2])
    shelves = page_model.shelves(user, 8)
    assert page.locator(".card .title").all_text_contents() == titles_on(shelves)
    headings = page.locator(".shelf h3").all_text_contents()
    sliders = page.locator(".taste .name").all_text_contents()
    assert [one.casefold() for one in sliders[: len(headings)]] == [one.casefold() for one in headings]  # one name
    page.locator(".tastes input").first.fill("0")
    found.settled()
    muted = page_model.shelves(user, 8, mute=shelves[0])
    assert page.locator(".card .title").all_text_contents() == titles_on(muted)
    page.locator(".tastes input").first.fill("4")
    muting = {"mute": sorted(shelves[1].interests), "boost": {str(x): 4 for x in sorted(shelves[0].interests)}}
    page.locator(".tastes input").nth(1).fill("0")
    found.settled()
    nothing = {"user": user, "mute": [], "boost": {}, "dropped": []}
    assert page.request.get(f"{address}v1/users/{user}/profile").json() == nothing  # a sandbox
    page.get_by_role("button", name=f"Store for Person {user}").click()
    page.get_by_role("button", name="Undo").wait_for()
    page.reload()
    found.ready().settled()
    assert [one.input_value() for one in page.locator(".tastes input").all()[:2]] == ["4", "0"]  # remembered
    stored = page.request.get(f"{address}v1/users/{user}/profile").json()
    assert {name: stored[name] for name in muting} == muting
    page.locator(".tastes input").nth(1).fill("2")
    page.get_by_role("button", name="One list").click()
    found.settled()
    factors = dict.fromkeys(shelves[0].interests, 4.0)
    mixed = page_model.recommend(user, 20, boost=factors, titles=True)
    assert page.locator(".row .title").all_text_contents() == [*map(plainly, mixed["title"])]
    page.locator(".why-button").first.click()
    assert page.locator(".why .lead").inner_text() == plainly(page_model.explain(user, mixed["item"][0], words=True))
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector(".column")
    page.locator(".column").nth(1).locator(".why-button").first.click()
    page.wait_for_selector(".why .lead")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Shelves").click()
    page.get_by_role("button", name="Recommend from what is in view").click()
    page.wait_for_selector(".region .chip")
    page.get_by_role("button", name="I am new here").click()
    page.wait_for_selector(".pick")
    page.locator(".pick").nth(1).click()
    page.get_by_role("button", name="Show my tastes").click()
    page.wait_for_selector("text=1 item picked")
    page.wait_for_selector(".card")
    for nobody in ("zzz", "99999999"):
        page.evaluate("user => { location.hash = `#user=${user}` }", nobody)
        page.wait_for_selector(f"text=There is nobody called {nobody} here.")
        assert page.locator(".row").count() == 20
    found.errors.clear()  # the browser itself reports 404 and 422


@pytest.mark.slow
def test_the_demo_shows_the_list_that_its_api_serves(visit):
    command = [sys.executable, "-c", "from tastespace.cli import main; main()", "serve", "--demo", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        address = next(line for line in server.stdout if "http://" in line).split()[-1]
        found = visit(address).ready()
        page = found.page
        users = [one["user"] for one in page.request.get(f"{address}v1/users?limit=8").json()["users"]]
        for user in users:
            page.evaluate("user => { location.hash = `#user=${user}` }", user)
            page.wait_for_selector(f".person h2:text-is('Person {user}')")
            page.get_by_role("button", name="One list").click()
            found.settled()
            api = page.request.get(f"{address}v1/users/{user}/recommendations?k=20").json()["items"]
            assert page.locator(".row .title").all_text_contents() == [plainly(one["title"]) for one in api]
    finally:
        server.terminate()
        server.communicate(timeout=40)
