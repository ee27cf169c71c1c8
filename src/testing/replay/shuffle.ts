// In which order effects may end when a replay does not keep to that of the recording. Effects that have nothing to do with each other
// may; a race between agents is decided by its order, so that one is kept. Pure.

import { isRecord } from "../../kernel/json.ts";
import { reasonIn } from "./actions.ts";
import type { ScriptEntry, ReplayScript } from "./replay-script.ts";

/** The script in pieces: effects of one piece may end in any order, and what comes of them stands in the same piece. */
export function passages({ entries }: ReplayScript): readonly (readonly ScriptEntry[])[] {
  const races = racesIn(entries);
  const pieces: ScriptEntry[][] = [[]];
  const begin = (): void => {
    if (pieces.at(-1)?.length !== 0) pieces.push([]);
  };
  for (const [index, entry] of entries.entries()) {
    const isAlone = entry.type === "command" || races.has(index);
    if (isAlone) begin();
    pieces.at(-1)?.push(entry);
    if (entry.type === "command") begin();
  }
  return pieces;
}

/** Effects whose order among all others is kept. */
function racesIn(entries: readonly ScriptEntry[]): ReadonlySet<number> {
  const { racing, parents } = racersIn(entries);
  const races = new Set<number>();
  const lastOf = new Map<string, number>();
  let lastOfAll: number | undefined;
  for (const [index, entry] of entries.entries()) {
    if (entry.type === "effect") {
      const { agentId } = entry.record;
      lastOfAll = index;
      lastOf.set(agentId, index);
      if (racing.has(agentId)) races.add(index);
    }
    // A command that came in the midst of what an effect led to comes there again.
    const isAmid = entry.type === "command" && (entry.isAtOnce || entry.call !== undefined);
    if (isAmid && lastOfAll !== undefined) races.add(lastOfAll);
    if (entry.type !== "action") continue;
    const { agentId, what } = entry.action;
    const isLate = isRecord(entry.action.facts) && isFor("time_limit", entry.action.facts);
    if (isLate) races.add(index);
    const isEnd = what === "agent.ended" && racing.has(parents.get(agentId) ?? "");
    const last = isEnd || isLate ? lastOf.get(agentId) : undefined;
    if (last !== undefined) races.add(last);
  }
  return races;
}

interface Racers {
  /** Agents to which it matters when others end. */
  readonly racing: ReadonlySet<string>;
  readonly parents: ReadonlyMap<string, string>;
}

function racersIn(entries: readonly ScriptEntry[]): Racers {
  const parents = new Map<string, string>();
  const racing = new Set<string>();
  let isCrowded = false;
  for (const entry of entries) {
    if (entry.type !== "action" || !isRecord(entry.action.facts)) continue;
    const { agentId, what, facts } = entry.action;
    const parent = parents.get(agentId);
    if (what === "agent" && typeof facts["parentAgentId"] === "string")
      parents.set(agentId, facts["parentAgentId"]);
    const above = parents.get(agentId);
    const isBeside = facts["isBackground"] === true && (what === "agent" || what === "execution");
    if (isBeside && above !== undefined) racing.add(above);
    if (what === "signal.raised" && isFor("cancelled", facts) && parent !== undefined)
      racing.add(parent);
    if (what === "subagent.refused") isCrowded ||= isOfCounts(facts["refusal"]);
  }
  return { racing: isCrowded ? new Set(parents.values()) : racing, parents };
}

/** True for the event of a stop signal with this code. */
function isFor(code: string, { signal }: Readonly<Record<string, unknown>>): boolean {
  return reasonIn(signal)["code"] === code;
}

/** True for a refusal that depends on what others have started or spent. */
function isOfCounts(refusal: unknown): boolean {
  return isRecord(refusal) && refusal["code"] !== "unknown_role";
}

/** Numbers from 0 to 1 that follow from a seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
