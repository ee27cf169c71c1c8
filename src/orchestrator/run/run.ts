// Run: the public handle of a run.

import type { PhaseReport } from "../../agent/phase-report.ts";
import type { EspalierEvent } from "../../protocol/event.ts";
import type { MessageContent } from "../../protocol/message-content.ts";
import type { AgentId, RunId } from "../../protocol/ids.ts";
import type { StreamPart } from "../../protocol/stream-part.ts";
import type { SteerReceipt } from "../../agent/mailbox.ts";
import type { Budget } from "../../policies/budget.ts";
import type { PausedRun } from "../durability/paused-run.ts";
import type { CompletedRunResult, RunResult } from "./run-result.ts";

/** Options of `run.stream()`. */
export interface StreamOptions {
  /**
   * Maximum number of unread items that are buffered for this reader. Beyond it, the iteration
   * fails with `backlog_overflow`. The run continues.
   *
   * @default 10_000
   */
  readonly maxBacklog?: number;
  /**
   * Agent whose items are read.
   *
   * @default all agents of the tree
   */
  readonly agentId?: AgentId;
}

/** Options of `run.events()`. */
export interface EventsOptions extends StreamOptions {
  /**
   * Sequence number (`seq`) of the first event to read, from 1. Past events are read from the
   * orchestrator's store, including events that other processes recorded. Live events follow
   * without a gap and without a duplicate.
   *
   * @default the next event
   */
  readonly from?: number;
}

/** Options of `run.grant()`. */
export interface GrantOptions {
  /**
   * Name of the person or program that grants the budget. It is recorded in the event and on the
   * account.
   */
  readonly by: string;
  /**
   * Place of the agent in the tree, such as `lead/researcher#2`: the `accountPath` of budget events
   * and of the reason of a limit.
   *
   * @default the root
   */
  readonly agentPath?: string;
}

/**
 * Handle of a run of an agent tree. `Orchestrator.start`, `resume` and `fork` return it. `Output`
 * is the type of the root's typed result, or `undefined` if the root's role has no `output`.
 *
 * @example
 * ```ts
 * const run = orchestrator.start(role, "Compare three pear markets.");
 * for await (const part of run.stream())
 *   if (part.type === "text" && part.agentPath === role.name) process.stdout.write(part.text);
 * const { status, text, usage } = await run.result;
 * ```
 */
