// Comparison: compares the actions of a replay with the recorded ones, agent by agent. Owns the
// position of each agent, and the first difference. Ids must be equal; times and positions in
// traces may differ.

import { EspalierError } from "../../kernel/error.ts";
import { isRecord } from "../../kernel/json.ts";
import type { JournalRecord } from "../../orchestrator/durability/journal-record.ts";

/** Position of an agent. */
export interface AgentPosition {
  readonly agentPath: string;
  /** 0 before the first step of the execution. */
  readonly stepNumber: number;
}

/** Action of an agent. */
export interface Action extends AgentPosition {
  readonly agentId: string;
  /** Equal in the recording and its replay. */
  readonly key: string;
  /** Kind of the record, or type of its event. */
  readonly kind: string;
  /** Content without times. */
  readonly facts: unknown;
}

/** The first difference between a replay and its recording. */
export interface Divergence extends AgentPosition {
  /** For example `state.conversation.messages[3].text`. */
  readonly field: string;
  /** `undefined` if the recording has no such value. */
  readonly expected: unknown;
  /** `undefined` if the replay has no such value. */
  readonly got: unknown;
}

/** Events with external causes, which a replay takes from the recording. */
const OUTSIDE =
  /^(?:model|tool|question|guards?|hook|result|reply|external|budget\.threshold)[._]|^budget\.(?:de)?queued$/u;

/** Times, and positions in a trace or in the order of all agents. */
const TIMES =
  /Ms$|^(?:seq|(?:trace|span|parentSpan|previousTrace|previousSpan)Id|(?:is|was)Sampled|isSpanOpen|traceparent)$/u;

/** Fields with values of the user, in which everything is compared. */
const FOREIGN = /^(?:arguments|metadata|output|structured|toolCalls)$/u;

/**
 * Sizes and hashes in events. A difference in the states from which they are derived is more
 * informative.
 */
const DERIVED = /^budget\.|^step\.started\..*Hash$/u;

/** Converts records to actions. */
export class ActionReader {
  readonly #positions: Map<string, AgentPosition>;
  readonly #counts = new Map<string, number>();

  /** `positions` has the existing agents. */
  constructor(positions: ReadonlyMap<string, AgentPosition>) {
    this.#positions = new Map(positions);
  }

  /** Returns `undefined` for a record that is not compared. */
  read(record: JournalRecord): Action | undefined {
    const [kind, agentId, content] = extractRecordFacts(record);
    const facts = dropTimes(content);
    if (facts === undefined) return undefined;
    let { agentPath, stepNumber } = this.getPosition(agentId);
    if (record.type === "agent") agentPath = record.agent.agentPath;
    if (record.type === "execution") stepNumber = 0;
    if (record.type === "event" && kind === "step.started")
      stepNumber = Number(record.event["number"]);
    this.#positions.set(agentId, { agentPath, stepNumber });
    const queue = kind === "lease" ? `${agentId} lease` : agentId;
    const count = (this.#counts.get(queue) ?? 0) + 1;
    this.#counts.set(queue, count);
    return { agentId, key: `${queue} ${count}`, agentPath, stepNumber, kind, facts };
  }

  getPosition(agentId: string): AgentPosition {
    return this.#positions.get(agentId) ?? { agentPath: agentId, stepNumber: 0 };
  }
}

function extractRecordFacts(
  record: JournalRecord,
): readonly [kind: string, agentId: string, facts?: unknown] {
  if (record.type === "agent") {
    const { agent, isBackground, account } = record;
    const { limits, reserve, timeLimitMs: timeLimit } = account;
    const facts = { ...agent, isBackground, account: { limits, reserve, timeLimit } };
    return ["agent", agent.agentId, facts];
  }
  if (record.type === "execution") return ["execution", record.agentId, record];
  if (record.type === "state") return ["state", record.agentId, extractChangedFields(record.delta)];
  if (record.type === "event") {
    const { event } = record;
    const isDelegation = event.type === "tool.started" && event["kind"] === "delegation";
    const isCompared = isDelegation || !OUTSIDE.test(event.type);
    return [event.type, String(event["agentId"]), isCompared ? event : undefined];
  }
  if (record.type !== "ledger" || record.done.operation !== "lease") return ["", ""];
  return ["lease", record.done.agentId, {}];
}

/** Returns a delta as an object with the changed fields, and with positions in lists as `[3]`. */
function extractChangedFields(delta: unknown): unknown {
  if (!isRecord(delta)) return delta;
  if ("set" in delta) return delta["set"];
  const { keep, append, keys, gone } = delta;
  if (typeof keep === "number" && Array.isArray(append)) {
    const items = append.map((item: unknown, index) => [`[${keep + index}]`, item] as const);
    return Object.fromEntries([...items, ["length", keep + append.length]]);
  }
  const parts = Object.entries(isRecord(keys) ? keys : {});
  const left = Array.isArray(gone) ? gone.map((key) => [String(key), "(gone)"] as const) : [];
  return Object.fromEntries([
    ...parts.map(([key, part]) => [key, extractChangedFields(part)]),
    ...left,
  ]);
}

/** Returns the compared part of a value. `undefined` for an object that contains only times. */
function dropTimes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(dropTimes);
  if (!isRecord(value)) return value;
  const parts = Object.entries(value).flatMap(([key, part]) => {
    if (FOREIGN.test(key)) return [[key, part] as const];
    const isTimeSpent = value["axis"] === "timeMs" && /^(?:current|spent)$/u.test(key);
    if (isTimeSpent || TIMES.test(key)) return [];
    const compared = dropTimes(part);
    return compared === undefined ? [] : [[key, compared] as const];
  });
  if (parts.length === 0 && Object.keys(value).length > 0) return undefined;
  return Object.fromEntries(parts);
}

