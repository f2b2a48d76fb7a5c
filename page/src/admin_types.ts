// The JSON of GET /v1/operations.

import type { Id } from "./types";

export interface Minute {
  time: number; // seconds
  requests: number;
  refused: number;
  failed: number;
  seconds: number;
  feedback: number;
}

export interface Route {
  method: string;
  route: string;
  requests: number;
  refused: number;
  failed: number;
  mean: number;
  median: number;
  p95: number;
}

export interface NamedShare {
  name: string;
  share: number;
}

export interface ExperimentArm {
  arm: string;
  share: number; // of the people
  lists: number;
  users: number;
  click_rate: number | null;
  click_low: number | null;
  click_high: number | null;
  conversion_rate: number | null;
  conversion_low: number | null;
  conversion_high: number | null;
}

export interface Operations {
  model: string;
  generation: number;
  started: number;
  problems: string[];
  minutes: Minute[];
  routes: Route[];
  workers: { process: number; memory: number; generation: number; in_flight: number }[];
  cache: { lists: number; kept: number };
  feedback: { stored: number; duplicates: number };
  generations: { generation: number; model: string; time: string; metrics: Record<string, unknown> }[];
  recommended: {
    places: number;
    items: number;
    coverage: number;
    top_share: number;
    gini: number;
    most: { item: Id; title: string | null; share: number }[];
  };
  population: { people: number; tastes: NamedShare[]; names: NamedShare[] };
  experiment: {
    arms: ExperimentArm[];
    comparisons: { first: string; second: string; metric: string; difference: number; low: number; high: number; verdict: string }[];
  };
}
