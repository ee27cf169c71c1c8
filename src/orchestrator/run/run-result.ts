// The result of a run: plain values about every agent and the whole run. Concludes a run: records
// its end or pause, and returns the result.

import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { toSnapshot } from "../../agent/agent-snapshot.ts";
import { getLastText, findAskedQuestions } from "../../agent/agent-state.ts";
import { collectAddedMessages, createStoredMessages } from "../../agent/message-tags.ts";
import { describeWait } from "../../agent/pause-agent.ts";
import { deepFreeze, type JsonValue } from "../../kernel/json.ts";
import { toPublicAccount } from "../../policies/budget.ts";
import { defineLazyFields } from "../../kernel/lazy-fields.ts";
import type { Model } from "../../model/model.ts";
import type { Account, LedgerAccount } from "../../protocol/account.ts";
import type { Definitions } from "../../protocol/definition.ts";
import type { EventBody } from "../../protocol/event.ts";
import type { AgentId, QuestionId, RunId } from "../../protocol/ids.ts";
import type { StoredMessage } from "../../protocol/message.ts";
import type { Question } from "../../protocol/question.ts";
import type { StepRecord } from "../../protocol/step-record.ts";
import type { ErrorRecord, StopCode, StopReason, StopSignal } from "../../protocol/stop.ts";
import {
  addUsage,
  NO_USAGE,
  subtractUsage,
  type Usage,
  type UsageReport,
} from "../../protocol/usage.ts";
import { collectAppliedPrices, type AppliedPrice } from "../../budget/prices-used.ts";
import { createAgentRecord } from "../durability/agent-record.ts";
import type { RecordOf } from "../durability/journal-record.ts";
import {
  PAUSED_RUN_VERSION,
  type PausedAgent,
  type PausedRun,
  type PausedRunRecord,
} from "../durability/paused-run.ts";
import type { SessionOutcome } from "../sessions/session-outcome.ts";
import {
  createAgentReport,
  type AgentReport,
  describeAgent,
  computeDuration,
  type AgentSummary,
  type SettledAgent,
} from "../tree/agent-report.ts";
import { type RunRuntime, createScopeWithoutExecution } from "../tree/run-runtime.ts";
import { createCountFields } from "../tree/run-tree.ts";
import { rememberWaitingCalls } from "./check-answers.ts";

/**
 * Usage of a whole run, in total, by role and by model. The parts add up to `total`.
 *
 * @example
 * ```ts
 * const { total, byRole } = result.usage;
 * console.log(total.costUsd, byRole.researcher?.outputTokens);
 * ```
 */
export interface RunUsage extends UsageReport {
  /** Usage by role name. Each entry has the agents' own usage, without their subagents. */
  readonly byRole: Readonly<Record<string, Usage>>;
  /** Usage by model id, including the models of a fallback. */
  readonly byModel: Readonly<Record<string, Usage>>;
}

/**
 * Error that ended an agent, with the agent's place in the tree.
 *
 * @example
 * ```ts
 * for (const { agentPath, code, message } of result.errors)
 *   console.error(`${agentPath} (${code}): ${message}`);
 * ```
 */
export interface AgentError extends ErrorRecord {
  /** Agent that failed. */
  readonly agentId: AgentId;
  /** Place of the agent in the tree, such as `lead/researcher#2`. */
  readonly agentPath: string;
}

/**
 * Fields that every result of a run has, whatever its status. Plain data that survives
 * `JSON.stringify`.
 *
 * @example
 * ```ts
 * const { runId, text, usage, agents, durationMs } = result;
 * console.log(`${runId}: ${agents.length} agents, ${usage.total.totalTokens} tokens, ${durationMs} ms`);
 * ```
 */
