// Where answers come from: a server (or a notebook's kernel) through one function, or data inside the page.

import { inHash } from "./address";
import type {
  CatalogMap,
  Choices,
  Explanation,
  FoundItem,
  Id,
  Interests,
  Item,
  ModelInfo,
  Person,
  Shelf,
  UserEntry,
  Which,
} from "./types";

export interface Source {
  // Whether people who are not in the model can be asked about.
  readonly isLive: boolean;
  model(): Promise<ModelInfo>;
  map(): Promise<CatalogMap>;
  users(q: string): Promise<UserEntry[]>;
  searchItems(q: string): Promise<FoundItem[]>;
  interests(person: Person, which?: Which): Promise<Interests>;
  shelves(person: Person, k: number, choices: Choices, which?: Which): Promise<Shelf[]>;
  recommendations(person: Person, k: number, choices: Choices, which?: Which): Promise<Item[]>;
  // What most people like, for somebody who is not known.
  popular(k: number): Promise<Item[]>;
  explanation(person: Person, item: Id, which?: Which): Promise<Explanation>;
  // Keeps what a person mutes and boosts; missing where nothing can keep it.
  keepProfile?(user: Id, choices: Choices): Promise<void>;
  // Notes an event of this kind, such as one for what a person does not want; missing where nothing can keep it.
  keepEvent?(user: Id, item: Id, kind: string): Promise<void>;
}

export type Query = Record<string, string | number>;
export type Method = "GET" | "POST" | "PUT";
export type Transport = (method: Method, path: string, query: Query, body?: unknown) => Promise<unknown>;

export class AnswerError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code = "",
  ) {
    super(message);
  }

  // Whether nobody has the id that was asked for: it is free, or no id of this model at all.
  get isUnknown(): boolean {
    return this.status === 404 || this.code === "wrong_id_type";
  }
}

const path = (id: Id): string => encodeURIComponent(String(id));
const ids = (history: { item: Id }[]): Id[] => history.map((one) => one.item);

const of = (which: Which): Query => (which === "compare" ? { model: "compare" } : {});

function query(choices: Choices): Query {
  // Also where they are empty: else what is stored of the person would count.
  const boosts = Object.entries(choices.boost).map(([x, factor]) => `${x}:${factor}`);
  const found: Query = { mute: choices.mute.join(","), boost: boosts.join(",") };
  if (choices.diversity !== undefined) found["diversity"] = choices.diversity;
  const without = (choices.exclude ?? []).map(String).filter((id) => !id.includes(",")); // the page leaves out the others
  if (without.length) found["exclude"] = without.join(",");
  return found;
}

function body(choices: Choices): Record<string, unknown> {
  return {
    mute: choices.mute,
    boost: choices.boost,
    ...(choices.diversity === undefined ? {} : { diversity: choices.diversity }),
    ...(choices.include === undefined ? {} : { include: choices.include }),
    ...(choices.exclude === undefined ? {} : { exclude: choices.exclude }),
  };
}

export class RemoteSource implements Source {
  readonly isLive = true;

  constructor(private readonly send: Transport) {}

  protected async ask<T>(method: Method, at: string, params: Query = {}, content?: unknown): Promise<T> {
    return (await this.send(method, `/v1/${at}`, params, content)) as T;
  }

  model(): Promise<ModelInfo> {
    return this.ask("GET", "model");
  }

  map(): Promise<CatalogMap> {
    return this.ask("GET", "map");
  }

  async users(q: string): Promise<UserEntry[]> {
    return (await this.ask<{ users: UserEntry[] }>("GET", "users", { q, limit: 12 })).users;
  }

  async searchItems(q: string): Promise<FoundItem[]> {
    return (await this.ask<{ items: FoundItem[] }>("GET", "items/search", { q, limit: 24 })).items;
  }

  interests(person: Person, which: Which = "main"): Promise<Interests> {
    if (person.kind === "user") return this.ask("GET", `users/${path(person.user)}/interests`, of(which));
    return this.ask("POST", "interests", of(which), { history: ids(person.history) });
  }

