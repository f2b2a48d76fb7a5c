// The operations page: numbers of GET /v1/operations, asked for again every ten seconds.

import { columns, interval, shares, table, tile } from "./admin_parts";
import type { ExperimentArm, Minute, Operations } from "./admin_types";
import { askToken } from "./dialogs";
import { count, fill, h, icon, ICONS, isolated, percent } from "./dom";
import { AnswerError, http, keepToken } from "./source";
import { nextTheme, useTheme } from "./theme";
import { titleOf } from "./types";
import "./style.css";
import "./admin.css";

const EVERY = 10_000; // milliseconds
const HOUR = 60; // minutes

const root = document.body;
const content = h("main", { class: "operations" });
const state = h("span", { class: "state", role: "status" });
const detail = h("span", { class: "detail" });
let isPaused = false;

const milliseconds = (seconds: number): string => `${(1000 * seconds).toLocaleString("en", { maximumFractionDigits: seconds < 0.01 ? 1 : 0 })} ms`;
const share = (part: number, whole: number): string => (whole ? `${((100 * part) / whole).toLocaleString("en", { maximumFractionDigits: 1 })} %` : "–");
const megabytes = (bytes: number): string => `${Math.round(bytes / 1e6).toLocaleString("en")} MB`;
const when = (time: string | number): string => (time ? new Date(typeof time === "number" ? 1000 * time : time).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" }) : "–");
const figure = (value: unknown): string => (typeof value === "number" ? value.toLocaleString("en", { maximumFractionDigits: 4 }) : value === undefined ? "–" : String(value));
const nothing = (text: string): HTMLElement => h("p", { class: "nothing" }, `Nothing yet: ${text}`);

function section(name: string, title: string, ...parts: (Node | null | false)[]): HTMLElement {
  return h("section", { class: `block ${name}`, "aria-labelledby": `title-${name}` }, h("h2", { id: `title-${name}` }, title), ...parts);
}

// The minutes of the last hour, also those without any answer.
function lastHour(found: Minute[]): Minute[] {
  const now = Math.floor(Date.now() / 60_000);
  const at = new Map(found.map((one) => [one.time / 60, one]));
  return Array.from({ length: HOUR }, (_, i) => {
    const minute = now - HOUR + 1 + i;
    return at.get(minute) ?? { time: 60 * minute, requests: 0, refused: 0, failed: 0, seconds: 0, feedback: 0 };
  });
}

function traffic(found: Operations): HTMLElement {
  const minutes = lastHour(found.minutes);
  const sum = (of: (one: Minute) => number): number => minutes.reduce((total, one) => total + of(one), 0);
  const requests = sum((one) => one.requests);
  const tiles = h(
    "ul",
    { class: "tiles" },
    tile("Requests in the last hour", requests.toLocaleString("en")),
    tile("Mean time to answer", requests ? milliseconds(sum((one) => one.seconds) / requests) : "–"),
    tile("Failed (5xx)", share(sum((one) => one.failed), requests), sum((one) => one.failed) > 0),
    tile("Refused (4xx)", share(sum((one) => one.refused), requests)),
    tile("Lists from the cache", share(found.cache.kept, found.cache.lists)),
    tile("Events of feedback in the last hour", sum((one) => one.feedback).toLocaleString("en")),
  );
  return section(
    "traffic",
    "Traffic",
    tiles,
    h(
      "div",
      { class: "charts" },
      columns("Requests per minute", minutes, [
        { name: "answered", color: "var(--interest-1)", of: (one) => one.requests - one.refused - one.failed },
        { name: "refused", color: "var(--interest-4)", of: (one) => one.refused },
        { name: "failed", color: "var(--interest-0)", of: (one) => one.failed },
      ]),
      columns("Milliseconds per answer", minutes, [{ name: "mean", color: "var(--interest-3)", of: (one) => (one.requests ? (1000 * one.seconds) / one.requests : 0) }]),
      columns("Feedback per minute", minutes, [{ name: "events stored", color: "var(--interest-2)", of: (one) => one.feedback }]),
    ),
  );
}

function routes(found: Operations): HTMLElement {
  const rows = found.routes.map((one) => [
    one.route === "(none)" ? `${one.method} pages and unknown paths` : `${one.method} ${one.route}`,
    one.requests.toLocaleString("en"),
    milliseconds(one.median),
    milliseconds(one.p95),
    one.refused.toLocaleString("en"),
    one.failed.toLocaleString("en"),
  ]);
  const title = `Routes since ${when(found.started)}`;
  return section("routes", title, rows.length ? table(title, ["Route", "Requests", "Median", "95 %", "4xx", "5xx"], rows) : nothing("no request was answered."));
}

function generations(found: Operations): HTMLElement {
  const names = [...new Set(found.generations.flatMap((one) => Object.keys(one.metrics)))].slice(0, 6);
  const rows = found.generations.map((one) => [
    String(one.generation) + (one.generation === found.generation ? " (served)" : ""),
    one.model,
    when(one.time),
    ...names.map((name) => figure(one.metrics[name])),
  ]);
  const heads = ["Generation", "Model", "Opened", ...names];
  return section(
    "generations",
    "Models",
    rows.length ? table("Models", heads, rows, 2) : nothing("no generation was noted."),
    rows.length > 0 && !names.length && h("p", { class: "hint" }, "None of these models was saved with an evaluation: model.save(path, metrics) keeps one."),
  );
}

function recommended(found: Operations): HTMLElement {
  const { places, items, coverage, top_share, gini, most } = found.recommended;
  if (!places) return section("recommended", "What is recommended", nothing("no list of this model was answered."));
  const tiles = h(
    "ul",
    { class: "tiles" },
    tile("Items that were in a list", percent(coverage)),
    tile("Places of the 1 % shown most", percent(top_share)),
    tile("Concentration (Gini, 0 to 1)", gini.toLocaleString("en", { maximumFractionDigits: 2 })),
  );
  return section(
    "recommended",
    "What is recommended",
    h("p", { class: "hint" }, `Of ${count(items, "item")} and ${count(places, "place")} of lists since generation ${found.generation} was opened.`),
    tiles,
    h("h3", {}, "Shown most"),
    shares(most.map((one) => ({ name: titleOf(one), share: one.share }))),
  );
}

function tastes(found: Operations): HTMLElement {
  const { people, tastes: numbers, names } = found.population;
  if (!people) return section("population", "Tastes of people", nothing("this model has no tastes, or nobody has a history."));
  return section(
    "population",
    "Tastes of people",
    h("p", { class: "hint" }, `Of a sample of ${count(people, "person").replace(/persons$/, "people")}.`),
    h("h3", {}, "Number of tastes"),
    shares(numbers.map((one) => ({ name: count(Number(one.name), "taste"), share: one.share }))),
    h("h3", {}, "Share of the histories"),
    names.length ? shares(names) : h("p", { class: "hint" }, "No taste fits a category."),
  );
}

function experiment(found: Operations): HTMLElement {
  const { arms, comparisons } = found.experiment;
  if (!arms.length) return section("experiment", "Experiment", nothing("no experiment runs on this server."));
  const most = (high: keyof ExperimentArm): number => Math.max(1e-9, ...arms.map((one) => Number(one[high] ?? 0)));
  const [clicks, conversions] = [most("click_high"), most("conversion_high")];
  const rows = arms.map((one) => [
    one.arm,
    percent(one.share),
    one.lists.toLocaleString("en"),
    one.users.toLocaleString("en"),
    interval(one.click_rate, one.click_low, one.click_high, clicks),
    interval(one.conversion_rate, one.conversion_low, one.conversion_high, conversions),
  ]);
  const points = (share: number): string => (100 * share).toLocaleString("en", { maximumFractionDigits: 2, signDisplay: "exceptZero" });
  const compared = comparisons.map((one) => [
    `${one.second} against ${one.first}`,
    one.metric === "ctr" ? "clicked" : "converted",
    one.verdict,
    one.low <= -1 ? "–" : `${points(one.difference)} (${points(one.low)} to ${points(one.high)})`,
  ]);
  return section(
    "experiment",
    "Experiment",
    table("Experiment", ["Arm", "Share", "Lists", "People", "Lists clicked", "Lists converted"], rows),
    compared.length > 0 && h("h3", {}, "Compared, valid whenever it is looked at"),
    compared.length > 0 && table("Comparisons", ["Arms", "Rate", "Verdict", "Percentage points"], compared, 3),
  );
}

function workers(found: Operations): HTMLElement {
  const rows = found.workers.map((one) => [String(one.process), String(one.generation), String(one.in_flight), megabytes(one.memory)]);
  return section("workers", "Workers", rows.length ? table("Workers", ["Process", "Generation", "In flight", "Memory"], rows) : nothing("no worker counts."));
}

function draw(found: Operations): void {
  const n = found.problems.length;
  state.textContent = n ? count(n, "problem") : "OK";
  state.classList.toggle("bad", n > 0);
  detail.textContent = `${found.model} · generation ${found.generation} · ${new Date().toLocaleTimeString("en")}`;
  fill(
    content,
    n > 0 && section("problems", "Problems", h("ul", {}, ...found.problems.map((one) => h("li", {}, isolated(one))))),
    traffic(found),
    experiment(found),
    generations(found),
    h("div", { class: "pair" }, recommended(found), tastes(found)),
    routes(found),
    workers(found),
  );
  root.dataset["ready"] = "true";
}

async function refresh(): Promise<void> {
  for (let wrong = false; ; wrong = true) {
    try {
      const found = (await http("GET", "/v1/operations", {})) as Operations;
      const tables = (): HTMLElement[] => [...content.querySelectorAll<HTMLElement>(".scroll")];
      const read = tables().findIndex((one) => one === document.activeElement);
      const before = tables().map((one) => one.scrollLeft);
      draw(found);
      tables().forEach((one, i) => (one.scrollLeft = before[i] ?? 0));
      tables()[read]?.focus({ preventScroll: true }); // the one that was read was drawn again
      return;
    } catch (problem) {
      const refused = problem instanceof AnswerError && (problem.status === 401 || problem.status === 403);
      if (refused) {
        keepToken(await askToken(root, wrong, "operations need a token with the scope admin"));
        continue;
      }
      state.textContent = problem instanceof Error ? problem.message : String(problem);
      state.classList.add("bad");
      return;
    }
  }
}

function start(): void {
  useTheme(root);
  const pause = h("button", { type: "button", class: "quiet", "aria-pressed": "false" }, "Pause");
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    if (!isPaused) void refresh();
  });
  const theme = h("button", { type: "button", class: "tool", "aria-label": "Light or dark", title: "Light or dark", onclick: () => nextTheme(root) }, icon(ICONS.theme));
  fill(
    root,
    h("header", { class: "top" }, h("div", { class: "brand" }, h("h1", {}, "Operations"), detail), state, pause, h("div", { class: "tools" }, theme)),
    content,
  );
  fill(content, h("p", { class: "loading" }, "Loading …"));
  const again = async (): Promise<void> => {
    if (!isPaused && !document.hidden) await refresh();
    window.setTimeout(() => void again(), EVERY);
  };
  void again();
}

start();
