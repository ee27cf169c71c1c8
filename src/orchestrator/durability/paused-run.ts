// Paused runs: the complete state of a run as one plain JSON value, with which another process can
// continue the run. Versioned. An invalid value is rejected as a whole, before anything happens.

import type { QuestionDeferral } from "../../agent/agent-state.ts";
import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { describeReceived } from "../../kernel/argument-checks.ts";
import { stringifyCanonical, isRecord, type JsonObject } from "../../kernel/json.ts";
import { AgentSnapshotSchema } from "../../agent/agent-snapshot.ts";
import { AccountSchema } from "../../protocol/account.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  ExecutionIdSchema,
  QuestionIdSchema,
  RunIdSchema,
  StepIdSchema,
  type AgentId,
  type RunId,
} from "../../protocol/ids.ts";
import { DefinitionsSchema, hashText, type Definitions } from "../../protocol/definition.ts";
import { EVENT_SCHEMAS } from "../../protocol/event-schemas.ts";
import { MessageContentSchema } from "../../protocol/message-content.ts";
import { JsonObjectSchema } from "../../protocol/json-value.ts";
import { lazyObject, lazySchema, z } from "../../protocol/lazy-schema.ts";
import { PriceUsedSchema } from "../../budget/prices-used.ts";
import { SessionRefSchema } from "../sessions/session-ref.ts";
import { DynamicRoleSchema } from "../../protocol/subagent.ts";
import type { SettledStatus } from "../../protocol/stop.ts";
import { computeArgumentsHash, QuestionSchema, type Question } from "../../protocol/question.ts";
import { ToolRuleSchema } from "../../protocol/tool-rule.ts";

/** Version of the fields of a paused run. */
export const PAUSED_RUN_VERSION = 1;

/**
 * State of a paused run as plain JSON, which `orchestrator.resume` continues in this process or
 * another. Store it completely and unchanged. Fields other than these are internal.
 *
 * @example
 * ```ts
 * import { readFile, writeFile } from "node:fs/promises";
 *
 * if (result.status === "paused") await writeFile("run.json", JSON.stringify(result.pausedRun));
 *
 * const pausedRun = readPausedRun(await readFile("run.json", "utf8"));
 * const resumed = orchestrator.resume(pausedRun, { answers });
 * ```
 */
export interface PausedRun {
  /** Format version. Paused runs of another version are rejected with `unsupported_version`. */
  readonly version: number;
  readonly runId: RunId;
  /** Number of pauses of the run, including this one. */
  readonly pauseCount: number;
  /** Time of the pause in milliseconds since the epoch. */
  readonly pausedAtMs: number;
  /**
   * Open questions of the whole tree. Each needs an answer before the run can continue.
   *
   * @example
   * ```ts
   * const answers = pausedRun.questions.map((question) => approve(question));
   * ```
   */
  readonly questions: readonly Question[];
  /** Agents of the tree, each parent before its children, the root first. */
  readonly agents: readonly {
    readonly agentId: AgentId;
    /** Place of the agent in the tree, such as `lead/researcher#2`. */
    readonly agentPath: string;
    /** Name of the agent's role. */
    readonly role: string;
    /** Status of the agent and its open step. */
    readonly state: {
      /** How the agent ended, or `paused`. */
      readonly status: SettledStatus;
      /** Step in which the agent is paused. Absent if no step is open. */
      readonly step?:
        | {
            /** Number of the step, from 1. */
            readonly number: number;
          }
        | undefined;
    };
  }[];
  /** Texts that steps refer to by hash, such as instructions and tool definitions. */
  readonly definitions: Definitions;
  /** HMAC-SHA256 signature of all other fields. Absent if the orchestrator has no `signingKey`. */
  readonly signature?: string;
}

const count = lazySchema(() => z.int().nonnegative());

