// Orchestrator: the facade. Validates its arguments at once, then returns runs.

import { checkText } from "../kernel/argument-checks.ts";
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
import type { ExecuteOptions } from "./run/execute-request.ts";
import type { RunQuestions } from "./run/list-questions.ts";
import { prepareFork, prepareResumption, prepareStart } from "./run/prepare-run.ts";
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
} from "./run/run-options.ts";
import type { RunResult } from "./run/run-result.ts";
import { copyCommand, sendMail, type RunRequest, type RunCommand } from "./run/run-mail.ts";
import type { Worker, WorkerOptions } from "./run/worker.ts";
import type { Session } from "./sessions/session.ts";
import type { SessionOptions } from "./sessions/session-options.ts";
import { openSessionHandle } from "./sessions/sessions.ts";
import {
  requireStorage,
  createSettings,
  type OrchestratorOptions,
  type Settings,
} from "./tree/orchestrator-settings.ts";

/**
 * Runs trees of agents. One orchestrator executes any number of runs at the same time. Holds the
 * handles of active runs, and nothing else of its runs. `Roles` is the type of the roles in its
 * options, from which `resume` and `fork` infer the type of the result and of the context.
 *
 * @example
 * ```ts
 * const lead = defineAgent({
 *   name: "lead",
 *   instructions: "Delegate the research, then write a summary.",
 *   model: openai("gpt-5-mini"),
 *   subagents: [researcher],
 * });
 * const orchestrator = new Orchestrator({ limits: { maxTotalSubagents: 5 } });
 * const run = orchestrator.start(lead, "Compare three pear markets.", { budget: { costUsd: 1 } });
 * console.log((await run.result).text);
 * ```
 */
export class Orchestrator<Roles extends AgentRole<unknown, never> = AgentRole> {
  readonly #settings: Settings;
  readonly #live: LiveRuns;

  /**
   * Creates an orchestrator.
   *
   * @throws EspalierError `invalid_argument` if an option is invalid. The message names the option,
   * the expected and the actual value.
   * @throws EspalierError `duplicate_role` if two different roles have the same name.
   */
  constructor(options?: OrchestratorOptions<Roles>) {
    this.#settings = createSettings(options);
    this.#live = new LiveRuns(this.#settings);
  }

