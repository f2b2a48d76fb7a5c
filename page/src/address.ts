// The person in the address of the page: an address can be sent to others, and Back returns to the person before.

import type { Person } from "./types";

export type Step = "push" | "replace" | "stay"; // a new entry of the history, the same one, or none as it is there already

// A value in the part after #, null where there is none that can be read.
export function inHash(name: string): string | null {
  const found = new RegExp(`[#&]${name}=([^&]*)`).exec(location.hash);
  try {
    return found && decodeURIComponent(found[1] ?? "");
  } catch {
    return null; // such as a lone %
  }
}

export const address = (): string => JSON.stringify([location.hash, history.state]);

// The entry of the history knows names and the items of newcomers; an address that was typed knows the id alone, as text.
export function personOfAddress(idType: string): Person | null {
  const kept = history.state as Person | null;
  if (kept?.kind) return kept;
  const user = inHash("user");
  if (!user) return null;
  const isNumber = /^(integer|float)/.test(idType) && String(Number(user)) === user;
  return { kind: "user", user: isNumber ? Number(user) : user, name: null };
}

export function keepInAddress(person: Person, step: Step): void {
  const hash = person.kind === "user" ? `#user=${encodeURIComponent(String(person.user))}` : "";
  const url = location.pathname + location.search + hash;
  if (step === "stay") return;
  if (step === "replace" || (hash && hash === location.hash)) history.replaceState(person, "", url);
  else history.pushState(person, "", url);
}