export interface RunResultBase {
  readonly runId: RunId;
  /** Id of the trace in which the run is recorded. */
  readonly traceId: string;
  /**
   * Stop signals of the root, in order of arrival. `reason` is the reason of the most important
   * signal. Signals of other agents are in `agents`.
   */
  readonly signals: readonly StopSignal[];
  /**
   * Errors of the whole tree, in the order in which the agents failed: the root cause comes first.
   * A completed run has errors if a subagent failed and its parent continued. For an agent that was
   * continued, these are the errors of its last execution.
   *
   * @example
   * ```ts
   * const [rootCause] = result.errors;
   * if (rootCause !== undefined) console.error(rootCause.agentPath, rootCause.message);
   * ```
   */
  readonly errors: readonly AgentError[];
  /**
   * Open questions of the whole tree, with which a run is paused. Empty for any other status.
   *
   * @example
   * ```ts
   * const answers = result.questions.map((question) =>
   *   question.kind === "approval" ? approve(question) : provideResult(question, { ok: true }),
   * );
   * ```
   */
  readonly questions: readonly Question[];
  /**
   * Message history of the root: its instructions, earlier messages of the session and the messages
   * of this run. Each message says which agent, execution and step added it.
   */
  readonly messages: readonly StoredMessage[];
  /**
   * Messages of the root that this run added, beginning with its task. Messages that a compaction
   * has removed from the history are included.
   */
  readonly newMessages: readonly StoredMessage[];
  /**
   * Outcome of saving the run to its session. `undefined` if the run has no session.
   *
   * @example
   * ```ts
   * const session = await orchestrator.openSession("customer-42");
   * const result = await orchestrator.start(role, "Where is my order?", { session }).result;
   * if (result.session?.status === "conflict") await session.merge(result);
   * ```
   */
  readonly session: SessionOutcome | undefined;
  /** Last text that the root wrote. Empty if it wrote none. */
  readonly text: string;
  /** Steps of the root's last execution, oldest first. */
  readonly steps: readonly StepRecord[];
  /** Usage of the whole tree, in total, by role and by model. */
  readonly usage: RunUsage;
  /**
   * Prices that model calls were charged at, in the order in which the models were first used. A
   * model whose price changed during the run is listed once for each price.
   */
  readonly prices: readonly AppliedPrice[];
  /**
   * Detached agents that still work, with their usage so far. The result of `run.settled` lists
   * them in `agents` instead.
   */
  readonly detached: readonly AgentSummary[];
  /**
   * Reports of all agents that have ended or are paused, in the order of their start, the root
   * first.
   *
   * @example
   * ```ts
   * for (const { agentPath, status, usage } of result.agents)
   *   console.log(agentPath, status, usage.total.costUsd);
   * ```
   */
  readonly agents: readonly AgentReport[];
  /**
   * Texts that steps refer to by hash, such as instructions and tool definitions.
   *
   * @example
   * ```ts
   * const [step] = result.steps;
   * if (step !== undefined) console.log(result.definitions[step.context.promptHash]); // its instructions
   * ```
   */
  readonly definitions: Definitions;
  /**
   * Number of subagents that were started at each depth. The key "1" is directly below the root.
   */
  readonly subagentsByDepth: Readonly<Record<string, number>>;
  /** Number of refused subagents by refusal code, such as `depth_limit`. */
  readonly refusalsByCode: Readonly<Record<string, number>>;
  /** Budget accounts of all agents, with limits and spending. */
  readonly accounts: readonly Account[];
  /**
   * Milliseconds from the start of the root's execution to its end or to this pause. Earlier pauses
   * are included.
   */
  readonly durationMs: number;
  /** Time at which the root ended or the run was paused, in milliseconds since the epoch. */
  readonly settledAtMs: number;
}

/**
 * Result of a run that completed. `run.orThrow()` resolves to it. `Output` is the type of the
 * root's typed result.
 *
 * @example
 * ```ts
 * const { text, output, usage } = await run.orThrow();
 * ```
 */
