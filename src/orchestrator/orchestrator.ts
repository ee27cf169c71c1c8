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
 * Runs trees of agents. One orchestrator serves any number of concurrent runs. It holds the handles of
 * active runs and no other state.
 *
 * `Roles` is the union of the roles in its options: it types the results of `resume` and `fork`, and the
 * context that they require.
 *
 * @example
 * ```ts
 * const orchestrator = new Orchestrator({ roles: [researcher, writer], maxConcurrentRuns: 20 });
 * const { text } = await orchestrator.start(researcher, "What do pears cost?").orThrow();
 * console.log(text);
 * ```
 */
export class Orchestrator<Roles extends AgentRole<unknown, never> = AgentRole> {
  readonly #settings: Settings;
  readonly #live: LiveRuns;

  /**
   * Creates an orchestrator. Nothing starts, and nothing connects.
   *
   * @throws EspalierError `invalid_option` for an unknown or invalid option.
   * @example
   * ```ts
   * const orchestrator = new Orchestrator({ store, retryPolicy: { maxAttempts: 5 } });
   * ```
   */
  constructor(options?: OrchestratorOptions<Roles>) {
    this.#settings = makeSettings(options);
    this.#live = new LiveRuns(this.#settings);
  }

  /**
   * Starts a run with `role` at the root of its tree. `task` is a text, or parts with images, audio and
   * files: at most 20,000,000 bytes each and 50,000,000 in all.
   *
   * Returns the handle of the run at once. The first call to a model comes later: the run may wait for a
   * slot (`maxConcurrentRuns`) and for the store. Await `run.result`, or `orThrow()`: an unhandled
   * rejection of a run ends the process. The run is stored once `run.whenPersisted()` resolves.
   *
   * A second `start` with the `runId` of an active run returns the handle of that run.
   *
   * @throws EspalierError `unknown_subagent`, `duplicate_role` or `unknown_tool` if the roles do not fit
   * together.
   * @throws EspalierError `missing_api_key` if a model has no key; `price_unknown` if a cost limit covers
   * a model without a price.
   * @throws EspalierError `invalid_option` for an unknown or invalid option; `run_id_conflict` if the id
   * belongs to an active run with another role or task; `invalid_state` if the orchestrator is closed.
   * @example
   * ```ts
   * const run = orchestrator.start(researcher, "What do pears cost?", {
   *   budget: { costUsd: 0.5, steps: 30, timeMs: 120_000 },
   * });
   * const result = await run.result;
   * console.log(result.status, result.text, result.usage.total.costUsd);
   * ```
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
   * Returns the active runs of this process, in the order of their start. Stored runs that are paused or
   * have ended are not included: list them with the store.
   *
   * @example
   * ```ts
   * for (const run of orchestrator.activeRuns()) console.log(run.runId);
   * ```
   */
  activeRuns(): readonly Run[] {
    return this.#live.all;
  }

  /**
   * Returns the run with this id if it is active in this process. `undefined` for all other runs: their
   * results are read with `getResult`.
   *
   * @example
   * ```ts
   * await orchestrator.findActiveRun("order-17")?.cancel("The customer left.");
   * ```
   */
  findActiveRun(runId: string): Run | undefined {
    checkText("runId", runId);
    return this.#live.find(RunIdSchema().parse(runId));
  }

  /**
   * Stops accepting runs, and resolves when all active runs have settled, detached agents included. Never
   * rejects for an error of a run.
   *
   * To close sooner, release, pause or cancel the active runs first. The store, the tracing and MCP
   * servers belong to the caller: close them afterwards.
   *
   * @example
   * ```ts
   * for (const run of orchestrator.activeRuns()) void run.release(); // another process continues them
   * await orchestrator.close();
   * ```
   */
  async close(): Promise<void> {
    await this.#live.close();
  }

