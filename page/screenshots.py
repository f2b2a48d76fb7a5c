"""Pictures of the page for the documentation: a synthetic town as a bookshop with invented titles.

python page/screenshots.py
"""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
from playwright.sync_api import Page, sync_playwright

import tastespace as ts
from tastespace.answers.saved_page import save_page

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
ARGUMENTS = ["--headless=new", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
WIDE = {"width": 1360, "height": 850}
SHOTS: dict[str, dict[str, Any]] = {
    "light": {"viewport": WIDE, "color_scheme": "light"},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 760}, "color_scheme": "light"},
}
WORDS = {
    "Jazz": "Blue Notes,Night Trumpets,Swing,Late Sets,Brushes and Cymbals,The Double Bass,Bebop,Smoky Rooms",
    "Chess": "Endgames,Sacrifices,Quiet Moves,The Queen's File,Rook Lifts,Zugzwang,Old Openings,Pawn Chains",
    "Gardens": "Roses,Walled Gardens,Moss,Orchards,Hedges,Seeds and Soil,Ponds,Wild Meadows",
    "Baking": "Rye,Sourdough,Honey Cakes,Pastry,Flat Breads,Winter Pies,Cinnamon,Brioche",
    "Trains": "Night Trains,Branch Lines,Signals,Dining Cars,Steam,Small Stations,Timetables,Mountain Rails",
    "Sailing": "Harbors,Trade Winds,Knots,Small Boats,Tides,Islands,Lighthouses,The Long Watch",
    "Robots": "Gears,Walking Machines,Automata,Soft Robots,Sensors,Helpful Machines,Servo Motors,Bright Wires",
    "Cinema": "Silent Film,Double Features,The Projector,Long Takes,Matinees,Title Cards,Film Noir,Small Screens",
    "Poetry": "Sonnets,Short Lines,Rain,Evening Verse,Letters,Refrains,Silence,Plain Words",
    "Maps": "Coastlines,Atlases,Old Borders,Contours,Sea Charts,Compass Roses,Blank Spaces,City Plans",
    "Pottery": "Glazes,Clay,The Wheel,Kilns,Teapots,Slipware,Celadon,Cracks and Repairs",
    "Birds": "Swifts,Owls,Wetlands,Birdsong,Migration,Feathers,Garden Birds,Herons",
}
TEMPLATES = ("The Art of {}", "{}", "A Year of {}", "Notes on {}", "The Little Book of {}", "{} for Two", "Beyond {}",
             "{} by Hand", "In Praise of {}", "{}, Revisited", "A Short History of {}", "{} at Dawn", "Lost {}",
             "The Last of {}", "{} and Other Stories", "{} Without Fear", "My Life with {}", "{} on Sundays",
             "Seven Kinds of {}", "{} in Winter", "The Other {}")  # fmt: skip


def bookshop() -> ts.DPCML:
    """A model of the town whose items have titles."""
    data = ts.synthetic.multi_interest(seed=0).interactions
    assert data.item_attributes is not None
    titles = {name: [t.format(w) for t, w in product(TEMPLATES, words.split(","))] for name, words in WORDS.items()}
    named = [
        titles[genres[0]].pop((7 * n) % len(titles[genres[0]]))
        for n, genres in enumerate(data.item_attributes["genres"])
    ]
    model = ts.DPCML(dim=48, n_interests=4, epochs=25, anchor=0.5, seed=0).fit(data, progress=False)
    return model.set_item_attributes(data.item_attributes.with_columns(pl.Series("title", named)))


def take(page: Page, path: Path) -> None:
    """One picture."""
    page.wait_for_selector("[data-ready]", timeout=60_000)
    page.wait_for_timeout(500)
    page.screenshot(path=str(path))


def main() -> None:
    """Write all pictures."""
    file = save_page(bookshop(), Path(tempfile.mkdtemp()) / "page.html", n_users=3, name="bookshop")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        for kind, options in SHOTS.items():
            context = browser.new_context(**options, reduced_motion="reduce")
            context.add_init_script("try { localStorage.setItem('tastespace-tour', 'done') } catch {}")
            page = context.new_page()
            page.goto(file.as_uri())
            take(page, PICTURES / f"page-{kind}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
