"""The operations page in a real browser, from a server with tokens in a process of its own."""

import re
from urllib.request import Request, urlopen

import pytest
from tests.serve.conftest import RunningServer

from tastespace.serve.tokens import add_token


@pytest.fixture
def served(page_model, tmp_path):
    """Address of a server with two workers, and its admin and read tokens."""
    page_model.save(tmp_path / "town.model", {"NDCG@10": 0.4321})
    tokens = [add_token(tmp_path / "tokens.json", name, [name]) for name in ("admin", "read")]
    server = RunningServer(tmp_path / "town.model", "--workers", "2", "--tokens", tmp_path / "tokens.json")
    yield (server.address, *tokens)
    server.stop()


def test_operations_before_and_after_the_first_requests(visit, served):
    address, admin, read = served
    found = visit(f"{address}/admin#token={admin}")  # a token in an address is not taken
    page = found.page
    page.get_by_label("Token").last.fill(read)
    page.keyboard.press("Enter")
    page.wait_for_selector("text=was not accepted")  # it may not see operations
    page.get_by_label("Token").last.fill(admin)
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-ready]")
    found.errors.clear()  # the browser itself reports 401 and 403
    assert page.locator(".recommended .nothing").inner_text() == "Nothing yet: no list of this model was answered."
    assert page.locator(".experiment .nothing").inner_text() == "Nothing yet: no experiment runs on this server."
    assert page.locator(".state").inner_text() == "OK"
    assert "0.4321" in page.locator(".generations").inner_text()
    assert [one for one in found.requests if admin in one.split("#")[0]] == []

    for user in (7, 8, 9):
        url = f"{address}/v1/users/{user}/recommendations?k=10"
        assert urlopen(Request(url, headers={"Authorization": f"Bearer {read}"}), timeout=30).status == 200
    page.reload()
    page.wait_for_selector(".recommended .tile")
    assert "30 places" in page.locator(".recommended .hint").inner_text()
    text = page.locator(".routes").inner_text()
    assert re.search(r"GET /v1/users/\{user\}/recommendations\s+3\s", text)
    assert page.locator(".workers tbody tr").count() == 2
    assert (
        page.locator(".traffic svg")
        .first.get_attribute("aria-label")
        .startswith("Requests per minute in the last hour")
    )
    assert page.locator(".traffic svg").first.locator("rect").count() >= 1
    # An experiment, as the server would tell it.
    arm = {"share": 0.5, "lists": 90, "users": 40, "click_low": 0.1, "click_high": 0.4}
    nothing = dict.fromkeys(("conversion_rate", "conversion_low", "conversion_high"))
    compared = {"first": "A.model", "second": "B.model", "metric": "ctr", "difference": 0.1, "low": -0.02, "high": 0.2}
    told = page.request.get(f"{address}/v1/operations", headers={"Authorization": f"Bearer {admin}"}).json()
    told["problems"] = ["<b>a model is refused</b>"]
    told["experiment"] = {
        "arms": [
            {**arm, **nothing, "arm": name, "click_rate": rate} for name, rate in (("A.model", 0.2), ("B.model", 0.3))
        ],
        "comparisons": [{**compared, "verdict": "no difference shown"}],
    }
    page.route("**/v1/operations", lambda route: route.fulfill(json=told))
    page.reload()
    page.wait_for_selector(".experiment table")
    assert page.locator(".experiment .interval").first.inner_text() == "20 % (10 % to 40 %)"
    assert "+10 (-2 to +20)" in page.locator(".experiment").inner_text()
    assert page.locator(".state").inner_text() == "1 problem"
    assert page.locator(".problems li").inner_text() == "<b>a model is refused</b>"
    button = page.get_by_role("button", name="Pause")
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "true"
    answer = page.request.get(f"{address}/admin")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    for width, dark in ((1280, False), (390, True)):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme="dark" if dark else "light")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
        problems = axe.run(page).response["violations"]
        assert [one["id"] for one in problems if one["impact"] in ("serious", "critical")] == []
