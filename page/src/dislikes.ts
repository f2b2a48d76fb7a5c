// "Not interested": an item leaves the view alone; a button stores it for the person, and both can be undone.

import { count, fill, h, icon, ICONS, isolated } from "./dom";
import { titleOf, type Id, type NamedItem } from "./types";

// Stores that a person does not want an item, or takes that back; gives the reason where it is not possible.
export type PutDislike = (user: Id, item: Id, isUndo: boolean) => Promise<string | null>;

interface Disliked {
  item: NamedItem;
  isStored: boolean;
}

export class Dislikes {
  readonly element = h("div", { class: "dislikes", role: "status" });
  private user: Id | null = null;
  private name = "";
  private found: Disliked[] = [];
  private isBusy = false;

  // `put`: null where nothing can be stored. `changed`: lists have to be made again.
  constructor(
    private readonly put: PutDislike | null,
    private readonly changed: () => void,
  ) {}

  // Another person is shown. `user`: null for somebody for whom nothing can be stored.
  forget(user: Id | null, name: string): void {
    this.user = user;
    this.name = name;
    this.found = [];
    this.draw();
  }

  get items(): Id[] {
    return this.found.map((one) => one.item.item);
  }

  add(item: NamedItem): void {
    this.found.push({ item, isStored: false });
    this.draw();
    this.focus(); // the button that was pressed leaves with its item
    this.changed();
  }

  private draw(problem: string | null = null): void {
    const open = this.found.filter((one) => !one.isStored);
    const store = this.put !== null && this.user !== null && open.length > 0;
    const chips = this.found.map((one) => {
      const said = one.isStored ? "Stored. Undo: wants to see" : "Undo: bring back";
      const undo = (): void => void this.undo(one);
      return h("button", { type: "button", class: "chip undo", disabled: this.isBusy, "aria-label": `${said} ${titleOf(one.item)}`, onclick: undo }, isolated(titleOf(one.item)), one.isStored && " (stored)", icon(ICONS.undo));
    });
    const stored = this.found.length - open.length;
    const what = [open.length && `${count(open.length, "item")} left this view`, stored && `${count(stored, "item")} stored as not wanted`];
    fill(
      this.element,
      this.found.length > 0 && h("span", { class: "detail" }, what.filter(Boolean).join(", ")),
      ...chips,
      store &&
        h(
          "button",
          { type: "button", class: "quiet", disabled: this.isBusy, title: "No list of this person holds what is stored so, in the shop too", onclick: () => void this.store() },
          `Store “not interested” for ${this.name}`,
        ),
      problem !== null && h("p", { class: "hint", role: "alert" }, `Not stored: ${problem}`),
    );
  }

  private focus(): void {
    [...this.element.querySelectorAll<HTMLElement>(".undo")].at(-1)?.focus();
  }

  // Calls the server; false where it has refused, or another person is shown by now.
  private async tried(item: Id, isUndo: boolean): Promise<boolean> {
    const { user, found } = this;
    if (!this.put || user === null) return false;
    this.isBusy = true;
    this.draw();
    const problem = await this.put(user, item, isUndo);
    this.isBusy = false;
    if (found !== this.found) return false;
    this.draw(problem);
    return problem === null;
  }

  private async store(): Promise<void> {
    for (const one of this.found.filter((other) => !other.isStored)) {
      if (!(await this.tried(one.item.item, false))) return;
      one.isStored = true;
    }
    this.draw();
    this.focus();
    this.changed();
  }

  private async undo(one: Disliked): Promise<void> {
    if (one.isStored && !(await this.tried(one.item.item, true))) return;
    this.found.splice(this.found.indexOf(one), 1);
    this.draw();
    this.focus();
    this.changed();
  }
}
