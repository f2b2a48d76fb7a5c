// The windows of the page: why an item, items to begin with, the token of the server.

import { debounce, fill, h, icon, ICONS, isolated, percent } from "./dom";
import type { Pictures } from "./pictures";
import type { Source } from "./source";
import { plain, titleOf, type Explanation, type FoundItem, type NamedItem } from "./types";

const SHOWN_SHARE = 0.005; // of a taste, from which it is shown

export function openDialog(root: HTMLElement, name: string, label: string, ...content: (Node | string)[]): HTMLDialogElement {
  const dialog = h("dialog", { class: `dialog ${name}`, "aria-label": label });
  const close = h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => dialog.close() }, icon(ICONS.close));
  dialog.append(close, ...content);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // beside it
  });
  root.append(dialog);
  dialog.showModal();
  return dialog;
}

export function openWhy(
  root: HTMLElement,
  found: Explanation,
  interest: { name: string; color: string } | null,
  colorOf: (interest: number) => string,
  pictures: Pictures,
  showOnMap: () => void,
): void {
  // Shares of the score are drawn as such; closeness of past items has no whole, and the closest is the longest bar.
  const areShares = found.tastes.length > 0 || found.interest === null;
  const whole = areShares ? 1 : Math.max(1e-9, ...found.because.map((one) => one.weight));
  const row = (name: string, weight: number, color: string): HTMLElement =>
    h("li", { color }, h("bdi", {}, name), bar(weight / whole), areShares && h("span", { class: "share" }, percent(weight)));
  const tastes = found.tastes.filter((one) => one.share >= SHOWN_SHARE).map((one) => row(plain(one.name), one.share, colorOf(one.interest)));
  const bars = found.because.map((one) => row(titleOf(one), one.weight, interest?.color ?? "var(--accent)"));
  const dialog = openDialog(
    root,
    "why",
    `Why ${titleOf(found)}?`,
    h("p", { class: "overline" }, "Why this?"),
    h("h2", {}, isolated(titleOf(found))),
    ...[pictures.box(found)].filter((one) => one !== null),
    h("p", { class: "lead" }, found.text),
    ...(interest
      ? [h("p", { class: "matches", color: interest.color }, "It matches the taste: ", h("strong", {}, isolated(interest.name)), ".")]
      : []),
    ...(tastes.length ? [h("h3", {}, "Tastes that speak for it"), h("ul", { class: "bars tastes" }, ...tastes)] : []),
    ...(bars.length
      ? [h("h3", {}, found.tastes.length ? "Past items of this taste" : "Past items that matter most"), h("ul", { class: "bars past" }, ...bars)]
      : []),
    h("div", { class: "actions" }, h("button", { type: "button", class: "quiet", onclick: () => (dialog.close(), showOnMap()) }, "Show on the map")),
  );
}

function bar(share: number): HTMLElement {
  const made = h("span", { class: "bar", "aria-hidden": "true" }, h("span", { class: "part" }));
  made.style.setProperty("--share", `${100 * Math.min(1, Math.max(0, share))}%`);
  return made;
}

// Choose items to begin with. `done` has what was chosen.
export function openPicker(root: HTMLElement, source: Source, pictures: Pictures, begin: NamedItem[], done: (history: NamedItem[]) => void): void {
  const picked = new Map(begin.map((one) => [one.item, one] as const));
  const grid = h("div", { class: "grid", role: "group", "aria-label": "Items" });
  const chips = h("div", { class: "chips", "aria-live": "polite" });
  const go = h("button", { type: "button", class: "primary", disabled: true, onclick: () => (dialog.close(), done([...picked.values()])) });
  const field = h("input", { type: "search", placeholder: "Search the catalog", "aria-label": "Search the catalog", autocomplete: "off" });
  let shown: FoundItem[] = [];
  const draw = (): void => {
    fill(
      grid,
      ...shown.map((one) =>
        h(
          "button",
          { type: "button", class: "pick", "aria-pressed": String(picked.has(one.item)), onclick: () => toggle(one) },
          pictures.box(one),
          h("bdi", { class: "title" }, titleOf(one)),
          one.category && h("span", { class: "detail" }, one.category),
        ),
      ),
      !shown.length && h("p", { class: "nothing" }, "No item has these words."),
    );
    drawChips();
  };
  const drawChips = (): void => {
    fill(
      chips,
      ...[...picked.values()].map((one) =>
        h("button", { type: "button", class: "chip", "aria-label": `Remove ${titleOf(one)}`, onclick: () => toggle(one) }, isolated(titleOf(one)), icon(ICONS.close)),
      ),
    );
    go.disabled = !picked.size;
    go.textContent = picked.size ? `Show my tastes (${picked.size})` : "Pick at least one";
  };
  const toggle = (one: NamedItem): void => {
    if (!picked.delete(one.item)) picked.set(one.item, one);
    grid.querySelectorAll(".pick").forEach((button, i) => button.setAttribute("aria-pressed", String(picked.has(shown[i]!.item))));
    drawChips();
  };
  let asked = 0;
  const search = async (): Promise<void> => {
    const mine = ++asked;
    const found = await source.searchItems(field.value.trim()).catch(() => []);
    if (mine !== asked) return;
    shown = found;
    draw();
  };
  field.addEventListener("input", debounce(160, () => void search()));
  const dialog = openDialog(
    root,
    "picker",
    "Pick items to begin with",
    h("h2", {}, "What do you like?"),
    h("p", { class: "lead" }, "Pick a few items, of different kinds if you like. Nothing is stored."),
    field,
    chips,
    grid,
    h("div", { class: "actions" }, go),
  );
  drawChips();
  field.focus();
  void search();
}

export function askToken(root: HTMLElement, wrong: boolean, why = "this server asks for a token"): Promise<string> {
  return new Promise((resolve) => {
    const field = h("input", { type: "password", "aria-label": "Token", autocomplete: "off", required: true });
    const form = h(
      "form",
      { onsubmit: (event: Event) => (event.preventDefault(), resolve(field.value), dialog.close()) },
      h("h2", {}, why.charAt(0).toUpperCase() + why.slice(1)),
      h("p", { class: "lead" }, wrong ? "The token was not accepted." : "It is kept until this tab is closed."),
      field,
      h("div", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Continue")),
    );
    const dialog = openDialog(root, "token", "Token", form);
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.querySelector(".close")?.remove();
    field.focus();
  });
}
