// RunClient: orders runs and looks after them from any process, by the store and the engine alone: no role is needed here.

import { checkAmount, checkKeys, checkMethods, checkText, mismatch } from "../../kernel/check.ts";
import { CancelSignal, sleep } from "../../kernel/cancel.ts";
import { systemClock, type Clock } from "../../kernel/clock.ts";
import { EspalierError, type ErrorCode } from "../../kernel/error.ts";
import { randomIds } from "../../kernel/id-source.ts";
import { deepFreeze, defined, sameJson, type JsonValue } from "../../kernel/json.ts";
import type { Engine } from "../../engine/engine.ts";
import type { EspalierEvent } from "../../protocol/event.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { MessageContent } from "../../protocol/message-content.ts";
import type { Answer, Question } from "../../protocol/question.ts";
import type { Store } from "../../store/store.ts";
import { runExists } from "../../store/store-errors.ts";
import { madeOfLine } from "../durability/fold-journal.ts";
import { recordFrom, type JournalRecord } from "../durability/journal-record.ts";
import { RecordCodec } from "../durability/record-codec.ts";
import { keptEvent } from "../durability/open-spans.ts";
import { newOwner, titleOf } from "../durability/open-journal.ts";
import { makeOtherRunError } from "./live-runs.ts";
import { openQuestions, postAnswers } from "./posted-answers.ts";
import {
  copyOrder,
  type CheckedOrder,
  copyRequest,
  readOrder,
  postMail,
  postOrder,
  type RunRequest,
  type RunCommand,
} from "./run-mail.ts";
import type { RunResult } from "./run-result.ts";
import { checkRunId } from "./start-options.ts";
import { readRested, readResult } from "./recover.ts";
import { makeTicket } from "./work.ts";

/** What a client of runs works with. */
export interface RunClientOptions {
  /** The store of the workers. */
  readonly store: Store;
  /** The engine of the workers. */
  readonly engine: Engine;
  /** The version of the roles for which runs are ordered. Default "1". */
  readonly rolesVersion?: string;
  /** How often the store is looked at while something is waited for, in milliseconds. Default 200. */
  readonly pollIntervalMs?: number;
  /** Default: the clock of the machine. */
  readonly clock?: Clock;
}

/** A run that workers lead, as any process sees it. Holds nothing but its id. */
export interface RemoteRun {
  readonly runId: RunId;
  /**
   * The result once the run rests: ended, or paused with questions. Looks into the store until then, and may be asked for again after any
   * crash of the caller. `signal`: gives the wait up.
   *
   * Rejects with why no worker could lead the run, under its code (`invalid_definition`, `price_unknown`, …); `unknown_run`;
   * `store_failed`; or the reason of `signal`.
   */
  getResult(options?: { readonly signal?: AbortSignal }): Promise<RunResult<JsonValue | undefined>>;
  /** What the run asks people, wherever it is led, and has no answer to. Rejects with `unknown_run` or `store_failed`. */
  getQuestions(): Promise<readonly Question[]>;
  /** As `orchestrator.answer`: the run continues with the answers. Gives the questions that are still open. */
  answer(answers: readonly Answer[]): Promise<readonly Question[]>;
  /** Cancels the run, wherever it is led and if it is paused or has not begun. Resolves when the request is on record. Rejects with `run_ended`. */
  cancel(message?: string): Promise<void>;
  /** As `orchestrator.post`. */
  sendCommand(request: RunCommand): Promise<void>;
  /**
   * The events of the run from number `from` on (default 1, the first), as the store has them; then those to come, until the run rests.
   * Rejects with `unknown_run` or `store_failed`, or the reason of `signal`.
   */
  events(options?: {
    readonly from?: number;
    readonly signal?: AbortSignal;
  }): AsyncIterableIterator<EspalierEvent, undefined>;
}

const DEFAULT_LOOK_MS = 200;
const ORDER_FIELDS = ["runId", "budget", "deadlineAtMs", "metadata", "sessionId", "traceparent"];

/** Orders runs and looks after them, from any process that has the store and the engine of the workers. */
export class RunClient {
  readonly #means: Means;
  readonly #rolesVersion: string | undefined;

