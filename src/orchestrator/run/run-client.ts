// RunClient: starts and controls runs from any process, with only the store and the engine: no role
// is needed here.

import {
  checkAmount,
  checkKeys,
  checkMethods,
  checkText,
  mismatch,
} from "../../kernel/argument-checks.ts";
import { sleep } from "../../kernel/cancel-signal.ts";
import { systemClock, type Clock } from "../../kernel/clock.ts";
import { EspalierError, type ErrorCode } from "../../kernel/error.ts";
import { randomIds } from "../../kernel/id-source.ts";
import { deepFreeze, omitUndefined, sameJson, type JsonValue } from "../../kernel/json.ts";
import type { Engine } from "../../engine/engine.ts";
import type { EspalierEvent } from "../../protocol/event.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { MessageContent } from "../../protocol/message-content.ts";
import type { Answer, Question } from "../../protocol/question.ts";
import type { Store } from "../../store/store.ts";
import { createRunExistsError } from "../../store/store-errors.ts";
import { readJournalLine } from "../durability/journal-errors.ts";
import { parseRecord, type JournalRecord } from "../durability/journal-record.ts";
import { RecordCodec } from "../durability/record-codec.ts";
import { parseKnownEvent } from "../durability/open-spans.ts";
import { createOwner, toRunTitle } from "../durability/open-journal.ts";
import { createOtherRunError } from "./live-runs.ts";
import { openQuestions, sendAnswers } from "./send-answers.ts";
import {
  copyRequest,
  type CheckedOrder,
  copyCommand,
  readRunRequest,
  sendMail,
  sendRunRequest,
  type RunRequest,
  type RunCommand,
} from "./run-mail.ts";
import type { RunResult } from "./run-result.ts";
import { checkRunId } from "./run-options.ts";
import { readSettledRun, readResult } from "./recover-run.ts";
import { createTicket } from "./worker.ts";

/**
 * Options of a `RunClient`.
 *
 * @example
 * ```ts
 * const client = new RunClient({ store, engine: storeEngine(), rolesVersion: "v3" });
 * ```
 */
export interface RunClientOptions {
  /** Store that the workers use. */
  readonly store: Store;
  /** Engine that the workers use. */
  readonly engine: Engine;
  /**
   * Version of the roles for new runs. Only workers with the same `rolesVersion` execute them.
   *
   * @default "1"
   */
  readonly rolesVersion?: string;
  /**
   * Interval in milliseconds at which the store is polled while the client waits for a result or
   * events.
   *
   * @default 200
   */
  readonly pollIntervalMs?: number;
  /**
   * Clock for the poll interval.
   *
   * @default the system clock
   */
  readonly clock?: Clock;
}

/**
 * Handle of a run that workers execute, usable from any process. Holds only the id of the run;
 * every method reads or writes the store.
 *
 * @example
 * ```ts
 * const client = new RunClient({ store, engine: storeEngine() });
 * const run = await client.start("lead", "Compare three markets.");
 * let result = await run.getResult();
 * while (result.status === "paused") {
 *   await run.answer(result.questions.map((question) => approve(question)));
 *   result = await run.getResult();
 * }
 * ```
 */
export interface RemoteRun {
  readonly runId: RunId;
  /**
   * Waits until the run has ended or is paused, and returns its result. Can be called again, also
   * after a crash of this process. `signal` aborts the wait, not the run.
   *
   * @throws EspalierError the code with which workers rejected the run, such as
   * `invalid_argument` or `price_unknown`.
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `store_failed` if the store fails.
   * @throws The reason of `signal` once it is aborted.
   *
   * @example
   * ```ts
   * const client = new RunClient({ store, engine: storeEngine() });
   * const { status, text } = await client.attach("order-4711").getResult({
   *   signal: AbortSignal.timeout(30_000),
   * });
   * ```
   */
  getResult(options?: { readonly signal?: AbortSignal }): Promise<RunResult<JsonValue | undefined>>;
  /**
   * Returns the questions of the whole tree that have no answer yet, also while the run executes.
   *
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `store_failed` if the store fails.
   *
   * @example
   * ```ts
   * const client = new RunClient({ store, engine: storeEngine() });
   * for (const { toolName, reason } of await client.attach("order-4711").getQuestions())
   *   console.log(toolName, reason);
   * ```
   */
  getQuestions(): Promise<readonly Question[]>;
  /**
   * Answers some or all open questions, and lets the run continue with the answers. Returns the
   * questions that are still open. Works like `orchestrator.answer`.
   *
   * @throws EspalierError `invalid_answer` for an answer that fits no open question.
   * @throws EspalierError `run_ended` if the run has ended.
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `store_failed` if the store fails.
   *
   * @example
   * ```ts
   * const client = new RunClient({ store, engine: storeEngine() });
   * const run = client.attach("order-4711");
   * const [question] = await run.getQuestions();
   * if (question !== undefined) await run.answer([deny(question, "Too expensive.")]);
   * ```
   */
  answer(answers: readonly Answer[]): Promise<readonly Question[]>;
  /**
   * Requests the cancellation of the run, whether it executes, is paused or has not started.
   * Resolves when the request is stored; `getResult` waits for the end.
   *
   * @throws EspalierError `run_ended` if the run has ended.
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `store_failed` if the store fails.
   */
  cancel(message?: string): Promise<void>;
  /**
   * Sends a command to the run: pause, resume, stop, steer or grant. Works like
   * `orchestrator.sendCommand`.
   *
   * @throws EspalierError `invalid_argument` for the command.
   * @throws EspalierError `run_ended` if the run has ended.
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `store_failed` if the store fails.
   *
   * @example
   * ```ts
   * const client = new RunClient({ store, engine: storeEngine() });
   * await client.attach("order-4711").sendCommand({ type: "steer", message: "Only organic pears." });
   * ```
   */
  sendCommand(request: RunCommand): Promise<void>;
  /**
   * Iterates over the stored events of the run, and then over new ones until the run has ended or
   * is paused. `from` is the sequence number of the first event, by default 1. `signal` aborts the
   * iteration.
   *
   * @throws EspalierError `invalid_argument` if `from` is not a number from 1.
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `store_failed` if the store fails.
   * @throws The reason of `signal` once it is aborted.
   *
   * @example
   * ```ts
   * const client = new RunClient({ store, engine: storeEngine() });
   * for await (const { seq, type, agentPath } of client.attach("order-4711").events({ from: 1 }))
   *   console.log(seq, agentPath, type);
   * ```
   */
  events(options?: {
    readonly from?: number;
    readonly signal?: AbortSignal;
  }): AsyncIterableIterator<EspalierEvent, undefined>;
}

