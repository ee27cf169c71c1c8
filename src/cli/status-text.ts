// How a run stands, in a word, a sign and a colour. Pure.

import type { RunRowStatus } from "espalier/view";

import { QUESTION, REST_SIGNS } from "../terminal/activity-text.ts";
import type { Cell } from "../terminal/table.ts";

const SIGNS = {
  ...REST_SIGNS,
  needs_you: QUESTION,
  working: { icon: "●", style: "cyan" },
  waiting: { icon: "…", style: "yellow" },
  lost: { icon: "◌", style: "red" },
  ended: { icon: "·", style: "dim" },
} as const satisfies Readonly<Record<RunRowStatus, object>>;

/** Statuses by which runs can be chosen. */
export const STATUSES: readonly string[] = Object.keys(SIGNS).toSorted();

/** `✖ failed: token_limit`. `more`: what is said of it in brief. */
export function statusCell(status: RunRowStatus, more = ""): Cell {
  const { icon, style } = SIGNS[status];
  const words = status.replace("_", " ");
  return { text: `${icon} ${words}${more === "" ? "" : `: ${more}`}`, style };
}
