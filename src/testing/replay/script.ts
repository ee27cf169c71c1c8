// The script of a segment: inputs for the agents and expected actions, in order.

import type { Booking } from "../../budget/ledger-operation.ts";
import type { JournalRecord, RecordOf } from "../../orchestrator/durability/journal-record.ts";
import { isExternalRequest } from "../../orchestrator/durability/run-journal.ts";
import { ActionReader, formatCallPosition, type Action } from "./comparison.ts";
import type { Beginning } from "./segment.ts";

export interface ScriptEntry {
  readonly record: JournalRecord;
  /** Expected action of an agent. `undefined` for an input. */
  readonly action?: Action | undefined;
  /** Time of the event, or of the next one. */
  atMs?: number | undefined;
  /** True if the agent then finds that a time limit has expired. */
  isLate?: boolean;
  /** For a command: keys of the action and the call that it followed. */
  readonly after?: readonly string[];
}

/**
 * Returns the script. An effect is placed before the next action of its agent, because the agent
 * then reacts to it.
 */
export function buildScript(
  records: readonly JournalRecord[],
  { type, positions, inputs }: Pick<Beginning, "type" | "positions" | "inputs">,
): readonly ScriptEntry[] {
  const reader = new ActionReader(positions);
  const entries: ScriptEntry[] = [];
  const due = new Map<string | undefined, ScriptEntry[]>();
  let key = type === "started" ? undefined : "";
  let call: string | undefined;
  for (const [index, record] of records.entries()) {
    if (inputs.includes(record)) continue;
    if (record.type === "effect") {
      due.set(record.agentId, [...(due.get(record.agentId) ?? []), { record }]);
      key = undefined;
      continue;
    }
    const actor = findActor(record);
    entries.push(...(due.get(actor) ?? []));
    due.delete(actor);
    const action = reader.read(record);
    const isApart = isBooking(record) || record.type === "signal" || "isApart" in record;
    if (record.type === "event" || isApart) [key, call] = [undefined, findBegunCall(record)];
    if (isBooking(record)) entries.push({ record });
    else if (isCommand(record)) {
      // A call that was about to start still starts.
      const isStop = record.type === "pause" || record.type === "stop";
      const begun = isStop ? findBegunCall(records[index + 1]) : undefined;
      const after = [begun === undefined ? key : undefined, call ?? begun];
      entries.push({ record, after: after.filter((key) => key !== undefined) });
    } else if (action !== undefined || record.type === "event") {
      key = action?.key;
      const atMs = record.type === "event" ? record.event.atMs : undefined;
      // Leases are not awaited: another agent may have to end an effect first, to free budget.
      if (action?.kind !== "lease") entries.push({ record, action, atMs });
    }
  }
  entries.push(...[...due.values()].flat());
  // An effect has the time of the next event, unless another entry precedes that.
  let nextAtMs: number | undefined;
  const late = new Set<string>();
  for (const entry of entries.toReversed()) {
    const { record, action, after } = entry;
    if (record.type === "effect") entry.isLate = late.delete(record.agentId);
    if (record.type === "effect" || isBooking(record)) entry.atMs = nextAtMs;
    nextAtMs = record.type === "effect" || after ? undefined : (entry.atMs ?? nextAtMs);
    if (action && LIMITED.test(action.kind) && TIME_OVER.test(JSON.stringify(action.facts)))
      late.add(action.agentId);
  }
  return entries;
}

/** Actions that may report an expired time limit. */
const LIMITED = /^(?:signal\.raised|state|subagent\.refused)$/u;
const TIME_OVER = /"time_limit"|"axis":"timeMs"/u;

/**
 * True for the charge of an attempt of a model call, and for the enlarged lease of its next
 * attempt.
 */
export function isBooking(
  record: JournalRecord,
): record is RecordOf<"ledger"> & { readonly done: Booking } {
  return record.type === "ledger" && /^(?:charge|extend)$/u.test(record.done.operation);
}

/** Returns the agent whose activity a record shows. */
function findActor(record: JournalRecord): string | undefined {
  if (record.type === "agent") return record.agent.parentAgentId ?? undefined;
  if (record.type === "state" || record.type === "execution") return record.agentId;
  if (record.type !== "event" || BY_OTHERS.test(record.event.type)) return undefined;
  return String(record.event["agentId"]);
}

/** Events in the name of an agent that waits for something else. */
const BY_OTHERS = /^(?:budget\.(?:granted|threshold_reached)|subagent\.ended)$/u;

/**
 * Returns true for an external command. Commands of agents to their subagents are issued by the
 * agents again.
 */
function isCommand(record: JournalRecord): boolean {
  const isOfAgent = "by" in record && record.by !== undefined;
  return !isOfAgent && (record.type === "signal" || isExternalRequest(record));
}

function findBegunCall(record: JournalRecord | undefined): string | undefined {
  const isCall =
    record?.type === "event" && /^tool\.(?:started|rejected)$/u.test(record.event.type);
  return isCall ? formatCallPosition(record.event) : undefined;
}
