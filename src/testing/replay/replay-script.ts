// ReplayScript: a recording as what a replay has to do and to expect, in its order. Pure.

import { isRecord } from "../../kernel/json.ts";
import type { IdSource } from "../../kernel/id-source.ts";
import type { JournalRecord, RecordOf } from "../../orchestrator/durability/journal-record.ts";
import type { Booking } from "../../orchestrator/budget/ledger-operation.ts";
import { SpawnRefusalSchema, type SpawnRefusal } from "../../protocol/subagent.ts";
import {
  isExternalRequest,
  type ExternalRequest,
} from "../../orchestrator/durability/run-journal.ts";
import { callPosition, eventIn, isLedger, ActionReader, type Action } from "./actions.ts";
import { positionsOf, type Beginning, type Segment } from "./segment.ts";

/** A command from outside the run, or the end of an agent's time. */
export type CommandRecord = ExternalRequest | RecordOf<"signal">;

export interface EffectEntry {
  readonly type: "effect";
  readonly record: RecordOf<"effect">;
  /** The time by which what comes of it is done, where that is known. */
  readonly atMs: number | undefined;
  /** What comes of it says that a time is over. */
  readonly isLate: boolean;
}

export interface CommandEntry {
  readonly type: "command";
  readonly record: CommandRecord;
  /** What the agents had done by then, in all. */
  readonly actionsBefore: number;
  /** It came right after the last of that, with nothing in between. */
  readonly isAtOnce: boolean;
  /** The call whose beginning it followed at once, or that was to begin already when it came, by `callPosition`. */
  readonly call: string | undefined;
}

export type ScriptEntry =
  | EffectEntry
  /** An attempt of a model call was charged, or the lease was made to cover one more. A replay makes no attempts. */
  | { readonly type: "booking"; readonly done: Booking; readonly atMs: number | undefined }
  | CommandEntry
  | { readonly type: "action"; readonly action: Action; readonly atMs: number | undefined }
  | { readonly type: "time"; readonly atMs: number };

export interface ReplayScript {
  readonly entries: readonly ScriptEntry[];
  /** Delegations that were left open, or denied. */
  readonly unallowed: ReadonlySet<string>;
  /** Delegations that a guard or a hook forbade, with the refusals that their agents got, by `callPosition`. */
  readonly forbidden: ReadonlyMap<string, SpawnRefusal>;
  /** How the run was left. */
  readonly end: SegmentEnd;
}

/** `broken`: the process died, or the recording breaks off. */
export type SegmentEnd = "ended" | "paused" | "broken";

/** What one segment of a recording says is to be done. `earlier`: the records of those before it. */
export function scriptOf(
  { records }: Pick<Segment, "records">,
  beginning: Beginning,
  earlier: readonly JournalRecord[],
): ReplayScript {
  const unallowed = unallowedIn([...earlier, ...records]);
  const writer = new Writer(beginning);
  return {
    entries: timed(writer.written(records)),
    unallowed,
    forbidden: forbiddenIn(records),
    end: endOf(records),
  };
}

function endOf(records: readonly JournalRecord[]): SegmentEnd {
  const has = (type: string): boolean => records.some((one) => eventIn(one, type) !== undefined);
  if (has("run.ended")) return "ended";
  return has("run.paused") ? "paused" : "broken";
}

/** An effect is acted upon when its agent does the next thing, and not before: what others do in between comes before it. */
class Writer {
  readonly #reader: ActionReader;
  readonly #entries: ScriptEntry[] = [];
  /** Effects that have ended and that their agents have not acted upon, by agent. */
  readonly #due = new Map<string, RecordOf<"effect">[]>();
  /** Grants with which the run continues. */
  readonly #granted: ReadonlySet<JournalRecord>;
  #actions = 0;
  #isAfterAction: boolean;
  /** The call whose beginning is the last event. */
  #lastCall: string | undefined;

  constructor(beginning: Beginning) {
    this.#reader = new ActionReader(positionsOf(beginning));
    this.#granted = "granted" in beginning ? beginning.granted : new Set();
    this.#isAfterAction = beginning.type !== "started";
  }

  written(records: readonly JournalRecord[]): readonly ScriptEntry[] {
    for (const [index, record] of records.entries()) this.#take(record, records[index + 1]);
    for (const agentId of this.#due.keys()) this.#act(agentId);
    return this.#entries;
  }

  #take(record: JournalRecord, next: JournalRecord | undefined): void {
    if (this.#granted.has(record)) return;
    if (record.type === "effect") {
      this.#due.set(record.agentId, [...(this.#due.get(record.agentId) ?? []), record]);
      this.#isAfterAction = false;
      return;
    }
    for (const agentId of actorsOf(record)) this.#act(agentId);
    const atMs = record.type === "event" ? record.event.atMs : undefined;
    const action = this.#reader.read(record);
    if (record.type === "event") {
      const { event } = record;
      this.#lastCall = beginsCall(event) ? callPosition(event) : undefined;
    }
    if (action !== undefined || isLedger(record, "lease")) {
      // A lease has no event of its own, and a command may come right after it: it counts as an action.
      if (action !== undefined) this.#entries.push({ type: "action", action, atMs });
      this.#actions += 1;
      this.#isAfterAction = true;
    } else if (isLedger(record, "charge", "extend")) {
      this.#entries.push({ type: "booking", done: record.done, atMs: undefined });
      this.#standApart();
    } else if (isCommand(record)) {
      if (record.type === "signal" || record.isApart === true) this.#standApart();
      const [actionsBefore, following] = [this.#actions, callBegunDespite(record, next)];
      const isAtOnce = this.#isAfterAction && following === undefined;
      const call = this.#lastCall ?? following;
      this.#entries.push({ type: "command", record, actionsBefore, isAtOnce, call });
    } else if (atMs !== undefined) {
      this.#entries.push({ type: "time", atMs });
      this.#isAfterAction = false;
    }
  }

  /** What comes next came by itself. */
  #standApart(): void {
    this.#isAfterAction = false;
    this.#lastCall = undefined;
  }

  #act(agentId: string): void {
    const due = this.#due.get(agentId) ?? [];
    this.#due.delete(agentId);
    for (const record of due)
      this.#entries.push({ type: "effect", record, atMs: undefined, isLate: false });
  }
}