  /**
   * Calls `close`, for `await using`.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * Returns the result of a stored run that is paused or has ended, as `run.result` would. Changes
   * nothing, and needs no roles. The output has the type of JSON.
   *
   * Rejects with `unknown_run`; `invalid_state` if the run is active or lost; `unsupported_version` or
   * `invalid_journal` if its journal cannot be read; `store_failed`; `invalid_option` if the orchestrator
   * has no store.
   *
   * @example
   * ```ts
   * const { status, text } = await orchestrator.getResult("order-17");
   * console.log(status, text);
   * ```
   */
  async getResult(runId: string): Promise<RunResult<JsonValue | undefined>> {
    checkText("runId", runId);
    const { storedResult } = await import("./run/recover.ts");
    return await storedResult(this.#settings, RunIdSchema().parse(runId));
  }

  /**
   * Executes a request exactly once under its `runId`, from any number of processes that share the store.
   * Starts the run, continues it after a crash, joins it if it is active in this process, or returns its
   * stored result. Waits for a run that another process owns, and takes it over if that process is lost.
   * A paused run continues with the answers that it was given by `answer`.
   *
   * Resolves with the result once the run has settled and has no unread mail. Rejects with `run_released`
   * if `releaseSignal` was aborted; `run_id_conflict` if the run was started with another role or task;
   * `unknown_role`; `unsupported_version` for a request of a later release; the errors of `start` and
   * `resume`; the errors of `run.result`; and `invalid_option` if the orchestrator has no store.
   *
   * @example
   * ```ts
   * const request = { runId: "order-17", role: "researcher", task: "What do pears cost?" };
   * const result = await orchestrator.execute(request);
   * console.log(result.status);
   * ```
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
   * Answers some or all open questions of a stored run, from any process. Returns the questions that are
   * still open. Needs no roles.
   *
   * The answers go into the mailbox of the run, where the first answer to a question counts. The owner of
   * the run reads them there and continues. A paused run without an owner continues with `resume` or
   * `execute`.
   *
   * Rejects, with no answer recorded, with `invalid_answer` if an answer is unknown, given twice, of the
   * wrong kind, late, or for other arguments; `run_ended`; `unknown_run`; `unsupported_version` or
   * `invalid_journal`; `store_failed`; `invalid_option` if the orchestrator has no store.
   *
   * @example
   * ```ts
   * const open = await orchestrator.answer("order-17", [approve(question)]);
   * console.log(`${open.length} questions are open.`);
   * ```
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
   * Cancels a stored run, or an active one, from any process. A run without an owner is ended by this
   * process, which needs its roles, and its `context` if they require one.
   *
   * Resolves when a run of this process has ended, or when the request is in the mailbox of another
   * process. Rejects with `run_ended`, `unknown_run` or `store_failed`; with the errors of `resume`, in
   * which case the next owner cancels the run; and with `invalid_option` if the orchestrator has no store.
   *
   * @example
   * ```ts
   * await orchestrator.cancel("order-17", { message: "The customer left." });
   * ```
   */
  async cancel(
    runId: string,
    options: {
      /**
       * Reason of the end, for the result and the events.
       *
       * @default "The caller cancelled the run."
       */
      readonly message?: string;
      /** Run context, as in `StartOptions`, if this process has to end the run. */
      readonly context?: unknown;
    } = {},
  ): Promise<void> {
    checkRunId("runId", runId);
    const { cancelRun } = await import("./run/resume-lost-runs.ts");
    await cancelRun(this.#live, runId, options);
  }

  /**
   * Sends a command to a stored run through its mailbox: pause, resume, stop, steer an agent, or grant
   * more budget. The process that owns the run carries it out within seconds; a run without an owner, when
   * it continues.
   *
   * Rejects with `invalid_option` or `invalid_definition` for an invalid command or if the orchestrator
   * has no store; `run_ended`; `unknown_run`; `store_failed`.
   *
   * @example
   * ```ts
   * await orchestrator.sendCommand("order-17", { type: "pause" });
   * ```
   */
  async sendCommand(runId: string, request: RunCommand): Promise<void> {
    checkRunId("runId", runId);
    await postMail(requireStorage(this.#settings).store, runId, copyRequest(request));
    this.#live.find(runId)?.mail?.look();
  }

  /**
   * Makes this process a worker of an engine. It runs the requests of `RunClient`s with the roles of this
   * orchestrator, until the worker is closed. Resolves when the worker accepts runs.
   *
   * Rejects with `store_failed` or `unsupported_version` if the store cannot be used; `engine_failed` or
   * `invalid_option` if the engine cannot serve, or the orchestrator has no store or no roles; and the
   * errors that `start` throws for roles and models.
   *
   * @example
   * ```ts
   * const workers = new Orchestrator({ roles: [researcher], store });
   * await using worker = await workers.startWorker(storeEngine());
   * ```
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
   * Starts a new run that continues from a step of the root of another run. It begins with the history up
   * to that step and the subagents that had ended by then, under new ids. Its usage starts at zero, with the
   * limits of the original, which does not change.
   *
   * @throws EspalierError `unsupported_version` or `invalid_paused_run` if the paused run cannot be read,
   * or its roles are missing; `output_mismatch` if a typed result of a subagent does not fit its role.
   * @throws EspalierError `invalid_option` if the root has no such step, or a compaction removed its
   * history; and the errors that `start` throws for roles and models.
   * @example
   * ```ts
   * const fork = orchestrator.fork(run.snapshot(), { atStep: 2, message: "Try another source." });
   * console.log((await fork.result).text);
   * ```
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
   * Opens the session with this id: a shared history of root executions, one after the other. A new
   * session is created if the store has none. Pass the session to `start`.
   *
   * Rejects with `invalid_option` for an invalid id or option, or if the orchestrator has no store;
   * `unsupported_version` or `invalid_session` if the session cannot be read; `store_failed`.
   *
   * @example
   * ```ts
   * const session = await orchestrator.openSession("customer-42");
   * const run = orchestrator.start(researcher, "And what do figs cost?", { session });
   * console.log((await run.result).text);
   * ```
   */
  async openSession(id: string, options: SessionOptions = {}): Promise<Session> {
    return await sessionHandle(this.#settings, id, options);
  }
}