  /**
   * Starts a run with an agent of `role` at the root. `task` is a text, or parts such as text,
   * images, audio and files: at most 20,000,000 bytes each and 50,000,000 in all. The run begins
   * after the synchronous code that calls `start`, so that readers of the run miss nothing. It
   * begins later if it waits for a run slot (`maxConcurrentRuns`), or for the store to accept its
   * `runId`. All errors are thrown before anything has started.
   *
   * @throws EspalierError `unknown_subagent` or `duplicate_role` if the roles do not fit together.
   * @throws EspalierError `missing_api_key` if a model has no API key.
   * @throws EspalierError `price_unknown` if a cost limit covers a model without a known price.
   * @throws EspalierError `unknown_tool` if a context policy names a tool that no role has.
   * @throws EspalierError `invalid_argument` if an argument is invalid.
   * @throws EspalierError `run_id_conflict` if `runId` belongs to an active run with another role
   * or task.
   * @throws EspalierError `invalid_state` if the orchestrator was closed.
   *
   * @example
   * ```ts
   * const run = orchestrator.start(role, "Buy a pear tree.", { runId: "order-4711" });
   * const { text } = await run.orThrow();
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
   * Continues a paused run, in this process or another: the same run and executions, with answers
   * to its open questions. Continues a run that a limit has stopped, if `grants` adds to its
   * budget. The orchestrator needs roles with the names with which the run was started.
   *
   * An approved call is executed once: a second `resume` of the same pause is rejected in this
   * process. Between processes only a shared store prevents it: the second result rejects with
   * `already_resumed` before anything is executed. After an error the run can still be resumed.
   *
   * @throws EspalierError `unsupported_version` or `invalid_paused_run` if the paused run cannot be
   * read, has ended, or its roles are missing.
   * @throws EspalierError `invalid_signature` if the orchestrator has a `signingKey`, and the
   * signature is missing or wrong.
   * @throws EspalierError `invalid_answer` if an answer is missing, late, given twice, or fits no
   * open question.
   * @throws EspalierError `already_resumed` if this process has continued from this pause before.
   * @throws EspalierError `output_mismatch` if a stored typed result does not fit its role.
   * @throws EspalierError `invalid_argument` if a grant or another option is invalid.
   * @throws Everything that `start` throws for roles and models.
   *
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
   * Continues a stored run by its id: after a pause, after its process has died, or with `grants`
   * after a limit has stopped it. Completed calls are not repeated or charged again. Interrupted
   * calls are repeated, except those of tools with `retryAfterCrash: false`. A model call without a
   * recorded outcome is charged by estimate. After an error the run can still be resumed.
   *
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `run_active` if another process owns the run.
   * @throws EspalierError `run_ended` if the run has ended, and no grant lets it continue.
   * @throws EspalierError `unsupported_version` or `invalid_journal` if the journal cannot be read.
   * @throws EspalierError `store_failed` if the store fails.
   * @throws EspalierError `invalid_argument` if the orchestrator has no store, or an option is
   * invalid.
   * @throws Everything that `resume` of a paused run throws.
   *
   * @example
   * ```ts
   * const resumed = await orchestrator.resume("order-4711", { answers });
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
    options?: ResumeOptions,
  ): never;
  resume(run: PausedRun | string, options: StoredResumeOptions = {}): Run | Promise<Run> {
    if (typeof run === "string") return this.#resumeStored(run, options);
    this.#live.assertOpen();
    const parts = prepareResumption(this.#settings, run, options);
    return this.#live.start(parts, options.signal, options);
  }

  async #resumeStored(runId: string, options: StoredResumeOptions): Promise<Run> {
    this.#live.assertOpen();
    checkRunId("runId", runId);
    checkStoredResumeOptions(options);
    return await this.#live.during(async () => {
      const { prepareRecovery } = await import("./run/recover-run.ts");
      const parts = await prepareRecovery(this.#settings, runId, options);
      return this.#live.start(parts, options.signal, options);
    });
  }

  /**
   * Resumes every lost run of the store, which are runs whose process died while it executed them,
   * and paused runs that have received an answer or a command since. Healthy runs come first, one
   * after the other, oldest first. Other paused runs, runs that a process owns, and runs of which
   * nothing was persisted are left alone. A run whose processes died
   * several times in a row is resumed later, and listed in `delayed`. After `maxCrashes` of the
   * orchestrator it fails with `crash_loop`. A run that cannot be resumed is listed in `failed`.
   * Resolves when the runs are active again, not when they have ended.
   *
   * @throws EspalierError `store_failed` if the store cannot list its runs.
   * @throws EspalierError `invalid_argument` if the orchestrator has no store.
   * @throws EspalierError `invalid_state` if the orchestrator was closed.
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
   * Returns the active runs of this process, in the order of their start. Stored runs that have
   * ended or are paused are not included: list these with `store.list`.
   *
   * @example
   * ```ts
   * for (const { runId, sessionId } of orchestrator.activeRuns()) console.log(runId, sessionId);
   * ```
   */
  activeRuns(): readonly Run[] {
    return this.#live.all;
  }

  /**
   * Returns the run of this id if it is active in this process. `undefined` otherwise. `getResult`
   * returns the result of a stored run.
   *
   * @example
   * ```ts
   * const run = orchestrator.findActiveRun("order-4711");
   * await run?.cancel("The customer changed their mind.");
   * ```
   */
  findActiveRun(runId: string): Run | undefined {
    checkText("runId", runId);
    return this.#live.find(RunIdSchema().parse(runId));
  }

  /**
   * Lets no further run start or continue, and waits for the active runs, including their detached
   * agents. To finish sooner, release, pause or cancel the active runs first. Never rejects because
   * of a run. Close the store, tracing and MCP servers afterwards; they stay open.
   *
   * @example
   * ```ts
   * for (const run of orchestrator.activeRuns()) void run.release({ graceMs: 2_000 });
   * await orchestrator.close();
   * await store.close();
   * ```
   */
  async close(): Promise<void> {
    await this.#live.close();
  }

