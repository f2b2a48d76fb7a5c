// Names on the map: categories where they concentrate, and titles of popular items, more of them the closer one looks.

import { outlined, overlap, short, type Box } from "./drawing";
import { css, N_CATEGORIES, type Palette } from "./palette";
import { titleOf, type CatalogMap } from "./types";

export interface Name {
  text: string;
  x: number;
  y: number;
  category: number | null; // of the name of a category
  wide?: number; // in pixels, once it was measured
}

const GRID = 20; // cells along each side in which categories are counted
const LIFT = 1.6; // how many times more frequent a category must be around its name than everywhere
const FEWEST = 6;
const TITLES = 4000;

export function placeNames(data: CatalogMap, codes: Uint8Array): Name[] {
  return [...categoryNames(data, codes), ...titleNames(data)];
}

function categoryNames(data: CatalogMap, codes: Uint8Array): Name[] {
  const n = data.items.length;
  const kinds = Math.min(N_CATEGORIES, data.categories.length);
  if (kinds < 2) return [];
  const cellOf = (v: number): number => Math.min(GRID - 1, Math.floor(((v + 1) / 2) * GRID));
  const counts = new Float64Array(GRID * GRID * (N_CATEGORIES + 1));
  const whole = new Float64Array(N_CATEGORIES + 1);
  const cells = new Uint32Array(n);
  for (let i = 0; i < n; i++) {
    cells[i] = cellOf(data.y[i]!) * GRID + cellOf(data.x[i]!);
    counts[cells[i]! * (N_CATEGORIES + 1) + codes[i]!]!++;
    whole[codes[i]!]!++;
  }
  const around = (c: number, kind: number): [number, number] => {
    let own = 0;
    let all = 0;
    const cx = c % GRID;
    const cy = (c - cx) / GRID;
    for (let y = Math.max(0, cy - 1); y <= Math.min(GRID - 1, cy + 1); y++)
      for (let x = Math.max(0, cx - 1); x <= Math.min(GRID - 1, cx + 1); x++)
        for (let k = 0; k <= N_CATEGORIES; k++) {
          const here = counts[(y * GRID + x) * (N_CATEGORIES + 1) + k]!;
          all += here;
          if (k === kind) own += here;
        }
    return [own, all];
  };
  const found: (Name & { gain: number })[] = [];
  for (let kind = 0; kind < kinds; kind++) {
    let best = -1;
    let gain = 0;
    for (let c = 0; c < GRID * GRID; c++) {
      const [own, all] = around(c, kind);
      if (own < Math.max(FEWEST, 0.03 * whole[kind]!)) continue;
      const lift = own / all / (whole[kind]! / n);
      if (lift >= LIFT && own * Math.log(lift) > gain) [best, gain] = [c, own * Math.log(lift)];
    }
    if (best < 0) continue;
    let [x, y, m] = [0, 0, 0];
    for (let i = 0; i < n; i++) {
      const dx = Math.abs((cells[i]! % GRID) - (best % GRID));
      const dy = Math.abs(Math.floor(cells[i]! / GRID) - Math.floor(best / GRID));
      if (codes[i] === kind && dx <= 1 && dy <= 1) [x, y, m] = [x + data.x[i]!, y + data.y[i]!, m + 1];
    }
    found.push({ text: data.categories[kind]!, x: x / m, y: y / m, category: kind, gain });
  }
  return found.sort((a, b) => b.gain - a.gain);
}

function titleNames(data: CatalogMap): Name[] {
  const order = Array.from(data.items.keys()).sort((a, b) => data.popularity[b]! - data.popularity[a]!);
  return order.slice(0, TITLES).map((row) => ({
    text: titleOf({ item: data.items[row]!, title: data.titles[row] ?? null }),
    x: data.x[row]!,
    y: data.y[row]!,
    category: null,
  }));
}

export function drawNames(
  pen: CanvasRenderingContext2D,
  names: Name[],
  size: { width: number; height: number },
  zoom: number,
  toScreen: (x: number, y: number) => [number, number],
  colors: Palette,
  taken: Box[],
  hasPerson: boolean,
): void {
  const few = hasPerson ? 0.35 : 1;
  const most = Math.round((few * size.width * size.height) / 26_000 + (zoom > 2 ? 10 : 0));
  let shown = 0;
  for (const one of names) {
    const [px, py] = toScreen(one.x, one.y);
    if (px < 0 || py < 0 || px > size.width || py > size.height) continue;
    const isCategory = one.category !== null;
    if (!isCategory && shown >= most) break;
    if (isCategory && zoom > 6) continue;
    pen.font = isCategory ? "700 13px system-ui, sans-serif" : "11px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const text = short(one.text, isCategory ? 22 : 24);
    const wide = (one.wide ??= pen.measureText(text).width / 2 + 4);
    const above = isCategory ? 0 : 11;
    const box: Box = [px - wide, py - above - 9, px + wide, py - above + 9];
    if (box[0] < 0 || box[2] > size.width || box[1] < 2 || taken.some((other) => overlap(other, box))) continue;
    taken.push(box);
    const color = isCategory ? css(colors.ink, 0.92) : css(colors.ink, hasPerson ? 0.5 : 0.72);
    outlined(pen, text, px, py - above, color, css(colors.paper, 0.82));
    if (!isCategory) shown++;
  }
}