/** Agent as it was created. */
export const CreatedAgentSchema = lazyObject(() => ({
  agentId: AgentIdSchema(),
  executionId: ExecutionIdSchema(),
  parentAgentId: AgentIdSchema().nullable(),
  agentPath: z.string(),
  depth: count(),
  role: z.string(),
  /** Only the text, once the history contains the task. */
  task: MessageContentSchema(),
  metadata: JsonObjectSchema(),
  spawnCallId: CallIdSchema().nullable(),
  spawnStepId: StepIdSchema().nullable(),
  startedAtMs: z.number(),
  /** Number of the execution, from 1. */
  execution: z.int().positive(),
  /** True if its parent has detached the agent. */
  isDetached: z.boolean(),
  /** Rules that remove tools from the agent and all agents below it. */
  toolRules: z.array(ToolRuleSchema()).readonly(),
  /** The role, if it is dynamic. */
  draft: DynamicRoleSchema().exactOptional(),
}));
export const PausedAgentSchema = lazySchema(() =>
  CreatedAgentSchema().extend({
    /** Number of its subagents by role. */
    ordinals: z.record(z.string(), count()).readonly(),
    state: AgentSnapshotSchema(),
  }),
);
/** Agent of a paused run, which is paused or has ended. */
export type PausedAgent = z.infer<ReturnType<typeof PausedAgentSchema>>;

/** Limits, in the form of the first event of a run. */
export const TreeLimitsSchema = lazySchema(() => EVENT_SCHEMAS["run.started"]().limits);

const PausedRunSchema = lazyObject(() => ({
  version: z.literal(PAUSED_RUN_VERSION),
  runId: RunIdSchema(),
  pauseCount: z.int().positive(),
  pausedAtMs: z.number(),
  /** Trace of the run up to the pause, and the span of the run in it. */
  traceId: z.string(),
  spanId: z.string().exactOptional(),
  /** Whether the trace was sampled, if tracing is used. */
  isSampled: z.boolean().exactOptional(),
  /** Number of events so far; numbering continues from here. */
  eventCount: count(),
  leaseCount: count(),
  limits: TreeLimitsSchema(),
  refusalsByCode: z.record(z.string(), count()).readonly(),
  questions: z.array(QuestionSchema()).readonly(),
  /** Questions that were answered before: further answers are rejected. */
  answered: z.array(QuestionIdSchema()).readonly(),
  agents: z.array(PausedAgentSchema()).min(1).readonly(),
  definitions: DefinitionsSchema(),
  /** Prices of the calls so far. */
  prices: z.array(PriceUsedSchema()).readonly(),
  accounts: z.array(AccountSchema()).min(1).readonly(),
  /** Session of the run. */
  session: SessionRefSchema().exactOptional(),
  signature: z.string().exactOptional(),
})) satisfies () => z.ZodType<PausedRun>;
/** Paused run with its internal fields. */
export type PausedRunRecord = Readonly<z.infer<ReturnType<typeof PausedRunSchema>>>;

/**
 * Parses and validates a stored paused run: a value, or its JSON text.
 *
 * @throws EspalierError `unsupported_version` for another format version.
 * @throws EspalierError `invalid_paused_run` for a value that is incomplete or altered.
 *
 * @example
 * ```ts
 * import { readFile } from "node:fs/promises";
 *
 * const pausedRun = readPausedRun(await readFile("order-4711.json", "utf8"));
 * const answers = pausedRun.questions.map((question) => approve(question));
 * const resumed = orchestrator.resume(pausedRun, { answers });
 * ```
 */
export function readPausedRun(stored: unknown): PausedRun {
  return parsePausedRun(stored);
}

