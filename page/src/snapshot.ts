// Answers from data inside the page: a file that was written for some people, and works without a server.

import { sharePlaces } from "./share_places";
import type { Source } from "./source";
import { AnswerError } from "./source";
import {
  titleOf,
  type CatalogMap,
  type Choices,
  type Explanation,
  type FoundItem,
  type Id,
  type Interests,
  type Item,
  type ModelInfo,
  type Person,
  type Reason,
  type Shelf,
  type UserEntry,
  type Which,
} from "./types";

// An item with what each taste says for it, for models with tastes.
interface PoolItem extends Item {
  parts?: number[];
  added?: number; // to its score, not from the past
  shelf?: boolean; // true where it is on the shelf of its taste
  reasons?: Record<string, Reason[]>; // past items of other tastes that speak for it
}

export interface SnapshotPerson extends UserEntry {
  interests: Interests;
  shelves: Shelf[]; // as they are without choices: names, shares, reasons
  pool: PoolItem[]; // best items of each interest, best score first; without interests the list
  focus: number | null; // of the scores of a model with tastes, as in the library's Blend; null for the others
  other: Item[] | null; // the list of the second model
  second: { interests: Interests; shelves: Shelf[]; explanations: Explanation[] } | null; // its other answers
  explanations: Explanation[];
}

export interface Snapshot {
  model: ModelInfo;
  map: CatalogMap;
  people: SnapshotPerson[];
}

export class SnapshotSource implements Source {
  readonly isLive = false;

  constructor(private readonly data: Snapshot) {}

  private of(person: Person): SnapshotPerson {
    const found = person.kind === "user" && this.data.people.find((one) => String(one.user) === String(person.user));
    if (!found) throw new AnswerError(404, "This person is not in the file.");
    return found;
  }

  async model(): Promise<ModelInfo> {
    return this.data.model;
  }

  async map(): Promise<CatalogMap> {
    return this.data.map;
  }

