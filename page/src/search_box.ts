// A field that searches while one types, with a list of results that the keyboard reaches (ARIA combobox).

import { debounce, fill, h, icon, ICONS } from "./dom";

export interface Option {
  label: string;
  detail: string;
  choose(): void;
}

let made = 0;

export function searchBox(label: string, placeholder: string, find: (q: string) => Promise<Option[]>): HTMLElement & { clear(): void } {
  const id = `search-${made++}`;
  const input = h("input", {
    type: "search",
    id,
    role: "combobox",
    autocomplete: "off",
    spellcheck: "false",
    placeholder,
    "aria-label": label,
    "aria-expanded": "false",
    "aria-controls": `${id}-list`,
    "aria-autocomplete": "list",
  });
  const list = h("ul", { class: "options", id: `${id}-list`, role: "listbox", "aria-label": label, hidden: true });
  const box = h("div", { class: "search" }, icon(ICONS.search), input, list);
  let options: Option[] = [];
  let active = -1;
  let asked = 0;
  let shownFor: string | null = null; // what the options were found for
  let isEntered = false; // Enter was pressed before they were found

  const close = (): void => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    active = -1;
  };
  const choose = (at: number): void => {
    const option = options[at];
    if (!option) return;
    close();
    input.value = "";
    input.blur();
    option.choose();
  };
  const point = (at: number): void => {
    active = at;
    Array.from(list.children).forEach((one, i) => {
      one.setAttribute("aria-selected", String(i === at));
      if (i === at) one.scrollIntoView({ block: "nearest" });
    });
    if (at >= 0) input.setAttribute("aria-activedescendant", `${id}-${at}`);
    else input.removeAttribute("aria-activedescendant");
  };
  const show = (): void => {
    const entries = options.map((option, i) =>
      h(
        "li",
        { role: "option", id: `${id}-${i}`, "aria-selected": "false", onpointerdown: (event: Event) => (event.preventDefault(), choose(i)) },
        h("bdi", {}, option.label),
        h("span", { class: "detail" }, option.detail),
      ),
    );
    fill(list, ...entries);
    if (!entries.length) list.append(h("li", { class: "nothing", role: "option", "aria-disabled": "true", "aria-selected": "false" }, "Nothing found"));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    point(entries.length && input.value ? 0 : -1);
  };
  const search = async (): Promise<void> => {
    const mine = ++asked;
    const text = input.value.trim();
    const found = await find(text).catch(() => []);
    if (mine !== asked || document.activeElement !== input) return;
    options = found;
    shownFor = text;
    show();
    if (isEntered) choose(active);
    isEntered = false;
  };
  const later = debounce(140, () => void search());
  input.addEventListener("input", () => {
    isEntered = false;
    later();
  });
  input.addEventListener("focus", () => void search());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) void search();
      else point((active + (event.key === "ArrowDown" ? 1 : options.length)) % Math.max(1, options.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      // Who types fast and presses Enter means what was typed, not what was found before.
      if (shownFor === input.value.trim()) choose(active);
      else {
        isEntered = true;
        void search();
      }
    } else if (event.key === "Escape") {
      close();
    }
  });
  return Object.assign(box, { clear: () => (input.value = "") });
}
