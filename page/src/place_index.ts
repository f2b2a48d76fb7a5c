// Finds points of the map: the nearest to a place, and those inside a shape.

const CELLS = 128; // along each side of [-1, 1]

const cell = (v: number): number => Math.min(CELLS - 1, Math.max(0, Math.floor(((v + 1) / 2) * CELLS)));

export class PlaceIndex {
  private readonly starts = new Uint32Array(CELLS * CELLS + 1);
  private readonly rows: Uint32Array;

  constructor(private readonly places: Float32Array) {
    const n = places.length / 2;
    const at = new Uint32Array(n);
    for (let i = 0; i < n; i++) {
      at[i] = cell(places[2 * i + 1] ?? 0) * CELLS + cell(places[2 * i] ?? 0);
      this.starts[(at[i] ?? 0) + 1]!++;
    }
    for (let c = 0; c < CELLS * CELLS; c++) this.starts[c + 1]! += this.starts[c]!;
    this.rows = new Uint32Array(n);
    const next = this.starts.slice();
    for (let i = 0; i < n; i++) this.rows[next[at[i]!]!++] = i;
  }

  // The row nearest to a place, at most `reach` pixels away, of which a unit of the map has `ux` and `uy`.
  nearest(x: number, y: number, ux: number, uy: number, reach: number): number | null {
    let best: number | null = null;
    let least = reach * reach;
    for (let cy = cell(y - reach / uy); cy <= cell(y + reach / uy); cy++)
      for (let cx = cell(x - reach / ux); cx <= cell(x + reach / ux); cx++)
        for (let j = this.starts[cy * CELLS + cx]!; j < this.starts[cy * CELLS + cx + 1]!; j++) {
          const row = this.rows[j]!;
          const dx = (this.places[2 * row]! - x) * ux;
          const dy = (this.places[2 * row + 1]! - y) * uy;
          if (dx * dx + dy * dy < least) {
            least = dx * dx + dy * dy;
            best = row;
          }
        }
    return best;
  }

  // Rows of all points inside a closed shape (even-odd rule).
  inside(shape: [number, number][]): number[] {
    const xs = shape.map((p) => p[0]);
    const ys = shape.map((p) => p[1]);
    const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const found: number[] = [];
    for (let row = 0; row < this.places.length / 2; row++) {
      const x = this.places[2 * row]!;
      const y = this.places[2 * row + 1]!;
      if (x >= left && x <= right && y >= low && y <= high && isInside(x, y, shape)) found.push(row);
    }
    return found;
  }
}

function isInside(x: number, y: number, shape: [number, number][]): boolean {
  let inside = false;
  for (let i = 0, j = shape.length - 1; i < shape.length; j = i++) {
    const [xi, yi] = shape[i]!;
    const [xj, yj] = shape[j]!;
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}