  async users(q: string): Promise<UserEntry[]> {
    const words = q.toLowerCase().split(/\s+/);
    const fits = (one: UserEntry): boolean => {
      const text = `${one.name ?? ""} ${one.user}`.toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const isExact = (one: UserEntry): boolean => String(one.user) === q.trim();
    const found = this.data.people.filter(fits);
    return [...found.filter(isExact), ...found.filter((one) => !isExact(one))].slice(0, 12);
  }

  async searchItems(): Promise<FoundItem[]> {
    return [];
  }

  async interests(person: Person, which: Which = "main"): Promise<Interests> {
    const one = this.of(person);
    return which === "compare" && one.second ? one.second.interests : one.interests;
  }

  private allowed(person: SnapshotPerson, choices: Choices): PoolItem[] {
    const region = choices.include && new Set(choices.include);
    const muted = new Set(choices.mute);
    const without = new Set(choices.exclude ?? []);
    return person.pool.filter((one) => !muted.has(one.interest ?? -1) && !without.has(one.item) && (!region || region.has(one.item)));
  }

  async shelves(person: Person, k: number, choices: Choices, which: Which = "main"): Promise<Shelf[]> {
    const one = this.of(person);
    if (which === "compare") return one.second?.shelves ?? [];
    const pool = this.allowed(one, choices);
    const boost = (shelf: Shelf): number => Math.max(...all(shelf).map((x) => choices.boost[x] ?? 1));
    const weight = (shelf: Shelf): number => shelf.share * boost(shelf);
    return one.shelves
      .map((shelf) => {
        const mine = pool.filter((item) => all(shelf).includes(item.interest ?? -1));
        const length = Math.max(1, Math.round(k * boost(shelf)));
        const items = one.focus === null ? mine : byOwnTaste(mine);
        return { ...shelf, items: items.slice(0, length).map((item, i) => ({ ...plainItem(item), rank: i + 1 })) };
      })
      .filter((shelf) => shelf.items.length)
      .sort((a, b) => weight(b) - weight(a));
  }

  async recommendations(person: Person, k: number, choices: Choices, which: Which = "main"): Promise<Item[]> {
    const one = this.of(person);
    if (which === "compare") return (one.other ?? []).filter((item) => !choices.include || choices.include.includes(item.item));
    const pool = one.focus === null ? this.allowed(one, choices) : this.allowed(one, choices).map(scoredAgain(one.focus, choices));
    const counts = new Map<number, number>();
    for (const past of one.interests.history)
      if (past.interest !== null) counts.set(past.interest, (counts.get(past.interest) ?? 0) + 1);
    const weights = new Map([...counts].map(([x, n]) => [x, n * (choices.boost[x] ?? 1)]));
    // As the server has it: without a diversity, boosts ask for shares, unless they are part of the scores.
    const usual = this.data.model.diversity || (one.focus === null && Object.keys(choices.boost).length ? 1 : 0);
    return sharePlaces(pool, weights, k, choices.diversity ?? usual).map((item, i) => ({ ...plainItem(item), rank: i + 1 }));
  }

  async popular(k: number): Promise<Item[]> {
    const { items, titles, popularity, category, categories } = this.data.map;
    const order = items.map((_, i) => i).sort((a, b) => popularity[b]! - popularity[a]!);
    return order.slice(0, k).map((at, i) => ({
      item: items[at]!,
      title: titles[at] ?? null,
      category: categories[category[at]!] ?? null,
      rank: i + 1,
      score: null,
      interest: null,
    }));
  }

  async explanation(person: Person, item: Id, which: Which = "main"): Promise<Explanation> {
    const one = this.of(person);
    const found = (which === "compare" ? one.second : one)?.explanations.find((candidate) => candidate.item === item);
    if (found) return found;
    const listed = (which === "compare" ? (one.other ?? []) : one.pool).find((candidate) => candidate.item === item);
    if (!listed) throw new AnswerError(404, "The file holds no explanation of this item.");
    const because = listed.because ?? [];
    const names = because.slice(0, 2).map(titleOf);
    const text = names.length ? `Because you took ${names.join(" and ")}.` : "No past item explains it.";
    return { ...plainItem(listed), text, interest_name: null, because, tastes: [], distance: null };
  }
}

// The item as a server gives it.
function plainItem({ parts: _parts, added: _added, shelf: _shelf, reasons: _reasons, ...item }: PoolItem): Item {
  return item;
}

// Items of the shelf of a taste, by what the taste itself says for them.
function byOwnTaste(items: PoolItem[]): PoolItem[] {
  return items
    .filter((item) => item.shelf)
    .map((item) => ({ ...item, score: item.parts?.[item.interest ?? 0] ?? item.score }))
    .sort((a, b) => (b.score ?? 0) - (a.score ?? 0));
}

// The item with its score and taste where tastes are muted (a factor of 0) or boosted: as the library's TasteParts.
const scoredAgain =
  (focus: number, choices: Choices) =>
  (item: PoolItem): PoolItem => {
    if (!item.parts || (!choices.mute.length && !Object.keys(choices.boost).length)) return item;
    const said = item.parts.map((part, x) => (choices.mute.includes(x) ? -Infinity : Math.fround(part * (choices.boost[x] ?? 1))));
    const sum = said.reduce((a, b) => (b === -Infinity ? a : Math.fround(a + b)), 0);
    const total = focus ? Math.fround(Math.fround((1 - focus) * sum) + Math.fround(focus * Math.max(...said))) : sum;
    const interest = said.indexOf(Math.max(...said));
    const because = interest === item.interest ? (item.because ?? []) : (item.reasons?.[interest] ?? []);
    return { ...item, score: Math.fround(total + (item.added ?? 0)), interest, because };
  };

const all = (shelf: Shelf): number[] => shelf.interests ?? [shelf.interest];
