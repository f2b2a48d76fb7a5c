// Elements without templates: text is always inserted as text.

import { plain } from "./types";

type Child = Node | string | number | null | undefined | false;
type Props = Record<string, unknown>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value as EventListener);
    else if (name === "class") made.className = String(value);
    else if (name === "color") made.style.setProperty("--color", String(value));
    else made.setAttribute(name, value === true ? "" : plain(String(value)));
  }
  append(made, children);
  return made;
}

export function append(parent: Node, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(plain(String(child))));
  }
}

export function fill(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  append(parent, children);
}

export function icon(drawing: string): SVGElement {
  const space = "http://www.w3.org/2000/svg";
  const made = document.createElementNS(space, "svg");
  made.setAttribute("viewBox", "0 0 24 24");
  made.setAttribute("aria-hidden", "true");
  made.setAttribute("class", "icon");
  const line = document.createElementNS(space, "path");
  line.setAttribute("d", drawing);
  made.appendChild(line);
  return made;
}

export const ICONS = {
  search: "M11 4a7 7 0 1 0 0 14a7 7 0 0 0 0-14M20 20l-4-4",
  theme: "M12 3a9 9 0 1 0 9 9A7 7 0 0 1 12 3",
  help: "M9 9a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.2-1.5 2.4M12 17.5v.01M12 3a9 9 0 1 0 0 18a9 9 0 0 0 0-18",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  lasso: "M12 5c5 0 8 2 8 5s-3 5-8 5s-8-2-8-5s3-5 8-5M8 14.500c-2 1-2 3 0 3.500s1 2-1 3",
  whole: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  frame: "M4 7h16v10H4z",
  close: "M6 6l12 12M18 6L6 18",
  not: "M12 4a8 8 0 1 0 0 16a8 8 0 0 0 0-16M6.500 6.500l11 11",
  undo: "M9 7L5 11l4 4M5 11h9a4 4 0 0 1 0 8h-3",
} as const;

export function debounce(wait: number, run: () => void): () => void {
  let timer = 0;
  return () => {
    window.clearTimeout(timer);
    timer = window.setTimeout(run, wait);
  };
}

// Titles and other names between words of the page: whatever way they are written, the words stay where they are.
export const isolated = (text: string): HTMLElement => h("bdi", {}, text);

// Names with commas between them, each for itself.
export const listed = (names: string[]): (HTMLElement | string)[] => names.flatMap((name, i) => (i ? [", ", isolated(name)] : [isolated(name)]));

export const percent = (share: number): string => `${Math.round(100 * share)} %`;
export const count = (n: number, what: string): string => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
