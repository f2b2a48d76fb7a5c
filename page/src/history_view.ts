// What a person took, taste by taste.

import { count, fill, h } from "./dom";
import type { Pictures } from "./pictures";
import { colorOf, type Taste } from "./tuning_view";
import { titleOf, type Id, type Interests } from "./types";

const AT_FIRST = 60; // items of one taste, until all are asked for

type Past = Interests["history"][number];

export function drawHistory(parent: HTMLElement, history: Past[], tastes: Taste[], pictures: Pictures, mark: (item: Id | null) => void): void {
  const row = (past: Past): HTMLElement => {
    const category = pictures.categoryOf(past.item);
    const hovering = { onpointerenter: () => mark(past.item), onpointerleave: () => mark(null) };
    return h(
      "li",
      { class: "row", ...hovering },
      pictures.box(past),
      h("span", { class: "about" }, h("bdi", { class: "title" }, titleOf(past)), category && h("bdi", { class: "detail" }, category)),
    );
  };
  const section = (name: string, color: number, items: Past[]): HTMLElement => {
    const list = h("ul", { class: "rows" }, ...items.slice(0, AT_FIRST).map(row));
    const rest = items.slice(AT_FIRST);
    const all = h("button", { type: "button", class: "quiet", onclick: () => (list.append(...rest.map(row)), all.remove()) }, `Show all ${items.length}`);
    return h(
      "section",
      { class: "shelf past", color: colorOf(color), "aria-label": name },
      h("header", {}, h("h3", {}, name.charAt(0).toUpperCase() + name.slice(1)), h("span", { class: "share" }, count(items.length, "past item"))),
      list,
      rest.length > 0 && all,
    );
  };
  const known = new Set(tastes.flatMap((taste) => taste.interests));
  const others = history.filter((past) => past.interest === null || !known.has(past.interest));
  fill(
    parent,
    ...tastes
      .map((taste) => ({ taste, items: history.filter((past) => past.interest !== null && taste.interests.includes(past.interest)) }))
      .filter(({ items }) => items.length)
      .map(({ taste, items }) => section(taste.name, taste.color, items)),
    others.length > 0 && section(tastes.length ? "Other past items" : "Past items", -1, others),
  );
}