export interface CompletedRunResult<out Output = unknown> extends RunResultBase {
  /** Discriminant of `RunResult`. */
  readonly status: "completed";
  /** Reason of the end. Its code is always `completed`. */
  readonly reason: StopReason<"completed">;
  /**
   * Typed result of the root. `undefined` only if the root's role declares no `output`.
   *
   * @example
   * ```ts
   * const pricer = defineAgent({
   *   name: "pricer",
   *   description: "Finds a price.",
   *   instructions: "Find the price.",
   *   model,
   *   output: z.object({ euros: z.number() }),
   * });
   * const { output } = await orchestrator.start(pricer, "A pear tree").orThrow();
   * console.log(output.euros);
   * ```
   */
  readonly output: Output;
  /** Always `undefined`: only a paused run has one. */
  readonly pausedRun: undefined;
}

/**
 * Result of a run that was stopped or cancelled, or that failed. Its `text`, `steps` and `usage`
 * are partial.
 *
 * @example
 * ```ts
 * const result = await run.result;
 * if (result.status === "stopped") console.warn(result.reason.code, result.text);
 * if (result.status === "failed") console.error(result.errors);
 * ```
 */
export type IncompleteRunResult<Output = unknown> = RunResultBase & {
  /** Typed result of the root. `undefined` if the root ended before it gave one. */
  readonly output: Output | undefined;
  /** Always `undefined`: only a paused run has one. */
  readonly pausedRun: undefined;
} & (
    | {
        /** A limit, a stop condition, a hook or a request stopped the run. */
        readonly status: "stopped";
        /** Reason of the end. Its code is a `StopCode` or that of a custom stop condition. */
        readonly reason: StopReason<
          Exclude<StopCode, "error" | "cancelled" | "completed"> | (string & {})
        >;
      }
    | {
        /** An error ended the run. */
        readonly status: "failed";
        /** Reason of the end. */
        readonly reason: StopReason<"error">;
      }
    | {
        /** The run was cancelled. */
        readonly status: "cancelled";
        /** Reason of the end. */
        readonly reason: StopReason<"cancelled">;
      }
  );

/**
 * Result of a paused run, which has not ended. Pass `pausedRun` to `orchestrator.resume`, with
 * answers to `questions`.
 *
 * @example
 * ```ts
 * const result = await run.result;
 * if (result.status === "paused")
 *   for (const { agentPath, toolName, reason } of result.questions)
 *     console.log(`${agentPath} wants to call ${toolName}: ${reason}`);
 * ```
 */
export interface PausedRunResult extends RunResultBase {
  /** Discriminant of `RunResult`. */
  readonly status: "paused";
  /**
   * Reason of the pause: `input_required` if questions are open, `pause_requested` if the caller
   * asked for it.
   */
  readonly reason: StopReason<"input_required" | "pause_requested">;
  /** Always `undefined`: a paused run has no final result. */
  readonly output: undefined;
  /**
   * State of the run as JSON, to store and to pass to `orchestrator.resume`.
   *
   * @example
   * ```ts
   * import { writeFile } from "node:fs/promises";
   *
   * if (result.status === "paused")
   *   await writeFile(`${result.runId}.json`, JSON.stringify(result.pausedRun));
   * ```
   */
  readonly pausedRun: PausedRun;
}

/**
 * Result of a run that has ended or is paused. `status` determines the fields.
 *
 * @example
 * ```ts
 * const result = await run.result;
 * if (result.status === "completed") console.log(result.output);
 * else if (result.status === "paused") orchestrator.resume(result.pausedRun, { answers });
 * else console.error(result.reason.message);
 * ```
 */
export type RunResult<Output = unknown> =
  | CompletedRunResult<Output>
  | IncompleteRunResult<Output>
  | PausedRunResult;

/** Result of a run whose role type is unknown: the output is JSON. */
export type JsonRunResult = RunResult<JsonValue | undefined>;

/** Facts from which a result is built. */
interface ResultFacts extends Pick<RunResult, "runId" | "pausedRun" | "session" | "detached"> {
  readonly atMs: number;
  /** The root first. */
  readonly settled: readonly SettledAgent[];
  /** Failed agents in order. */
  readonly failedIds: readonly AgentId[];
  /** Computes the parts that few callers read. */
  readonly late: () => LateFacts;
}

