// AgentSteps: the steps of an agent, folded from its own journal records only. Owns the agent's
// present state, and the states in which earlier executions ended, which no result or snapshot
// contains.

import type { AgentState, OpenStep, StepReply } from "../../agent/agent-state.ts";
import type { EffectPosition } from "../../agent/agent-identity.ts";
import {
  parsePersistedHistory,
  parsePersistedState,
  UNCOMPILED,
} from "../../agent/agent-snapshot.ts";
import { omitUndefined, isRecord, type JsonValue } from "../../kernel/json.ts";
import { applyDeltaInPlace } from "../../kernel/json-delta.ts";
import {
  ExecutionIdSchema,
  type AgentId,
  type CallId,
  type ExecutionId,
  type StepId,
} from "../../protocol/ids.ts";
import { lazySchema, z } from "../../protocol/lazy-schema.ts";
import type { Message } from "../../protocol/message.ts";
import type { Question } from "../../protocol/question.ts";
import type { StepContext } from "../../protocol/step-context.ts";
import type { StepRecord } from "../../protocol/step-record.ts";
import type { ToolExecution } from "../../protocol/tool-outcome.ts";
import { formatModelEffectName } from "./effect-names.ts";
import { parseRecord, type JournalRecord } from "./journal-record.ts";
import { PausedAgentSchema, type PausedAgent } from "./paused-run.ts";
import { CallEndSchema, InferOutcomeSchema } from "../../agent/effect-outcomes.ts";

/**
 * Steps of an execution of an agent, from the journal of the run.
 *
 * @example
 * ```ts
 * import { RunRecord } from "espalier/view";
 * import { toRunId } from "espalier/extend";
 *
 * const record = new RunRecord(store, toRunId("order-4711"));
 * await record.advance();
 * for (const agentId of record.agentIds)
 *   for (const { execution, steps } of await record.steps(agentId))
 *     console.log(agentId, execution, steps.length);
 * ```
 */
export interface RecordedExecution {
  /** Number of the execution, from 1. 0 in a fork for the execution of the original run. */
  readonly execution: number;
  /** Id of the execution, as in events. */
  readonly executionId: ExecutionId;
  /** Completed steps in order. Those of the last execution equal the `steps` of the run result. */
  readonly steps: readonly StepRecord[];
  /** Step that was in progress when the last record was written. Absent if no step was open. */
  readonly open?: {
    readonly stepId: StepId;
    /** Number of the step in its execution, from 1. */
    readonly number: number;
    /** Start time in milliseconds since the epoch. */
    readonly startedAtMs: number;
    /** Instructions, tools and parameters with which the step began. */
    readonly context: StepContext;
    /** Number of messages that the model was sent. */
    readonly messageCount: number;
    /** Reply of the model. Absent until the model has replied. */
    readonly reply?: StepReply;
    /** Results of the completed tool calls, in the order of the calls. */
    readonly executions: readonly ToolExecution[];
    /** Tool calls that wait for an answer or for a paused subagent. */
    readonly deferrals: readonly ({
      readonly callId: CallId;
      /**
       * Arguments of the call as JSON text, after hooks and coercion and before the schema parses
       * them.
       */
      readonly argumentsText: string;
    } & (
      | {
          readonly type: "question";
          /** Open question, with the parsed arguments. */
          readonly question: Question;
        }
      | { readonly type: "subagent"; readonly childId: AgentId }
    ))[];
  };
  /** Typed result of the agent. Absent if the model has given none. */
  readonly output?: JsonValue;
}

type Execution = Pick<RecordedExecution, "execution" | "executionId">;

/**
 * The part of `created` that is used here. Building the other schemas would block the event loop.
 */
const CreatedSchema = lazySchema(() =>
  z.object({
    agentPath: z.string(),
    executionId: ExecutionIdSchema(),
    execution: z.int().positive(),
  }),
);

/** Kinds of records from which the steps follow. */
const STEPS_RECORDS: ReadonlySet<string> = new Set<JournalRecord["type"]>([
  "agent",
  "execution",
  "state",
  "effect",
]);

export class AgentSteps {
  readonly agentId: AgentId;
  /** Place in the tree, or the agent's id until the place is known. */
  agentPath: string;
  readonly #before: (Execution & { readonly state: AgentState })[] = [];
  #execution: Execution | undefined;
  /** Mutated in place. */
  #state: unknown;
  /** State parsed from `#state`. `undefined` if it was not needed since the last change. */
  #present: AgentState | undefined;
  /** Outcomes of effects since the state was last recorded. */
  readonly #outcomes = new Map<string, unknown>();
  /** Messages with which the history began. `undefined` if they were not recorded. */
  #opening: readonly Message[] | undefined;

  constructor(agentId: AgentId) {
    this.agentId = agentId;
    this.agentPath = agentId;
  }

  /** Returns true if an unparsed record belongs to the steps of the agent. */
  isOwn(value: unknown): boolean {
    if (!isRecord(value)) return false;
    if (value["type"] === "restored") return findRecordedAgent(value, this.agentId) !== undefined;
    const isOfAgent =
      readAgentId(value) === this.agentId || readAgentId(value["agent"]) === this.agentId;
    return isOfAgent && STEPS_RECORDS.has(String(value["type"]));
  }

  /** Takes one of the agent's records, frozen. Throws if it cannot be parsed. */
  addRecord(value: unknown): void {
    if (!isRecord(value)) return;
    switch (value["type"]) {
      case "restored":
        this.#restore(PausedAgentSchema().parse(findRecordedAgent(value, this.agentId)));
        return;
      case "agent":
        this.#place(CreatedSchema().parse(value["agent"]));
        return;
      default:
        this.#do(parseRecord(value));
    }
  }

