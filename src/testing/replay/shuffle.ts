// The orders in which effects may end. Effects that have nothing to do with each other are swapped; the
// recorded order decides a race between agents.

import { isRecord } from "../../kernel/json.ts";
import type { ScriptEntry } from "./script.ts";

/** Cuts the script into pieces. The effects of one piece may end in any order. */
export function passagesOf(entries: readonly ScriptEntry[]): readonly (readonly ScriptEntry[])[] {
  const fixed = fixedEntries(entries);
  const pieces: ScriptEntry[][] = [[]];
  for (const entry of entries) {
    if (entry.after !== undefined || fixed.has(entry)) pieces.push([]);
    pieces.at(-1)?.push(entry);
    if (entry.after !== undefined) pieces.push([]);
  }
  return pieces;
}

/** Returns the entries that keep their place among all others. */
function fixedEntries(entries: readonly ScriptEntry[]): ReadonlySet<ScriptEntry | undefined> {
  const { racing, parents } = racersIn(entries);
  const fixed = new Set<ScriptEntry | undefined>();
  const lastOf = new Map<string, ScriptEntry>();
  let last: ScriptEntry | undefined;
  for (const entry of entries) {
    const { record, action, after = [] } = entry;
    if (record.type === "effect") {
      last = entry;
      lastOf.set(record.agentId, entry);
      if (racing.has(record.agentId)) fixed.add(entry);
    }
    // A command that came amid the consequences of an effect comes there again.
    if (after.some((key) => key !== undefined)) fixed.add(last);
    if (action === undefined) continue;
    const isLate = signalCode(action.facts) === "time_limit";
    if (isLate) fixed.add(entry);
    const isEnd = action.what === "agent.ended" && racing.has(parents.get(action.agentId) ?? "");
    if (isEnd || isLate) fixed.add(lastOf.get(action.agentId));
  }
  return fixed;
}

/** Returns the agents to which it matters when others end, and the parents of all agents. */
function racersIn(entries: readonly ScriptEntry[]) {
  const parents = new Map<string, string>();
  const racing = new Set<string>();
  let isCrowded = false;
  for (const { action } of entries) {
    if (action === undefined || !isRecord(action.facts)) continue;
    const { agentId, what, facts } = action;
    const { parentAgentId, isBackground, refusal } = facts;
    if (what === "agent" && typeof parentAgentId === "string") parents.set(agentId, parentAgentId);
    const parent = parents.get(agentId);
    const isRace = isBackground === true || signalCode(facts) === "cancelled";
    if (isRace && parent !== undefined) racing.add(parent);
    // Such a refusal depends on what others have started or spent.
    if (isRecord(refusal) && refusal["code"] !== "unknown_role") isCrowded = true;
  }
  return { racing: isCrowded ? new Set(parents.values()) : racing, parents };
}

/** Returns the code of the signal that an event reports. */
function signalCode(facts: unknown): unknown {
  const signal = isRecord(facts) ? facts["signal"] : undefined;
  const reason = isRecord(signal) ? signal["reason"] : undefined;
  return isRecord(reason) ? reason["code"] : undefined;
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