/** Parses a stored paused run with its internal fields. Throws like `readPausedRun`. */
export function parsePausedRun(stored: unknown): PausedRunRecord {
  const value = typeof stored === "string" ? parsePausedText(stored) : stored;
  const version = isRecord(value) ? value["version"] : undefined;
  if (typeof version === "number" && version !== PAUSED_RUN_VERSION) {
    throw new EspalierError({
      code: "unsupported_version",
      message: `Expected a paused run of format version ${PAUSED_RUN_VERSION}, got version ${version}. Resume it with the version of espalier that paused it.`,
      data: { expected: PAUSED_RUN_VERSION, got: version },
    });
  }
  let run: PausedRunRecord;
  try {
    run = PausedRunSchema().parse(value);
  } catch (cause) {
    throw createPausedRunError(describeProblem(value, cause), cause);
  }
  const problem = findRunProblem(run);
  if (problem !== undefined) throw createPausedRunError(problem);
  return run;
}

/**
 * Returns the failed agents in the order of their ends. Within one millisecond, subagents come
 * before their parents.
 */
export function collectFailedAgents({ agents }: PausedRunRecord): readonly AgentId[] {
  return agents
    .filter(({ state }) => state.log.errors.length > 0)
    .toReversed()
    .toSorted((left, right) => getEndTime(left) - getEndTime(right))
    .map(({ agentId }) => agentId);
}

function getEndTime({ state }: PausedAgent): number {
  return state.telemetry.endedAtMs ?? Infinity;
}

/** Describes why a value is not a paused run, for an error. */
function describeProblem(value: unknown, cause: unknown): string {
  if (value instanceof Promise) return "it is a promise; await it";
  if (!isRecord(value)) return `it is ${describeReceived(value)}`;
  if ("pausedRun" in value) return "it is the result";
  if (!(cause instanceof z.ZodError)) return getErrorMessage(cause);
  return z.prettifyError(new z.ZodError(cause.issues.slice(0, MOST_ISSUES)));
}

const MOST_ISSUES = 3;

/** Parses the JSON text of a paused run. Throws `invalid_paused_run`. */
function parsePausedText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw createPausedRunError("it is not JSON; it may be truncated", cause);
  }
}

/** Returns a contradiction in the run. `undefined` for a consistent run. */
function findRunProblem(run: PausedRunRecord): string | undefined {
  const [root] = run.agents;
  if (root?.parentAgentId !== null) return "its first agent is not the root";
  return (
    findAgentMismatch(run) ??
    findAccountMismatch(run) ??
    findQuestionMismatch(run) ??
    findDefinitionMismatch(run)
  );
}

function findAgentMismatch({ agents }: PausedRunRecord): string | undefined {
  const seen = new Set<string>();
  const executions = new Set<string>();
  const known = new Set(agents.map(({ agentId }) => agentId));
  for (const agent of agents) {
    const { agentId, agentPath, parentAgentId, executionId, state } = agent;
    if (seen.has(agentId)) return `${agentPath} is in it twice`;
    if (seen.size > 0 && (parentAgentId === null || !seen.has(parentAgentId)))
      return `${agentPath} precedes its parent, or has none`;
    if (state.executionId !== executionId || executions.has(executionId))
      return `the execution of ${agentPath} belongs to another agent`;
    if (state.conversation.tags.length !== state.conversation.messages.length)
      return `the origins of the messages of ${agentPath} are missing`;
    if (getStep(agent)?.hasAppliedResults === true)
      return `${agentPath} is paused in a step that has ended`;
    const { toolCalls = [] } = getStep(agent)?.reply?.message ?? {};
    const calls = new Set(toolCalls.map(({ callId }) => callId));
    if (getDeferrals(agent).some(({ callId }) => !calls.has(callId)))
      return `${agentPath} waits for a call that its model never made`;
    if (listAwaitedChildren(agent).some((childId) => !known.has(childId)))
      return `a paused subagent of ${agentPath} is missing`;
    seen.add(agentId);
    executions.add(executionId);
  }
  return undefined;
}

/**
 * Checks that every agent has one account, below its parent's, and that no other accounts exist.
 */
