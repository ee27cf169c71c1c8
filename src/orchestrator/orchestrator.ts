// Orchestrator: the facade. Checks what it is given, at once and whole, then hands out runs.

import { checkText, mismatch } from "../kernel/check.ts";
import {
  checkAgentRole,
  type AgentRole,
  type InferContext,
  type InferOutput,
} from "../agent/agent-role.ts";
import type { JsonValue } from "../kernel/json.ts";
import type { MessageContent } from "../protocol/message-content.ts";
import { RunIdSchema } from "../protocol/ids.ts";
import type { Engine } from "../engine/engine.ts";
import type { Answer, Question } from "../protocol/question.ts";
import type { PausedRun } from "./durability/paused-run.ts";
import type { ResumedRuns } from "./run/resume-lost-runs.ts";
import type { ExecuteOptions } from "./run/execute.ts";
import { prepareFork, prepareResumption, prepareStart } from "./run/start.ts";
import { LiveRuns } from "./run/live-runs.ts";
import type { Run } from "./run/run.ts";
import {
  type ForkOptions,
  type OptionsWithContext,
  type ResumeLostRunsOptions,
  type ResumeOptions,
  type StartOptions,
  type StoredResumeOptions,
  checkResumeLostRunsOptions,
  checkRunId,
  checkStartOptions,
  checkStoredResumeOptions,
} from "./run/start-options.ts";
import type { RunResult } from "./run/run-result.ts";
import { copyRequest, postMail, type RunRequest, type RunCommand } from "./run/run-mail.ts";
import type { Worker, WorkerOptions } from "./run/work.ts";
import type { Session } from "./sessions/session.ts";
import type { SessionOptions } from "./sessions/session-options.ts";
import { sessionHandle } from "./sessions/sessions.ts";
import {
  requireStorage,
  makeSettings,
  type OrchestratorOptions,
  type Settings,
} from "./tree/settings.ts";

/**
 * Runs trees of agents; one orchestrator serves any number of them at once. Holds the handles of those that are under way, and
 * nothing else of its runs. `Roles`: those that it was given, from which `resume` and `fork` know the type of a result, and the
 * context that has to be given.
 */
export class Orchestrator<Roles extends AgentRole<unknown, never> = AgentRole> {
  readonly #settings: Settings;
  readonly #live: LiveRuns;

  /** @throws EspalierError `invalid_option`, naming the option, what was expected and what came. */
  constructor(options?: OrchestratorOptions<Roles>) {
    this.#settings = makeSettings(options);
    this.#live = new LiveRuns(this.#settings);
  }

