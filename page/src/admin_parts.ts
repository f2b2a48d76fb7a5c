// Tables, bars and charts of the operations page.

import { fill, h } from "./dom";

export interface Series<T> {
  name: string;
  color: string;
  of(one: T): number;
}

export function tile(name: string, value: string, isBad = false): HTMLElement {
  return h("li", { class: isBad ? "tile bad" : "tile" }, h("span", { class: "value" }, value), h("span", { class: "detail" }, name));
}

// `texts`: how many of the first columns are text; the others are numbers, to the right.
export function table(name: string, heads: string[], rows: (string | Node)[][], texts = 1): HTMLElement {
  const cell = (value: string | Node, at: number): HTMLElement =>
    at === 0 ? h("th", { scope: "row" }, h("bdi", {}, value)) : h("td", at >= texts ? { class: "number" } : {}, value);
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": `${name}, table` },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ...heads.map((head, at) => h("th", { scope: "col", class: at >= texts ? "number" : null }, head)))),
      h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map(cell)))),
    ),
  );
}

function bar(share: number): HTMLElement {
  const made = h("span", { class: "bar", "aria-hidden": "true", color: "var(--accent)" }, h("span", { class: "part" }));
  made.style.setProperty("--share", `${100 * Math.min(1, Math.max(0, share))}%`);
  return made;
}

// Names with shares, as bars of the same scale: that of the largest.
export function shares(found: { name: string; share: number }[]): HTMLElement {
  const most = Math.max(1e-9, ...found.map((one) => one.share));
  const shown = (share: number): string => `${(100 * share).toLocaleString("en", { maximumFractionDigits: 1 })} %`;
  return h("ul", { class: "bars" }, ...found.map((one) => h("li", {}, h("bdi", {}, one.name), bar(one.share / most), h("span", { class: "share" }, shown(one.share)))));
}

// A rate with its interval, drawn from 0 to `most`.
export function interval(rate: number | null, low: number | null, high: number | null, most: number): Node | string {
  if (rate === null) return "–";
  const text = (share: number): string => `${(100 * share).toLocaleString("en", { maximumFractionDigits: 2 })} %`;
  const made = h("span", { class: "interval" }, h("span", { class: "range", "aria-hidden": "true" }, h("span", { class: "within" })));
  if (low !== null && high !== null) {
    made.style.setProperty("--low", `${(100 * low) / most}%`);
    made.style.setProperty("--high", `${(100 * high) / most}%`);
    made.append(`${text(rate)} (${text(low)} to ${text(high)})`);
  } else made.append(text(rate));
  return made;
}

const SPACE = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [360, 90];

// Stacked columns, one for each minute; what is drawn is said in words, too.
export function columns<T extends { time: number }>(name: string, minutes: T[], series: Series<T>[]): HTMLElement {
  const sums = minutes.map((one) => series.reduce((total, own) => total + own.of(one), 0));
  const most = Math.max(...sums);
  const total = series.map((own) => minutes.reduce((sum, one) => sum + own.of(one), 0));
  const figure = (n: number): string => n.toLocaleString("en", { maximumFractionDigits: n < 10 ? 1 : 0 });
  const svg = document.createElementNS(SPACE, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", most ? `${name} in the last hour: at most ${figure(most)}, at last ${figure(sums.at(-1) ?? 0)}.` : `${name} in the last hour: none.`);
  const step = WIDTH / minutes.length;
  minutes.forEach((one, i) => {
    let top = HEIGHT;
    for (const own of series) {
      const tall = most ? (HEIGHT * own.of(one)) / most : 0;
      if (!tall) continue;
      const rect = document.createElementNS(SPACE, "rect");
      top -= tall;
      for (const [key, value] of Object.entries({ x: i * step + 0.5, y: top, width: step - 1, height: tall })) rect.setAttribute(key, value.toFixed(2));
      rect.style.fill = own.color;
      const title = document.createElementNS(SPACE, "title");
      title.textContent = `${new Date(1000 * one.time).toLocaleTimeString("en", { timeStyle: "short" })}: ${figure(own.of(one))} ${own.name}`;
      rect.append(title);
      svg.append(rect);
    }
  });
  const legend = h("ul", { class: "map-legend" });
  fill(legend, ...series.filter((_, at) => series.length > 1 && total[at]! > 0).map((own) => h("li", { color: own.color }, own.name)));
  return h(
    "figure",
    {},
    h("figcaption", {}, name, h("span", { class: "detail" }, most ? ` at most ${figure(most)}` : " nothing yet")),
    svg,
    h("div", { class: "axis detail", "aria-hidden": "true" }, h("span", {}, "an hour ago"), h("span", {}, "now")),
    legend.childElementCount > 0 && legend,
  );
}