interface LateFacts extends Pick<
  RunResult,
  "traceId" | "prices" | "definitions" | "subagentsByDepth" | "refusalsByCode"
> {
  readonly accounts: readonly LedgerAccount[];
}

interface ResultSource {
  readonly root: SettledAgent;
  readonly facts: ResultFacts;
}

type RootParts = Pick<RunResult, "messages" | "newMessages" | "steps" | "agents" | "settledAtMs">;

const addLateParts = defineLazyFields<ResultSource, Pick<RunResult, keyof LateFacts> & RootParts>({
  traceId: ({ facts }) => facts.late().traceId,
  messages: ({ root: { agentId, settled } }) => createStoredMessages(settled.conversation, agentId),
  newMessages: ({ root: { agentId, settled } }) =>
    collectAddedMessages(settled.conversation, agentId),
  steps: ({ root }) => root.settled.log.steps,
  prices: ({ facts }) => facts.late().prices,
  agents: ({ facts: { settled, atMs } }) => settled.map((agent) => createAgentReport(agent, atMs)),
  definitions: ({ facts }) => facts.late().definitions,
  subagentsByDepth: ({ facts }) => facts.late().subagentsByDepth,
  refusalsByCode: ({ facts }) => facts.late().refusalsByCode,
  accounts: ({ facts }) => facts.late().accounts.map(toPublicAccount),
  settledAtMs: ({ root: { settled }, facts }) => settled.telemetry.endedAtMs ?? facts.atMs,
});

const addSums = defineLazyFields<readonly AgentSummary[], Pick<RunUsage, "byRole" | "byModel">>({
  byRole: (agents) => sumUp(agents.map(({ role, usage: { own } }) => [role, own])),
  byModel: (agents) => sumUp(agents.flatMap(splitByModel)),
});

/** Result whose parts are not related by its status. */
type LooseResult = RunResultBase &
  Pick<JsonRunResult, "status" | "reason" | "output" | "pausedRun">;

/**
 * Returns the result, deeply frozen. Its fields fit its status: code and status of a reason agree
 * (`getTerminalStatus`), a root completes only with its output, and a paused run requires a paused
 * root. An output that was given beside an open call is not final yet.
 */
export function buildResult(facts: ResultFacts): JsonRunResult;
export function buildResult(facts: ResultFacts): LooseResult {
  const { runId, pausedRun, session, detached, atMs, settled: all, failedIds } = facts;
  const [root] = all;
  if (root === undefined) throw new Error("A run has a root.");
  const { status, log } = root.settled;
  const questions = pausedRun?.questions ?? NONE;
  const consumers = detached.length === 0 ? all : [...all, ...detached];
  const result = {
    runId,
    status,
    reason: questions.length === 0 ? root.settled.reason : describeReason(root.settled, questions),
    signals: log.signals,
    errors: failedIds.length === 0 ? NONE : listFailures(failedIds, all),
    questions,
    pausedRun,
    session,
    text: getLastText(root.settled),
    output: status === "paused" ? undefined : log.output,
    usage: addSums({ ...root.usage }, consumers),
    detached,
    durationMs: computeDuration(root.settled, atMs),
  };
  return addLateParts(result, { root, facts });
}

/** Returns why the root settled. A run that waits for answers names the calls of all its agents. */
function describeReason(
  { reason }: SettledAgent["settled"],
  questions: readonly Question[],
): StopReason {
  if (reason.code !== "input_required") return reason;
  const data = { ...reason.data, questions: questions.length };
  return { ...reason, message: describeWait(questions), data };
}

const NONE: readonly never[] = Object.freeze([]);

