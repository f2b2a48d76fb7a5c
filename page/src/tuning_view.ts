// Sliders: one for each taste, from muted to much more, and one for how much the list mixes them.

import { fill, h, percent } from "./dom";

export interface Taste {
  interests: number[]; // numbers of the interests that share it
  name: string;
  share: number;
  color: number;
  level: number; // place in LEVELS
  wasMoved?: boolean; // before that what is stored counts, which may lie between two levels
}

export const LEVELS = [
  { factor: 0, label: "muted" },
  { factor: 0.5, label: "less" },
  { factor: 1, label: "as it is" },
  { factor: 2, label: "more" },
  { factor: 4, label: "much more" },
] as const;
export const NORMAL = 2;

export const levelOf = (muted: boolean, boost: number): number => {
  if (muted) return 0;
  const gaps = LEVELS.map(({ factor }, i) => (i ? Math.abs(Math.log(factor / boost)) : Infinity));
  return gaps.indexOf(Math.min(...gaps));
};

export const colorOf = (n: number): string => (n < 0 ? "var(--accent)" : `var(--interest-${n % 8})`);

export interface Tuning {
  tastes: Taste[];
  diversity: number | null; // null: this model has no such lists
  diversityWasMoved: boolean; // before that lists are those that anybody gets who asks without a diversity
}

export function drawTuning(parent: HTMLElement, state: Tuning, keeping: HTMLElement, changed: () => void): void {
  const rows = state.tastes.map((taste, i) => {
    const said = h("output", { class: "level" }, LEVELS[taste.level]!.label);
    const slider = h("input", {
      type: "range",
      min: "0",
      max: String(LEVELS.length - 1),
      step: "1",
      value: String(taste.level),
      "aria-label": `${taste.name}: how much of it`,
      "aria-valuetext": LEVELS[taste.level]!.label,
      "data-taste": String(i),
      oninput: () => {
        taste.level = Number(slider.value);
        const { label } = LEVELS[taste.level]!;
        said.textContent = label;
        slider.setAttribute("aria-valuetext", label);
        row.classList.toggle("muted", taste.level === 0);
        taste.wasMoved = true;
        changed();
      },
    });
    const row = h(
      "li",
      { class: taste.level === 0 ? "taste muted" : "taste", color: colorOf(taste.color) },
      h("bdi", { class: "name", title: taste.name }, taste.name),
      h("span", { class: "share" }, percent(taste.share)),
      slider,
      said,
    );
    return row;
  });
  fill(
    parent,
    state.tastes.length > 0 && h("h2", {}, "Tastes"),
    state.tastes.length > 0 && h("ul", { class: "tastes" }, ...rows),
    state.diversity !== null && diversitySlider(state, changed),
    keeping,
  );
}

function diversitySlider(state: Tuning, changed: () => void): HTMLElement {
  const level = (): string => (state.diversityWasMoved ? percent(state.diversity ?? 0) : "as it is");
  const said = h("output", { class: "level" }, level());
  const slider = h("input", {
    type: "range",
    min: "0",
    max: "1",
    step: "0.05",
    value: String(state.diversity),
    "aria-label": "Diversity of the list",
    "aria-valuetext": level(),
    class: "diversity",
    oninput: () => {
      state.diversity = Number(slider.value);
      state.diversityWasMoved = true;
      said.textContent = level();
      slider.setAttribute("aria-valuetext", level());
      changed();
    },
  });
  return h(
    "div",
    { class: "taste whole" },
    h("span", { class: "name" }, "Diversity of the list"),
    slider,
    said,
    h("p", { class: "hint" }, "0 %: the closest matches alone. 100 %: every taste has its share."),
  );
}