function findAccountMismatch({ agents, accounts }: PausedRunRecord): string | undefined {
  if (accounts.length !== agents.length) return "its accounts do not match its agents";
  const opened = new Set<string | null>([null]);
  for (const { agentId, parentAgentId, agentPath } of accounts) {
    if (!opened.has(parentAgentId)) return `the account of ${agentPath} precedes its parent's`;
    opened.add(agentId);
  }
  const parents = new Map(accounts.map(({ agentId, parentAgentId }) => [agentId, parentAgentId]));
  const misplaced = agents.find(
    ({ agentId, parentAgentId }) => parents.get(agentId) !== parentAgentId,
  );
  if (misplaced !== undefined)
    return `the account of ${misplaced.agentPath} belongs to another agent`;
  const reserving = accounts.find(({ reserved }) =>
    Object.values(reserved).some((amount) => amount !== 0),
  );
  return reserving === undefined ? undefined : `${reserving.agentPath} still has budget reserved`;
}

/** Checks that the questions are exactly the ones that the agents wait for. */
function findQuestionMismatch({ agents, questions }: PausedRunRecord): string | undefined {
  const waiting = agents.flatMap((agent) =>
    getDeferrals(agent).flatMap((deferral) => (deferral.type === "question" ? [deferral] : [])),
  );
  const waitingQuestions = waiting.map(({ question }) => question);
  if (stringifyCanonical(waitingQuestions) !== stringifyCanonical(questions))
    return "its questions do not match its agents";
  const forged = waiting.find(isForged);
  return forged === undefined ? undefined : `question ${forged.question.questionId} was altered`;
}

/**
 * Returns true if the arguments of a question differ from its hash, or from the call that would
 * run.
 */
export function isForged({
  question,
  argumentsText,
}: Pick<QuestionDeferral, "question" | "argumentsText">): boolean {
  return (
    question.argumentsHash !== computeArgumentsHash(question.toolName, question.arguments) ||
    computeCanonicalText(argumentsText) !==
      stringifyCanonical(question.writtenArguments ?? question.arguments)
  );
}

/** Checks that each text fits its hash, since otherwise another text could be used in its place. */
function findDefinitionMismatch({ definitions }: PausedRunRecord): string | undefined {
  const forged = Object.entries(definitions).find(([hash, text]) => hashText(text) !== hash);
  return forged === undefined ? undefined : `the definition ${forged[0]} was altered`;
}

function computeCanonicalText(text: string): string | undefined {
  try {
    return stringifyCanonical(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function getStep({ state }: PausedAgent) {
  return state.status === "paused" ? state.step : undefined;
}

function getDeferrals(agent: PausedAgent) {
  return getStep(agent)?.deferrals ?? [];
}

/**
 * Returns the subagents for whose results the agent waits, and those that its open step has started
 * in the background.
 */
export function listAwaitedChildren(agent: PausedAgent): readonly AgentId[] {
  const { state } = agent;
  const delegated = getDeferrals(agent).flatMap((deferral) =>
    deferral.type === "subagent" ? [deferral.childId, ...(deferral.startedAgentIds ?? [])] : [],
  );
  const started =
    getStep(agent)?.executions.flatMap(({ startedAgentIds }) => startedAgentIds ?? []) ?? [];
  const queued = state.log.subtasks.flatMap(({ childId }) => childId ?? []);
  return [...delegated, ...started, ...queued, ...state.log.background];
}

/** Returns the error for a run that cannot continue with the given roles, tools or hooks. */
export function createCannotContinueError(message: string, data: JsonObject): EspalierError {
  return new EspalierError({ code: "invalid_paused_run", message, data });
}

/** Returns the error for a value that is not a paused run, or that contradicts itself. */
export function createPausedRunError(problem: string, cause?: unknown): EspalierError {
  return new EspalierError({
    code: "invalid_paused_run",
    message: `Invalid paused run: ${problem}. Pass result.pausedRun complete and unchanged.`,
    ...(cause === undefined ? {} : { cause }),
  });
}
