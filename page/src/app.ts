// The page: who is looked at, what was chosen, and when to ask again.

import { address, keepInAddress, personOfAddress, type Step } from "./address";
import { count, debounce, fill, h, icon, ICONS, isolated } from "./dom";
import { askToken, openPicker, openWhy } from "./dialogs";
import { Dislikes } from "./dislikes";
import { drawHistory } from "./history_view";
import { MapView } from "./map_view";
import { Pictures } from "./pictures";
import { ProfileKeeper } from "./profile_keeper";
import { drawComparison, drawList, drawShelves, type ItemActions } from "./results_view";
import { searchBox } from "./search_box";
import { AnswerError, keepToken, type Source } from "./source";
import { nextTheme, useTheme } from "./theme";
import { startTour, wasShown } from "./tour";
import { colorOf, drawTuning, levelOf, LEVELS, NORMAL, type Taste, type Tuning } from "./tuning_view";
import { type Choices, type Id, type Interests, type Item, type ModelInfo, type NamedItem, type Person, type Shelf, type Which } from "./types";

type ViewName = "shelves" | "list" | "compare" | "history";

export interface AppOptions {
  user?: Id; // who is shown first
  isWidget: boolean;
}

const SHELF = 8; // items on a shelf
const LIST = 20; // items of the list
const IN_REGION = 40; // items of a region, which are then put on shelves

const NOBODY = "nobody";

export class App {
  private readonly person = h("div", { class: "person" });
  private readonly tuning = h("section", { class: "tuning", "aria-label": "Tuning" });
  private readonly results = h("div", { class: "results-body", "aria-live": "polite", "aria-busy": "false" });
  private readonly tabs = h("div", { class: "tabs", role: "group", "aria-label": "View" });
  private readonly region = h("div", { class: "region" });
  private readonly main = h("main", { class: "main" });
  private readonly map: MapView;
  private readonly keeper: ProfileKeeper;
  private readonly dislikes: Dislikes;
  private pictures = new Pictures(false);
  private search: HTMLElement | null = null;
  private model: ModelInfo | null = null;
  private who: Person | null = null;
  private interests: Interests = { interests: [], history: [] };
  private state: Tuning = { tastes: [], diversity: null, diversityWasMoved: false };
  private otherTastes: Taste[] | null = null; // those of the second model, once they were needed
  private view: ViewName = "shelves";
  private within: Id[] | null = null;
  private asked = 0; // lists
  private chosen = 0; // people
  private at = ""; // the address whose person is shown
  private readonly later = debounce(90, () => void this.refresh());

  constructor(
    private readonly root: HTMLElement,
    private readonly source: Source,
    private readonly options: AppOptions,
  ) {
    root.classList.add("tastespace");
    root.classList.toggle("widget", options.isWidget);
    useTheme(root);
    const put = source.keepProfile?.bind(source);
    this.keeper = new ProfileKeeper(put ? (user, choices) => this.stored(() => put(user, choices)) : null);
    this.dislikes = new Dislikes(source.keepEvent ? (...given) => this.putDislike(...given) : null, () => void this.refresh());
    this.map = new MapView(root, { region: (items) => this.setRegion(items), open: (item) => void this.why(item) });
  }

  async start(): Promise<void> {
    fill(this.root, h("p", { class: "loading" }, "Loading the model …"));
    const model = await this.trying(() => this.source.model());
    if (!model) return;
    this.model = model;
    this.pictures = new Pictures(model.image_column !== null);
    this.layout(model);
    const first = this.options.user;
    const atStart: Person | null = first === undefined ? this.fromAddress() : { kind: "user", user: first, name: null };
    const map = this.trying(() => this.source.map()).then((data) => {
      if (!data) return;
      this.pictures.setCatalog(data);
      this.map.setCatalog(data);
      if (this.view === "history") void this.refresh(); // with categories
    });
    if (atStart) await this.choose(atStart, "replace");
    else await this.welcome();
    if (!this.options.isWidget) for (const event of ["popstate", "hashchange"]) window.addEventListener(event, () => void this.follow());
    await map;
    this.root.dataset["ready"] = "true";
    if (!this.options.isWidget && !wasShown()) this.tour();
  }