const DEFAULT_LOOK_MS = 200;
const ORDER_FIELDS = ["runId", "budget", "deadlineAtMs", "metadata", "sessionId", "traceparent"];

/**
 * Starts runs that workers execute, and observes and controls them, from any process with the same
 * store and engine. The client needs neither roles nor models.
 *
 * @example
 * ```ts
 * const client = new RunClient({ store, engine: storeEngine() });
 * const run = await client.start("lead", "Compare three markets.", { runId: "order-4711" });
 * const { status, text } = await run.getResult();
 * ```
 */
export class RunClient {
  readonly #means: Means;
  readonly #rolesVersion: string | undefined;

  /**
   * Creates a client. Connects to nothing yet.
   *
   * @throws EspalierError `invalid_argument` for an option.
   */
  constructor(options: RunClientOptions) {
    const field = "client options";
    checkKeys(field, options, ["store", "engine", "rolesVersion", "pollIntervalMs", "clock"]);
    const {
      store,
      engine,
      rolesVersion,
      pollIntervalMs = DEFAULT_LOOK_MS,
      clock = systemClock,
    } = options;
    checkMethods(`${field}.store`, store, [
      "create",
      "sendMail",
      "readMail",
      "read",
      "find",
      "release",
    ]);
    checkMethods(`${field}.engine`, engine, ["enqueue", "serve"]);
    checkAmount(`${field}.pollIntervalMs`, pollIntervalMs);
    this.#means = { store, engine, pollIntervalMs: pollIntervalMs, clock };
    this.#rolesVersion = rolesVersion;
  }