  #do(record: JournalRecord): void {
    switch (record.type) {
      case "execution":
        this.#endExecution(record.execution);
        this.#execution = record;
        return;
      case "state": {
        const isFirst = this.#state === undefined;
        this.#keep(applyDeltaInPlace(this.#state, record.delta));
        if (isFirst) this.#opening = parsePersistedHistory(this.#state);
        return;
      }
      case "effect":
        this.#outcomes.set(record.name, record.outcome);
        return;
      default: // Other records of the agent do not affect its steps.
    }
  }

  /** Takes the state of the agent in a paused run that continues. */
  #restore(agent: PausedAgent): void {
    if (this.#execution !== undefined && this.#execution.executionId !== agent.executionId)
      this.#endExecution(agent.execution);
    this.#place(agent);
    this.#keep({ ...agent.state });
  }

  #place(agent: Execution & { readonly agentPath: string }): void {
    this.#execution = agent;
    this.agentPath = agent.agentPath;
  }

  #keep(state: unknown): void {
    this.#state = state;
    this.#present = undefined;
    this.#outcomes.clear();
  }

  /** Messages with which the history began. `undefined` if they were not recorded. */
  get opening(): readonly Message[] | undefined {
    return this.#opening;
  }

  /**
   * Returns the state of an execution, by default the last one. `undefined` if the agent had no
   * such execution.
   */
  findState(execution: number | undefined): AgentState | undefined {
    return execution === undefined || execution === this.#execution?.execution
      ? this.#readState()
      : this.#before.find((earlier) => earlier.execution === execution)?.state;
  }

  /** Returns the executions in order. */
  executions(): readonly RecordedExecution[] {
    const [state, present] = [this.#readState(), this.#execution];
    const last = state === undefined || present === undefined ? [] : [{ ...present, state }];
    return [...this.#before, ...last]
      .map(({ execution, executionId, state: { step, log } }) => {
        const open = execution === present?.execution && step ? this.#open(step) : undefined;
        return {
          execution,
          executionId,
          steps: log.steps,
          ...omitUndefined({ open, output: log.output }),
        };
      })
      .filter(({ execution, steps }) => execution > 0 || steps.length > 0);
  }

  /**
   * Ends an execution. If its number is not lower than the next one's, it is an execution of the
   * origin of a fork.
   */
  #endExecution(next: number): void {
    const [state, ended] = [this.#readState(), this.#execution];
    if (state === undefined || ended === undefined) return;
    const { executionId } = ended;
    const execution = ended.execution < next ? ended.execution : 0;
    this.#before.push({ execution, executionId, state });
  }

  /** Returns a copy of the present state. */
  #readState(): AgentState | undefined {
    if (this.#state !== undefined) this.#present ??= parsePersistedState(this.#state, UNCOMPILED);
    return this.#present;
  }

  /** Returns the open step, with the outcomes since the state was recorded. */
  #open(step: OpenStep): NonNullable<RecordedExecution["open"]> {
    const { stepId, number, startedAtMs, context, messageCount } = step;
    const reply = step.reply ?? this.#findReply({ stepId, stepNumber: number });
    const ends = [...this.#outcomes.values()].flatMap(
      (outcome) => CallEndSchema().safeParse(outcome).data ?? [],
    );
    const executions = [
      ...step.executions,
      ...ends.flatMap((end) => (end.type === "executed" ? end.execution : [])),
    ];
    const deferrals = [
      ...step.deferrals,
      ...ends.flatMap((end) => (end.type === "deferred" ? end.deferral : [])),
    ];
    const ended = new Set(executions.map(({ call }) => call.callId));
    const order = reply?.message.toolCalls.map(({ callId }) => callId) ?? [];
    return {
      stepId,
      number,
      startedAtMs,
      context,
      messageCount,
      ...omitUndefined({ reply }),
      executions: executions.toSorted(
        (left, right) => order.indexOf(left.call.callId) - order.indexOf(right.call.callId),
      ),
      deferrals: deferrals.filter(({ callId }) => !ended.has(callId)),
    };
  }

  #findReply(position: EffectPosition): StepReply | undefined {
    const outcome = InferOutcomeSchema().safeParse(
      this.#outcomes.get(formatModelEffectName(position)),
    );
    if (outcome.data?.type !== "replied") return undefined;
    const { message, finishReason } = outcome.data.reply;
    return { message, finishReason };
  }
}

function findRecordedAgent(value: Readonly<Record<string, unknown>>, agentId: AgentId): unknown {
  return readAgents(value["run"]).find((agent) => readAgentId(agent) === agentId);
}

/** Returns the agents of an unparsed paused run. */
export function readAgents(run: unknown): readonly unknown[] {
  const agents = isRecord(run) ? run["agents"] : undefined;
  return Array.isArray(agents) ? agents : [];
}

function readAgentId(value: unknown): unknown {
  return isRecord(value) ? value["agentId"] : undefined;
}

/** Returns the texts of an unparsed record, by hash. */
export function readDefinitions(value: unknown): Readonly<Record<string, unknown>> {
  if (!isRecord(value)) return {};
  if (value["type"] === "definition") return { [String(value["hash"])]: value["text"] };
  const run = value["type"] === "restored" ? value["run"] : undefined;
  return isRecord(run) && isRecord(run["definitions"]) ? run["definitions"] : {};
}
