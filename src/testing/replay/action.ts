// Actions: the deeds of agents that a replay compares, read from recorded and from replayed records.

import { isRecord } from "../../kernel/json.ts";
import type { JournalRecord, RecordOf } from "../../orchestrator/durability/journal-record.ts";

/** Where an agent is. */
export interface AgentPosition {
  readonly agentPath: string;
  /** 0 before the first step of the execution. */
  readonly stepNumber: number;
  /** The number of its actions. */
  readonly count: number;
}

/** One thing that an agent did. */
export interface Action extends AgentPosition {
  readonly agentId: string;
  /** The agent and its count. */
  readonly key: string;
  /** The kind of the record, or the type of its event. */
  readonly what: string;
  readonly facts: unknown;
}

/** Events from outside the loop: a replay takes their causes from the recording. */
const OUTSIDE =
  /^(?:model|tool|question|guards?|hook|result|reply|external|budget\.threshold)[._]|^budget\.(?:de)?queued$/u;

/** Reads records in their order. Owns the position of each agent. */
export class ActionReader {
  readonly #positions: Map<string, AgentPosition>;

  /** `positions`: of agents that exist already. */
  constructor(positions: ReadonlyMap<string, AgentPosition>) {
    this.#positions = new Map(positions);
  }

  /** Returns `undefined` for a record that is not compared. */
  read(record: JournalRecord): Action | undefined {
    const [what, agentId, facts] = factsOf(record);
    if (facts === undefined) return undefined;
    let { agentPath, stepNumber, count } = this.positionOf(agentId);
    if (record.type === "agent") agentPath = record.agent.agentPath;
    if (record.type === "execution") stepNumber = 0;
    if (record.type === "event" && what === "step.started")
      stepNumber = Number(record.event["number"]);
    count += 1;
    this.#positions.set(agentId, { agentPath, stepNumber, count });
    return { agentId, key: `${agentId} ${count}`, agentPath, stepNumber, count, what, facts };
  }

  positionOf(agentId: string): AgentPosition {
    return this.#positions.get(agentId) ?? { agentPath: agentId, stepNumber: 0, count: 0 };
  }
}

function factsOf(record: JournalRecord): readonly [what: string, agentId: string, facts?: unknown] {
  if (record.type === "agent") {
    const { agent, isBackground, account } = record;
    const { limits, reserve, timeLimitMs: timeLimit } = account;
    const facts = { ...agent, isBackground, account: { limits, reserve, timeLimit } };
    return ["agent", agent.agentId, facts];
  }
  if (record.type === "execution") return ["execution", record.agentId, record];
  if (record.type === "state") {
    const facts = changedFields(record.delta);
    return ["state", record.agentId, isTimeOnly(facts) ? undefined : facts];
  }
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
function changedFields(delta: unknown): unknown {
  if (!isRecord(delta)) return delta;
  if ("set" in delta) return delta["set"];
  const { keep, append, keys, gone } = delta;
  if (typeof keep === "number" && Array.isArray(append)) {
    const items = append.map((item: unknown, index) => [`[${keep + index}]`, item] as const);
    return Object.fromEntries([...items, ["length", keep + append.length]]);
  }
  const parts = Object.entries(isRecord(keys) ? keys : {});
  const left = Array.isArray(gone) ? gone.map((key) => [String(key), "(gone)"] as const) : [];
  return Object.fromEntries([...parts.map(([key, part]) => [key, changedFields(part)]), ...left]);
}

/** True for times and for positions in a trace or in the order of all agents. */
export function isTime(key: string): boolean {
  return /Ms$|^(?:seq|(?:trace|span|parentSpan|previousTrace|previousSpan)Id|(?:is|was)Sampled|isSpanOpen|traceparent)$/u.test(
    key,
  );
}

/** True for a change of nothing but times. */
export function isTimeOnly(value: unknown): boolean {
  if (!isRecord(value)) return false;
  return Object.entries(value).every(([key, part]) => isTime(key) || isTimeOnly(part));
}

/** Returns the position of a call as a key. */
export function callPosition(position: unknown): string {
  const { agentId, stepId, callId } = isRecord(position) ? position : {};
  return [agentId, stepId, callId].map(String).join(" ");
}

type Grant = RecordOf<"ledger"> & {
  readonly done: Extract<RecordOf<"ledger">["done"], { readonly operation: "grant" }>;
};

export function isGrant(record: JournalRecord): record is Grant {
  return record.type === "ledger" && record.done.operation === "grant";
}