function listFailures(
  failedIds: readonly AgentId[],
  settled: readonly SettledAgent[],
): readonly AgentError[] {
  const byId = new Map(settled.map((agent) => [agent.agentId, agent]));
  return failedIds.flatMap((agentId) => {
    const failed = byId.get(agentId);
    if (failed === undefined) return [];
    const { agentPath } = failed;
    return failed.settled.log.errors.map((error) => ({ agentId, agentPath, ...error }));
  });
}

type NamedUsage = readonly [name: string, usage: Usage];

/** Splits the agent's usage into that of its model and those of a fallback. */
function splitByModel({ model, usage, otherModels }: AgentSummary): readonly NamedUsage[] {
  if (otherModels === undefined) return [[model, usage.own]];
  const others = otherModels.map((other): NamedUsage => [other.model, other.usage]);
  const rest = others.reduce((left, [, used]) => subtractUsage(left, used), usage.own);
  return [[model, rest], ...others];
}

function sumUp(all: readonly NamedUsage[]): Readonly<Record<string, Usage>> {
  const sums = new Map<string, Usage>();
  for (const [name, usage] of all) sums.set(name, addUsage(sums.get(name) ?? NO_USAGE, usage));
  return Object.fromEntries(sums);
}

/**
 * Returns the result of a run in its present state. `pausedRun` is `undefined` if the root has
 * ended. If no agent can change any more and the run has no store, this closes the ledger and the
 * recorder, which releases the run: only the event `run.ended` may follow.
 */
export function createResult(run: RunRuntime, pausedRun?: PausedRun): JsonRunResult {
  const { runId, tree, clock, ledger, recorder, definitions } = run;
  const settled: SettledAgent[] = [];
  const detached: AgentSummary[] = [];
  const models: Model[] = [];
  // A detached agent may be paused, and continues after this result.
  let isFinal = run.journal === undefined;
  for (const node of tree.nodes) {
    const agent = describeAgent(node);
    models.push(node.model);
    if ("settled" in agent) settled.push(agent);
    else detached.push(agent);
    if (node.settled === undefined || node.settled.status === "paused") isFinal = false;
  }
  const nowMs = clock.nowMs();
  if (isFinal) ledger.close();
  const ids = isFinal ? recorder.close() : recorder;
  const { counts, pricesBefore } = tree;
  const { priceOf } = run.settings;
  let known: LateFacts | undefined;
  // This function must not retain the run, because results outlive their runs.
  const computeLate = (): LateFacts => {
    known ??= {
      traceId: ids.runIds.traceId,
      prices: collectAppliedPrices(models, priceOf, pricesBefore),
      definitions: definitions.toJSON(),
      ...createCountFields(counts),
      accounts: ledger.snapshot(nowMs),
    };
    return known;
  };
  if (!isFinal) computeLate();
  return buildResult({
    runId,
    atMs: pausedRun?.pausedAtMs ?? nowMs,
    pausedRun,
    session: run.session?.outcome,
    settled,
    detached,
    failedIds: tree.failedIds,
    late: computeLate,
  });
}

/** Records that the run has ended and returns its result. */
export function recordRunEnd(run: RunRuntime, root: AgentRuntime): JsonRunResult {
  const result = createResult(run);
  if (result.status === "paused") throw new Error("A paused run has not ended.");
  run.journal?.append(createResultRecord(result, run.clock.nowMs()));
  const { recorder } = run;
  if (!recorder.countUnread("run.ended"))
    recorder.record(createScopeWithoutExecution(root), createEndEvent(result));
  return result;
}

/** Records that the run is paused and returns its result. */
export function recordRunPause(
  run: RunRuntime,
  root: AgentRuntime,
  before: PausesBefore,
): PausedRunResult {
  const { tree, recorder } = run;
  for (const node of tree.nodes) node.close();
  const pausedRun = createPausedRun(run, before);
  const result = createResult(run, pausedRun);
  if (result.status !== "paused") throw new Error("A run that has ended is not paused.");
  const { reason, questions, durationMs } = result;
  const usage = pickUsage(result);
  run.journal?.append(createResultRecord(result, pausedRun.pausedAtMs));
  recorder.record(createScopeWithoutExecution(root), {
    type: "run.paused",
    reason,
    questions,
    usage,
    durationMs,
  });
  const whole = { ...pausedRun, eventCount: recorder.eventCount };
  return deepFreeze({ ...result, pausedRun: run.settings.signer?.sign(whole) ?? whole });
}