  /**
   * Starts a run: `role` at the root, with `task`, a text or parts of which some are images, sounds or files: 20,000,000 bytes each and
   * 50,000,000 in all at most. It begins when the synchronous code that calls `start` is over; later if it waits for a run slot
   * (`maxConcurrentRuns`), for its turn among many, or for the store to accept its id. It is in the store once `run.whenPersisted()` resolves.
   *
   * @throws EspalierError before anything has started, if the roles do not fit together (`unknown_subagent`, `duplicate_role`), a
   * model cannot work (`missing_api_key`), a cost limit covers an unknown price (`price_unknown`), a context policy names a tool that
   * no role has (`unknown_tool`), an option is not usable, the id is that of a run under way with another role or task (`run_id_conflict`), or the
   * orchestrator was closed (`invalid_state`).
   */
  start<Output, Context>(
    role: AgentRole<Output, Context>,
    task: MessageContent,
    ...options: OptionsWithContext<StartOptions, Context>
  ): Run<Output>;
  // Reports a missing context at compile time. No other call matches.
  start<Role>(
    role: [Role] extends [AgentRole<unknown, never>]
      ? unknown extends InferContext<Role>
        ? Role
        : "This role needs a context. Pass it: start(role, task, { context })."
      : AgentRole,
    task: MessageContent,
  ): never;
  start(role: AgentRole, task: MessageContent, options: StartOptions = {}): Run {
    this.#live.assertOpen();
    checkAgentRole("role", role);
    checkStartOptions(options);
    const { runId, signal } = options;
    const known = runId === undefined ? undefined : this.#live.findStarted(runId, role.name, task);
    if (known === undefined) {
      const parts = prepareStart(this.#settings, { role, task, options });
      return this.#live.start(parts, signal, options);
    }
    if (signal !== undefined) known.cancelWith(signal);
    return known;
  }

  /**
   * Continues a paused run, in this process or another: the same run and executions, with the answers
   * to its open questions. Continues a run that a limit stopped once `grants` adds to its budget. The
   * roles must have the names that the run was started with.
   *
   * An approved call is executed once. A second call for the same pause is refused within a process,
   * and between processes that share a store: the second result rejects with `already_resumed` before
   * anything is executed.
   *
   * @throws EspalierError `unsupported_version` or `invalid_paused_run` if the paused run cannot be
   * read, has ended, or its roles are missing.
   * @throws EspalierError `invalid_answer` if an answer is missing, unknown, given twice, of the wrong
   * kind, late, or for other arguments.
   * @throws EspalierError `already_resumed` if this process has continued from this pause before.
   * @throws EspalierError `output_mismatch` if a stored typed result does not fit its role.
   * @throws EspalierError `invalid_option` for a grant that cannot be made, and the errors that `start`
   * throws for roles and models. After each of these errors the run can still be resumed.
   * @example
   * ```ts
   * const result = await run.result;
   * if (result.status === "paused") {
   *   const answers = result.questions.map((question) => approve(question));
   *   const resumed = orchestrator.resume(result.pausedRun, { answers });
   *   console.log((await resumed.result).status);
   * }
   * ```
   */
  resume<Role extends AgentRole<unknown, never> = Roles>(
    pausedRun: PausedRun,
    ...options: OptionsWithContext<ResumeOptions<Role>, InferContext<Role>>
  ): Run<InferOutput<Role>>;
  /**
   * Continues a stored run by its id, after a pause, after its process has died, or with `grants` after
   * a limit has stopped it. Completed work is not repeated or charged again. Interrupted calls are
   * repeated, except those of tools with `retryAfterCrash: false`. A model call without a recorded
   * outcome is charged by estimate.
   *
   * Rejects, and nothing has changed, with `unknown_run`; `run_active` if a process owns the run;
   * `run_ended` without `grants`; `unsupported_version` or `invalid_journal` if the journal cannot be
   * read; `invalid_option` if the orchestrator has no store; and the errors that `resume` of a paused
   * run throws.
   *
   * @example
   * ```ts
   * const resumed = await orchestrator.resume("order-17", { answers });
   * console.log((await resumed.result).status);
   * ```
   */
  resume<Role extends AgentRole<unknown, never> = Roles>(
    runId: string,
    ...options: OptionsWithContext<StoredResumeOptions<Role>, InferContext<Role>>
  ): Promise<Run<InferOutput<Role>>>;
  // Reports a missing context at compile time. No other call matches.
  resume<Role extends AgentRole<unknown, never> = Roles>(
    this: unknown extends InferContext<Role>
      ? unknown
      : "The roles of this orchestrator need a context. Pass it: resume(run, { context }).",
    run: PausedRun | string,
  ): never;
  resume(run: PausedRun | string, options: StoredResumeOptions = {}): Run | Promise<Run> {
    if (typeof run === "string") return this.#resumeStored(run, options);
    this.#live.assertOpen();
    const parts = prepareResumption(this.#settings, run, options);
    return this.#live.start(parts, options.signal, options);
  }

  async #resumeStored(runId: string, options: StoredResumeOptions): Promise<Run> {
    this.#live.assertOpen();
    if (runId.startsWith('{"')) {
      const advice = "Pass a paused run as an object: resume(readPausedRun(text)).";
      throw mismatch("runId", "the id of a run", runId, advice);
    }
    checkRunId("runId", runId);
    checkStoredResumeOptions(options);
    return await this.#live.during(async () => {
      const { prepareRecovery } = await import("./run/recover.ts");
      const parts = await prepareRecovery(this.#settings, runId, options);
      return this.#live.start(parts, options.signal, options);
    });
  }

