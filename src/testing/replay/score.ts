// Score: a recording as what is to be done and seen, in its order. Pure.

import { isRecord } from "../../kernel/json.ts";
import type { JournalRecord, RecordOf } from "../../orchestrator/journal/journal-record.ts";
import { callKey, DeedReader, type Deed } from "./deeds.ts";

/** Somebody outside wanted something of the run. */
export type CommandRecord = RecordOf<
  "cancel" | "letter" | "pause" | "signal" | "skip" | "stop" | "ledger"
>;

export interface EffectCue {
  readonly type: "effect";
  readonly record: RecordOf<"effect">;
  /** The time by which what comes of it is done, where that is known. */
  readonly atMs: number | undefined;
}

export interface CommandCue {
  readonly type: "command";
  readonly record: CommandRecord;
  /** What the agents had done by then, in all. */
  readonly deedsBefore: number;
  /** It was wanted right after the last of that, with nothing in between. */
  readonly isAtOnce: boolean;
  /** The call whose beginning it followed at once, by `callKey`. */
  readonly call: string | undefined;
}

export type Cue =
  | EffectCue
  | CommandCue
  | { readonly type: "deed"; readonly deed: Deed; readonly atMs: number | undefined }
  | { readonly type: "time"; readonly atMs: number };

export interface Score {
  readonly head: RecordOf<"run">;
  readonly birth: RecordOf<"agent">;
  /** What the root began with, as it is kept. */
  readonly opening: unknown;
  readonly cues: readonly Cue[];
  /** Delegations that were left open, or denied. */
  readonly unallowed: ReadonlySet<string>;
  /** True if the recording goes on until the run had ended, or was paused. */
  readonly isWhole: boolean;
}

/** Undefined: the process died before there was anything to replay. */
export function scoreOf(records: readonly JournalRecord[]): Score | undefined {
  const head = records.find((record) => record.type === "run");
  const birth = records.find((record) => record.type === "agent");
  const first = records.find((record) => record.type === "state");
  if (head === undefined || birth === undefined || first === undefined) return undefined;
  const isWhole = records.some(
    ({ type, ...record }) => type === "event" && "event" in record && ENDS.has(record.event.type),
  );
  const opening = "set" in first.delta ? first.delta.set : undefined;
  const unallowed = unallowedIn(records);
  const cues = timed(new Writer(unallowed).written(records));
  return { head, birth, opening, cues, unallowed, isWhole };
}

const ENDS = new Set(["run.ended", "run.paused"]);

/** An effect is acted upon when its agent does the next thing, and not before: what others do in between comes before it. */
class Writer {
  readonly #reader: DeedReader;
  readonly #cues: Cue[] = [];
  /** Effects that have ended, and that nobody has acted upon, by their agents. */
  readonly #due = new Map<string, RecordOf<"effect">[]>();
  #deeds = 0;
  #isAfterDeed = false;
  /** The call whose beginning was told last, if nothing was told since. */
  #lastCall: string | undefined;

  constructor(unallowed: ReadonlySet<string>) {
    this.#reader = new DeedReader(unallowed);
  }

  written(records: readonly JournalRecord[]): readonly Cue[] {
    for (const record of records) this.#take(record);
    for (const agentId of this.#due.keys()) this.#act(agentId);
    return this.#cues;
  }

  #take(record: JournalRecord): void {
    if (record.type === "effect") {
      const due = this.#due.get(record.agentId);
      if (due === undefined) this.#due.set(record.agentId, [record]);
      else due.push(record);
      this.#isAfterDeed = false;
      return;
    }
    for (const agentId of doersOf(record)) this.#act(agentId);
    const atMs = record.type === "event" ? record.event.atMs : undefined;
    const deed = this.#reader.read(record);
    if (record.type === "event") {
      const { event } = record;
      this.#lastCall = event.type === "tool.started" ? callKey(event) : undefined;
    }
    if (deed !== undefined) {
      this.#cues.push({ type: "deed", deed, atMs });
      this.#deeds += 1;
      this.#isAfterDeed = true;
    } else if (isCommand(record)) {
      const isApart = record.type === "signal" || record.isApart === true;
      const isAtOnce = this.#isAfterDeed && !isApart;
      const call = isApart ? undefined : this.#lastCall;
      this.#cues.push({ type: "command", record, deedsBefore: this.#deeds, isAtOnce, call });
    } else if (atMs !== undefined) {
      this.#cues.push({ type: "time", atMs });
      this.#isAfterDeed = false;
    }
  }

  #act(agentId: string): void {
    const due = this.#due.get(agentId) ?? [];
    this.#due.delete(agentId);
    for (const record of due) this.#cues.push({ type: "effect", record, atMs: undefined });
  }
}

/** Whose doing a record shows. */
function doersOf(record: JournalRecord): readonly string[] {
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

/** Told in an agent's name while it waits for something else. */
const BY_OTHERS: ReadonlySet<string> = new Set([
  "budget.granted",
  "budget.threshold_reached",
  "subagent.ended",
]);

/** What agents do to their subagents they do again. */
function isCommand(record: JournalRecord): record is CommandRecord {
  switch (record.type) {
    case "pause":
    case "signal":
    case "skip":
    case "stop":
      return true;
    case "cancel":
    case "letter":
      return record.by === undefined;
    case "ledger":
      return record.done.operation === "grant";
    default:
      return false;
  }
}

/** What comes of an effect has the time of the next event, unless something else comes first. */
function timed(cues: readonly Cue[]): readonly Cue[] {
  let nextAtMs: number | undefined;
  return cues
    .toReversed()
    .map((cue) => {
      if (cue.type === "effect") {
        const timely = { ...cue, atMs: nextAtMs };
        nextAtMs = undefined;
        return timely;
      }
      if (cue.type === "command") nextAtMs = undefined;
      else nextAtMs = cue.atMs ?? nextAtMs;
      return cue;
    })
    .toReversed();
}

/** Calls of delegations about which somebody was asked, and that nobody allowed, by `callKey`. */
function unallowedIn(records: readonly JournalRecord[]): ReadonlySet<string> {
  const permits = new Set<string>();
  const asked = new Map<string, string>();
  for (const record of records) {
    if (record.type === "effect" && record.name.startsWith("permit."))
      permits.add(`${record.agentId} ${record.name}`);
    if (record.type !== "event" || record.event.type !== "question.asked") continue;
    const { agentId, question } = record.event;
    const id = isRecord(question) ? String(question["questionId"]) : "";
    const [index = "", step = ""] = id.split(".").toReversed();
    asked.set(callKey(record.event), `${String(agentId)} permit.${step}.${index}`);
  }
  return new Set([...asked].flatMap(([call, permit]) => (permits.has(permit) ? [] : [call])));
}

/** The ids of the recording: by what they are for, or else in their order. */
export function idsOf(records: readonly JournalRecord[]): {
  next(kind: string, place?: string): string;
} {
  const ids = new Map<string, string>();
  const paths = new Map<string, string>();
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