/** The agents that a record shows at work. */
function actorsOf(record: JournalRecord): readonly string[] {
  switch (record.type) {
    case "agent":
      return record.agent.parentAgentId === null ? [] : [record.agent.parentAgentId];
    case "state":
    case "execution":
      return [record.agentId];
    case "event":
      return BY_OTHERS.has(record.event.type) ? [] : [String(record.event["agentId"])];
    default:
      return [];
  }
}

/** Events in an agent's name while it waits for something else. */
const BY_OTHERS: ReadonlySet<string> = new Set([
  "budget.granted",
  "budget.threshold_reached",
  "subagent.ended",
]);

/** What agents do to their subagents they do again. */
function isCommand(record: JournalRecord): record is CommandRecord {
  const isOfAgent = "by" in record && record.by !== undefined;
  return !isOfAgent && (record.type === "signal" || isExternalRequest(record));
}

/** The call that begins right after a request that none begin: it had been decided before. */
function callBegunDespite(
  { type }: CommandRecord,
  next: JournalRecord | undefined,
): string | undefined {
  const isStopRequest = type === "pause" || type === "stop";
  const isCall = next?.type === "event" && beginsCall(next.event);
  return isStopRequest && isCall ? callPosition(next.event) : undefined;
}

/** True for the first event of a call in its turn. */
function beginsCall({ type }: RecordOf<"event">["event"]): boolean {
  return type === "tool.started" || type === "tool.rejected";
}

/** What comes of an effect has the time of the next event, unless something else comes first. */
function timed(entries: readonly ScriptEntry[]): readonly ScriptEntry[] {
  let nextAtMs: number | undefined;
  const late = new Set<string>();
  return entries
    .toReversed()
    .map((entry) => {
      if (entry.type === "effect") {
        const timely = { ...entry, atMs: nextAtMs, isLate: late.delete(entry.record.agentId) };
        nextAtMs = undefined;
        return timely;
      }
      if (entry.type === "booking") return { ...entry, atMs: nextAtMs };
      if (entry.type === "command") nextAtMs = undefined;
      else nextAtMs = entry.atMs ?? nextAtMs;
      if (entry.type === "action" && saysLate(entry.action)) late.add(entry.action.agentId);
      return entry;
    })
    .toReversed();
}

/** True for a signal, a refusal or a state by which a time is over. */
function saysLate({ what, facts }: Action): boolean {
  return MAY_BE_LATE.has(what) && LATE.test(JSON.stringify(facts));
}

const MAY_BE_LATE: ReadonlySet<string> = new Set(["signal.raised", "state", "subagent.refused"]);
const LATE = /"time_limit"|"axis":"wallTimeMs"/u;

/** Calls of delegations about which a question was asked, and that were not allowed, by `callPosition`. */
function unallowedIn(records: readonly JournalRecord[]): ReadonlySet<string> {
  const permits = new Set<string>();
  const asked = new Map<string, string>();
  for (const record of records) {
    if (record.type === "effect" && record.name.startsWith("permit."))
      permits.add(`${record.agentId} ${record.name}`);
    const event = eventIn(record, "question.asked");
    if (event === undefined) continue;
    const { agentId, question } = event;
    const id = isRecord(question) ? String(question["questionId"]) : "";
    const [index = "", step = ""] = id.split(".").toReversed();
    asked.set(callPosition(event), `${String(agentId)} permit.${step}.${index}`);
  }
  return new Set([...asked].flatMap(([call, permit]) => (permits.has(permit) ? [] : [call])));
}

/** Calls that a guard or a hook forbade to start a subagent, by `callPosition`. */
function forbiddenIn(records: readonly JournalRecord[]): ReadonlyMap<string, SpawnRefusal> {
  return new Map(
    records.flatMap((record) => {
      const refused = eventIn(record, "subagent.refused");
      const { data: refusal } = SpawnRefusalSchema.safeParse(refused?.["refusal"]);
      return refusal?.code === "blocked" ? [[callPosition(refused), refusal]] : [];
    }),
  );
}

/** The ids of the recording: by what they are for, or else in their order. */
export function idsOf(records: readonly JournalRecord[], beginning: Beginning): IdSource {
  const ids = new Map<string, string>();
  const paths = new Map<string, string>();
  for (const [id, { agentPath }] of positionsOf(beginning)) paths.set(id, agentPath);
  for (const record of records) {
    if (record.type === "run") ids.set("run", record.runId);
    if (record.type === "agent") {
      const { agentId, agentPath, executionId } = record.agent;
      paths.set(agentId, agentPath);
      ids.set(`agent ${agentPath}`, agentId);
      ids.set(`execution ${agentPath} 1`, executionId);
    }
    if (record.type === "execution") {
      const { agentId, execution, executionId } = record;
      ids.set(`execution ${paths.get(agentId) ?? ""} ${execution}`, executionId);
    }
  }
  let count = 0;
  return {
    next: (kind, place) => {
      count += 1;
      const known = ids.get(place === undefined ? kind : `${kind} ${place}`);
      return known ?? `${kind}_replayed_${count}`;
    },
  };
}