  // ---- frame ------------------------------------------------------------------------------------------------

  private layout(model: ModelInfo): void {
    const theme = h(
      "button",
      { type: "button", class: "tool", "aria-label": "Light or dark", title: "Light or dark", onclick: () => (nextTheme(this.root), this.map.restyle()) },
      icon(ICONS.theme),
    );
    const help = h("button", { type: "button", class: "tool", "aria-label": "Tour", title: "Tour", onclick: () => this.tour() }, icon(ICONS.help));
    this.search = searchBox("Find a person by id or name", "Id or name", async (q) => {
      const found = await this.trying(() => this.source.users(q));
      return (found ?? []).map((one) => ({
        label: one.name ?? String(one.user),
        detail: [one.name && String(one.user), count(one.n_items, "item")].filter(Boolean).join(" · "),
        choose: () => void this.choose({ kind: "user", user: one.user, name: one.name }),
      }));
    });
    const isNew = this.source.isLive && model.can.fold_in;
    const begin = isNew && h("button", { type: "button", class: "quiet begin", onclick: () => this.pick([]) }, "I am new here");
    const size = `${model.name} · ${count(model.n_items, "item")} · ${count(model.n_users, "person").replace(/persons$/, "people")}`;
    const brand = h("div", { class: "brand" }, h("h1", {}, "tastespace"), h("span", { class: "detail" }, size));
    fill(
      this.root,
      h("header", { class: "top" }, brand, this.search, begin, h("div", { class: "tools" }, !this.options.isWidget && help, theme)),
      this.main,
    );
    const jump = h("button", { type: "button", class: "quiet jump", onclick: () => (this.tuning.childElementCount ? this.tuning : this.map.element).scrollIntoView() }, "Tastes and map ↓");
    fill(
      this.main,
      this.person,
      h("section", { class: "results", "aria-label": "Recommendations" }, h("div", { class: "results-head" }, this.tabs, jump, this.region), this.dislikes.element, this.results),
      h("div", { class: "side" }, this.map.element, this.tuning),
    );
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.map.restyle());
  }

  private async welcome(): Promise<void> {
    this.chosen++; // what was asked for somebody is not shown any more
    this.asked++;
    this.who = null;
    this.at = address();
    this.interests = { interests: [], history: [] };
    this.state = { tastes: [], diversity: null, diversityWasMoved: false };
    this.dislikes.forget(null, "");
    this.within = null;
    this.map.clearRegion();
    this.showOnMap([]);
    this.main.classList.add("empty");
    const examples = (await this.trying(() => this.source.users(""))) ?? [];
    const chips = examples.slice(0, 5).map((one) =>
      h("button", { type: "button", class: "chip", onclick: () => void this.choose({ kind: "user", user: one.user, name: one.name }) }, one.name ?? String(one.user)),
    );
    fill(
      this.person,
      h("h2", { class: "hello" }, "People have more than one taste."),
      h("p", { class: "lead" }, "Find a person to see each of their tastes, what is recommended for it, and why", this.source.isLive && this.model?.can.fold_in ? ", or pick a few items you like yourself." : "."),
      h("div", { class: "chips" }, chips.length > 0 && h("span", { class: "detail" }, "For example"), ...chips),
    );
  }

  // ---- people -----------------------------------------------------------------------------------------------

  private pick(begin: NamedItem[]): void {
    openPicker(this.root, this.source, this.pictures, begin, (history) => void this.choose({ kind: "new", history }));
  }

  // The person of the address, after the visitor went back or forth or changed the address.
  private async follow(): Promise<void> {
    if (this.at === address()) return; // of two events for one step, the second
    this.at = address();
    this.root.querySelectorAll<HTMLDialogElement>("dialog:not(.token)").forEach((one) => one.close());
    this.root.querySelector(".problem")?.remove();
    const person = this.fromAddress();
    if (person) await this.choose(person, "stay");
    else await this.welcome();
  }

  async choose(person: Person, step: Step = "push"): Promise<void> {
    const mine = ++this.chosen;
    this.asked++;
    this.root.querySelector(".problem")?.remove();
    this.results.setAttribute("aria-busy", "true");
    const found = await this.trying(() => this.orNobody(person, async () => {
      if (!this.model?.can.shelves) {
        // Without interests nothing says where a person's past belongs; a newcomer's own items are known here.
        const past = person.kind === "new" ? person.history.map((one) => ({ ...one, interest: null })) : [];
        return { interests: { interests: [], history: past }, shelves: [] };
      }
      const interests = await this.source.interests(person);
      return { interests, shelves: await this.source.shelves(person, SHELF, { mute: [], boost: {} }) };
    }));
    if (mine !== this.chosen) return;
    if (found === NOBODY) return this.nobody(person);
    if (!found) {
      if (!this.who) await this.welcome();
      return;
    }
    this.who = person;
    this.otherTastes = null;
    this.within = null;
    this.map.clearRegion();
    this.interests = found.interests;
    this.state = { tastes: tastesOf(found.interests, found.shelves), diversity: this.usualDiversity(), diversityWasMoved: false };
    this.keeper.forget();
    this.dislikes.forget(person.kind === "user" ? person.user : null, nameOf(person));
    this.view = this.model?.can.shelves ? (this.view === "list" || this.view === "history" ? this.view : "shelves") : "list";
    this.main.classList.remove("empty");
    if (!this.options.isWidget) {
      keepInAddress(person, step);
      this.at = address();
    }
    this.drawPerson(person);
    this.drawTabs();
    this.drawTuning(person);
    await this.refresh();
  }

  // Why something could not be stored; null where it was.
  private async stored(put: () => Promise<void>): Promise<string | null> {
    let problem: string | null = null;
    await this.trying(() =>
      put().catch((found: unknown) => {
        if (found instanceof AnswerError && found.status === 401) throw found; // a token is asked for
        problem = found instanceof Error ? found.message : String(found);
      }),
    );
    return problem;
  }

  private putDislike(user: Id, item: Id, isUndo: boolean): Promise<string | null> {
    const kind = isUndo ? "undo" : this.model?.dislike;
    if (!kind) return Promise.resolve("the kinds of events of this model have none for what people do not want.");
    return this.stored(async () => this.source.keepEvent?.(user, item, kind));
  }

  private usualDiversity(): number | null {
    return (this.model?.can.mix ?? []).length > 1 ? (this.model?.diversity ?? 0) : null;
  }

  private drawTuning(person: Person): void {
    drawTuning(this.tuning, this.state, this.keeper.element, () => {
      this.drawKeeping(person);
      this.later();
    });
    this.drawKeeping(person);
  }

  private drawKeeping(person: Person): void {
    const chosen = this.choices();
    const { state } = this;
    const again = (): void => {
      state.diversity = this.usualDiversity();
      state.diversityWasMoved = false;
      this.drawTuning(person);
      this.tuning.querySelector("input")?.focus(); // the button that was pressed is gone
      void this.refresh();
    };
    this.keeper.draw({
      user: person.kind === "user" ? person.user : null,
      name: nameOf(person),
      stored: this.choices(true),
      chosen,
      isUsable: chosen.mute.length < this.interests.interests.length,
      isMoved: state.diversityWasMoved || chosen.mute.length > 0 || Object.keys(chosen.boost).length > 0,
      reset: () => {
        for (const taste of state.tastes) {
          taste.level = NORMAL;
          taste.wasMoved = true;
        }
        again();
      },
      show: ({ mute, boost }) => {
        for (const one of this.interests.interests) {
          one.muted = mute.includes(one.interest);
          one.boost = boost[one.interest] ?? 1;
        }
        for (const taste of state.tastes) {
          const first = this.interests.interests.find((one) => one.interest === taste.interests[0]);
          taste.level = first ? levelOf(first.muted, first.boost) : NORMAL;
          taste.wasMoved = false;
        }
        again();
      },
    });
  }

  private async orNobody<T>(person: Person, call: () => Promise<T>): Promise<T | typeof NOBODY> {
    try {
      return await call();
    } catch (problem) {
      if (person.kind === "user" && problem instanceof AnswerError && problem.isUnknown) return NOBODY;
      throw problem;
    }
  }

  // Somebody whom the model does not know, from an address: what most people like.
  private async nobody(person: Person): Promise<void> {
    if (person.kind !== "user") return;
    await this.welcome();
    const mine = this.asked;
    const items = await this.trying(() => this.source.popular(LIST));
    if (!items || mine !== this.asked) return;
    this.main.classList.remove("empty");
    fill(this.person, h("h2", {}, "There is nobody called ", isolated(String(person.user)), " here."), h("p", { class: "facts" }, "Here is what most people like."));
    fill(this.tabs);
    fill(this.tuning);
    this.dislikes.forget(null, "");
    this.results.setAttribute("aria-busy", "false");
    drawList(this.results, items, { ...this.actions(person), why: null, dislike: null });
    this.showOnMap(items);
  }

  private drawPerson(person: Person): void {
    const n = this.interests.history.length;
    const tastes = this.state.tastes.length;
    const facts = [n > 0 && count(n, "past item"), tastes > 0 && count(tastes, "taste")].filter(Boolean).join(" · ");
    if (person.kind === "user") {
      fill(this.person, h("h2", {}, person.name === null ? `Person ${person.user}` : isolated(person.name)), h("p", { class: "facts" }, facts));
      return;
    }
    const edit = h("button", { type: "button", class: "quiet", onclick: () => this.pick(person.history) }, "Change items");
    fill(this.person, h("h2", {}, "You"), h("p", { class: "facts" }, `${count(n, "item")} picked${tastes ? ` · ${count(tastes, "taste")}` : ""}`), edit);
  }

  private drawTabs(): void {
    const views: [ViewName, string, boolean][] = [
      ["shelves", "Shelves", this.model?.can.shelves === true],
      ["list", "One list", true],
      ["compare", "Compare", !!this.model?.compare],
      ["history", "History", this.interests.history.length > 0],
    ];
    const shown = views.filter(([, , can]) => can);
    fill(
      this.tabs,
      ...shown.map(([name, label]) =>
        h("button", { type: "button", class: "tab", "aria-pressed": String(this.view === name), "data-view": name, onclick: () => this.setView(name) }, label),
      ),
    );
    this.tabs.hidden = shown.length < 2;
  }

  private setView(name: ViewName): void {
    this.view = name;
    this.tabs.querySelectorAll("button").forEach((one) => one.setAttribute("aria-pressed", String(one.dataset["view"] === name)));
    void this.refresh();
  }

  private setRegion(items: Id[] | null): void {
    this.within = items;
    if (!items) this.map.clearRegion();
    void this.refresh();
  }

  private drawRegion(): void {
    const all = (): void => this.setRegion(null);
    fill(
      this.region,
      this.within &&
        h("button", { type: "button", class: "chip", "aria-label": "Recommend from the whole catalog again", onclick: all }, `Only from ${count(this.within.length, "item")} of the region`, icon(ICONS.close)),
    );
  }

  // ---- lists ------------------------------------------------------------------------------------------------

  // As the sliders are; `stored`: as the server has it.
  private choices(stored = false): Choices {
    const mute: number[] = [];
    const boost: Record<number, number> = {};
    for (const one of this.interests.interests) {
      const taste = this.state.tastes.find(({ interests }) => interests.includes(one.interest));
      const factor = taste?.wasMoved && !stored ? LEVELS[taste.level]!.factor : one.muted ? 0 : one.boost;
      if (factor === 0) mute.push(one.interest);
      else if (factor !== 1) boost[one.interest] = factor;
    }
    return { mute, boost };
  }

  private async refresh(): Promise<void> {
    const { who } = this;
    this.drawRegion();
    if (!who) return;
    const mine = ++this.asked;
    if (this.view === "history") {
      this.results.setAttribute("aria-busy", "false");
      drawHistory(this.results, this.interests.history, this.state.tastes, this.pictures, (item) => this.map.mark(item));
      this.showOnMap([]);
      return;
    }
    const choices = this.choices();
    if (this.state.tastes.length && this.state.tastes.every((taste) => taste.level === 0)) {
      fill(this.results, h("p", { class: "nothing" }, "All tastes are muted: nothing is left to recommend."));
      this.showOnMap([]);
      return;
    }
    this.results.setAttribute("aria-busy", "true");
    const found = await this.trying(() => this.orNobody(who, () => this.ask(who, choices)));
    if (mine !== this.asked) return;
    if (found === NOBODY) return this.nobody(who);
    this.results.setAttribute("aria-busy", "false");
    if (!found) return;
    this.root.querySelector(".problem")?.remove();
    const acts = this.actions(who);
    if (found.other) drawComparison(this.results, [this.model?.name ?? "", this.model?.compare?.name ?? ""], [found.items, found.other], [acts, this.actions(who, "compare")]);
    else if (found.shelves) drawShelves(this.results, found.shelves, this.state.tastes, acts);
    else drawList(this.results, found.items, acts);
    this.showOnMap(found.shelves ? found.shelves.flatMap((shelf) => shelf.items) : found.items);
  }

  private async ask(who: Person, choices: Choices): Promise<{ items: Item[]; shelves?: Shelf[]; other?: Item[] }> {
    // Unless it is moved, the list is the one that anybody gets who asks without a diversity.
    const { diversityWasMoved, diversity: moved } = this.state;
    const disliked = this.dislikes.items;
    const exclude = disliked.length ? { exclude: disliked } : {};
    const wanted = (found: Item[]): Item[] => found.filter((one) => !disliked.includes(one.item)).map((one, i) => ({ ...one, rank: i + 1 }));
    const diversity = diversityWasMoved && moved !== null ? { diversity: moved } : {};
    const within = this.within ? { include: this.within } : {};
    if (this.view === "shelves" && this.within) {
      const items = wanted(await this.source.recommendations(who, IN_REGION, { ...choices, ...diversity, ...within, ...exclude }));
      return { items, shelves: shelvesOf(items, this.state.tastes) };
    }
    if (this.view === "shelves") {
      const shelves = await this.source.shelves(who, SHELF, { ...choices, ...exclude });
      return { items: [], shelves: shelves.map((shelf) => ({ ...shelf, items: wanted(shelf.items) })) };
    }
    const items = wanted(await this.source.recommendations(who, LIST, { ...choices, ...diversity, ...within, ...exclude }));
    if (this.view !== "compare") return { items };
    // Tastes of the other model are others, so only the region holds for both.
    const other = await this.source.recommendations(who, LIST, { mute: [], boost: {}, ...within, ...exclude }, "compare");
    this.otherTastes ??= await this.tastesOfOther(who);
    return { items, other: wanted(other) };
  }

  private async tastesOfOther(who: Person): Promise<Taste[]> {
    if (!this.model?.compare?.can.shelves) return [];
    const interests = await this.source.interests(who, "compare");
    return tastesOf(interests, await this.source.shelves(who, SHELF, { mute: [], boost: {} }, "compare"));
  }

  private tastes(which: Which): Taste[] {
    return which === "main" ? this.state.tastes : (this.otherTastes ?? []);
  }

  private colorOf(interest: number | null, which: Which = "main"): number {
    if (interest === null) return -1;
    return this.tastes(which).find((taste) => taste.interests.includes(interest))?.color ?? -1;
  }

  private showOnMap(items: Item[]): void {
    this.map.setPerson({
      interests: this.interests.interests.filter((one) => one.share > 0).map((one) => {
        const taste = this.state.tastes.find((other) => other.interests.includes(one.interest));
        return { x: one.x, y: one.y, name: taste?.name ?? one.name, share: one.share, color: taste?.color ?? -1, muted: taste?.level === 0 };
      }),
      history: this.interests.history.map((one) => ({ item: one.item, color: this.colorOf(one.interest) })),
      recommended: items.map((one) => ({ item: one.item, color: this.colorOf(one.interest) })),
    });
  }

  private actions(who: Person, which: Which = "main"): ItemActions {
    return {
      why: this.explains(which) ? (item) => void this.why(item.item, which) : null,
      add: who.kind === "new" ? (item) => void this.choose({ kind: "new", history: [...who.history, item] }) : null,
      dislike: (item) => this.dislikes.add({ item: item.item, title: item.title }),
      pictures: this.pictures,
      mark: (item) => this.map.mark(item),
      colorOf: (interest) => this.colorOf(interest, which),
    };
  }

  private explains(which: Which): boolean {
    return (which === "main" ? this.model : this.model?.compare)?.can.explain === true;
  }

  private async why(item: Id, which: Which = "main"): Promise<void> {
    const { who } = this;
    if (!who || !this.explains(which)) return;
    const found = await this.trying(() => this.source.explanation(who, item, which));
    if (!found) return;
    const taste = this.tastes(which).find((one) => found.interest !== null && one.interests.includes(found.interest));
    openWhy(this.root, found, taste ? { name: taste.name, color: colorOf(taste.color) } : null, (interest) => colorOf(this.colorOf(interest, which)), this.pictures, () => {
      this.map.element.scrollIntoView({ block: "nearest" });
      this.map.show(item);
    });
  }

  // ---- the rest ---------------------------------------------------------------------------------------------

  private tour(): void {
    const someone = async (): Promise<void> => {
      if (this.who) return;
      const first = (await this.trying(() => this.source.users("")))?.[0];
      if (first) await this.choose({ kind: "user", user: first.user, name: first.name });
    };
    startTour(this.root, [
      {
        target: () => this.search,
        title: "Find a person",
        text: this.source.isLive && this.model?.can.fold_in ? "By id or name. Or choose “I am new here” and pick items you like." : "By id or name.",
      },
      {
        before: someone,
        target: () => this.map.element.querySelector(".map-canvas"),
        title: "See the tastes on the map",
        text: "Items that are alike are near each other. Crosses are tastes, rings past items, dots recommendations. Draw a region to recommend from it alone.",
      },
      {
        target: () => this.tuning,
        title: "Turn tastes up and down",
        text: "Mute one, ask for more of another: the shelves follow at once. “Why this?” explains each item.",
      },
    ]);
  }

  private fromAddress(): Person | null {
    return this.options.isWidget ? null : personOfAddress(this.model?.id_types.user ?? "text");
  }

  // What the call gives; asks for a token and repeats where one is needed, else says what went wrong.
  private async trying<T>(call: () => Promise<T>): Promise<T | null> {
    for (let wrong = false; ; wrong = true) {
      try {
        return await call();
      } catch (problem) {
        if (problem instanceof AnswerError && problem.status === 401) {
          keepToken(await askToken(this.root, wrong));
          continue;
        }
        this.say(problem instanceof Error ? problem.message : String(problem));
        return null;
      }
    }
  }

  private say(text: string): void {
    this.root.querySelector(".problem")?.remove();
    this.results.setAttribute("aria-busy", "false");
    const close = h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => box.remove() }, icon(ICONS.close));
    const box = h("div", { class: "problem", role: "alert" }, h("p", {}, text), close);
    this.root.append(box);
  }
}