  /** @throws EspalierError `invalid_option`. */
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
   * Orders a run of the role of this name. With a `runId` it may be called again, after a crash of the caller, say: there is one run. One
   * that no worker could lead is tried once more.
   *
   * Rejects with `run_id_conflict` if the id is that of a run that was ordered or started otherwise; `unknown_role` if the engine knows of no worker with the
   * role; `engine_failed`: the run is ordered then, and a worker finds it later; `store_failed`.
   *
   * @throws EspalierError `invalid_option` or `invalid_definition` for an order that is none.
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
    const order = copyOrder({ ...others, runId, role, task, ...defined({ rolesVersion }) });
    await this.#keep(order);
    await this.#means.engine.enqueue(makeTicket(order));
    return new StoredRemoteRun(this.#means, order.runId, order);
  }

  /** A run that was ordered before, here or elsewhere. Nothing is asked for yet: an id that is none is found out by what is asked of it. */
  attach(runId: string): RemoteRun {
    checkRunId("runId", runId);
    return new StoredRemoteRun(this.#means, runId, undefined);
  }

  /** Has the order in the mailbox of its run, which is open. Rejects with `run_id_conflict`. */
  async #keep(order: CheckedOrder): Promise<void> {
    const { store } = this.#means;
    const { runId, role, task } = order;
    const ownership = await store
      .create(runId, titleOf(role, task), newOwner())
      .catch(ignoreCode("run_exists"));
    const known = ownership === undefined ? await readOrder(store, runId) : undefined;
    if (ownership === undefined && known === undefined) {
      // A run without an order was started by a process for itself, unless nothing of it is kept yet.
      const found = await store.find(runId);
      if (found !== undefined && found.recordCount > 0) throw runExists(runId);
    }
    const counts = known ?? (await postOrder(store, order));
    // Another client may have handed the same order over, and a worker runs it already.
    if (ownership !== undefined)
      await store.release(ownership, "open").catch(ignoreCode("run_fenced"));
    if (!sameJson(counts, order)) throw makeOtherRunError(runId);
    if (known !== undefined && (await readRested(store, runId))?.refusal !== undefined)
      await postMail(store, runId, { type: "resume" });
  }
}

/** Returns a handler that passes over one error. */
function ignoreCode(code: ErrorCode): (cause: unknown) => undefined {
  return (cause) => {
    if (!EspalierError.is(cause) || cause.code !== code) throw cause;
  };
}

type Means = Required<Omit<RunClientOptions, "rolesVersion">>;

class StoredRemoteRun implements RemoteRun {
  readonly runId: RunId;
  readonly #means: Means;
  /** As it was ordered by this handle. */
  readonly #order: CheckedOrder | undefined;

  constructor(means: Means, runId: RunId, order: CheckedOrder | undefined) {
    this.#means = means;
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
    const open = await postAnswers(this.#means, this.runId, answers);
    await this.#wake();
    return open;
  }

  async cancel(message = "The caller cancelled the run."): Promise<void> {
    checkText("message", message);
    await postMail(this.#means.store, this.runId, { type: "cancel", message });
    await this.#wake();
  }

  async sendCommand(request: RunCommand): Promise<void> {
    await postMail(this.#means.store, this.runId, copyRequest(request));
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
      const found = await store.find(this.runId);
      for await (const line of store.read(this.runId, next)) {
        const events = madeOfLine(this.runId, next, () =>
          reader.read(line).map(recordFrom).flatMap(parseStoredEvent),
        );
        next += 1;
        yield* events.filter(({ seq }) => seq >= due).map((event) => deepFreeze(event));
        due = Math.max(due, (events.at(-1)?.seq ?? 0) + 1);
      }
      // What was at rest before it was read has been read whole.
      if (found !== undefined && found.status !== "open") return undefined;
      await this.#pass(signal);
    }
  }

  /** The time between two looks. Throws the reason of the signal once that is aborted. */
  async #pass(signal: AbortSignal | undefined): Promise<void> {
    const { clock, pollIntervalMs } = this.#means;
    signal?.throwIfAborted();
    await sleep(clock, pollIntervalMs, signal ?? NEVER);
    signal?.throwIfAborted();
  }

  /** Has the run led, so that what is in its mailbox is done. A run that was not ordered is not the engine's. */
  async #wake(): Promise<void> {
    const order = this.#order ?? (await readOrder(this.#means.store, this.runId));
    if (order !== undefined) await this.#means.engine.enqueue(makeTicket(order));
  }
}

function parseStoredEvent(record: JournalRecord): EspalierEvent | [] {
  return record.type === "event" ? (keptEvent(record.event) ?? []) : [];
}

const NEVER = new CancelSignal();
