// The map of the catalog: points below, a person's interests, history and recommendations above, and what can be done.

import { h, icon, ICONS, isolated } from "./dom";
import { drawNames, placeNames, type Name } from "./map_names";
import { disc, outlined, overlap, short, type Box } from "./drawing";
import { css, N_CATEGORIES, readPalette, type Palette, type Rgb } from "./palette";
import { PlaceIndex } from "./place_index";
import { PointsGl, type View } from "./points_gl";
import { titleOf, type CatalogMap, type Id } from "./types";

export interface MapPerson {
  interests: { x: number; y: number; name: string; color: number; muted: boolean; share: number }[];
  history: { item: Id; color: number }[];
  recommended: { item: Id; color: number }[];
}

export interface MapEvents {
  region(items: Id[] | null): void;
  open(item: Id): void;
}

const MOST_ZOOM = 60;
const FILL = 0.9; // of the canvas that the whole map takes
const REACH = 12; // pixels around the pointer in which an item is found
const TOOLS = 48; // pixels at the right that the tools take
const TOOLS_HEIGHT = 190;
const LARGEST_REGION = 5000;

export class MapView {
  readonly element: HTMLElement;
  private readonly base = h("canvas", { class: "map-points", "aria-hidden": "true" });
  private readonly over: HTMLCanvasElement;
  private readonly tip = h("div", { class: "map-tip", hidden: true });
  private readonly note = h("p", { class: "map-note", "aria-live": "polite" }, "Drawing the map …");
  private readonly legend = h("ul", { class: "map-legend", "aria-label": "Colors of categories" });
  private readonly lassoButton: HTMLButtonElement;
  private readonly gl: PointsGl | null;
  private colors: Palette;
  private data: CatalogMap | null = null;
  private index: PlaceIndex | null = null;
  private rowOf = new Map<Id, number>();
  private names: Name[] = [];
  private codes = new Uint8Array();
  private person: MapPerson | null = null;
  private view: View = { x: 0, y: 0, zoom: 1 };
  private size = { width: 0, height: 0, ratio: 1 };
  private pointers = new Map<number, { x: number; y: number }>();
  private lasso: [number, number][] | null = null;
  private chosen: Uint8Array | null = null;
  private marked: number | null = null;
  private moved = false;
  private isDrawing = false;
  private frame = 0;
  private stretch: [(v: number) => number, (v: number) => number] = [(v) => v, (v) => v];
  private order = new Uint32Array();
  private budget = 0; // points of a frame while the map moves
  private lastMove = 0;
  private stillTimer = 0;

  constructor(
    private readonly root: HTMLElement,
    private readonly events: MapEvents,
  ) {
    this.over = h("canvas", {
      class: "map-over",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "map",
      "aria-label":
        "Map of the catalog. Arrow keys move it, plus and minus zoom, 0 shows all, Enter takes the items in view as a region.",
    });
    this.lassoButton = this.button(ICONS.lasso, "Draw a region to recommend from", () => this.setLasso(!this.isDrawing));
    this.lassoButton.setAttribute("aria-pressed", "false");
    const tools = h(
      "div",
      { class: "map-tools", role: "group", "aria-label": "Map" },
      this.button(ICONS.plus, "Zoom in", () => this.zoomBy(1.6)),
      this.button(ICONS.minus, "Zoom out", () => this.zoomBy(1 / 1.6)),
      this.button(ICONS.whole, "Show the whole map", () => this.fly({ x: 0, y: 0, zoom: 1 })),
      this.lassoButton,
      this.button(ICONS.frame, "Recommend from what is in view", () => this.chooseView()),
    );
    const canvases = h("div", { class: "map-canvas" }, this.base, this.over, this.tip, tools, this.note);
    this.element = h("section", { class: "map", "aria-label": "Taste map" }, canvases, this.legend);
    this.gl = PointsGl.make(this.base);
    this.colors = readPalette(root);
    this.listen();
    new ResizeObserver(() => this.resize()).observe(canvases);
  }

  private button(drawing: string, label: string, act: () => void): HTMLButtonElement {
    return h("button", { type: "button", class: "tool", "aria-label": label, title: label, onclick: act }, icon(drawing));
  }

