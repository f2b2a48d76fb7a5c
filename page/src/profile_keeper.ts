// Storing what was chosen for a person. Moving a slider changes the view alone; a button stores, and it can be undone.

import { fill, h } from "./dom";
import type { Choices, Id } from "./types";

export interface Keeping {
  user: Id | null; // null: nobody whom anything could be stored for
  name: string;
  stored: Choices; // as the server has it
  chosen: Choices; // as the sliders are
  isUsable: boolean; // false: everything is muted, and a profile leaves something to recommend
  isMoved: boolean; // the view differs from "as it is"
  reset(): void; // all sliders to "as it is"
  show(choices: Choices): void; // all sliders to what is stored, which is this now
}

const text = (one: Choices): string =>
  JSON.stringify([[...one.mute].sort((a, b) => a - b), Object.entries(one.boost).sort(([a], [b]) => Number(a) - Number(b))]);

export class ProfileKeeper {
  readonly element = h("div", { class: "keeping" });
  private shown = 0; // people, so that an answer that comes late is not taken for the next one's
  private before: { user: Id; choices: Choices } | null = null;

  // `put` stores a profile and gives the reason where that is not possible; null where nothing can be stored.
  constructor(private readonly put: ((user: Id, choices: Choices) => Promise<string | null>) | null) {}

  // Another person is shown: what was stored for the last one is not undone from here.
  forget(): void {
    this.shown++;
    this.before = null;
    fill(this.element);
  }

  draw(now: Keeping, problem: string | null = null): void {
    const { user } = now;
    const isOther = text(now.stored) !== text(now.chosen);
    const button = (label: string, title: string, onclick: () => void, kind = "quiet", disabled = false): HTMLElement =>
      h("button", { type: "button", class: kind, title, disabled, onclick }, label);
    const store = (): void => void this.store(now, user as Id, now.chosen, now.stored);
    const undo = this.before;
    fill(
      this.element,
      now.isMoved && button("Reset to as it is", "Nothing muted, nothing asked for more or less", now.reset),
      isOther && text(now.stored) !== text(NOTHING) && button("Back to what is stored", "The sliders as they are stored for this person", () => now.show(now.stored)),
      this.put && user !== null && isOther && button(`Store for ${now.name}`, "All lists of this person are made with these tastes from now on", store, "primary", !now.isUsable),
      this.put && user !== null && isOther && h("p", { class: "hint" }, "The sliders change this view alone. Storing changes all lists of this person, in the shop too."),
      problem !== null && h("p", { class: "hint", role: "alert" }, `Not stored: ${problem}`),
      !isOther && undo && h("p", { class: "hint", role: "status" }, `Stored for ${now.name}.`),
      !isOther && undo && button("Undo", "Store what was stored before", () => void this.store(now, undo.user, undo.choices, null)),
    );
  }

  private async store(now: Keeping, user: Id, choices: Choices, before: Choices | null): Promise<void> {
    this.element.querySelectorAll("button").forEach((one) => (one.disabled = true));
    const mine = this.shown;
    const problem = (await this.put?.(user, { mute: choices.mute, boost: choices.boost })) ?? null;
    if (mine !== this.shown) return;
    if (problem !== null) return this.draw(now, problem);
    this.before = before && { user, choices: before };
    now.show(choices);
  }
}

const NOTHING: Choices = { mute: [], boost: {} };
