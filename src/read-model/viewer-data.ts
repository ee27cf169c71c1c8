// Payloads of the viewer's API (`/api/v1`): lists of runs, snapshots, patches, and the content of
// steps, which is loaded when a step is opened. Types that the server, the page and the command
// share.

import type { InheritanceRecord } from "../protocol/context-manifest.ts";
import type { JsonValue } from "../kernel/json.ts";
import type { AgentId, CallId, RunId, SessionId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import type { Answer, Question } from "../protocol/question.ts";
import type { ErrorRecord, StopReason, TerminalStatus } from "../protocol/stop.ts";
import type { StepTiming } from "../protocol/step-timing.ts";
import type { StepContext } from "../protocol/step-context.ts";
import type { SpawnRefusal } from "../protocol/subagent.ts";
import type { Usage } from "../protocol/usage.ts";
import type { CallFold, StepFold } from "./step-fold.ts";

/**
 * Status of a run in a list.
 *
 * - `working`: a live process owns the run.
 * - `input_required`: questions are open, whether the run is paused or not.
 * - `paused`: the run is paused without an open question.
 * - `waiting`: the run has work to do, and no process owns it.
 * - `lost`: the owner process is gone, or sent no heartbeat for 30 seconds.
 * - `completed`, `stopped`, `failed`, `cancelled`: the run ended.
 * - `ended`: the run ended, and its journal has not been folded yet.
 *
 * @example
 * ```ts
 * const ATTENTION: readonly RunRowStatus[] = ["input_required", "paused", "lost"];
 * const needsAttention = ({ status }: RunRow): boolean => ATTENTION.includes(status);
 * ```
 */
export type RunRowStatus = RunOverview["status"] | "lost" | "waiting" | "ended";

/** Process that owns a run. */
export interface OwnerProcess {
  /** Host name of the machine. */
  readonly hostname: string;
  /** Process id on that machine. */
  readonly processId: number;
  /** True if the owner is the process of the viewer. Actions then take effect at once. */
  readonly isThisProcess: boolean;
}

/** Facts that a store has about a run. */
export interface RunListing {
  /** Id of the run. */
  readonly runId: RunId;
  /** Role and task of the run, at most 200 characters. Only the role if content is hidden. */
  readonly title: string;
  /** Status of the run. Before the run is folded, the status in the store. */
  readonly status: RunRowStatus;
  /** Creation of the run in milliseconds since the epoch. */
  readonly createdAtMs: number;
  /** Last write or change of owner in milliseconds since the epoch. */
  readonly updatedAtMs: number;
  /** Process that owns the run. `null` if there is none. */
  readonly owner: OwnerProcess | null;
}

/**
 * Run in a list. Fields of `RunSummary` are absent until the viewer has folded the run.
 *
 * @example
 * ```ts
 * const { origin, hash } = new URL(view.url);
 * const headers = { authorization: `Bearer ${hash.slice("#token=".length)}` };
 * const response = await fetch(`${origin}/api/v1/runs?status=failed`, { headers });
 * const { runs } = z.object({ runs: z.array(z.custom<RunRow>()) }).parse(await response.json());
 * for (const { title, reason } of runs) console.log(title, reason?.code);
 * ```
 */
export interface RunRow extends RunListing, Partial<RunSummary> {
  /** Open questions, oldest first. Absent until the viewer has folded the run. */
  readonly questions?: readonly QuestionRow[] | undefined;
}

/** Run without its agents: the facts of the store and the folded facts. */
export interface RunHead extends RunListing, Omit<RunOverview, "status"> {}

/**
 * Start, duration and idle time of a run.
 *
 * @example
 * ```ts
 * const { durationMs, idleMs, isIdle }: RunTime = fold.time;
 * console.log(`${(durationMs - idleMs) / 1_000} s of work`, isIdle ? "(waiting)" : "");
 * ```
 */
export interface RunTime {
  /**
   * Start of the run in milliseconds since the epoch. If the fold began at a resumption, the time
   * of that resumption.
   */
  readonly startedAtMs: number;
  /**
   * End of the run in milliseconds since the epoch. Absent until the run ends, also while it is
   * paused.
   */
  readonly endedAtMs?: number | undefined;
  /**
   * Milliseconds from the start to the end, pauses included. For a run that has not ended: until
   * now, or until the last event in a `RunFold`.
   */
  readonly durationMs: number;
  /**
   * Part of `durationMs` in which the run was paused, had no owner process or only waited for
   * answers.
   */
  readonly idleMs: number;
  /** True while the run is paused, has no owner process or only waits for answers. */
  readonly isIdle: boolean;
}

/** Folded facts of a run that a list shows. */
export interface RunSummary extends RunTime {
  /** Session that the run continues. Absent if the run has no session. */
  readonly sessionId?: SessionId | undefined;
  /** Number of started agents, the root included. */
  readonly agentCount: number;
  /** Number of agents that are neither paused nor ended. */
  readonly running: number;
  /** Number of running agents whose next model call waits for budget. */
  readonly awaitingBudget: number;
  /** Number of agents whose last execution failed. */
  readonly failedAgents: number;
  /** Tokens and cost of all agents together. */
  readonly spent: Spent;
  /** Budget of the run by axis, grants included. Only limited axes are present. */
  readonly budget: AxisAmounts;
  /**
   * Unspent budget by axis. Reservations of calls in flight count as unspent. Only limited axes are
   * present.
   */
  readonly remaining: AxisAmounts;
  /** Why the run ended or paused; for a failed run, its error. Absent while the run is active. */
  readonly reason?: Pick<StopReason, "code" | "message"> | undefined;
  /** Run from which this run was forked. Absent if the run is not a fork. */
  readonly forkedFrom?:
    | {
        /** Id of the original run. */
        readonly runId: RunId;
        /**
         * Last step of the original root that the fork shares; 0 if the fork begins before the
         * first step.
         */
        readonly stepNumber: number;
      }
    | undefined;
}

/** Folded facts of a run as a whole. */
export interface RunOverview extends RunSummary {
  /** Status according to the events. The events do not show whether a process owns the run. */
  readonly status: "input_required" | "working" | "paused" | TerminalStatus;
  /** OpenTelemetry trace id of the run, 32 hexadecimal digits. */
  readonly traceId: string;
  /** Time of the last event in milliseconds since the epoch, by the clock of the run. */
  readonly lastAtMs: number;
  /**
   * Ids of the models whose price is unknown: their calls are missing in costs. Absent if all
   * prices are known.
   */
  readonly unpricedModels?: readonly string[] | undefined;
  /** Number of refused spawns. */
  readonly refusalCount: number;
  /** Number of tool calls that failed or had to be corrected by the model. */
  readonly toolErrorCount: number;
}

/**
 * Amounts by budget axis. Only limited axes are present.
 *
 * @example
 * ```ts
 * const left: AxisAmounts = { costUsd: 0.5, steps: 30 };
 * ```
 */
export type AxisAmounts = Readonly<Record<string, number>>;

/**
 * Tokens and cost. `costUsd` is in US dollars, and `null` if no part of the cost is known.
 *
 * `unpricedCalls` counts the model calls without a known price. If it is above 0, `costUsd` is only
 * the known part.
 *
 * @example
 * ```ts
 * function formatCost({ costUsd, unpricedCalls }: Spent): string {
 *   if (costUsd === null) return "unknown";
 *   return unpricedCalls > 0 ? `at least $${costUsd}` : `$${costUsd}`;
 * }
 * ```
 */
export type Spent = Pick<Usage, "totalTokens" | "costUsd" | "unpricedCalls">;

/**
 * Open question with the facts that a person needs to answer it.
 *
 * @example
 * ```ts
 * function describeQuestion({ role, toolName, arguments: input, reason }: QuestionRow): string {
 *   return `${role} wants to call ${toolName}(${JSON.stringify(input)}): ${reason}`;
 * }
 * ```
 */
export interface QuestionRow extends Question {
  /** Id of the run that asks. */
  readonly runId: RunId;
  /** Role of the agent that asks. Empty if the start of the agent was not folded. */
  readonly role: string;
  /**
   * Task of the agent that asks. Empty if the start of the agent was not folded, or if content is
   * hidden.
   */
  readonly task: string;
  /**
   * Latest answer that was rejected, so that the question is still open. Absent if there was none.
   */
  readonly rejectedAnswer?:
    | {
        /** Number of the answer in the mailbox of the run, from 1. */
        readonly number: number;
        /**
         * Why the answer was rejected, for example because its arguments do not fit the tool. Empty
         * if content is hidden.
         */
        readonly problem: string;
      }
    | undefined;
  /** Title of the run. Only present in the list of all open questions. */
  readonly runTitle?: string | undefined;
}

/** Answer that was rejected, so that its question is still open. */
export type RejectedAnswer = NonNullable<QuestionRow["rejectedAnswer"]>;

/**
 * All activities of an agent. An `AgentRow` contains an index into this array, which is smaller
 * than the name. `ActivityName` explains each value.
 *
 * @example
 * ```ts
 * function isFailed(row: AgentRow): boolean {
 *   return ACTIVITIES[row[7]] === "failed";
 * }
 * ```
 */
export const ACTIVITIES = [
  "preparing",
  "awaiting_budget",
  "queued",
  "thinking",
  "retrying",
  "calling",
  "delegating",
  "asking",
  "paused",
  "completed",
  "stopped",
  "failed",
  "cancelled",
] as const;
/**
 * Current activity of an agent, or the status with which it paused or ended.
 *
 * - `preparing`: the agent builds its next request or processes results.
 * - `awaiting_budget`: a model call waits until other calls release budget.
 * - `queued`: a model call waits for a slot or a rate limit.
 * - `thinking`: a model call is in flight.
 * - `retrying`: a model call waits for its next attempt.
 * - `calling`: at least one tool is running.
 * - `asking`: the agent waits for an answer to a question.
 * - `delegating`: the agent only waits for subagents.
 * - `paused`, `completed`, `stopped`, `failed`, `cancelled`: the agent is paused or ended.
 *
 * @example
 * ```ts
 * const ICONS: Partial<Record<ActivityName, string>> = { thinking: "…", asking: "?", failed: "✗" };
 * for (const { name, activity } of fold.agents) console.log(ICONS[activity] ?? " ", name);
 * ```
 */
export type ActivityName = (typeof ACTIVITIES)[number];

/**
 * All kinds of spans. A span contains an index into this array.
 *
 * - `chat`: a model call with all its attempts.
 * - `tool`: a tool call.
 * - `wait`: a wait for a subagent.
 * - `budget`: a wait until calls in flight release budget.
 * - `queue`: a wait for a slot or a rate limit.
 * - `busy`: a delay before a request, because the process was busy.
 * - `retry`: a delay before another attempt of a model call.
 * - `ask`: a wait for an answer to a question.
 * - `park`: a pause of the agent, or the time after a crash of its process.
 *
 * @example
 * ```ts
 * const { numbers } = fold.agents[0]?.spans ?? { numbers: [] };
 * const kinds = numbers.flatMap((kind, at) => (at % SPAN_WIDTH === 0 ? [SPAN_KINDS[kind]] : []));
 * console.log(kinds.filter((kind) => kind === "chat").length, "model calls");
 * ```
 */
export const SPAN_KINDS = [
  "chat",
  "tool",
  "wait",
  "budget",
  "queue",
  "busy",
  "retry",
  "ask",
  "park",
] as const;
/**
 * All endings of spans. A span contains an index into this array.
 *
 * - `open`: the span has not ended.
 * - `ok`: success.
 * - `failed`: an error.
 * - `rejected`: a tool call that was refused or not executed, or a denied question.
 * - `cut`: a cancellation, a pause or a crash.
 *
 * @example
 * ```ts
 * const { numbers } = fold.agents[0]?.spans ?? { numbers: [] };
 * console.log(SPAN_ENDS[numbers[3] ?? 0]); // ending of the first span, for example "ok"
 * ```
 */
export const SPAN_ENDS = ["open", "ok", "failed", "rejected", "cut"] as const;

/** Numbers of one or more spans, `SPAN_WIDTH` for each. */
export type SpanNumbers = readonly number[];
/**
 * Count of numbers in a span. In order:
 *
 * - index of its kind in `SPAN_KINDS`
 * - start in milliseconds after the start of the run
 * - end in milliseconds after the start of the run, -1 while the span is open
 * - index of its ending in `SPAN_ENDS`
 * - number of its step, 0 for none
 * - for `budget`: index of the agent whose budget lacks room, -1 if unknown
 *
 * @example
 * ```ts
 * function lastSpan(numbers: readonly number[]) {
 *   const [kind = 0, startMs = 0, endMs = -1] = numbers.slice(-SPAN_WIDTH);
 *   return { kind: SPAN_KINDS[kind], startMs, ...(endMs === -1 ? {} : { endMs }) };
 * }
 * ```
 */
export const SPAN_WIDTH = 6;

/**
 * Agent in the tree of a run, as a compact tuple. The index of a row is the start order of its
 * agent.
 *
 * @example
 * ```ts
 * function describeRow(row: AgentRow): string {
 *   const [, , name, role, , , , activity, note] = row;
 *   return `${name} (${role}): ${ACTIVITIES[activity]} ${note}`;
 * }
 * ```
 */
export type AgentRow = readonly [
  /** Index of the parent's row; -1 for the root. */
  parent: number,
  /** Id of the agent. */
  id: AgentId,
  /** Last part of the path, for example `researcher#2`. */
  name: string,
  /** Name of the agent's role. */
  role: string,
  /** First 200 characters of the task. Empty if content is hidden. */
  task: string,
  /** First start in milliseconds since the epoch. */
  startedAtMs: number,
  /** End in milliseconds since the epoch; -1 if the agent is active or paused. */
  endedAtMs: number,
  /** Index of the activity in `ACTIVITIES`. */
  activity: number,
  /** Detail of the activity, for example `read ×2`, `2 subagents` or the code `step_limit`. */
  note: string,
  /** Start of the activity in milliseconds since the epoch. */
  sinceMs: number,
  /** Number of the current step, from 1; 0 before the first step. */
  step: number,
  /** Tokens of the agent's own model calls. */
  ownTokens: number,
  /** Cost of the agent's own model calls in US dollars. `null` if unknown. */
  ownUsd: number | null,
  /** Number of own model calls without a known price. */
  ownUnpricedCalls: number,
  /** Tokens of the agent and all its descendants. */
  treeTokens: number,
  /** Cost of the agent and all its descendants in US dollars. `null` if unknown. */
  treeUsd: number | null,
  /** Number of model calls without a known price, of the agent and all its descendants. */
  treeUnpricedCalls: number,
  /** Number of the agent's refused spawns. */
  refusals: number,
  /** Number of the agent's tool calls that failed or had to be corrected. */
  toolErrors: number,
];

/**
 * Failure or limit that explains the end of a run, or a problem in a run that completed.
 *
 * @example
 * ```ts
 * function describeCause({ agentPath, toolName, code, message, isLimit }: Cause): string {
 *   const where = toolName === undefined ? agentPath : `${agentPath}, call of ${toolName}`;
 *   return `${isLimit === true ? "limit" : "error"} in ${where}: ${code}: ${message}`;
 * }
 * ```
 */
export interface Cause {
  /** Id of the agent. */
  readonly agentId: AgentId;
  /** Path of the agent in the tree, for example `lead/researcher#2`. */
  readonly agentPath: string;
  /** Number of the step, from 1. Absent if the agent had no step. */
  readonly step?: number | undefined;
  /** Name of the tool of a failed call. Absent if the cause is not a tool call. */
  readonly toolName?: string | undefined;
  /**
   * Code of the error, or of the stop reason. For a tool call without an error code, its outcome.
   */
  readonly code: string;
  /** Explanation for a person. */
  readonly message: string;
  /** True if a limit stopped the agent or refused its spawn. Absent for an error. */
  readonly isLimit?: true;
  /** Time in milliseconds since the epoch: the end of the agent or of the call. */
  readonly atMs: number;
}

/**
 * Snapshot of a run up to a journal record. `Head` is `RunOverview` in a `RunFold`, which has no
 * facts of the store.
 *
 * @example
 * ```ts
 * const { record, agents, questions } = fold.snapshot();
 * console.log(`record ${record}: ${agents.length} agents, ${questions.length} open questions`);
 * ```
 */
export interface RunSnapshot<Head = RunHead> {
  /** Number of the last journal record in the snapshot. Read the feed from there. */
  readonly record: number;
  /** Facts of the run as a whole. */
  readonly run: Head;
  /** Agents in the order of their first start; the root agent is first. */
  readonly agents: readonly AgentRow[];
  /** Spans of each agent, in the order of `agents`: `SPAN_WIDTH` numbers for each span. */
  readonly spans: readonly (readonly number[])[];
  /** Open questions, oldest first. */
  readonly questions: readonly QuestionRow[];
  /** Why the run ended, root cause first. Equal to the result of `RunFold.causes`. */
  readonly causes: readonly Cause[];
  /** Refused spawns, newest last. A refused spawn has no agent row. */
  readonly refusals: readonly RefusalRow[];
}

/**
 * Refused spawn of a subagent.
 *
 * @example
 * ```ts
 * const { agents, refusals } = fold;
 * for (const { agent, role, code } of refusals)
 *   console.warn(`${agents[agent]?.agentPath} could not start ${role}: ${code}`);
 * ```
 */
export interface RefusalRow {
  /** Index in `RunFold.agents` of the agent that asked for the spawn. */
  readonly agent: number;
  /** Number of the step, from 1; 0 before the first step. */
  readonly step: number;
  /** Time of the refusal in milliseconds since the epoch. */
  readonly atMs: number;
  /** Requested role, as the model wrote it. */
  readonly role: string;
  /** Reason of the refusal, for example `depth_limit`. */
  readonly code: SpawnRefusal["code"];
  /** Reason of the refusal in words, as the model read it. */
  readonly message: string;
}

/**
 * Changes of a run since an earlier record: the whole rows of changed agents, and their new spans.
 *
 * @example
 * ```ts
 * function applyPatch(rows: AgentRow[], spans: number[][], patch: RunPatch): void {
 *   for (const [index, row] of patch.agents) rows[index] = row;
 *   for (const [index, from, numbers] of patch.spans)
 *     spans[index] = [...(spans[index] ?? []).slice(0, from), ...numbers];
 * }
 * ```
 */
export interface RunPatch<Head = RunHead> {
  /** Number of the last journal record in the patch. */
  readonly record: number;
  /** Facts of the run as a whole, replacing the earlier ones. */
  readonly run: Head;
  /** Rows of new and changed agents, each with its index. A new agent has the next free index. */
  readonly agents: readonly (readonly [index: number, row: AgentRow])[];
  /** Spans of changed agents. Replace all numbers from position `from` on. */
  readonly spans: readonly (readonly [index: number, from: number, numbers: readonly number[]])[];
  /** Open questions, replacing the earlier ones. Absent if they did not change. */
  readonly questions?: readonly QuestionRow[] | undefined;
  /** Causes, replacing the earlier ones. Absent if they did not change. */
  readonly causes?: readonly Cause[] | undefined;
  /** New refused spawns, to append to the earlier ones. Absent if there are none. */
  readonly refusals?: readonly RefusalRow[] | undefined;
}

/**
 * Entry of a run's feed, a server-sent event stream. The id of an event is the number of its
 * record.
 *
 * - `patch`: apply the patch.
 * - `reset`: fetch a new snapshot, because the journal has fewer records than the reader knows.
 * - `lagging`: fetch a new snapshot, because the reader was too slow.
 * - `end`: the run has ended.
 *
 * The stream closes after `reset`, `lagging` and `end`.
 *
 * @example
 * ```ts
 * function handleEntry(entry: FeedEntry, refetch: () => void): boolean {
 *   if (entry.type === "patch") console.log(entry.patch.run.status);
 *   if (entry.type === "reset" || entry.type === "lagging") refetch();
 *   return entry.type !== "end"; // false: stop reading
 * }
 * ```
 */
export type FeedEntry =
  | { readonly type: "patch"; readonly patch: RunPatch }
  | { readonly type: "reset" | "lagging" | "end" };

/**
 * Facts about the viewer, the reply to `GET /api/v1/meta`.
 *
 * @example
 * ```ts
 * const canCancel = ({ actions }: ViewerMeta): boolean => actions.includes("cancel");
 * const canEditArguments = ({ content }: ViewerMeta): boolean => content === true;
 * ```
 */
export interface ViewerMeta {
  /** Version of espalier. */
  readonly version: string;
  /**
   * `true`: content is shown. `false`: prompts, tasks, arguments and results are hidden.
   * `redacted`: the viewer's `redact` function changes content, so edited arguments are refused.
   */
  readonly content: boolean | "redacted";
  /** Actions that the viewer offers. Empty for a read-only viewer. */
  readonly actions: readonly ViewerAction[];
  /** Name of the store, for example its file name. */
  readonly store: string;
  /** URL of the Jaeger UI that has the traces. Absent if the viewer has none. */
  readonly jaegerUrl?: string | undefined;
  /** Time in milliseconds since the epoch, by the clock of the server. */
  readonly nowMs: number;
}

/**
 * Action that a viewer offers on runs. `resume` is only offered if an orchestrator is attached.
 *
 * @example
 * ```ts
 * const readOnly: readonly ViewerAction[] = [];
 * const answersOnly: readonly ViewerAction[] = ["answer"];
 * ```
 */
export type ViewerAction = "answer" | "cancel" | "pause" | "resume";

/**
 * Action on a run, the body of `POST /api/v1/runs/:run/actions`.
 *
 * `key` is an idempotency key: a repeated request with the same key returns the first reply.
 * Another request with a used key is refused with `key_used`. `message` becomes the reason of a
 * cancellation.
 *
 * @example
 * ```ts
 * import { randomUUID } from "node:crypto";
 *
 * const body: ActionRequest = { key: randomUUID(), type: "answer", answers: [approve(question)] };
 * const { origin, hash } = new URL(view.url);
 * const authorization = `Bearer ${hash.slice("#token=".length)}`;
 * await fetch(`${origin}/api/v1/runs/${run.runId}/actions`, {
 *   method: "POST",
 *   headers: { authorization, origin, "content-type": "application/json" },
 *   body: JSON.stringify(body),
 * });
 * ```
 */
export type ActionRequest = { readonly key: string } & (
  | { readonly type: "answer"; readonly answers: readonly Answer[] }
  | { readonly type: "cancel"; readonly message?: string | undefined }
  | { readonly type: "pause" }
  | { readonly type: "resume" }
);

/**
 * Reply to an accepted action, with status 202. The action is requested, but not yet performed.
 *
 * @example
 * ```ts
 * function describeReply({ hasOwner, openQuestions = [] }: ActionResult): string {
 *   if (openQuestions.length > 0) return `${openQuestions.length} questions are still open`;
 *   return hasOwner ? "Done within seconds" : "Done once a process continues the run";
 * }
 * ```
 */
export interface ActionResult {
  /**
   * True if a process owns the run and performs the action within seconds. False if the action
   * waits until a process continues the run.
   */
  readonly hasOwner: boolean;
  /** Remaining open questions. Only present in the reply to `answer`. */
  readonly openQuestions?: readonly Question[] | undefined;
}

/**
 * Body of a refused request, with status 400 or higher.
 *
 * @example
 * ```ts
 * const MESSAGES: Record<string, string> = { run_ended: "The run has already ended." };
 * const describeError = ({ code, message }: ViewerError): string => MESSAGES[code] ?? message;
 * ```
 */
export interface ViewerError {
  /**
   * Code of an `EspalierError`, for example `unknown_run`, or a code of the viewer:
   *
   * - 400 `invalid_request`, `not_json`
   * - 401 `unauthorized`
   * - 403 `foreign_host`, `foreign_origin`, `content_off`, `action_off`
   * - 404 `not_found`, `unknown_step`
   * - 405 `not_allowed`
   * - 409 `key_used`, `content_redacted`, `not_led`, `no_roles`
   * - 413 `too_large`
   * - 415 `not_json`
   * - 500 `internal_error`
   * - 503 `too_many_feeds`
   */
  readonly code: string;
  /** Problem and remedy, for a person. */
  readonly message: string;
}

/**
 * Details of an agent, without the content of its steps.
 *
 * @example
 * ```ts
 * function describeAgent({ agentPath, status, steps, own, reason }: AgentDetail): string {
 *   const why = reason === undefined ? "" : ` (${reason.code})`;
 *   return `${agentPath}: ${status}${why}, ${steps.length} steps, ${own.totalTokens} tokens`;
 * }
 * ```
 */
export interface AgentDetail {
  /** Id of the agent. */
  readonly agentId: AgentId;
  /** Path in the agent tree, for example `lead/researcher#2`. */
  readonly agentPath: string;
  /** Depth in the agent tree; 0 for the root. */
  readonly depth: number;
  /** Name of the agent's role. */
  readonly role: string;
  /** Provider of the agent's model, for example `openai`. */
  readonly provider: string;
  /** Id of the agent's model, for example `gpt-5-mini`. */
  readonly model: string;
  /** Task of the last execution. Empty if content is hidden. */
  readonly task: string;
  /** Current activity, or the status with which the agent paused or ended. */
  readonly status: ActivityName;
  /** Why the agent ended or paused. Absent while the agent is active. */
  readonly reason?: StopReason | undefined;
  /** Error of a failed agent. Absent if the agent did not fail. */
  readonly error?: ErrorRecord | undefined;
  /** Number of executions: 1, plus 1 for each follow-up task after an end. */
  readonly executionCount: number;
  /** First start of the agent in milliseconds since the epoch. */
  readonly startedAtMs: number;
  /**
   * Last end of the agent in milliseconds since the epoch. Absent while the agent is active or
   * paused.
   */
  readonly endedAtMs?: number | undefined;
  /** Budget of the agent at its start plus later grants, by axis. Only limited axes are present. */
  readonly budget: AxisAmounts;
  /** Unspent budget by axis. Only limited axes are present. */
  readonly remaining?: AxisAmounts | undefined;
  /**
   * Amounts that the agent itself used of its budget, without its subagents. Only limited axes are
   * present.
   */
  readonly used: AxisAmounts;
  /** Tokens and cost of the agent's own model calls. */
  readonly own: Spent;
  /** Tokens and cost of the agent and all its descendants. */
  readonly subtree: Spent;
  /** Steps of all executions, oldest first. */
  readonly steps: readonly StepFold[];
  /** Context that the agent inherited from its parent. Absent for the root. */
  readonly inherited?: InheritanceRecord | undefined;
  /** Refused spawns of the agent, oldest first. */
  readonly refusals: readonly RefusalRow[];
  /** Typed result of an ended agent. Absent if there is none, or if content is hidden. */
  readonly output?: JsonValue | undefined;
  /** Last text of an ended agent. Absent if content is hidden. */
  readonly text?: string | undefined;
}

/**
 * Step of an agent with its content: request, reply, tool calls and results.
 *
 * @example
 * ```ts
 * function printStep({ request, text, callDetails }: StepDetail): void {
 *   for (const { message } of request?.messages ?? []) console.log(message.role, message.text);
 *   console.log("assistant", text);
 *   for (const { toolName, argumentsText, result } of callDetails)
 *     console.log(toolName, argumentsText, result);
 * }
 * ```
 */
export interface StepDetail extends StepFold {
  /** Id of the agent. */
  readonly agentId: AgentId;
  /** Number of steps in the execution so far. */
  readonly stepCount: number;
  /** Model, settings and remaining budget of the step, without `shown`. */
  readonly context: StepContext;
  /** Breakdown of the duration. Absent until the step completes. */
  readonly timing?: StepTiming | undefined;
  /** Request to the model. Absent if parts of it were not persisted. */
  readonly request?:
    | {
        /**
         * Messages in order, without encrypted reasoning of providers and without the bytes of
         * attachments.
         */
        readonly messages: readonly {
          /** Message as the model read it, or its redacted form. */
          readonly message: Message;
          /**
           * Path of the agent from which the message was inherited. Absent if it was not inherited.
           */
          readonly from?: string | undefined;
        }[];
        /** Number of messages at the beginning that the previous step's request also had. */
        readonly sameAsBefore: number;
        /** Names of the offered tools, in order. */
        readonly toolNames: readonly string[];
      }
    | undefined;
  /** Reply of the model, as far as it is known. */
  readonly text: string;
  /** Refusal of the model in its own words. Absent if the model did not refuse. */
  readonly refusal?: string | undefined;
  /** Why the reply ended, a `FinishReason`. Absent until the model replies. */
  readonly finishReason?: string | undefined;
  /** All tool calls of the reply, in order. */
  readonly callDetails: readonly CallDetail[];
}

/** Message of a request, and the agent from which it was inherited. */
export type ShownMessage = NonNullable<StepDetail["request"]>["messages"][number];

/**
 * Tool call of a step with its arguments and result.
 *
 * @example
 * ```ts
 * function describeCall({ toolName, argumentsText, outcome, result, error }: CallDetail): string {
 *   if (outcome === "open") return `${toolName}(${argumentsText}) is running`;
 *   return `${toolName}(${argumentsText}): ${error?.code ?? result}`;
 * }
 * ```
 */
export interface CallDetail extends Partial<CallFold> {
  /** Id of the call, as the model or espalier named it. Unique within its step. */
  readonly callId: CallId;
  /** Name of the called tool. */
  readonly toolName: string;
  /** Outcome of the call, or `open` if the call has not ended. */
  readonly outcome: CallFold["outcome"];
  /** Arguments as the model wrote them, or their redacted form. */
  readonly argumentsText: string;
  /** Result as the model reads it. Absent until the call ends. */
  readonly result?: string | undefined;
  /** Length of the full result in UTF-16 code units. Absent if the model reads the full result. */
  readonly resultCharacters?: number | undefined;
}

/**
 * Started tool call that has not ended. If the process of the run crashed, the tool may run again
 * when the run continues. `GET /runs/:run/interrupted` responds with `{ calls: OpenToolCall[] }`.
 *
 * @example
 * ```ts
 * const describeCall = ({ agentPath, toolName }: OpenToolCall) => `${toolName} of ${agentPath}`;
 * ```
 */
export interface OpenToolCall {
  /** Path of the calling agent in the tree, for example `lead/researcher#2`. */
  readonly agentPath: string;
  /** Name of the called tool. */
  readonly toolName: string;
}

/**
 * Event in the log of a run.
 *
 * @example
 * ```ts
 * function describeEntry({ record, event }: LogEntry): string {
 *   return `${record} ${String(event["type"])} ${String(event["agentPath"])}`;
 * }
 * ```
 */
export interface LogEntry {
  /** Number of the journal record that contains the event. */
  readonly record: number;
  /**
   * Event as the journal has it. If content is hidden, without texts of persons, models, tools and
   * providers.
   */
  readonly event: Readonly<Record<string, unknown>>;
}

/**
 * Page of the list of runs, the response of `GET /runs`.
 *
 * @example
 * ```ts
 * const findNextPath = ({ next }: RunPage) =>
 *   next === undefined ? undefined : `/api/v1/runs?before=${next}`;
 * ```
 */
export interface RunPage {
  /** Open and paused runs, then ended runs, newest first. */
  readonly runs: readonly RunRow[];
  /** Value of `before` for the next page. `undefined` if this is the last page. */
  readonly next?: RunId | undefined;
  /**
   * True if more than 500 open or 500 paused runs exist. Only the newest 500 of each are listed.
   */
  readonly isCut?: true;
  /** Number of ended runs that the in-memory store has evicted. */
  readonly forgotten?: number;
}

/**
 * Open questions of all runs, the response of `GET /questions`.
 *
 * @example
 * ```ts
 * const describeInbox = ({ questions, isCut }: Inbox) =>
 *   `${questions.length}${isCut === true ? " or more" : ""} open questions`;
 * ```
 */
export interface Inbox {
  /** Open questions. */
  readonly questions: readonly QuestionRow[];
  /** True if more open or paused runs exist than were read. */
  readonly isCut?: true;
}

/**
 * Page of the log of a run, the response of `GET /runs/:run/log`.
 *
 * @example
 * ```ts
 * const getTypes = ({ entries }: LogPage) => entries.map(({ event }) => event["type"]);
 * ```
 */
export interface LogPage {
  /** Events in the order of the journal. */
  readonly entries: readonly LogEntry[];
  /** Value of `after` for the next page. `undefined` if this is the last page for now. */
  readonly next?: number;
}
