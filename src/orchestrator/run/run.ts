// Run: the caller's handle on one tree execution, as the public surface has it.

import type { PhaseReport } from "../../agent/phase-report.ts";
import type { EspalierEvent } from "../../protocol/event.ts";
import type { MessageContent } from "../../protocol/message-content.ts";
import type { AgentId, RunId } from "../../protocol/ids.ts";
import type { StreamPart } from "../../protocol/stream-part.ts";
import type { SteerReceipt } from "../../agent/mailbox.ts";
import type { Budget } from "../../policies/budget.ts";
import type { PausedRun } from "../durability/paused-run.ts";
import type { CompletedRunResult, RunResult } from "./run-result.ts";

/** How `run.stream()` reads. */
export interface StreamOptions {
  /** What is unread is kept for this reader, so many at most. Default 10,000. When more come, its iteration fails; the run continues. */
  readonly maxBacklog?: number;
  /** Only what is of this agent. Default: of the whole tree. */
  readonly agentId?: AgentId;
}

/** How `run.events()` reads. */
export interface EventsOptions extends StreamOptions {
  /**
   * The number (`seq`) of the first event to read, from 1. What was recorded before the call is read from the store of the
   * orchestrator, also what other processes have recorded of the run; then events come live, without a gap or a repetition. Default: those to come.
   */
  readonly from?: number;
}

/** Which agent gets more of the budget, and who grants it. */
export interface GrantOptions {
  /** Who grants it, in your words; on record in the event and on the account. */
  readonly by: string;
  /** Default the root. */
  readonly agentId?: AgentId;
}

/**
 * The caller's handle on one tree execution. Made by `Orchestrator.start`, `resume`, `recover` and `fork`. `Output`: the typed result of the
 * root, as its role declares it; undefined: it declares none.
 */