export interface Run<out Output = unknown> {
  /** Id of the run: the `runId` of the start options, or a random id. */
  readonly runId: RunId;
  /**
   * Id of the root agent.
   *
   * @example
   * ```ts
   * for await (const part of run.stream({ agentId: run.rootAgentId }))
   *   if (part.type === "text") process.stdout.write(part.text);
   * ```
   */
  readonly rootAgentId: AgentId;
  /** Id of the session that the run continues. `undefined` if the run has no session. */
  readonly sessionId: string | undefined;
  /**
   * Result of the run, once it has ended or is paused. A failed run resolves, too, with the status
   * `failed`; `orThrow()` rejects instead. Rejects if the run could not be persisted, such as with
   * `store_failed` or `run_fenced`. Rejects with `run_released` if this process released the run.
   * Rejects with `script_mismatch` if a scripted model got a call that its script does not have.
   *
   * @example
   * ```ts
   * const result = await run.result;
   * if (result.status === "completed") console.log(result.output);
   * else console.error(`${result.status}: ${result.reason.message}`);
   * ```
   */
  readonly result: Promise<RunResult<Output>>;
  /**
   * Result of the run once detached agents have ended as well. Without detached agents it is the
   * same as `result`.
   *
   * @example
   * ```ts
   * const { detached } = await run.result;
   * if (detached.length > 0) console.log((await run.settled).agents.length);
   * ```
   */
  readonly settled: Promise<RunResult<Output>>;
  /**
   * Returns the result of a completed run, and rejects for any other status. The `RunError` has the
   * code `run_failed`, `run_stopped`, `run_cancelled` or `run_paused`, and the `result`.
   *
   * @throws RunError if the run failed, was stopped, was cancelled or is paused.
   * @throws Everything that `result` rejects with.
   *
   * @example
   * ```ts
   * const { text } = await orchestrator.start(role, "Summarise the report.").orThrow();
   * ```
   */
  orThrow(): Promise<CompletedRunResult<Output>>;
  /**
   * Resolves once everything so far is persisted in the store. After `start`, this means that the
   * run and its task survive a crash of this process. Await it before you confirm to a client that
   * a task was accepted.
   *
   * @throws EspalierError `invalid_state` if the orchestrator has no store.
   * @throws EspalierError `run_exists` or `store_failed` if the run cannot be persisted.
   *
   * @example
   * ```ts
   * const run = orchestrator.start(role, "Buy a pear tree.", { runId: "order-4711" });
   * await run.whenPersisted();
   * console.log(`Accepted as ${run.runId}.`);
   * ```
   */
  whenPersisted(): Promise<void>;
  /**
   * Iterates over all events of the tree, in order. Called in the same tick as `start` or `resume`,
   * it begins with the first event; later, with the next one, unless `from` is set. Ends when the
   * run ends or pauses and this is persisted. A slow reader never slows the run.
   *
   * @throws EspalierError `invalid_argument` if an option is invalid.
   * @throws EspalierError `unknown_agent` if the run has no agent with this id.
   * @throws EspalierError `events_not_persisted` if `from` is in the past, and the run has no
   * store.
   * @throws EspalierError `events_not_persisted` from the iteration if earlier events were recorded
   * without this store.
   * @throws EspalierError `backlog_overflow` from the iteration if this reader is too slow.
   * @throws EspalierError `store_failed` from the iteration if the store fails.
   * @throws Everything that `result` rejects with, from the iteration.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "tool.ended") console.log(event.agentPath, event.toolName, event.outcome);
   * ```
   *
   * @example
   * ```ts
   * const stored = new Orchestrator({ store }).start(role, "Compare three markets.");
   * for await (const event of stored.events({ from: 1 })) console.log(event.seq, event.type);
   * ```
   */
  events(options?: EventsOptions): AsyncIterableIterator<EspalierEvent, undefined>;
  /**
   * Iterates over the output of all agents while they write it: texts, reasoning, tool calls,
   * arguments and tool results. Makes model calls stream, from the next call on. A late reader
   * first gets the output so far of each agent's current execution, also in a resumed run. Each
   * step then begins with a `reset` part whose reason is `joined`; the reasoning of completed steps
   * is left out. This catch-up does not count towards `maxBacklog`. Ends when the run ends or
   * pauses.
   *
   * @throws EspalierError `invalid_argument` if an option is invalid.
   * @throws EspalierError `unknown_agent` if the run has no agent with this id.
   * @throws EspalierError `backlog_overflow` from the iteration if this reader is too slow.
   * @throws Everything that `result` rejects with, from the iteration.
   *
   * @example
   * ```ts
   * const texts = new Map<string, string>();
   * for await (const part of run.stream()) {
   *   const { stepId } = part;
   *   if (part.type === "reset") texts.delete(stepId); // The step is written again.
   *   if (part.type === "text") texts.set(stepId, (texts.get(stepId) ?? "") + part.text);
   * }
   * ```
   */
  stream(options?: StreamOptions): AsyncIterableIterator<StreamPart, undefined>;
  /**
   * Iterates over the phases of the root agent. Between two phases the root waits until the next
   * one is requested. Called in the same tick as `start`, it yields every phase. Leaving the loop
   * early, or throwing in it, cancels the run and waits for its end.
   *
   * @throws EspalierError `already_iterating` if the run is iterated already.
   * @throws Everything that `result` rejects with, from the iteration.
   *
   * @example
   * ```ts
   * for await (const report of run.iterate()) {
   *   console.log(report.phase);
   *   if (report.phase === "infer") run.skipToolCalls("Dry run.");
   * }
   * ```
   */
  iterate(): AsyncIterableIterator<PhaseReport, undefined>;
  /**
   * Cancels the whole tree, subagents first, and returns the result. A model or tool that ignores
   * its signal is abandoned after the orchestrator's `graceMs`.
   *
   * @example
   * ```ts
   * const { status, reason } = await run.cancel("The user closed the page.");
   * ```
   */
  cancel(message?: string): Promise<RunResult<Output>>;
  /**
   * Cancels one agent and all its subagents. Its parent continues with a result whose status is
   * `cancelled`.
   *
   * @throws EspalierError `unknown_agent` if the run has no agent with this id.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "subagent.spawned" && event.role === "writer")
   *     run.cancelAgent(event.childId, "No writing today.");
   * ```
   */
  cancelAgent(agentId: AgentId, message?: string): void;
  /**
   * Asks all agents to pause. Each agent pauses before its next step, or before the tool calls of
   * its open step. A model call in progress completes first. The result then has the status
   * `paused` and a `pausedRun` for `orchestrator.resume`. Detached agents of an ended root are not
   * paused.
   *
   * @example
   * ```ts
   * run.requestPause();
   * const result = await run.result;
   * if (result.status === "paused") console.log(JSON.stringify(result.pausedRun).length);
   * ```
   */
  requestPause(): void;
  /**
   * Sends a message to a running agent, by default to the root. The message is part of the agent's
   * next model call; an agent that was about to finish continues. Resolves with the step that reads
   * the message, or with the status in which the agent ended or paused without reading it.
   *
   * @throws EspalierError `invalid_argument` for an empty text.
   * @throws EspalierError `invalid_argument` for parts that cannot be sent.
   * @throws EspalierError `unknown_agent` if the run has no agent with this id.
   *
   * @example
   * ```ts
   * const receipt = await run.steer("Leave out imports from before 2020.");
   * if (receipt.isDelivered) console.log(`Read in step ${receipt.stepNumber}.`);
   * ```
   */
  steer(message: MessageContent, agentId?: AgentId): Promise<SteerReceipt>;
  /**
   * Skips the root's tool calls of its open step, or of its next step if none is open. Each skipped
   * call returns `reason` to the model. Calls that have started are not affected. Use it between
   * the phases of `iterate()`, after `infer`.
   *
   * @example
   * ```ts
   * for await (const report of run.iterate())
   *   if (report.phase === "infer") run.skipToolCalls("The user declined.");
   * ```
   */
  skipToolCalls(reason?: string): void;
  /**
   * Asks the tree to stop: no further step or call starts. Tool calls in progress are aborted
   * within `graceMs`, and the subagents that their step started are cancelled. A model call in
   * progress completes. The result has the status `stopped` and the reason `stop_requested`.
   *
   * @example
   * ```ts
   * setTimeout(() => run.requestStop("Office hours are over."), 60_000);
   * ```
   */
  requestStop(message?: string): void;
  /**
   * Raises limits of an agent's budget while the run executes. `{ steps: 3 }` adds three steps.
   * Agents that wait for the budget continue; a stopped agent stays stopped. Only
   * limits that the agent itself has can be raised. A `deadlineAtMs` never moves. Returns `false`
   * if the run had ended or was paused; nothing is granted then.
   *
   * @throws EspalierError `invalid_argument` if `budget` is empty, or the agent has no own limit of
   * that kind.
   * @throws EspalierError `unknown_agent` if the run has no agent with this path.
   *
   * @example
   * ```ts
   * run.grant({ steps: 10, costUsd: 0.5 }, { by: "alice@example.com" });
   * ```
   */
  grant(budget: Budget, options: GrantOptions): boolean;
  /**
   * Releases the run without ending it, so that another process, or this one later, can resume it.
   * No further call starts. Calls that return within `graceMs` are persisted; others are aborted,
   * and repeated by the next owner. `result` and all readers then reject with `run_released`, and
   * `getResult` rejects until the run has ended or paused. A `RunFold` of its events has its usage.
   * Returns `true` if the run was released. Returns `false` if it ended or paused first, or
   * `execute` continued it here meanwhile.
   *
   * @throws EspalierError `invalid_state` if the run has no store.
   * @throws EspalierError `invalid_argument` for `graceMs`.
   *
   * @example
   * ```ts
   * process.once("SIGTERM", () => {
   *   for (const run of orchestrator.activeRuns()) void run.release({ graceMs: 2_000 });
   * });
   * ```
   */
  release(options?: {
    /**
     * Time in milliseconds that calls in progress have to return. 0 aborts them at once.
     *
     * @default the `graceMs` of the orchestrator
     */
    readonly graceMs?: number;
  }): Promise<boolean>;
  /**
   * Returns the complete state of an ended or paused run as JSON. Pass it to `orchestrator.fork`,
   * or to `orchestrator.resume` with a grant if a limit stopped the run. For a paused run it equals
   * the `pausedRun` of the result.
   *
   * @throws EspalierError `invalid_state` while the run executes.
   * @throws EspalierError `run_released` if this process has released the run, or its store failed.
   *
   * @example
   * ```ts
   * const { status } = await run.settled;
   * const grants = [{ budget: { steps: 10 }, by: "alice@example.com" }];
   * if (status === "stopped") orchestrator.resume(run.snapshot(), { grants });
   * ```
   */
  snapshot(): PausedRun;
}