function createEndEvent(result: CompletedRunResult | IncompleteRunResult): EventBody<"run.ended"> {
  const { status, reason, signals, subagentsByDepth, refusalsByCode, durationMs } = result;
  const error = status === "failed" ? result.agents[0]?.errors[0] : undefined;
  const failure = error === undefined ? {} : { error };
  const counts = { usage: pickUsage(result), subagentsByDepth, refusalsByCode };
  return { type: "run.ended", status, reason, ...failure, signals, ...counts, durationMs };
}

/** Returns the usage of the tree for events, without its breakdowns. */
function pickUsage({ usage: { own, descendants, total } }: RunResult): UsageReport {
  return { own, descendants, total };
}

/**
 * Returns the record of the agents' models and removed tools, the prices, and the outcome of the
 * session.
 */
function createResultRecord({ agents, prices, session }: RunResult, atMs: number) {
  const models = Map.groupBy(agents, ({ model }) => model);
  return {
    type: "result",
    atMs,
    models: [...models].map(([model, agents]) => ({
      model,
      agentIds: agents.map((item) => item.agentId),
    })),
    removedTools: agents
      .filter(({ removedTools }) => removedTools.length > 0)
      .map(({ agentId, removedTools: removed }) => ({ agentId, removed })),
    prices,
    ...(session === undefined ? {} : { session }),
  } as const satisfies RecordOf<"result">;
}

/** Number of earlier pauses, and the questions that were answered by then. */
export interface PausesBefore {
  readonly pauseCount: number;
  readonly answered: readonly QuestionId[];
}

/**
 * Returns the state that another process needs to continue. All agents must have settled, and their
 * clocks must be closed.
 */
export function createPausedRun(
  runtime: RunRuntime,
  { pauseCount, answered }: PausesBefore,
): PausedRunRecord {
  const { runId, tree, ledger, recorder, clock, definitions } = runtime;
  const { counts, limits, nodes } = tree;
  const { traceId, spanId, isSampled } = recorder.runIds;
  const questions = nodes.flatMap(({ settled }) =>
    settled === undefined ? [] : findAskedQuestions(settled),
  );
  const open = new Set(questions.map(({ questionId }) => questionId));
  const run: PausedRunRecord = deepFreeze({
    version: PAUSED_RUN_VERSION,
    runId,
    pauseCount: pauseCount + 1,
    traceId,
    spanId,
    ...(isSampled === undefined ? {} : { isSampled }),
    answered: answered.filter((questionId) => !open.has(questionId)),
    pausedAtMs: clock.nowMs(),
    eventCount: recorder.eventCount,
    leaseCount: ledger.leaseCount,
    limits: { ...limits },
    refusalsByCode: createCountFields(counts).refusalsByCode,
    questions,
    agents: nodes.map(createPausedAgent),
    definitions: definitions.toJSON(),
    prices: collectAppliedPrices(tree.models, runtime.settings.priceOf, tree.pricesBefore).map(
      (used) => structuredClone(used),
    ),
    accounts: ledger.snapshot(),
    ...(runtime.session === undefined ? {} : { session: runtime.session.ref }),
  });
  // A signed paused run needs no other verification.
  if (questions.length > 0 && runtime.settings.signer === undefined) rememberWaitingCalls(run);
  return run;
}

function createPausedAgent(node: AgentRuntime): PausedAgent {
  const { identity, settled } = node;
  if (settled === undefined) throw new Error(`${identity.agentPath} is not at rest.`);
  return {
    ...createAgentRecord(node),
    ordinals: node.ordinals,
    state: toSnapshot(settled),
  };
}