  /** Closes the orchestrator like `close()`, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * Returns the result of a stored run that has ended or is paused, equal to its `run.result`.
   * Roles are not needed, and nothing is claimed or changed.
   *
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `invalid_state` if the run is active, was released, or lost its process.
   * @throws EspalierError `unsupported_version` or `invalid_journal` if the journal cannot be read.
   * @throws EspalierError `store_failed` if the store fails.
   * @throws EspalierError `invalid_argument` if the orchestrator has no store.
   *
   * @example
   * ```ts
   * const { status, text, questions } = await orchestrator.getResult("order-4711");
   * ```
   */
  async getResult(runId: string): Promise<RunResult<JsonValue | undefined>> {
    checkText("runId", runId);
    const { loadStoredResult: storedResult } = await import("./run/recover-run.ts");
    return await storedResult(this.#settings, RunIdSchema().parse(runId));
  }

  /**
   * Executes a request, and returns the result of the run. Can be called any number of times, in
   * any process with this store. Starts the run, joins it if it is active here, or continues it
   * after a crash. Waits if another process owns the run, and returns the result of a run that has
   * ended or is paused. A paused run continues if answers were sent to it since (`answer`).
   *
   * @throws EspalierError `run_id_conflict` if the run was started with another role or task.
   * @throws EspalierError `unknown_role` if the orchestrator does not have the role.
   * @throws EspalierError `run_released` if `releaseSignal` was aborted.
   * @throws EspalierError `unsupported_version` if the request is of a later release.
   * @throws EspalierError `invalid_argument` if the orchestrator has no store.
   * @throws Everything that `start`, `resume` and `run.result` throw and reject with.
   *
   * @example
   * ```ts
   * const request = { runId: "order-4711", role: "buyer", task: "Buy a pear tree." };
   * const { status, text } = await orchestrator.execute(request);
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
    const { checkExecuteOptions, executeRequest } = await import("./run/execute-request.ts");
    checkExecuteOptions(options);
    return await executeRequest(this.#live, request, options);
  }

  /**
   * Returns the open questions of all stored runs, whether a process executes them, they are paused
   * or their process died. Questions with a saved answer are left out, also if their run has not
   * read the answer yet. Reads the journals of all runs that have not ended. Roles are not needed.
   *
   * @throws EspalierError `store_failed` if the store fails.
   * @throws EspalierError `invalid_argument` if the orchestrator has no store.
   *
   * @example
   * ```ts
   * const { questions } = await orchestrator.listQuestions();
   * for (const { runId, questionId, agentPath, toolName } of questions)
   *   console.log(runId, questionId, `${agentPath} wants to call ${toolName}`);
   * ```
   */
  async listQuestions(): Promise<RunQuestions> {
    const { store } = requireStorage(this.#settings);
    const { collectQuestions } = await import("./run/list-questions.ts");
    return await collectQuestions(store);
  }

  /**
   * Answers some or all open questions of a stored run, whichever process owns it and whether or
   * not it is paused. The answers are sent to the run's mailbox, where the first answer to a
   * question counts. Roles are not needed. An active run continues with the answers by itself; a
   * paused one continues with `resume` or `execute`. Returns the questions that are still open.
   *
   * @throws EspalierError `invalid_answer` if an answer is late, fits no open question, or its
   * question is answered already.
   * @throws EspalierError `run_ended` if the run has ended.
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `unsupported_version` or `invalid_journal` if the journal cannot be read.
   * @throws EspalierError `store_failed` if the store fails.
   * @throws EspalierError `invalid_argument` if the orchestrator has no store.
   *
   * @example
   * ```ts
   * const { questions } = await orchestrator.getResult("order-4711");
   * const open = await orchestrator.answer("order-4711", questions.map((one) => approve(one)));
   * console.log(`${open.length} questions are still open.`);
   * ```
   */
  async answer(runId: string, answers: readonly Answer[]): Promise<readonly Question[]> {
    checkRunId("runId", runId);
    const ledHere = this.#live.find(runId);
    const { sendAnswers } = await import("./run/send-answers.ts");
    const open = await sendAnswers({ ...requireStorage(this.#settings), ledHere }, runId, answers);
    this.#live.find(runId)?.readMail();
    return open;
  }

  /**
   * Cancels a stored run: directly if it is active here, and through its mailbox if another process
   * owns it. A paused or lost run is continued here only to end it, for which its roles are needed.
   * Resolves when the run has ended, or when the request is in the mailbox of another process.
   * After an error the request stays in the mailbox, for the next owner of the run.
   *
   * @throws EspalierError `run_ended` if the run has ended.
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `store_failed` if the store fails.
   * @throws EspalierError `invalid_argument` if the orchestrator has no store.
   * @throws Everything that `resume` rejects with, if the run must be continued here.
   *
   * @example
   * ```ts
   * await orchestrator.cancel("order-4711", { message: "The customer changed their mind." });
   * ```
   */
  async cancel(
    runId: string,
    options: {
      /**
       * Reason of the end.
       *
       * @default "The caller cancelled the run."
       */
      readonly message?: string;
      /** Context of the run, if it must be continued here. See `StartOptions`. */
      readonly context?: unknown;
    } = {},
  ): Promise<void> {
    checkRunId("runId", runId);
    const { cancelRun } = await import("./run/resume-lost-runs.ts");
    await cancelRun(this.#live, runId, options);
  }

  /**
   * Sends a command to a stored run, whichever process owns it: pause, resume, stop, steer or
   * grant. The owner executes the command within some seconds, or when the run continues.
   *
   * @throws EspalierError `invalid_argument` if the command is invalid.
   * @throws EspalierError `run_ended` if the run has ended.
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `store_failed` if the store fails.
   * @throws EspalierError `invalid_argument` if the orchestrator has no store.
   *
   * @example
   * ```ts
   * await orchestrator.sendCommand("order-4711", { type: "pause" });
   * ```
   */
  async sendCommand(runId: string, request: RunCommand): Promise<void> {
    checkRunId("runId", runId);
    await sendMail(requireStorage(this.#settings).store, runId, copyCommand(request));
    this.#live.find(runId)?.readMail();
  }

  /**
   * Makes this process a worker of an engine: it executes runs that a `RunClient` has started, with
   * the roles of this orchestrator. Resolves once the worker accepts runs.
   *
   * @throws EspalierError `invalid_argument` if the orchestrator has no store or no roles, or an
   * option is invalid.
   * @throws EspalierError `store_failed` or `unsupported_version` if the store cannot be used.
   * @throws EspalierError `engine_failed` if the engine cannot serve.
   * @throws Everything that `start` throws for roles and models.
   *
   * @example
   * ```ts
   * import { pgBossEngine } from "espalier/pg-boss";
   *
   * const engine = pgBossEngine({ connectionString: "postgres://localhost/jobs" });
   * const worker = await orchestrator.startWorker(engine, { rolesVersion: "v3", maxRuns: 20 });
   * process.once("SIGTERM", () => void worker.close());
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
    const { startEngineWorker: workFor } = await import("./run/worker.ts");
    this.#live.assertOpen();
    return await workFor(this.#live, engine, options);
  }

  /**
   * Starts a new run that begins after a step of another run's root, with its history and its ended
   * subagents up to there. The fork has ids of its own, zero usage, and the limits of the original,
   * which does not change. `pausedRun` is the `snapshot()` of an ended or paused run, or the
   * `pausedRun` of a result.
   *
   * @throws EspalierError `unsupported_version` or `invalid_paused_run` if `pausedRun` cannot be
   * read, or its roles are missing.
   * @throws EspalierError `output_mismatch` if a stored typed result of a subagent does not fit its
   * role.
   * @throws EspalierError `invalid_argument` if the root has no such step, or a compaction has
   * removed its history.
   * @throws Everything that `start` throws for roles and models.
   *
   * @example
   * ```ts
   * await run.settled;
   * const fork = orchestrator.fork(run.snapshot(), { atStep: 2, message: "Try another source." });
   * ```
   */
  fork<Role extends AgentRole<unknown, never> = Roles>(
    pausedRun: PausedRun,
    ...options: OptionsWithContext<ForkOptions<Role>, InferContext<Role>>
  ): Run<InferOutput<Role>>;
  /**
   * Forks an ended or paused run of the store by its id.
   *
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `invalid_state` if the run is active, was released, or lost its process.
   * @throws EspalierError `invalid_journal` if the journal cannot be read.
   * @throws EspalierError `store_failed` if the store fails.
   * @throws EspalierError `invalid_argument` if the orchestrator has no store.
   * @throws Everything that `fork` of a paused run throws.
   *
   * @example
   * ```ts
   * const fork = await orchestrator.fork("order-4711");
   * console.log((await fork.result).status);
   * ```
   */
  fork<Role extends AgentRole<unknown, never> = Roles>(
    runId: string,
    ...options: OptionsWithContext<ForkOptions<Role>, InferContext<Role>>
  ): Promise<Run<InferOutput<Role>>>;
  // Reports a missing context at compile time. No other call matches.
  fork<Role extends AgentRole<unknown, never> = Roles>(
    this: unknown extends InferContext<Role>
      ? unknown
      : "The roles of this orchestrator need a context. Pass it: fork(run, { context }).",
    run: PausedRun | string,
  ): never;
  fork(run: PausedRun | string, options: ForkOptions = {}): Run | Promise<Run> {
    if (typeof run === "string") return this.#forkStored(run, options);
    this.#live.assertOpen();
    const parts = prepareFork(this.#settings, run, options);
    return this.#live.start(parts, options.signal, options);
  }

  async #forkStored(runId: string, options: ForkOptions): Promise<Run> {
    this.#live.assertOpen();
    checkRunId("runId", runId);
    return await this.#live.during(async () => {
      const { loadStoredSnapshot } = await import("./run/recover-run.ts");
      const pausedRun = await loadStoredSnapshot(this.#settings, runId);
      const parts = prepareFork(this.#settings, pausedRun, options);
      return this.#live.start(parts, options.signal, options);
    });
  }

  /**
   * Opens a session: a conversation history that several runs share. Reads it from the store, or
   * returns a new one.
   *
   * @throws EspalierError `invalid_argument` if the id or an option is invalid, or there is no store.
   * @throws EspalierError `unsupported_version` or `invalid_session` if the session cannot be read.
   * @throws EspalierError `store_failed` if the store fails.
   *
   * @example
   * ```ts
   * const session = await orchestrator.openSession("customer-42");
   * const { text } = await orchestrator.start(role, "Where is my order?", { session }).orThrow();
   * ```
   */
  async openSession(id: string, options: SessionOptions = {}): Promise<Session> {
    return await openSessionHandle(this.#settings, id, options);
  }
}