export interface Run<out Output = unknown> {
  readonly runId: RunId;
  /** The id of the session that the run continues, also of a run that was recovered; undefined: it has none. */
  readonly sessionId: string | undefined;
  /**
   * How the run ended, or that it is paused and nothing in its mailbox lets it continue. A failed run has a result, too, with status `failed`; `orThrow()` rejects for it. Rejects only if the
   * run could not be kept (`store_failed`, `run_fenced`, …) or a scripted model was asked for more than its script (`script_mismatch`).
   */
  readonly result: Promise<RunResult<Output>>;
  /** The result once agents have ended, too, that were detached from the tree. Without such ones the same as `result`. */
  readonly settled: Promise<RunResult<Output>>;
  /**
   * The result of a run that completed: `const { text } = await orchestrator.start(role, task).orThrow()`.
   *
   * Rejects with a `RunError` if it failed, was stopped, cancelled or paused. Its message says why, its code is `run_failed`,
   * `run_stopped`, `run_cancelled` or `run_paused`, and its `result` is the one that `result` has. Rejects like `result` besides.
   */
  orThrow(): Promise<CompletedRunResult<Output>>;
  /**
   * Resolves once all that has happened so far is kept in the store: after `start`, that there is such a run, with its task, which
   * `recoverAll` continues if this process dies. Await it before you confirm to a client that a message was accepted.
   *
   * Rejects with `invalid_state` if the orchestrator has no store, and with what `result` rejects with if the run cannot be kept:
   * `run_exists`, `store_failed`, ….
   */
  whenPersisted(): Promise<void>;
  /**
   * All events of the tree, in order, from now on; from the first if called synchronously after `start` or `resume`.
   * Ends with the run, or with its pause, once that is kept; reading slowly never slows the run.
   *
   * @throws EspalierError `invalid_option`, `unknown_agent`, or `events_not_persisted` for a `from` that is past in a run that is kept nowhere,
   * at once. From the iteration: `backlog_overflow`, if this reader is too slow, `events_not_persisted` if the run was led without this store
   * before, `store_failed`, and what `result` rejects with, after the last event.
   */
  events(options?: EventsOptions): AsyncIterableIterator<EspalierEvent, undefined>;
  /**
   * What the agents of the tree write, while they write it: texts, reasoning, calls with their arguments, results of tools. Makes model
   * calls stream from the next one on. A reader that joins late, or again, first gets what every agent has written so far in its present
   * execution, in a run that was recovered or resumed, too: each step once, after a `reset` (`joined`), in the order in which they began,
   * without the reasoning of steps that are over. This does not count against `maxBacklog`. Pieces are in no event. Ends with the run, or
   * with its pause.
   *
   * @throws EspalierError `invalid_option` or `unknown_agent` at once. From the iteration: `backlog_overflow`, if this reader is too slow,
   * and what `result` rejects with.
   */
  stream(options?: StreamOptions): AsyncIterableIterator<StreamPart, undefined>;
  /**
   * The phases of the root, one by one: from now on the loop waits between any two of them until the next is asked for.
   * Called synchronously after `start`, it sees them all. Breaking off, or throwing, cancels the run and waits for its end.
   *
   * @throws EspalierError `already_iterating` if it is iterated already. From the iteration: what `result` rejects with.
   */
  iterate(): AsyncIterableIterator<PhaseReport, undefined>;
  /** Cancels the whole tree, whose leaves end first, and gives the result. A tool or model that ignores its signal is left behind after the grace period. */
  cancel(message?: string): Promise<RunResult<Output>>;
  /**
   * Cancels one agent with all below it. Its parent continues, with a cancelled result.
   *
   * @throws EspalierError `unknown_agent` if the run has no agent of this id.
   */
  cancelAgent(agentId: AgentId, message?: string): void;
  /**
   * Asks the tree to pause: every agent settles before its next step, or before the tool calls of the step that is open. A model
   * call that is being prepared, or under way, is made first.
   * The result then has the status `paused`, and its `pausedRun` can be resumed. An agent that ends meanwhile has ended. Once the root has
   * ended there is nothing to resume: detached agents continue.
   */
  requestPause(): void;
  /**
   * Writes to an agent while it runs: the message is in its next model call, and makes an agent that was about to answer continue.
   * Resolves with the step before which it was read, or with the status in which the agent came to rest without reading it.
   * `agentId`: default the root.
   *
   * @throws EspalierError `invalid_definition` for a text that is empty, `invalid_option` for parts that cannot be sent, `unknown_agent`.
   */
  steer(message: MessageContent, agentId?: AgentId): Promise<SteerReceipt>;
  /**
   * Leaves out the calls that the root's model has asked for and that have not begun: each gets `reason` as its result, and the agent
   * continues. For callers of `iterate()`, between infer and execute. It holds for the step that is open, or for the next one if none is.
   */
  skipToolCalls(reason?: string): void;
  /**
   * Asks the tree to stop: nothing further starts. Tool calls under way are aborted, within the grace period, and the subagents of their step
   * cancelled; a model call is left to finish. Takes effect before the next phase of each agent.
   */
  requestStop(message?: string): void;
  /**
   * Adds to limits of an agent's budget while the run continues: `{ steps: 3 }` is three steps more. Agents that wait for it are
   * served; one that has been stopped already stays so. Only limits that the agent has itself can be raised; a `deadlineAtMs` is never moved.
   * False: the run was over, and nothing was granted.
   *
   * @throws EspalierError `invalid_option` if nothing is granted, no agent is named, or the agent has no limit of its own on an axis;
   * `unknown_agent`.
   */
  grant(budget: Budget, options: GrantOptions): boolean;
  /**
   * Gives the run up without ending it, so that another process, or this one later, recovers it: nothing further begins, and what is under
   * way is kept if it returns within `graceMs` (default: that of the orchestrator); what does not is aborted, and done again by the
   * process that continues. `result` rejects with `run_released` then, and readers end with it. True: the run is given up. False: it has come to rest, or was
   * taken up again here meanwhile (`execute`).
   *
   * @throws EspalierError `invalid_state` if the run is kept nowhere; `invalid_option`.
   */
  release(options?: {
    /** How long what is under way may take to return, in milliseconds; 0: not at all. Default: `graceMs` of the orchestrator. */
    readonly graceMs?: number;
  }): Promise<boolean>;
  /**
   * Everything of a run at rest, as JSON: to fork it, to continue one that a limit stopped, or, if it is paused, what its result has as
   * `pausedRun`. Made anew at each call.
   *
   * @throws EspalierError `invalid_state` while the run continues; `run_released` if this process has given it up, or its store has failed.
   */
  snapshot(): PausedRun;
}
