// Actions: what agents did, as far as a replay does it again. Made alike from what was recorded and from what is replayed.

import { isRecord } from "../../kernel/json.ts";
import type { JournalRecord, RecordOf } from "../../orchestrator/durability/journal-record.ts";

/** One thing that an agent did, as it is compared. */
export interface Action {
  readonly agentId: string;
  readonly agentPath: string;
  /** 0: before the first step of the execution. */
  readonly stepNumber: number;
  readonly what: string;
  readonly facts: unknown;
}

/** Events that are made outside the loop, by what a replay does not do again. */
const OUTSIDE =
  /^(?:model|tool|question|guards?|hook|result|reply|external|budget\.threshold)[._]|^budget\.(?:de)?queued$/u;

/** Where agents are, by their ids. */
export type AgentPositions = ReadonlyMap<string, Pick<Action, "agentPath" | "stepNumber">>;

/** Reads records one after the other. Owns the position of each agent. */
export class ActionReader {
  readonly #paths: Map<string, string>;
  readonly #steps: Map<string, number>;

  /** `positions`: of agents that exist already. */
  constructor(positions: AgentPositions) {
    this.#paths = new Map([...positions].map(([id, { agentPath }]) => [id, agentPath]));
    this.#steps = new Map([...positions].map(([id, { stepNumber }]) => [id, stepNumber]));
  }

  /** Undefined: the record is nothing that is compared. */
  read(record: JournalRecord): Action | undefined {
    const facts = factsOf(record);
    if (facts === undefined) return undefined;
    const { agentId, what, value } = facts;
    if (record.type === "agent") this.#paths.set(agentId, record.agent.agentPath);
    if (record.type === "execution") this.#steps.set(agentId, 0);
    if (record.type === "event" && what === "step.started")
      this.#steps.set(agentId, Number(record.event["number"]));
    return { ...this.positionOf(agentId), what, facts: value };
  }

  positionOf(agentId: string): Pick<Action, "agentId" | "agentPath" | "stepNumber"> {
    const agentPath = this.#paths.get(agentId) ?? agentId;
    return { agentId, agentPath, stepNumber: this.#steps.get(agentId) ?? 0 };
  }
}

/** A call by its position. */
export function callPosition(position: unknown): string {
  const { agentId, stepId, callId } = isRecord(position) ? position : {};
  return [agentId, stepId, callId].map(String).join(" ");
}

/** The event of a record, if it is one of this type. */
export function eventIn(
  record: JournalRecord | undefined,
  type: string,
): RecordOf<"event">["event"] | undefined {
  return record?.type === "event" && record.event.type === type ? record.event : undefined;
}

type OperationName = RecordOf<"ledger">["done"]["operation"];

/** True for the record of one of these operations of the ledger. */
export function isLedger<Name extends OperationName>(
  record: JournalRecord,
  ...names: readonly Name[]
): record is RecordOf<"ledger"> & { readonly done: { readonly operation: Name } } {
  return record.type === "ledger" && names.some((name) => name === record.done.operation);
}

/** The reason of a stop signal, as far as it can be read. */
export function reasonIn(signal: unknown): Readonly<Record<string, unknown>> {
  const reason = isRecord(signal) ? signal["reason"] : undefined;
  return isRecord(reason) ? reason : {};
}

interface Facts {
  readonly agentId: string;
  readonly what: string;
  readonly value: unknown;
}

function factsOf(record: JournalRecord): Facts | undefined {
  switch (record.type) {
    case "agent": {
      const { agent, isBackground, account } = record;
      const { limits, reserve, timeLimitMs: timeLimit } = account;
      const value = { ...agent, isBackground, account: { limits, reserve, timeLimit } };
      return { agentId: agent.agentId, what: "agent", value };
    }
    case "execution":
      return { agentId: record.agentId, what: "execution", value: record };
    case "state": {
      const value = spread(record.delta);
      return isTimeOnly(value) ? undefined : { agentId: record.agentId, what: "state", value };
    }
    case "event": {
      const { event } = record;
      const agentId = String(event["agentId"]);
      const isDelegation = event.type === "tool.started" && event["kind"] === "delegation";
      if (OUTSIDE.test(event.type) && !isDelegation) return undefined;
      // The recorded reply already gives the place of a delegation.
      const { index: _index, ...delegation } = event;
      return { agentId, what: event.type, value: isDelegation ? delegation : event };
    }
    default:
      return undefined;
  }
}

/** Times, what is counted in them, and positions in a trace, whether it is shown, and positions in the order of all agents. */
export function isTime(key: string): boolean {
  return key.endsWith("Ms") || key === "seq" || TRACE_PLACE.test(key);
}

const TRACE_PLACE =
  /^(?:(?:trace|span|parentSpan|previousTrace|previousSpan)Id|(?:is|was)Sampled|isSpanOpen|traceparent)$/u;

/** True for a change that is nothing but time: another one took longer. */
export function isTimeOnly(value: unknown): boolean {
  if (!isRecord(value)) return false;
  return Object.entries(value).every(([key, part]) => isTime(key) || isTimeOnly(part));
}

/** A change as what it leaves, as far as it says: fields are named as they are in the state, positions in lists as `[3]`. */
function spread(delta: unknown): unknown {
  if (!isRecord(delta)) return delta;
  if ("set" in delta) return delta["set"];
  const { keep, append, keys, gone } = delta;
  if (typeof keep === "number" && Array.isArray(append)) {
    const items = append.map((item: unknown, index) => [`[${keep + index}]`, item] as const);
    return Object.fromEntries([...items, ["length", keep + append.length]]);
  }
  const parts = Object.entries(isRecord(keys) ? keys : {});
  const left = Array.isArray(gone) ? gone.map((key) => [String(key), GONE] as const) : [];
  return Object.fromEntries([...parts.map(([key, part]) => [key, spread(part)]), ...left]);
}

const GONE = "(gone)";
