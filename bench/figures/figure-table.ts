// The table of all workloads: medians over the rounds. Ratios are taken within a round.

import { markdownTable } from "./markdown-table.ts";
import { median } from "./median.ts";
import type { Cells, Round, Row, Unit, Workload } from "../harness/workload.ts";

/** A workload and what its contenders were measured at. */
export interface Played {
  readonly workload: Workload;
  readonly rounds: readonly Round[];
}

export function figureTable(played: readonly Played[]): string {
  const head = ["", "", "openai-loop", "espalier", "ratio", "range", "limit"];
  const lines = played.flatMap(({ workload: { id, title, rows }, rounds }) =>
    rows.map((row, index) => [index === 0 ? `**${id}**: ${title}` : "", ...line(row, rounds)]),
  );
  return markdownTable([head, ...lines]);
}

function line({ figure, unit, limit = "", cells }: Row, rounds: readonly Round[]): string[] {
  const all = rounds.map((round) => cells(round));
  const values = (of: keyof Cells): readonly number[] => all.flatMap((cell) => cell[of] ?? []);
  const ratios = values("ratio");
  return [
    figure,
    shown(values("base"), unit),
    shown(values("own"), unit),
    ratios.length === 0 ? "" : median(ratios).toFixed(2),
    ratios.length === 0
      ? ""
      : `${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)}`,
    limit,
  ];
}

/** Their median. */
export function shown(values: readonly number[], unit: Unit): string {
  if (values.length === 0) return "";
  const value = median(values);
  const size = Math.abs(value);
  const digits = unit === "" || size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${unit}`.trim();
}
