// Lists the errors of a run in the order of navigation: causes first, then other failures by row.

import { formatQuantity } from "../../src/read-model/amounts.ts";
import type { RunState } from "../data/run-state.ts";
import { AT, getDisplayStatus } from "../data/agent-row.ts";

export interface ErrorStop {
  readonly index: number;
  readonly step: number | undefined;
  readonly text: string;
  readonly isCause: boolean;
  readonly isLimit: boolean;
}

export function listErrorStops(state: RunState): readonly ErrorStop[] {
  const causes = state.causes.value.flatMap((cause): readonly ErrorStop[] => {
    const index = state.findIndex(cause.agentId);
    if (index === undefined) return [];
    const place = cause.toolName === undefined ? cause.code : `${cause.toolName}: ${cause.code}`;
    // Without content, messages are empty.
    const why = cause.message === "" ? place : `${place}: ${cause.message}`;
    const text = `${cause.agentPath} · ${why}`;
    return [{ index, step: cause.step, text, isCause: true, isLimit: cause.isLimit === true }];
  });
  const seen = new Set(causes.map(({ index }) => index));
  const others = state.agents.flatMap((row, index): readonly ErrorStop[] => {
    const isWrong = getDisplayStatus(row) === "failed" || row[AT.toolErrors] > 0;
    if (!isWrong || seen.has(index)) return [];
    const detail =
      getDisplayStatus(row) === "failed"
        ? row[AT.note]
        : formatQuantity(row[AT.toolErrors], "failed call");
    const text = detail === "" ? row[AT.name] : `${row[AT.name]} · ${detail}`;
    return [{ index, step: undefined, text, isCause: false, isLimit: false }];
  });
  return [...causes, ...others];
}