  // ---- what is shown ----------------------------------------------------------------------------------------

  setCatalog(given: CatalogMap): void {
    this.note.textContent = "";
    // The plane has no scale of its own: both axes are stretched to the room there is.
    this.stretch = [stretching(given.x), stretching(given.y)];
    const data = { ...given, x: given.x.map(this.stretch[0]), y: given.y.map(this.stretch[1]) };
    this.data = data;
    this.rowOf = new Map(data.items.map((item, row) => [item, row]));
    const n = data.items.length;
    const places = new Float32Array(2 * n);
    for (let i = 0; i < n; i++) {
      places[2 * i] = data.x[i] ?? 0;
      places[2 * i + 1] = data.y[i] ?? 0;
    }
    const most = Math.sqrt(data.popularity.reduce((a, b) => Math.max(a, b), 1));
    const crowd = Math.min(1.5, Math.max(0.55, Math.pow(2500 / n, 0.28)));
    // The most popular first: where all are too many for a frame, the others wait until the map stands still.
    this.order = Uint32Array.from(data.items.keys()).sort((a, b) => data.popularity[b]! - data.popularity[a]!);
    const sizes = Float32Array.from(data.popularity, (p) => crowd * (4 + 7 * Math.min(1, Math.sqrt(p) / most)));
    this.codes = Uint8Array.from(data.category, (code) => (code < 0 || code >= N_CATEGORIES ? N_CATEGORIES : code));
    const inOrder = new Float32Array(2 * n);
    this.order.forEach((row, i) => inOrder.set(places.subarray(2 * row, 2 * row + 2), 2 * i));
    this.gl?.points(inOrder, Float32Array.from(this.order, (row) => sizes[row]!), Uint8Array.from(this.order, (row) => this.codes[row]!));
    this.budget = n;
    this.index = new PlaceIndex(places);
    this.names = placeNames(data, this.codes);
    this.drawLegend();
    this.restyle();
  }

  setPerson(person: MapPerson | null): void {
    this.person = person;
    this.draw();
  }

  mark(item: Id | null): void {
    this.marked = item === null ? null : (this.rowOf.get(item) ?? null);
    this.draw();
  }

  show(item: Id): void {
    const row = this.rowOf.get(item);
    if (row === undefined || !this.data) return;
    this.marked = row;
    this.fly({ x: this.data.x[row] ?? 0, y: this.data.y[row] ?? 0, zoom: Math.max(this.view.zoom, 4) });
  }

  restyle(): void {
    this.colors = readPalette(this.root);
    this.gl?.palette([...this.colors.categories, this.colors.other]);
    this.draw();
  }

  clearRegion(): void {
    if (!this.chosen) return;
    this.chosen = null;
    this.lasso = null;
    this.gl?.light(null);
    this.draw();
  }

  private drawLegend(): void {
    const used = this.data?.categories.slice(0, N_CATEGORIES) ?? [];
    const entries = used.map((name, i) => h("li", { color: `var(--category-${i})` }, name));
    if (this.codes.includes(N_CATEGORIES) && used.length) entries.push(h("li", { color: "var(--category-other)" }, "other"));
    this.legend.replaceChildren(...entries);
    this.legend.hidden = entries.length < 2;
  }

  // ---- geometry ---------------------------------------------------------------------------------------------

  private unit(): [number, number] {
    const { height } = this.size;
    const width = this.room();
    const ratio = 1.7; // the plane has no scale of its own: it may be stretched a little to use the room
    const x = Math.min(width, height * ratio) / 2;
    const y = Math.min(height, width * ratio) / 2;
    return [FILL * x * this.view.zoom, FILL * y * this.view.zoom];
  }

  // Width without the tools at the right edge.
  private room(): number {
    return Math.max(1, this.size.width - TOOLS);
  }

  private toScreen(x: number, y: number): [number, number] {
    const [ux, uy] = this.unit();
    return [this.room() / 2 + (x - this.view.x) * ux, this.size.height / 2 - (y - this.view.y) * uy];
  }

