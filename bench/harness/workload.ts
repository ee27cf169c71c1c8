// What a workload is: how it is measured in a process of its own, and which rows of the table its figures become.

import type { TracedWork } from "../contenders/contender.ts";
import type { Sizes } from "./sizes.ts";

export interface Workload {
  /** By which the command line asks for it. */
  readonly id: string;
  readonly title: string;
  /** Each is measured in a fresh process, once in a round. */
  readonly contenders: readonly ContenderName[];
  /** Called in that process. */
  measure(task: MeasuringTask): Promise<Measured>;
  readonly rows: readonly Row[];
}

export interface MeasuringTask {
  readonly contender: ContenderName;
  readonly serverUrl: string;
  readonly sizes: Sizes;
}

export type Figures = Readonly<Record<string, number>>;

export interface Measured {
  readonly figures: Figures;
  /** Left out: the contender makes no spans. */
  readonly traced?: TracedWork;
}

/** A line of the table. */
export interface Row {
  readonly figure: string;
  readonly unit: Unit;
  /** What the next fixtures must reach: of the ratio if there is one, else of the figure itself. */
  readonly limit?: string;
  /** Its cells by the figures of one round. */
  cells(round: Round): Cells;
}

export interface Cells {
  /** Of the bare loop. */
  readonly base?: number;
  readonly own: number;
  readonly ratio?: number;
}

export type Unit = "ms" | "µs" | "KB" | "MB" | "×" | "";

/** The figures of one round, by contender. */
export type Round = ReadonlyMap<ContenderName, Figures>;

export const BARE_LOOP = "openai-loop";
export const ESPALIER = "espalier";

/** espalier as it comes, or with one thing that differs from that. */
export type Variant =
  | typeof ESPALIER
  | "espalier, untraced"
  | "espalier, no SDK"
  | "espalier, content"
  | "espalier, SQLite of the process"
  | "espalier, SQLite";

/** What others offer, as files of `peers/`. Their packages are installed for `npm run bench:peers` only. */
export const PEERS = ["ai-sdk", "openai-agents"] as const;
export type PeerName = (typeof PEERS)[number];

/** `zod`: its import alone. */
export type ContenderName = typeof BARE_LOOP | Variant | PeerName | "zod";

interface RowOptions {
  readonly figure: string;
  readonly unit: Unit;
  /** The name of the figure that is measured. */
  readonly of: string;
  readonly limit?: string;
}

/** espalier's figure, and its ratio to that of the bare loop. */
export function compared({ of, ...head }: RowOptions): Row {
  return {
    ...head,
    cells: (round) => {
      const [base, own] = [figureOf(round, BARE_LOOP, of), figureOf(round, ESPALIER, of)];
      return { base, own, ratio: own / base };
    },
  };
}

/** What one contender has more than another, and its ratio to the figure of the bare loop. */
export function added(
  { of, ...head }: RowOptions,
  { by, to }: { readonly by: ContenderName; readonly to: ContenderName },
): Row {
  return {
    ...head,
    cells: (round) => {
      const base = figureOf(round, BARE_LOOP, of);
      const own = figureOf(round, by, of) - figureOf(round, to, of);
      return { base, own, ratio: own / base };
    },
  };
}

/** A figure of one contender alone, espalier if left out. */
export function alone({ of, ...head }: RowOptions, contender: ContenderName = ESPALIER): Row {
  return { ...head, cells: (round) => ({ own: figureOf(round, contender, of) }) };
}

/** The ratio of two figures of one contender. */
export function within({ of, ...head }: RowOptions, contender: ContenderName, to: string): Row {
  return {
    ...head,
    cells: (round) => {
      const own = figureOf(round, contender, of);
      return { own, ratio: own / figureOf(round, contender, to) };
    },
  };
}

/** Throws for all that is no variant of espalier. */
export function variantOf(contender: ContenderName): Variant {
  if (isVariant(contender)) return contender;
  throw new Error(`Expected a variant of espalier, got ${contender}.`);
}

function isVariant(contender: ContenderName): contender is Variant {
  return contender.startsWith(ESPALIER);
}

function figureOf(round: Round, contender: ContenderName, name: string): number {
  const figure = round.get(contender)?.[name];
  if (figure === undefined) throw new Error(`Expected ${contender} to have a figure ${name}.`);
  return figure;
}
