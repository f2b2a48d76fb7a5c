// Pictures of items: boxes of a fixed size, filled when the catalog is there, loaded when they come into view.

import { h } from "./dom";
import { titleOf, type CatalogMap, type Id, type NamedItem } from "./types";

// The server leaves out what is no address of a picture; nothing else is ever loaded here either.
const isAddress = (text: string): boolean => /^https?:\/\//i.test(text);

export class Pictures {
  private readonly at = new Map<Id, number>();
  private map: CatalogMap | null = null;
  private waiting: [HTMLElement, NamedItem][] = [];

  // `isShown`: whether items have pictures at all; without any no room is kept for them.
  constructor(private readonly isShown: boolean) {}

  setCatalog(map: CatalogMap): void {
    this.map = map;
    map.items.forEach((item, i) => this.at.set(item, i));
    for (const [box, item] of this.waiting) this.load(box, item);
    this.waiting = [];
  }

  categoryOf(item: Id): string | null {
    const at = this.at.get(item);
    return at === undefined || !this.map ? null : (this.map.categories[this.map.category[at]!] ?? null);
  }

  // A box with the picture of an item, or with its first letter; null where pictures are not shown.
  box(item: NamedItem): HTMLElement | null {
    if (!this.isShown) return null;
    const letter = [...titleOf(item)][0] ?? "";
    const box = h("span", { class: "picture" }, h("span", { class: "letter", "aria-hidden": "true" }, letter.toUpperCase()));
    if (this.map) this.load(box, item);
    else this.waiting.push([box, item]);
    return box;
  }

  private load(box: HTMLElement, item: NamedItem): void {
    const at = this.at.get(item.item);
    const address = at === undefined ? null : this.map?.images?.[at];
    if (!address || !isAddress(address)) return;
    const image = h("img", {
      alt: `Picture of ${titleOf(item)}`,
      loading: "lazy", // before src, or it would be loaded at once
      decoding: "async",
      referrerpolicy: "no-referrer",
      onload: () => box.classList.add("loaded"),
      onerror: () => image.remove(),
    });
    image.src = address;
    box.append(image);
  }
}
