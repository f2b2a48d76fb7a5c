// Places of a list shared out among interests, as the library does it (mix="proportional"): see native/share_places.hpp.

import type { Item } from "./types";

const DEPTH = 100; // place of the list by score whose relevance is 0

export function sharePlaces(pool: Item[], weights: Map<number, number>, k: number, diversity: number): Item[] {
  const byScore = [...pool].sort((a, b) => (b.score ?? 0) - (a.score ?? 0));
  if (!diversity || !weights.size) return byScore.slice(0, k);
  const queues = new Map<number, Item[]>();
  for (const item of byScore) queues.set(item.interest ?? -1, [...(queues.get(item.interest ?? -1) ?? []), item]);
  const best = byScore[0]?.score ?? 0;
  const worst = byScore[Math.min(DEPTH, byScore.length) - 1]?.score ?? 0;
  const relevance = (score: number): number => {
    if (!(best > worst)) return score >= best ? 1 : 0;
    return Math.min(1, Math.max(0, (score - worst) / (best - worst)));
  };
  let claims = [...queues.keys()].sort((a, b) => a - b).map((x) => ({ x, weight: weights.get(x) ?? 0, n: 0 }));
  if (claims.every((claim) => claim.weight === 0)) claims = claims.map((claim) => ({ ...claim, weight: 1 }));
  const found: Item[] = [];
  while (found.length < k) {
    const left = claims.filter((claim) => claim.n < (queues.get(claim.x)?.length ?? 0));
    if (!left.length) break;
    const quotient = (claim: { weight: number; n: number }): number => claim.weight / (2 * claim.n + 1);
    const largest = Math.max(...left.map(quotient));
    const value = (claim: (typeof left)[number]): number => {
      const score = queues.get(claim.x)?.[claim.n]?.score ?? 0;
      const share = largest > 0 ? quotient(claim) / largest : 0;
      return (1 - diversity) * relevance(score) + diversity * share;
    };
    const next = left.reduce((a, b) => {
      const [va, vb] = [value(a), value(b)];
      if (va !== vb) return vb > va ? b : a;
      return b.weight > a.weight ? b : a;
    });
    found.push(queues.get(next.x)?.[next.n] as Item);
    next.n++;
  }
  return found;
}
