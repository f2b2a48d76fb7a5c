// The JSON of the HTTP interface, as far as the page reads it.

export type Id = number | string;

export interface NamedItem {
  item: Id;
  title: string | null;
}

export interface Reason extends NamedItem {
  weight: number;
}

export interface Item extends NamedItem {
  category: string | null;
  rank: number;
  score: number | null;
  interest: number | null;
  because?: Reason[] | null;
}

export interface ModelInfo {
  name: string;
  class: string;
  diversity: number; // of lists that are asked for without one
  n_users: number;
  n_items: number;
  n_interactions: number;
  has_interests: boolean;
  n_interests: number | null;
  id_types: { user: string; item: string };
  image_column: string | null; // null: items have no pictures
  dislike: string | null; // kind of event for what a person does not want
  can: { fold_in: boolean; explain: boolean; shelves: boolean; mix: string[] };
  compare: ModelInfo | null;
}

export interface UserEntry {
  user: Id;
  name: string | null;
  n_items: number;
}

export interface FoundItem extends NamedItem {
  category: string | null;
  popularity: number;
}

export interface Shelf {
  interest: number;
  interests?: number[]; // all that share the shelf
  name: string;
  share: number;
  reasons: (string | NamedItem)[];
  items: Item[];
}

export interface Interest {
  interest: number;
  name: string;
  share: number;
  muted: boolean;
  boost: number;
  x: number;
  y: number;
  items: NamedItem[];
}

export interface Interests {
  interests: Interest[];
  history: (NamedItem & { interest: number | null })[];
}

export interface TasteShare {
  interest: number;
  name: string;
  share: number; // of the score; all together are 1
}

export interface Explanation extends NamedItem {
  text: string;
  interest: number | null;
  interest_name: string | null;
  because: Reason[]; // of models with tastes shares of the score, from past items of the item's own taste
  tastes: TasteShare[]; // empty for models without tastes
  distance: number | null;
}

export interface CatalogMap {
  items: Id[];
  titles: (string | null)[];
  x: number[];
  y: number[];
  category: number[]; // -1 without one
  categories: string[];
  popularity: number[];
  images?: (string | null)[]; // empty without pictures
}

export type Person = { kind: "user"; user: Id; name: string | null } | { kind: "new"; history: NamedItem[] };

// What a request says about a person's interests and items.
export interface Choices {
  mute: number[];
  boost: Record<number, number>;
  diversity?: number;
  include?: Id[];
  exclude?: Id[];
}

export type Which = "main" | "compare";

// Text to show: tabs and ends of lines are spaces; other control characters, and those that would turn the direction of
// what follows, are left out.
export const plain = (text: string): string =>
  text.replace(/[\t-\r\x85\u2028\u2029]+/g, " ").replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, "");

export const titleOf = (one: NamedItem): string => plain(one.title ?? "").trim() || `item ${plain(String(one.item))}`;
