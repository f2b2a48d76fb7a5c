// Shelves, the list, and two models side by side.

import { fill, h, icon, ICONS, isolated, listed, percent } from "./dom";
import type { Pictures } from "./pictures";
import { colorOf, type Taste } from "./tuning_view";
import { plain, titleOf, type Id, type Item, type Shelf } from "./types";

export interface ItemActions {
  why: ((item: Item) => void) | null;
  add: ((item: Item) => void) | null; // of newcomers: I know this
  dislike: ((item: Item) => void) | null;
  pictures: Pictures;
  mark(item: Id | null): void;
  colorOf(interest: number | null): number;
}

function because(item: Item): (HTMLElement | string)[] {
  const first = item.because?.[0];
  return first ? ["like ", isolated(titleOf(first))] : [];
}

function buttons(item: Item, acts: ItemActions): HTMLElement {
  const title = titleOf(item);
  return h(
    "span",
    { class: "buttons" },
    acts.why && h("button", { type: "button", class: "why-button", "aria-label": `Why this? ${title}`, onclick: () => acts.why?.(item) }, "Why this?"),
    acts.add &&
      h("button", { type: "button", class: "round-button add-button", "aria-label": `I like ${title}`, title: "I like this", onclick: () => acts.add?.(item) }, icon(ICONS.plus)),
    acts.dislike &&
      h("button", { type: "button", class: "round-button dislike-button", "aria-label": `Not interested in ${title}`, title: "Not interested", onclick: () => acts.dislike?.(item) }, icon(ICONS.not)),
  );
}

function hovering(item: Item, acts: ItemActions): Record<string, unknown> {
  return {
    onpointerenter: () => acts.mark(item.item),
    onpointerleave: () => acts.mark(null),
    onfocusin: () => acts.mark(item.item),
    onfocusout: () => acts.mark(null),
  };
}

function card(item: Item, acts: ItemActions): HTMLElement {
  return h(
    "li",
    { class: "card", color: colorOf(acts.colorOf(item.interest)), ...hovering(item, acts) },
    acts.pictures.box(item),
    h("bdi", { class: "title", title: titleOf(item) }, titleOf(item)),
    h("bdi", { class: "detail" }, item.category ?? ""),
    h("span", { class: "because" }, ...because(item)),
    buttons(item, acts),
  );
}

export function drawShelves(parent: HTMLElement, shelves: Shelf[], tastes: Taste[], acts: ItemActions): void {
  const rows = shelves.filter((shelf) => shelf.items.length).map((shelf) => {
    const taste = tastes.find((one) => one.interests.includes(shelf.interest));
    const reasons = shelf.reasons.map((one) => (typeof one === "string" ? one : titleOf(one)));
    const name = taste?.name ?? shelf.name;
    const named = reasons.length > 0 && !plain(name).includes(reasons[0]!);
    const items = h("ul", { class: "cards", tabindex: "0", "aria-label": name }, ...shelf.items.map((item) => card(item, acts)));
    return h(
      "section",
      { class: "shelf", color: colorOf(taste?.color ?? -1), "aria-label": name },
      h(
        "header",
        {},
        h("h3", {}, capitalized(name)),
        h("span", { class: "share" }, `${percent(shelf.share)} of the history`),
        named && h("p", { class: "reasons" }, "because of ", ...listed(reasons)),
      ),
      items,
    );
  });
  const quiet = tastes.filter((taste) => taste.level === 0);
  fill(
    parent,
    ...rows,
    !rows.length && h("p", { class: "nothing" }, "Nothing is left to recommend here."),
    quiet.length > 0 && h("p", { class: "quiet-tastes" }, `Muted: ${quiet.map((taste) => taste.name).join("; ")}.`),
  );
}

function row(item: Item, acts: ItemActions, mark: string): HTMLElement {
  const reason = because(item);
  return h(
    "li",
    { class: "row", color: colorOf(acts.colorOf(item.interest)), ...hovering(item, acts) },
    h("span", { class: "rank" }, item.rank),
    acts.pictures.box(item),
    h(
      "span",
      { class: "about" },
      h("bdi", { class: "title" }, titleOf(item)),
      h("span", { class: "detail" }, item.category && isolated(item.category), item.category && reason.length > 0 && " · ", ...reason),
    ),
    mark && h("span", { class: "mark" }, mark),
    buttons(item, acts),
  );
}

export function drawList(parent: HTMLElement, items: Item[], acts: ItemActions): void {
  if (items.length) fill(parent, h("ol", { class: "rows" }, ...items.map((item) => row(item, acts, ""))));
  else fill(parent, h("p", { class: "nothing" }, "Nothing is left to recommend here."));
}

export function drawComparison(
  parent: HTMLElement,
  names: [string, string],
  lists: [Item[], Item[]],
  acts: [ItemActions, ItemActions],
): void {
  const [left, right] = lists;
  const both = left.filter((one) => right.some((other) => other.item === one.item)).length;
  const column = (name: string, items: Item[], others: Item[], own: ItemActions): HTMLElement =>
    h(
      "section",
      { class: "column", "aria-label": name },
      h("h3", {}, name),
      h("ol", { class: "rows" }, ...items.map((item) => row(item, own, others.some((other) => other.item === item.item) ? "in both" : ""))),
    );
  fill(
    parent,
    h("p", { class: "summary" }, `${both} of ${left.length} items are in both lists.`),
    h("div", { class: "columns" }, column(names[0], left, right, acts[0]), column(names[1], right, left, acts[1])),
  );
}

const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
