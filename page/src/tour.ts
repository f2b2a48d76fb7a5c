// Three steps that show a first visitor around.

import { h } from "./dom";

export interface Step {
  target: () => Element | null;
  title: string;
  text: string;
  before?: () => Promise<void>;
}

const DONE = "tastespace-tour";

export function wasShown(): boolean {
  try {
    return localStorage.getItem(DONE) !== null;
  } catch {
    return true; // storage is forbidden: a tour on every visit would be a nuisance
  }
}

export function startTour(root: HTMLElement, steps: Step[]): void {
  root.querySelector(".tour")?.remove();
  const before = document.activeElement;
  const box = h("div", { class: "tour", role: "dialog", "aria-modal": "false", "aria-live": "polite", tabindex: "-1" });
  let lit: Element | null = null;
  const end = (): void => {
    box.remove();
    lit?.classList.remove("lit");
    root.querySelector(".person")?.scrollIntoView({ block: "start" }); // below the bar: see scroll-margin
    if (before instanceof HTMLElement && before !== document.body) before.focus({ preventScroll: true });
    try {
      localStorage.setItem(DONE, "done");
    } catch {
      // not remembered
    }
  };
  const show = async (at: number): Promise<void> => {
    const step = steps[at];
    lit?.classList.remove("lit");
    if (!step) return end();
    await step.before?.();
    lit = step.target();
    lit?.classList.add("lit");
    lit?.scrollIntoView({ block: "nearest" });
    box.setAttribute("aria-label", step.title);
    const isLast = at === steps.length - 1;
    const next = h("button", { type: "button", class: "primary", onclick: () => void show(at + 1) }, isLast ? "Done" : "Next");
    const skip = h("button", { type: "button", class: "quiet", onclick: end }, "Skip");
    box.replaceChildren(
      h("p", { class: "overline" }, `${at + 1} of ${steps.length}`),
      h("h2", {}, step.title),
      h("p", {}, step.text),
      h("div", { class: "actions" }, isLast ? "" : skip, next),
    );
    place(root, box, lit);
    next.focus({ preventScroll: true });
  };
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") end();
  });
  root.append(box);
  void show(0);
}

function place(root: HTMLElement, box: HTMLElement, target: Element | null): void {
  const own = box.getBoundingClientRect();
  const around = root.getBoundingClientRect();
  const near = target?.getBoundingClientRect() ?? around;
  const below = near.bottom + 12 + own.height < window.innerHeight;
  const top = below ? near.bottom + 12 : Math.max(12, Math.min(near.top + 12, window.innerHeight - own.height - 12));
  const left = Math.max(12, Math.min(near.left + 12, window.innerWidth - own.width - 12));
  box.style.top = `${top}px`;
  box.style.left = `${left}px`;
}