  private toMap(px: number, py: number): [number, number] {
    const [ux, uy] = this.unit();
    return [this.view.x + (px - this.room() / 2) / ux, this.view.y - (py - this.size.height / 2) / uy];
  }

  private resize(): void {
    const box = this.over.getBoundingClientRect();
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    this.size = { width: box.width, height: box.height, ratio };
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.max(1, Math.round(box.width * ratio));
      canvas.height = Math.max(1, Math.round(box.height * ratio));
    }
    this.render();
  }

  private zoomBy(factor: number, px = this.room() / 2, py = this.size.height / 2): void {
    const before = this.toMap(px, py);
    this.view.zoom = Math.min(MOST_ZOOM, Math.max(0.7, this.view.zoom * factor));
    const after = this.toMap(px, py);
    this.view.x += before[0] - after[0];
    this.view.y += before[1] - after[1];
    this.keepInside();
    this.inMotion();
  }

  private moveBy(dx: number, dy: number): void {
    const [ux, uy] = this.unit();
    this.view.x -= dx / ux;
    this.view.y += dy / uy;
    this.keepInside();
    this.inMotion();
  }

  // Draws while the map moves: fewer points where frames take too long, all of them when it stands still.
  private inMotion(): void {
    const now = performance.now();
    const taken = now - this.lastMove;
    this.lastMove = now;
    if (this.stillTimer && taken > 45) this.budget = Math.max(4000, 0.6 * this.budget);
    else if (this.stillTimer && taken < 20) this.budget = Math.min(this.order.length, 1.1 * this.budget + 100);
    window.clearTimeout(this.stillTimer);
    this.stillTimer = window.setTimeout(() => {
      this.stillTimer = 0;
      this.draw();
    }, 200);
    this.draw();
  }

  private keepInside(): void {
    this.view.x = Math.min(1.1, Math.max(-1.1, this.view.x));
    this.view.y = Math.min(1.1, Math.max(-1.1, this.view.y));
  }

  private fly(target: View): void {
    const from = { ...this.view };
    const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const start = performance.now();
    const step = (now: number): void => {
      const t = still ? 1 : Math.min(1, (now - start) / 350);
      const s = t * t * (3 - 2 * t);
      this.view = {
        x: from.x + (target.x - from.x) * s,
        y: from.y + (target.y - from.y) * s,
        zoom: from.zoom * Math.pow(target.zoom / from.zoom, s),
      };
      this.render();
      if (t < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  // ---- drawing ----------------------------------------------------------------------------------------------

  draw(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.render();
    });
  }

  private render(): void {
    const { width, height, ratio } = this.size;
    if (!width || !this.data) return;
    const [ux, uy] = this.unit();
    const dim = this.person ? 0.5 : 0.85;
    this.gl?.draw(width, height, ratio, this.view, [(2 * ux) / width, (2 * uy) / height], this.room() / width - 1, dim, this.stillTimer ? this.budget : this.order.length);
    const pen = this.over.getContext("2d");
    if (!pen) return;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    if (!this.gl) this.drawPlain(pen, dim);
    const taken: Box[] = [[width - TOOLS, 0, width, TOOLS_HEIGHT]];
    if (this.person) this.drawPerson(pen, this.person, taken);
    drawNames(pen, this.names, this.size, this.view.zoom, (x, y) => this.toScreen(x, y), this.colors, taken, !!this.person);
    if (this.marked !== null) this.drawMark(pen, this.marked);
    if (this.lasso && this.lasso.length > 1) this.drawLasso(pen, this.lasso);
  }

  // Without WebGL: the most popular items alone.
  private drawPlain(pen: CanvasRenderingContext2D, dim: number): void {
    const data = this.data;
    if (!data) return;
    const all = [...this.colors.categories, this.colors.other];
    for (let i = 0; i < Math.min(20_000, data.items.length); i++) {
      const [px, py] = this.toScreen(data.x[i] ?? 0, data.y[i] ?? 0);
      pen.fillStyle = css(all[this.codes[i] ?? 0] ?? [128, 128, 128], dim * (this.chosen && !this.chosen[i] ? 0.2 : 1));
      pen.fillRect(px - 1.5, py - 1.5, 3, 3);
    }
  }

  private drawPerson(pen: CanvasRenderingContext2D, person: MapPerson, taken: Box[]): void {
    const { interests, paper, ink } = this.colors;
    const color = (n: number): Rgb => (n < 0 ? this.colors.accent : (interests[n % interests.length] ?? ink));
    for (const one of person.history) {
      const at = this.screenOf(one.item);
      if (at) disc(pen, at, 3.6, css(paper, 0.9), css(color(one.color)), 1.8);
    }
    for (const one of person.interests) {
      if (one.muted) continue;
      const [px, py] = this.placeOf(one);
      const glow = pen.createRadialGradient(px, py, 0, px, py, 46);
      glow.addColorStop(0, css(color(one.color), 0.28));
      glow.addColorStop(1, css(color(one.color), 0));
      pen.fillStyle = glow;
      pen.fillRect(px - 46, py - 46, 92, 92);
    }
    for (const one of person.recommended) {
      const at = this.screenOf(one.item);
      if (at) disc(pen, at, 6, css(color(one.color)), css(paper), 2);
    }
    for (const one of person.interests) {
      const [px, py] = this.placeOf(one);
      pen.lineWidth = one.muted ? 1.5 : 3;
      for (const style of [css(paper), css(color(one.color), one.muted ? 0.5 : 1)]) {
        pen.strokeStyle = style;
        pen.lineWidth = style === css(paper) ? 6 : 3;
        pen.beginPath();
        pen.moveTo(px - 8, py);
        pen.lineTo(px + 8, py);
        pen.moveTo(px, py - 8);
        pen.lineTo(px, py + 8);
        pen.stroke();
      }
      taken.push([px - 12, py - 12, px + 12, py + 12]);
    }
    this.drawTastes(pen, person, taken, color);
    this.drawTitles(pen, person, taken, color);
  }

  // The name of each taste above the first of its crosses.
  private drawTastes(pen: CanvasRenderingContext2D, person: MapPerson, taken: Box[], color: (n: number) => Rgb): void {
    const named = new Set<number>();
    const names: Box[] = []; // these may cover crosses, not each other
    pen.font = "700 14px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "center";
    for (const one of person.interests) {
      if (one.muted || one.color < 0 || named.has(one.color)) continue;
      named.add(one.color);
      const text = short(one.name, 24);
      const wide = pen.measureText(text).width / 2 + 3;
      const [px, py] = this.placeOf(one);
      const x = Math.min(this.room() - wide, Math.max(wide, px));
      const y = py < 40 ? py + 26 : py - 24;
      const box: Box = [x - wide, y - 9, x + wide, y + 9];
      if (names.some((other) => overlap(other, box))) continue;
      names.push(box);
      outlined(pen, text, x, y, css(color(one.color)), css(this.colors.paper));
    }
    taken.push(...names);
  }

  private drawTitles(
    pen: CanvasRenderingContext2D,
    person: MapPerson,
    taken: Box[],
    color: (n: number) => Rgb,
  ): void {
    pen.font = "600 12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    const most = Math.min(18, Math.round(this.size.width / 60));
    let shown = 0;
    for (const one of person.recommended) {
      const at = this.screenOf(one.item);
      if (!at || shown >= most) continue;
      const text = short(this.titleAt(this.rowOf.get(one.item) ?? -1), 26);
      const wide = pen.measureText(text).width;
      const left = at[0] + 10 + wide > this.room() ? at[0] - 10 - wide : at[0] + 10;
      const box: Box = [left - 2, at[1] - 8, left + wide + 2, at[1] + 8];
      if (left < 0 || taken.some((other) => overlap(other, box))) continue;
      taken.push(box);
      outlined(pen, text, left, at[1], css(color(one.color)), css(this.colors.paper));
      shown++;
    }
  }

  private drawMark(pen: CanvasRenderingContext2D, row: number): void {
    if (!this.data) return;
    const at = this.toScreen(this.data.x[row] ?? 0, this.data.y[row] ?? 0);
    disc(pen, at, 10, "transparent", css(this.colors.paper), 5);
    disc(pen, at, 10, "transparent", css(this.colors.ink), 2.5);
  }

  private drawLasso(pen: CanvasRenderingContext2D, points: [number, number][]): void {
    pen.beginPath();
    points.forEach(([x, y], i) => {
      const [px, py] = this.toScreen(x, y);
      if (i) pen.lineTo(px, py);
      else pen.moveTo(px, py);
    });
    pen.closePath();
    pen.fillStyle = css(this.colors.accent, 0.1);
    pen.fill();
    pen.setLineDash([6, 4]);
    pen.lineWidth = 2;
    pen.strokeStyle = css(this.colors.accent);
    pen.stroke();
    pen.setLineDash([]);
  }

  private placeOf(one: { x: number; y: number }): [number, number] {
    return this.toScreen(this.stretch[0](one.x), this.stretch[1](one.y));
  }

  private screenOf(item: Id): [number, number] | null {
    const row = this.rowOf.get(item);
    if (row === undefined || !this.data) return null;
    return this.toScreen(this.data.x[row] ?? 0, this.data.y[row] ?? 0);
  }

  private titleAt(row: number): string {
    return titleOf({ item: this.data?.items[row] ?? "", title: this.data?.titles[row] ?? null });
  }

  // ---- pointer and keys -------------------------------------------------------------------------------------

  private listen(): void {
    const over = this.over;
    over.addEventListener("pointerdown", (event) => this.down(event));
    over.addEventListener("pointermove", (event) => this.move(event));
    over.addEventListener("pointerup", (event) => this.up(event));
    over.addEventListener("pointercancel", (event) => this.up(event));
    over.addEventListener("pointerleave", () => this.hover(null));
    over.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoomBy(Math.exp(-event.deltaY * 0.0016), event.offsetX, event.offsetY);
      },
      { passive: false },
    );
    over.addEventListener("dblclick", (event) => this.zoomBy(2, event.offsetX, event.offsetY));
    over.addEventListener("keydown", (event) => this.key(event));
  }

  private key(event: KeyboardEvent): void {
    const step = 60;
    const acts: Record<string, () => void> = {
      ArrowLeft: () => this.moveBy(step, 0),
      ArrowRight: () => this.moveBy(-step, 0),
      ArrowUp: () => this.moveBy(0, step),
      ArrowDown: () => this.moveBy(0, -step),
      "+": () => this.zoomBy(1.4),
      "=": () => this.zoomBy(1.4),
      "-": () => this.zoomBy(1 / 1.4),
      "0": () => this.fly({ x: 0, y: 0, zoom: 1 }),
      Enter: () => this.chooseView(),
      Escape: () => this.setLasso(false),
    };
    const act = acts[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  private down(event: PointerEvent): void {
    this.over.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.moved = false;
    if (this.isDrawing) this.lasso = [this.toMap(event.offsetX, event.offsetY)];
  }

  private move(event: PointerEvent): void {
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      if (event.pointerType === "mouse") this.hover(this.nearest(event.offsetX, event.offsetY));
      return;
    }
    const now = { x: event.offsetX, y: event.offsetY };
    if (Math.hypot(now.x - before.x, now.y - before.y) > 3) this.moved = true;
    if (this.isDrawing && this.lasso) {
      this.lasso.push(this.toMap(now.x, now.y));
      this.pointers.set(event.pointerId, now);
      this.draw();
      return;
    }
    const other = [...this.pointers.entries()].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const old = Math.hypot(before.x - other.x, before.y - other.y);
      const fresh = Math.hypot(now.x - other.x, now.y - other.y);
      if (old > 4) this.zoomBy(fresh / old, (now.x + other.x) / 2, (now.y + other.y) / 2);
    } else if (this.moved) {
      this.moveBy(now.x - before.x, now.y - before.y);
    } else {
      return;
    }
    this.pointers.set(event.pointerId, now);
  }

  private up(event: PointerEvent): void {
    const was = this.pointers.delete(event.pointerId);
    if (this.isDrawing && this.lasso) {
      this.choose(this.lasso);
      this.setLasso(false);
    } else if (was && !this.moved && event.type === "pointerup") {
      const row = this.nearest(event.offsetX, event.offsetY);
      if (event.pointerType !== "mouse") this.hover(row);
      const item = row === null ? undefined : this.data?.items[row];
      if (item !== undefined) this.events.open(item);
    }
  }

  private nearest(px: number, py: number): number | null {
    for (const one of [...(this.person?.recommended ?? []), ...(this.person?.history ?? [])]) {
      const at = this.screenOf(one.item);
      if (at && Math.hypot(at[0] - px, at[1] - py) < 8) return this.rowOf.get(one.item) ?? null;
    }
    const [x, y] = this.toMap(px, py);
    const [ux, uy] = this.unit();
    return this.index?.nearest(x, y, ux, uy, REACH) ?? null;
  }

  private hover(row: number | null): void {
    this.over.classList.toggle("over-item", row !== null);
    if (row === null || !this.data) {
      this.tip.hidden = true;
      if (this.marked !== null) {
        this.marked = null;
        this.draw();
      }
      return;
    }
    const item = this.data.items[row];
    const role = this.person?.recommended.some((one) => one.item === item)
      ? "recommended"
      : this.person?.history.some((one) => one.item === item)
        ? "in the history"
        : "";
    const category = this.data.categories[this.data.category[row] ?? -1];
    const rest = [category, role].filter(Boolean).join(" · ");
    this.tip.replaceChildren(h("strong", {}, isolated(this.titleAt(row))), ...(rest ? [h("span", {}, rest)] : []));
    const [px, py] = this.toScreen(this.data.x[row] ?? 0, this.data.y[row] ?? 0);
    this.tip.hidden = false;
    const wide = this.tip.offsetWidth;
    const high = this.tip.offsetHeight;
    this.tip.style.left = `${Math.max(4, Math.min(this.size.width - wide - 4, px - wide / 2))}px`;
    this.tip.style.top = `${py - high - 16 < 4 ? py + 16 : py - high - 16}px`;
    this.marked = row;
    this.draw();
  }

  // ---- regions ----------------------------------------------------------------------------------------------

  private setLasso(wanted: boolean): void {
    this.isDrawing = wanted;
    this.lassoButton.setAttribute("aria-pressed", String(wanted));
    this.over.classList.toggle("drawing", wanted);
    this.say(wanted ? "Draw around the items to recommend from." : "");
    this.pointers.clear();
  }

  private chooseView(): void {
    const [left, top] = this.toMap(0, 0);
    const [right, bottom] = this.toMap(this.size.width, this.size.height);
    this.choose([
      [left, top],
      [right, top],
      [right, bottom],
      [left, bottom],
    ]);
  }

  private choose(shape: [number, number][]): void {
    const rows = shape.length > 2 ? (this.index?.inside(shape) ?? []) : [];
    if (!rows.length || !this.data) {
      this.lasso = null;
      this.draw();
      this.say("No item is in this region.");
      return;
    }
    const { popularity, items } = this.data;
    const kept = rows.sort((a, b) => (popularity[b] ?? 0) - (popularity[a] ?? 0)).slice(0, LARGEST_REGION);
    this.chosen = new Uint8Array(items.length);
    for (const row of kept) this.chosen[row] = 1;
    const { chosen } = this;
    this.gl?.light(Uint8Array.from(this.order, (row) => chosen[row]!));
    this.lasso = shape;
    this.say(kept.length < rows.length ? `The ${LARGEST_REGION.toLocaleString("en")} most popular items of the region.` : "");
    this.draw();
    this.events.region(kept.map((row) => items[row] as Id));
  }

  private say(text: string): void {
    this.note.textContent = text;
  }
}

// From the values of an axis, all between -1 and 1, to the same with the first at -1 and the last at 1.
function stretching(values: number[]): (v: number) => number {
  const low = values.reduce((a, b) => Math.min(a, b), Infinity);
  const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  return high > low ? (v) => (2 * (v - low)) / (high - low) - 1 : (v) => v;
}