/** Compares the actions of a replay with the recorded ones. */
export class Comparison extends ActionReader {
  /** Recorded actions that the replay has not performed yet, by their keys. */
  readonly left: Map<string, Action>;
  /** The first difference in a recorded action. */
  found: Divergence | undefined;
  /** The first difference in a derived field, or an action that was not recorded. */
  #suspected: Divergence | undefined;

  constructor(positions: ReadonlyMap<string, AgentPosition>, expected: readonly Action[]) {
    super(positions);
    this.left = new Map(expected.map((action) => [action.key, action]));
  }

  /** Compares the action in a record of the replay. Returns its key, or `undefined` without one. */
  take(record: JournalRecord): string | undefined {
    const action = this.read(record);
    if (action === undefined || action.kind === "lease") return action?.key;
    const { agentPath, stepNumber, key, kind, facts } = action;
    const expected = this.left.get(key);
    this.left.delete(key);
    const difference =
      expected === undefined || expected.kind === kind
        ? findFirstDifference(kind, expected?.facts, facts)
        : { field: "record", expected: expected.kind, got: kind };
    const divergence = difference && { agentPath, stepNumber, ...difference };
    if (expected === undefined || DERIVED.test(divergence?.field ?? ""))
      this.#suspected ??= divergence;
    else this.found ??= divergence;
    return key;
  }

  /** Returns the first difference. For a replay that has ended or does not continue. */
  get first(): Divergence | undefined {
    return this.found ?? this.#suspected;
  }
}

function findFirstDifference(
  field: string,
  expected: unknown,
  got: unknown,
): Omit<Divergence, keyof AgentPosition> | undefined {
  if (Object.is(expected, got)) return undefined;
  const [was, is] = [extractFields(expected), extractFields(got)];
  if (was === undefined || is === undefined || Array.isArray(expected) !== Array.isArray(got))
    return { field, expected, got };
  for (const key of Object.keys({ ...was, ...is })) {
    const name = key.startsWith("[") ? `${field}${key}` : `${field}.${key}`;
    const inner = findFirstDifference(name, was[key], is[key]);
    if (inner !== undefined) return inner;
  }
  return undefined;
}

/** Returns the fields of an object, or the items of a list as `[0]`, `[1]` and so on. */
function extractFields(value: unknown): Readonly<Record<string, unknown>> | undefined {
  if (!Array.isArray(value)) return isRecord(value) ? value : undefined;
  return Object.fromEntries(value.map((item: unknown, index) => [`[${index}]`, item]));
}

/** Returns the position of a call as a key. */
export function formatCallPosition(position: Readonly<Record<string, unknown>>): string {
  const { agentId, stepId, callId } = position;
  return [agentId, stepId, callId].map(String).join(" ");
}

const MAX_CHARACTERS = 200;
/** Number of characters before the first difference that are shown. */
const LEAD_IN = 40;

/** Creates the error. `texts` are definitions by their hashes. */
export function createDivergenceError(
  { agentPath, stepNumber, field, expected, got }: Divergence,
  segment: number,
  texts: ReadonlyMap<unknown, string>,
): EspalierError {
  const formatValue = (value: unknown): string =>
    JSON.stringify(texts.get(value) ?? value) ?? "nothing";
  const [was, is] = [formatValue(expected), formatValue(got)];
  let same = 0;
  while (same < was.length && was[same] === is[same]) same += 1;
  const from = same > MAX_CHARACTERS / 2 ? same - LEAD_IN : 0;
  const [shownWas, shownIs] = [cutExcerpt(was, from), cutExcerpt(is, from)];
  const where = `in step ${stepNumber}${segment === 1 ? "" : ` of segment ${segment}`}`;
  return new EspalierError({
    code: "replay_diverged",
    message: `The replay of ${agentPath} diverged ${where}: expected the ${field} ${shownWas} of the recording, got ${shownIs}. Find the change in roles, prompts or tools, or record the run again.`,
    data: { segment, agentPath, stepNumber, field, expected: shownWas, got: shownIs },
  });
}

function cutExcerpt(text: string, from: number): string {
  const ending = text.length > from + MAX_CHARACTERS ? "…" : "";
  return `${from > 0 ? "…" : ""}${text.slice(from, from + MAX_CHARACTERS)}${ending}`;
}
