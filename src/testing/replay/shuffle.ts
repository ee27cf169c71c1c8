// The orders in which effects may end. Effects that have nothing to do with each other are swapped; the
// recorded order decides a race between agents.

import { isRecord } from "../../kernel/json.ts";
import type { ScriptEntry } from "./script.ts";

/** Matches the facts of an action if the order of effects may have decided about it. */
const RACE = /"isBackground":true|"refusal":|"code":"(?:cancelled|time_limit)"/u;

/** Cuts the script into pieces. The effects of one piece may end in any order. */
export function passagesOf(entries: readonly ScriptEntry[]): readonly (readonly ScriptEntry[])[] {
  const parents = new Map<string, string>();
  const racing = new Set<string | undefined>();
  for (const { action } of entries) {
    if (action === undefined) continue;
    const { agentId, what, facts } = action;
    if (isRecord(facts) && what === "agent") parents.set(agentId, String(facts["parentAgentId"]));
    if (RACE.test(JSON.stringify(facts))) racing.add(agentId).add(parents.get(agentId));
  }
  const pieces: ScriptEntry[][] = [[]];
  for (const entry of entries) {
    const isCommand = entry.after !== undefined;
    const agentId = entry.record.type === "effect" ? entry.record.agentId : "";
    const isRacing = racing.has(agentId) || racing.has(parents.get(agentId));
    if (isCommand || isRacing) pieces.push([]);
    pieces.at(-1)?.push(entry);
    if (isCommand) pieces.push([]);
  }
  return pieces;
}

/** Returns numbers from 0 to 1 that follow from a seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