const nameOf = (person: Person): string => (person.kind === "new" ? "you" : (person.name ?? `Person ${person.user}`));

// One taste for each shelf; interests on no shelf have one of their own.
function tastesOf(found: Interests, shelves: Shelf[]): Taste[] {
  const stored = new Map(found.interests.map((one) => [one.interest, one]));
  const tastes: Taste[] = [];
  const seen = new Set<number>();
  const add = (interests: number[], name: string, share: number): void => {
    const first = stored.get(interests[0] ?? -1);
    const level = first ? levelOf(first.muted, first.boost) : NORMAL;
    tastes.push({ interests, name, share, color: tastes.length, level });
    interests.forEach((x) => seen.add(x));
  };
  for (const shelf of shelves) add(shelf.interests ?? [shelf.interest], shelf.name, shelf.share);
  for (const one of found.interests) if (!seen.has(one.interest) && one.share > 0) add([one.interest], one.name, one.share);
  return tastes;
}

// A list as shelves, in the order of tastes.
function shelvesOf(items: Item[], tastes: Taste[]): Shelf[] {
  return tastes
    .map((taste) => ({
      interest: taste.interests[0] ?? 0,
      name: taste.name,
      share: taste.share,
      reasons: [],
      items: items.filter((item) => item.interest !== null && taste.interests.includes(item.interest)),
    }))
    .filter((shelf) => shelf.items.length);
}
