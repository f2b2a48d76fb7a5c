"""The map of 100,000 items: seconds for the layout, size of the page, and frames per second while zooming.

Frames come from Debian's Chromium without a window, whose software renderer draws the points on the processor: a lower
bound for machines with a graphics card. "JavaScript" is the time of all code of the page for a frame (events, layout of
labels, calls of WebGL), as the browser counts it; "script" is that of the functions that draw a frame, each of them
timed. A graphics card changes neither: they are what the page itself needs of the 16.7 ms of a frame at 60 a second.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tastespace as ts
from tastespace.answers.map import catalog_map

TIMED = """
const plain = window.requestAnimationFrame.bind(window);
window.plainFrame = plain; // for those who only wait
window.scriptTimes = [];
window.requestAnimationFrame = (act) => plain((now) => {
  const start = performance.now();
  act(now);
  window.scriptTimes.push(performance.now() - start);
});
"""
ZOOM = """async (n) => {
  const canvas = document.querySelector(".map-over");
  const box = canvas.getBoundingClientRect();
  const times = [];
  window.scriptTimes.length = 0;
  for (let i = 0; i < n; i++) {
    const deltaY = i % 40 < 20 ? -60 : 60;
    const place = { clientX: box.x + 200, clientY: box.y + 200 };
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, cancelable: true, ...place }));
    await new Promise((done) => setTimeout(done, 0));
    await new Promise((done) => window.plainFrame(done));
    times.push(performance.now());
  }
  return { frames: times.slice(1).map((t, i) => t - times[i]), script: window.scriptTimes };
}"""


def processor_seconds() -> float:
    """Of all processes that this one has started, and theirs."""
    parents, used = {}, {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        number = int(entry.parent.name)
        parents[number], used[number] = int(fields[1]), int(fields[11]) + int(fields[12])
    ours = {os.getpid()}
    while more := {one for one, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(used[one] for one in ours - {os.getpid()}) / os.sysconf("SC_CLK_TCK")


def script_seconds(session: Any) -> float:
    """Time of all JavaScript of the page so far."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(one["value"] for one in metrics if one["name"] == "ScriptDuration")


def main(n_items: int = 100_000) -> None:
    from playwright.sync_api import sync_playwright

    data = ts.synthetic.multi_interest(n_users=4000, n_items=n_items, n_interactions=400_000, seed=0).interactions
    model = ts.DPCML(dim=32, n_interests=3, epochs=2, seed=0).fit(data, progress=False)
    start, used = time.perf_counter(), time.process_time()
    catalog_map(model)
    print(f"layout of {n_items:,} items: {time.process_time() - used:.1f} s of one core, "
          f"{time.perf_counter() - start:.1f} s passed")  # fmt: skip
    path = model.save_page(Path(tempfile.mkdtemp()) / "map.html", n_users=1)
    print(f"page with everything inside: {path.stat().st_size / 1e6:.1f} MB")
    arguments = ["--headless=new", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
        page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
        page.add_init_script("try { localStorage.setItem('tastespace-tour', 'done') } catch {}" + TIMED)
        start = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("[data-ready]", timeout=120_000)
        print(f"opened after {time.perf_counter() - start:.1f} s")
        counted = page.context.new_cdp_session(page)
        counted.send("Performance.enable")
        used, before = processor_seconds(), script_seconds(counted)
        found = page.evaluate(ZOOM, 120)
        print(f"JavaScript: {1000 * (script_seconds(counted) - before) / 120:.2f} ms per frame")
        print(f"processor time of the browser: {1000 * (processor_seconds() - used) / 120:.1f} ms per frame")
        browser.close()
    for name, times in found.items():
        ordered = sorted(times)
        print(
            f"{name}: median {statistics.median(times):.1f} ms, 95 % below {ordered[int(0.95 * len(ordered))]:.1f} ms"
        )
    print(f"{1000 / statistics.median(found['frames']):.0f} frames per second with the software renderer")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