  /**
   * Continues every lost run of the store: its process died while the run was active. Resumes the runs
   * one after the other, oldest first. Leaves alone paused runs, runs that a process owns, and runs of
   * which nothing was stored.
   *
   * A run whose processes died several times in a row is resumed later and listed in `delayed`. After
   * `maxCrashes` it ends as failed, with `crash_loop`. A run that cannot be resumed is listed in
   * `failed` and does not keep the others from continuing.
   *
   * Resolves when the runs are active again, not when they have ended. Rejects with `store_failed` if
   * the store cannot list its runs, `invalid_option` if the orchestrator has no store, and
   * `invalid_state` if it was closed.
   *
   * @example
   * ```ts
   * const { runs, failed } = await orchestrator.resumeLostRuns();
   * for (const { runId, error } of failed) console.error(runId, error.message);
   * await Promise.all(runs.map((one) => one.settled));
   * ```
   */
  resumeLostRuns<Role extends AgentRole<unknown, never> = Roles>(
    ...options: OptionsWithContext<
      ResumeLostRunsOptions<InferContext<Role>>,
      InferContext<Role>,
      Required<ResumeLostRunsOptions<InferContext<Role>>>
    >
  ): Promise<ResumedRuns<InferOutput<Role>>>;
  // Reports a missing context at compile time. No other call matches.
  resumeLostRuns<Role extends AgentRole<unknown, never> = Roles>(
    this: unknown extends InferContext<Role>
      ? unknown
      : "The roles of this orchestrator need a context. Pass it: resumeLostRuns({ context }).",
  ): never;
  async resumeLostRuns(options: ResumeLostRunsOptions = {}): Promise<ResumedRuns> {
    this.#live.assertOpen();
    checkResumeLostRunsOptions(options);
    return await this.#live.during(async () => {
      const { resumeLostRuns } = await import("./run/resume-lost-runs.ts");
      return await resumeLostRuns(this.#live, options);
    });
  }

  /**
   * Returns the runs that are under way in this process, in the order of their start. Stored runs that
   * have ended or are paused are not among them: list these with the store.
   */
  activeRuns(): readonly Run[] {
    return this.#live.all;
  }

  /**
   * Returns the run of this id if it is under way in this process, else `undefined`. `getResult` returns
   * the result of a stored run.
   */
  findActiveRun(runId: string): Run | undefined {
    checkText("runId", runId);
    return this.#live.find(RunIdSchema().parse(runId));
  }

  /**
   * Lets no further run begin or continue, and resolves when those that are under way rest, detached agents included. It hurries nothing: to
   * be faster, give them up for the next process, as in `for (const run of orchestrator.activeRuns()) void run.release()`, pause or cancel them. Never rejects for what comes of a run. Store,
   * tracing and MCP servers belong to the caller, and stay open: close them after this.
   */
  async close(): Promise<void> {
    await this.#live.close();
  }

  /** The same as `close`, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * The result of a run that has ended, or that is paused, as the store has it: the same as its `result`. Nothing is claimed or changed, and
   * the roles of the run need not be there. For a paused one, `questions` says what it waits for.
   *
   * Rejects with `unknown_run`; `invalid_state` if the run continues, or its process died; `unsupported_version`, `invalid_journal` or
   * `store_failed`.
   *
   * @throws EspalierError `invalid_option`, if the orchestrator has no store.
   */
  async getResult(runId: string): Promise<RunResult<JsonValue | undefined>> {
    checkText("runId", runId);
    const { storedResult } = await import("./run/recover.ts");
    return await storedResult(this.#settings, RunIdSchema().parse(runId));
  }

  /**
   * Executes an order: starts its run, continues it after a crash, joins it if it is under way here, or gives its result if it rests. So
   * it may be called any number of times, in any process with this store. Resolves once the run rests and no mail asks anything of it; a run
   * that another process leads is waited for, and continued here if that process is lost. A paused run continues with the answers that were given
   * to it since (`answer`).
   *
   * Rejects with `run_released` when `releaseSignal` was aborted; `run_id_conflict` if the run was started with another role or task; `unknown_role`;
   * `unsupported_version` for an order of a later release; with what `start` and `resume` throw, and nothing has changed; and
   * with what `result` of a run rejects with.
   *
   * @throws EspalierError `invalid_option`, if the orchestrator has no store.
   */
  execute<Role extends AgentRole<unknown, never> = Roles>(
    request: RunRequest,
    ...options: OptionsWithContext<ExecuteOptions, InferContext<Role>>
  ): Promise<RunResult<JsonValue | undefined>>;
  // Reports a missing context at compile time. No other call matches.
  execute<Role extends AgentRole<unknown, never> = Roles>(
    this: unknown extends InferContext<Role>
      ? unknown
      : "The roles of this orchestrator need a context. Pass it: execute(request, { context }).",
    request: RunRequest,
  ): never;
  async execute(
    request: RunRequest,
    options: ExecuteOptions = {},
  ): Promise<RunResult<JsonValue | undefined>> {
    this.#live.assertOpen();
    const { checkExecuteOptions, executeOrder } = await import("./run/execute.ts");
    checkExecuteOptions(options);
    return await executeOrder(this.#live, request, options);
  }

  /**
   * Answers questions of a run that is kept in the store, some of them or all, wherever it is led and whether it is paused: the answers are
   * put into its mailbox, where the first one counts. The process that leads the run takes them from there: while its approver is being asked,
   * else once the run has nothing else to do; the run then continues by itself. A run that rests already continues with `resume` or `execute`. No role is needed. Gives the questions that are still open.
   *
   * Rejects, and nothing was answered unless others answer at the same time: with `invalid_answer` if an answer is unknown, a second one, of the wrong kind, for other arguments or
   * late; `run_ended`; `unknown_run`; `unsupported_version` or `invalid_journal` if its journal cannot be read; `store_failed`.
   *
   * @throws EspalierError `invalid_option`, if the orchestrator has no store.
   */
  async answer(runId: string, answers: readonly Answer[]): Promise<readonly Question[]> {
    checkRunId("runId", runId);
    const ledHere = this.#live.find(runId);
    const { postAnswers } = await import("./run/posted-answers.ts");
    const open = await postAnswers({ ...requireStorage(this.#settings), ledHere }, runId, answers);
    this.#live.find(runId)?.mail?.look();
    return open;
  }

  /**
   * Cancels a run that is kept in the store: one that is led here at once, one that another process leads by its mailbox, and one that is
   * paused or lost by leading it to its end here, for which its roles have to be there, and its `context`. Resolves when a run that is led
   * here, or led to its end here, has ended; of one that is led elsewhere, when the request is in its mailbox.
   *
   * Rejects with `run_ended`, `unknown_run` or `store_failed`, and with what `resume` rejects with: the request stays in the mailbox then,
   * for the next process that leads the run.
   *
   * @throws EspalierError `invalid_option`, if the orchestrator has no store.
   */
  async cancel(
    runId: string,
    options: {
      /** Reason of the end. Default: that the caller cancelled the run. */
      readonly message?: string;
      /** As in `StartOptions`, for a run that has to be led to its end here. */
      readonly context?: unknown;
    } = {},
  ): Promise<void> {
    checkRunId("runId", runId);
    const { cancelRun } = await import("./run/resume-lost-runs.ts");
    await cancelRun(this.#live, runId, options);
  }

  /**
   * Asks something of a run that is kept in the store, wherever it is led, by its mailbox: to pause, to resume, to stop, a message to an agent,
   * or more budget. The process that leads it does so within some seconds, or when the run continues.
   *
   * Rejects with `invalid_option` or `invalid_definition` for a request that is none, `run_ended`, `unknown_run` or `store_failed`.
   *
   * @throws EspalierError `invalid_option`, if the orchestrator has no store.
   */
  async sendCommand(runId: string, request: RunCommand): Promise<void> {
    checkRunId("runId", runId);
    await postMail(requireStorage(this.#settings).store, runId, copyRequest(request));
    this.#live.find(runId)?.mail?.look();
  }

  /**
   * Makes this process a worker of an engine: it leads runs that were ordered by a `RunClient`, with the roles of this orchestrator, until it is
   * closed. Resolves once it serves.
   *
   * Rejects with `store_failed` or `unsupported_version` if the store cannot be used, and with `engine_failed` or `invalid_option` if the
   * engine cannot serve.
   *
   * @throws EspalierError `invalid_option`, if the orchestrator has no store or no roles; what `start` throws of roles and models.
   */
  startWorker<Role extends AgentRole<unknown, never> = Roles>(
    engine: Engine,
    ...options: OptionsWithContext<
      WorkerOptions<InferContext<Role>>,
      InferContext<Role>,
      Required<Pick<WorkerOptions<InferContext<Role>>, "context">>
    >
  ): Promise<Worker>;
  // Reports a missing context at compile time. No other call matches.
  startWorker<Role extends AgentRole<unknown, never> = Roles>(
    this: unknown extends InferContext<Role>
      ? unknown
      : "The roles of this orchestrator need a context. Pass it: startWorker(engine, { context }).",
    engine: Engine,
  ): never;
  async startWorker(engine: Engine, options: WorkerOptions = {}): Promise<Worker> {
    const { workFor } = await import("./run/work.ts");
    this.#live.assertOpen();
    return await workFor(this.#live, engine, options);
  }

  /**
   * Starts a run that continues from a step of another one's root: with its history up to there and the subagents that it had started and
   * that have ended, under ids of its own. `atStep: 0` begins with the input of its first step. `role` holds in place of the one that the
   * orchestrator has under the same name. Nothing is spent yet, limits are those of the original, and the original stays as it was.
   * `stored`: the `snapshot()` or the `pausedRun` of a run, or its JSON text.
   *
   * @throws EspalierError before anything has happened: `unsupported_version` or `invalid_paused_run` if it cannot be read or its roles
   * are not there; `output_mismatch` if a stored typed result of a subagent does not fit its role; `invalid_option` if the root has no such step, or its history up to it was left out by a compaction; and what `start`
   * throws of roles and models.
   */
  fork<Role extends AgentRole<unknown, never> = Roles>(
    pausedRun: PausedRun,
    ...options: OptionsWithContext<ForkOptions<Role>, InferContext<Role>>
  ): Run<InferOutput<Role>>;
  // Reports a missing context at compile time. No other call matches.
  fork<Role extends AgentRole<unknown, never> = Roles>(
    this: unknown extends InferContext<Role>
      ? unknown
      : "The roles of this orchestrator need a context. Pass it: fork(pausedRun, { context }).",
    pausedRun: PausedRun,
  ): never;
  fork(pausedRun: PausedRun, options: ForkOptions = {}): Run {
    this.#live.assertOpen();
    const parts = prepareFork(this.#settings, pausedRun, options);
    return this.#live.start(parts, options.signal, options);
  }

  /**
   * The session of this id: root executions, one after the other, that share a history. Read from the store, or new. Hand it to `start`.
   *
   * @throws EspalierError `invalid_option` for an id or an option that is not usable, or if there is no store; `unsupported_version` or
   * `invalid_session` if it cannot be read; `store_failed`.
   */
  async openSession(id: string, options: SessionOptions = {}): Promise<Session> {
    return await sessionHandle(this.#settings, id, options);
  }
}