  /**
   * Persists a run and passes it to the engine. `role` is the name of the root's role. With a
   * `runId`, `start` is idempotent: repeated calls return a handle of the same run. A run that all
   * workers rejected is tried again.
   *
   * @throws EspalierError `invalid_argument` for an argument.
   * @throws EspalierError `run_id_conflict` if `runId` belongs to a run with another role, task or
   * option.
   * @throws EspalierError `unknown_role` if no worker has ever served the role.
   * @throws EspalierError `engine_failed` if the engine did not accept the run, which a worker then
   * finds in the store.
   * @throws EspalierError `store_failed` if the store fails.
   *
   * @example
   * ```ts
   * const client = new RunClient({ store, engine: storeEngine() });
   * const run = await client.start("buyer", "Buy a pear tree.", {
   *   runId: "order-4711",
   *   budget: { steps: 50, costUsd: 2 },
   * });
   * ```
   */
  async start(
    role: string,
    task: MessageContent,
    options: Partial<
      Pick<
        RunRequest,
        "runId" | "budget" | "deadlineAtMs" | "metadata" | "sessionId" | "traceparent"
      >
    > = {},
  ): Promise<RemoteRun> {
    checkKeys("start options", options, ORDER_FIELDS);
    const { runId = randomIds.next("run"), ...others } = options;
    const rolesVersion = this.#rolesVersion;
    const order = copyRequest({ ...others, runId, role, task, ...omitUndefined({ rolesVersion }) });
    await this.#keep(order);
    await this.#means.engine.enqueue(createTicket(order));
    return new StoredRemoteRun(this.#means, order.runId, order);
  }

  /**
   * Returns a handle of a run that was started earlier, here or in another process. Reads nothing
   * yet: methods of the handle reject with `unknown_run` if the run does not exist.
   *
   * @throws EspalierError `invalid_argument` for a text that cannot be the id of a run.
   *
   * @example
   * ```ts
   * const client = new RunClient({ store, engine: storeEngine() });
   * await client.attach("order-4711").cancel("The customer changed their mind.");
   * ```
   */
  attach(runId: string): RemoteRun {
    checkRunId("runId", runId);
    return new StoredRemoteRun(this.#means, runId, undefined);
  }

  /**
   * Persists the request in the mailbox of its run, which is open. Rejects with `run_id_conflict`.
   */
  async #keep(order: CheckedOrder): Promise<void> {
    const { store } = this.#means;
    const { runId, role, task } = order;
    const ownership = await store
      .create(runId, toRunTitle(role, task), createOwner())
      .catch(ignoreCode("run_exists"));
    const known = ownership === undefined ? await readRunRequest(store, runId) : undefined;
    if (ownership === undefined && known === undefined) {
      // A run without a request was started by a process itself, unless it has no records yet.
      const stored = await store.find(runId);
      if (stored !== undefined && stored.recordCount > 0) throw createRunExistsError(runId);
    }
    const counts = known ?? (await sendRunRequest(store, order));
    // Another client may have sent the same request, which a worker executes already.
    if (ownership !== undefined)
      await store.release(ownership, "open").catch(ignoreCode("run_fenced"));
    if (!sameJson(counts, order)) throw createOtherRunError(runId);
    if (known !== undefined && (await readSettledRun(store, runId))?.refusal !== undefined)
      await sendMail(store, runId, { type: "resume" });
  }
}

/** Returns a handler that ignores errors with this code. */
function ignoreCode(code: ErrorCode): (cause: unknown) => undefined {
  return (cause) => {
    if (!EspalierError.is(cause) || cause.code !== code) throw cause;
  };
}

type Means = Required<Omit<RunClientOptions, "rolesVersion">>;

class StoredRemoteRun implements RemoteRun {
  readonly runId: RunId;
  readonly #means: Means;
  /** The request that this handle has sent. */
  readonly #order: CheckedOrder | undefined;

  constructor(dependencies: Means, runId: RunId, order: CheckedOrder | undefined) {
    this.#means = dependencies;
    this.runId = runId;
    this.#order = order;
  }

  async getResult(
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<RunResult<JsonValue | undefined>> {
    checkKeys("result options", options, ["signal"]);
    const { signal } = options;
    for (;;) {
      const result = await readResult(this.#means.store, this.runId);
      if (result !== undefined) return result;
      await this.#pass(signal);
    }
  }

  async getQuestions(): Promise<readonly Question[]> {
    return await openQuestions(this.#means.store, this.runId);
  }

  async answer(answers: readonly Answer[]): Promise<readonly Question[]> {
    const open = await sendAnswers(this.#means, this.runId, answers);
    await this.#wake();
    return open;
  }

  async cancel(message = "The caller cancelled the run."): Promise<void> {
    checkText("message", message);
    await sendMail(this.#means.store, this.runId, { type: "cancel", message });
    await this.#wake();
  }

  async sendCommand(request: RunCommand): Promise<void> {
    await sendMail(this.#means.store, this.runId, copyCommand(request));
    await this.#wake();
  }

  async *events(
    options: { readonly from?: number; readonly signal?: AbortSignal } = {},
  ): AsyncIterableIterator<EspalierEvent, undefined> {
    checkKeys("events options", options, ["from", "signal"]);
    const { from = 1, signal } = options;
    if (!Number.isSafeInteger(from) || from < 1)
      throw mismatch("from", "the number of an event, from 1", from, "Leave it out for all.");
    const { store } = this.#means;
    const reader = new RecordCodec();
    let next = 1;
    let due = from;
    for (;;) {
      const stored = await store.find(this.runId);
      for await (const line of store.read(this.runId, next)) {
        const events = readJournalLine(this.runId, next, () =>
          reader.read(line).map(parseRecord).flatMap(parseStoredEvent),
        );
        next += 1;
        yield* events.filter(({ seq }) => seq >= due).map((event) => deepFreeze(event));
        due = Math.max(due, (events.at(-1)?.seq ?? 0) + 1);
      }
      // A run that had settled before it was read has been read completely.
      if (stored !== undefined && stored.status !== "open") return undefined;
      await this.#pass(signal);
    }
  }

  /** Waits for the polling interval. Throws the reason of the signal once it is aborted. */
  async #pass(signal: AbortSignal | undefined): Promise<void> {
    const { clock, pollIntervalMs } = this.#means;
    signal?.throwIfAborted();
    await sleep(clock, pollIntervalMs, signal);
    signal?.throwIfAborted();
  }

  /**
   * Enqueues the run, so that its mail is handled. A run without a request does not belong to the
   * engine.
   */
  async #wake(): Promise<void> {
    const order = this.#order ?? (await readRunRequest(this.#means.store, this.runId));
    if (order !== undefined) await this.#means.engine.enqueue(createTicket(order));
  }
}

function parseStoredEvent(record: JournalRecord): EspalierEvent | [] {
  return record.type === "event" ? (parseKnownEvent(record.event) ?? []) : [];
}