  async shelves(person: Person, k: number, choices: Choices, which: Which = "main"): Promise<Shelf[]> {
    const found =
      person.kind === "user"
        ? this.ask<{ shelves: Shelf[] }>("GET", `users/${path(person.user)}/shelves`, { ...of(which), k, ...query(choices) })
        : this.ask<{ shelves: Shelf[] }>("POST", "shelves", of(which), { history: ids(person.history), k, ...body(choices) });
    return (await found).shelves;
  }

  async recommendations(person: Person, k: number, choices: Choices, which: Which = "main"): Promise<Item[]> {
    if (person.kind === "user" && choices.include === undefined) {
      const at = `users/${path(person.user)}/recommendations`;
      return (await this.ask<{ items: Item[] }>("GET", at, { ...of(which), k, ...query(choices) })).items;
    }
    // Regions may hold thousands of items, too many for an address.
    const who = person.kind === "user" ? { users: [person.user] } : { histories: [ids(person.history)] };
    const sent = { ...who, k, ...body(choices) };
    return (await this.ask<{ lists: { items: Item[] }[] }>("POST", "recommendations", of(which), sent)).lists[0]?.items ?? [];
  }

  async popular(k: number): Promise<Item[]> {
    const sent = { histories: [[]], k, on_unknown: "popular" }; // nobody's id may be none that the model could have
    return (await this.ask<{ lists: { items: Item[] }[] }>("POST", "recommendations", {}, sent)).lists[0]?.items ?? [];
  }

  explanation(person: Person, item: Id, which: Which = "main"): Promise<Explanation> {
    if (person.kind === "user") return this.ask("GET", `users/${path(person.user)}/explanations/${path(item)}`, of(which));
    return this.ask("POST", "explanations", of(which), { history: ids(person.history), item });
  }
}

export class ServerSource extends RemoteSource {
  async keepProfile(user: Id, { mute, boost }: Choices): Promise<void> {
    await this.ask("PUT", `users/${path(user)}/profile`, {}, { mute, boost });
  }

  async keepEvent(user: Id, item: Id, kind: string): Promise<void> {
    await this.ask("POST", "feedback", {}, { events: [{ user, item, kind }] });
  }
}

// ---- HTTP ---------------------------------------------------------------------------------------------------

const TOKEN = "tastespace-token";

export function takeToken(): void {
  const found = inHash("token");
  if (found === null) return;
  sessionStorage.setItem(TOKEN, found);
  const rest = location.hash.replace(/[#&]token=[^&]*/, "").replace(/^&/, "#");
  history.replaceState(null, "", location.pathname + location.search + rest);
}

export function keepToken(token: string): void {
  sessionStorage.setItem(TOKEN, token);
}

export const http: Transport = async (method, at, params, content) => {
  const asked = new URLSearchParams(Object.entries(params).map(([name, value]) => [name, String(value)]));
  const headers: Record<string, string> = { Accept: "application/json" };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers["Authorization"] = `Bearer ${token}`;
  if (content !== undefined) headers["Content-Type"] = "application/json";
  const url = at.replace(/^\//, "") + (asked.size ? `?${asked.toString()}` : "");
  const request: RequestInit = { method, headers, keepalive: method === "PUT" }; // also when the page is left
  if (content !== undefined) request.body = JSON.stringify(content);
  let answer: Response;
  try {
    answer = await fetch(url, request);
  } catch {
    throw new AnswerError(0, "The server does not answer. Is it running?");
  }
  const found: unknown = await answer.json().catch(() => null);
  if (answer.ok) return found;
  const problem = (found as { error?: { code?: string; message?: string; advice?: string } } | null)?.error;
  const said = [problem?.message, problem?.advice].filter(Boolean).join(" ");
  throw new AnswerError(answer.status, said || `The server answered ${answer.status}.`, problem?.code);
};
