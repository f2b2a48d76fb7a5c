"""Models whose tastes are known, a server of the page, and a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.required_services import skip_without_service

import tastespace as ts
from tastespace.answers._page import PageRequests
from tastespace.data.synthetic import SyntheticData

from .page_server import PageServer, serving

EVIL = "<img src=x onerror=document.title='bad'> &\n\"quotes\"\u202e\u0007"
"""A title that must never become an element."""
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def plainly(title: str) -> str:
    """A title, or a sentence with titles, as the page shows it."""
    return title.replace("\n", " ").replace("\u202e", "").replace("\u0007", "")


def titles_on(shelves: Iterable[Any]) -> list[str]:
    """The titles of all shelves as the page shows them."""
    return [plainly(title) for one in shelves for title in one.titles]


@pytest.fixture(scope="session")
def page_model(town: SyntheticData) -> ts.DPCML:
    """A model with three interests per user; the title of the most popular item is an attack."""
    data = town.interactions
    assert data.item_attributes is not None
    popular = int(data.item_counts.argmax())
    titles = data.item_attributes["title"].to_list()
    titles[popular] = EVIL
    apart = {**ts.DPCML.paper_form(), "learning_rate": 0.1}  # vectors that stand apart: a shelf for each
    model = ts.DPCML(**apart, dim=16, n_interests=3, epochs=12, seed=0, threads=1).fit(data, progress=False)
    return model.set_item_attributes(data.item_attributes.with_columns(pl.Series("title", titles)))


@pytest.fixture(scope="session")
def ease(town: SyntheticData) -> ts.EASE:
    """A model without vectors."""
    return ts.EASE().fit(town.interactions)


@pytest.fixture(scope="session")
def blend(page_model: ts.DPCML, town: SyntheticData) -> ts.Blend:
    """A model whose scores are split by tastes; the titles are those of `page_model`."""
    return ts.Blend.of([page_model, ts.EASE().fit(page_model.train_)], [0.4, 0.6], threads=1)


@pytest.fixture(scope="session")
def requests(page_model: ts.DPCML, ease: ts.EASE) -> PageRequests:
    return PageRequests(page_model, ease, name="town", compare_name="ease")


@pytest.fixture
def someone(requests: PageRequests) -> Any:
    """A user with several tastes."""
    return requests.main.users()["users"][0]["user"]


@pytest.fixture(scope="session")
def server(requests: PageRequests) -> Iterator[PageServer]:
    with serving(requests) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium; a test is skipped, or fails where services are required, without it."""
    reason = None
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        reason = "playwright is not installed"
    if reason is None and not CHROMIUM.exists():
        reason = f"there is no {CHROMIUM}"
    if reason is not None:
        skip_without_service(reason)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield running
        running.close()


@dataclass
class Visit:
    """A page that was opened, the requests it sent, and what went wrong on it."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def ready(self) -> Visit:
        """Wait until the map is there."""
        self.page.wait_for_selector("[data-ready]", timeout=60_000)
        return self

    def settled(self) -> Visit:
        """Wait until the lists are those of the last choice."""
        self.page.wait_for_timeout(150)  # longer than the delay after which the page asks
        self.page.wait_for_selector(".results-body[aria-busy=false]", timeout=30_000)
        return self


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Open an address in a new window; at the end no error may be on the console."""
    opened: list[tuple[Any, Visit]] = []

    def go(url: str, *, width: int = 1280, height: int = 860, dark: bool = False, first: bool = False) -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        if not first:
            context.add_init_script("localStorage.setItem('tastespace-tour', 'done')")
        found = Visit(context.new_page())
        opened.append((context, found))
        found.page.on("console", lambda message: found.errors.append(message.text) if message.type == "error" else None)
        found.page.on("pageerror", lambda problem: found.errors.append(str(problem)))
        found.page.on("request", lambda request: found.requests.append(f"{request.method} {request.url}"))
        found.page.goto(url)
        return found

    yield go
    for context, found in opened:
        context.close()
        assert found.errors == []
