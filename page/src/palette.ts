// Colors as numbers for the map, read from the style sheet, so that light and dark have one source.

export type Rgb = [number, number, number];

export const N_INTERESTS = 8; // colors of interests in the style sheet
export const N_CATEGORIES = 10; // colors of categories; all other categories share one

export function readColor(root: HTMLElement, name: string): Rgb {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  probe.hidden = true;
  root.appendChild(probe);
  const made = document.createElement("canvas");
  made.width = made.height = 1;
  const pen = made.getContext("2d", { willReadFrequently: true });
  const color = getComputedStyle(probe).color;
  probe.remove();
  if (!pen) return [128, 128, 128];
  pen.fillStyle = color; // whatever notation the browser answers in, a canvas turns it into bytes
  pen.fillRect(0, 0, 1, 1);
  const [r = 0, g = 0, b = 0] = pen.getImageData(0, 0, 1, 1).data;
  return [r, g, b];
}

export interface Palette {
  interests: Rgb[];
  categories: Rgb[];
  other: Rgb;
  ink: Rgb;
  paper: Rgb;
  accent: Rgb;
}

export function readPalette(root: HTMLElement): Palette {
  const many = (prefix: string, n: number): Rgb[] => Array.from({ length: n }, (_, i) => readColor(root, `--${prefix}${i}`));
  return {
    interests: many("interest-", N_INTERESTS),
    categories: many("category-", N_CATEGORIES),
    other: readColor(root, "--category-other"),
    ink: readColor(root, "--ink"),
    paper: readColor(root, "--card"),
    accent: readColor(root, "--accent"),
  };
}

export const css = ([r, g, b]: Rgb, alpha = 1): string => `rgb(${r} ${g} ${b} / ${alpha})`;
