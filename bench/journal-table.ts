// The journal's part of the bench: what is measured, and the table that it becomes.

import { z } from "zod";

const JournalSchema = z.object({ cpuUs: z.number(), wallUs: z.number(), bytes: z.number() });
export type JournalFigure = z.infer<typeof JournalSchema>;

const STORES = ["none", "memory", "SQLite, kept for the process", "SQLite"] as const;
const SIZES = [10, 100, 400] as const;
/** A model that takes so long for a reply, for a run of so many steps. */
const SLOW = { delayMs: 20, steps: 20 } as const;
/** A model call and a tool call. */
const EFFECTS_PER_STEP = 2;

/** What is measured, in the order of the figures. */
export const JOURNAL_RUNS: readonly (readonly [store: string, steps: string, delayMs: string])[] =
  STORES.flatMap((store) => [
    ...SIZES.map((size) => [store, String(size), "0"] as const),
    [store, String(SLOW.steps), String(SLOW.delayMs)] as const,
  ]);

export function journalFigure(measured: unknown): JournalFigure {
  return JournalSchema.parse(measured);
}

/** Differences and ratios are taken within a round, to the same run without a store. */
export function journalTable(
  rounds: readonly (readonly JournalFigure[])[],
  median: (values: readonly number[]) => number,
): string {
  const columns = SIZES.length + 1;
  const over = (at: number, pick: (own: JournalFigure, base: JournalFigure) => number): number =>
    median(
      rounds.flatMap((round) => {
        const [own, base] = [round[at], round[at % columns]];
        return own === undefined || base === undefined ? [] : [pick(own, base)];
      }),
    );
  const rows = STORES.flatMap((store, row) =>
    SIZES.map((size, column) => {
      const at = row * columns + column;
      const slow = over(row * columns + SIZES.length, (own, base) => own.wallUs / base.wallUs);
      const cells = [
        String(size),
        `${over(at, (own) => own.cpuUs).toFixed(0)} µs`,
        `${over(at, (own, base) => (own.cpuUs - base.cpuUs) / EFFECTS_PER_STEP).toFixed(0)} µs`,
        `${over(at, (own, base) => (own.wallUs - base.wallUs) / EFFECTS_PER_STEP).toFixed(0)} µs`,
        `${(over(at, (own) => own.bytes) / 1_024).toFixed(1)} KB`,
        column === 0 ? slow.toFixed(2) : "",
      ];
      return `| ${store} | ${cells.join(" | ")} |`;
    }),
  );
  const head = [
    "| store | steps | CPU per step | CPU per effect, added | wall per effect, added | journal per step | wall with a 20 ms model, ratio |",
    "|---|---|---|---|---|---|---|",
  ];
  const title = "**journal**: one agent, a model in the same process, two effects per step";
  return [title, "", ...head, ...rows, ""].join("\n");
}
