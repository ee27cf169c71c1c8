// The mailbox of a run: its request, answers, and commands to the process that owns the run, now or
// next. MailReader carries them out in that process, and owns when it reads next.

import {
  checkAmount,
  checkFields,
  checkKeys,
  checkLater,
  checkText,
  type FieldChecks,
  mismatch,
  NO_LIMIT_ADVICE,
} from "../../kernel/argument-checks.ts";
import { type ErrorCode, EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { randomIds } from "../../kernel/id-source.ts";
import { omitUndefined, type JsonObject, parseJson } from "../../kernel/json.ts";
import { type Budget, checkBudget } from "../../policies/budget.ts";
import { runOutsideScopes } from "../../protocol/correlation.ts";
import { parseId, type RunId } from "../../protocol/ids.ts";
import { lazySchema, lazyUnion, z } from "../../protocol/lazy-schema.ts";
import {
  copyContent,
  type MessageContent,
  MessageContentSchema,
} from "../../protocol/message-content.ts";
import { AnswerSchema } from "../../protocol/question.ts";
import type { Mail, RunStore } from "../../store/run-store.ts";
import { createStoreError } from "../../store/store-errors.ts";
import { copyGrant } from "../../budget/ledger-grant.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import type { RunRuntime } from "../tree/run-runtime.ts";
import type { Run } from "./run.ts";
import { findNodeAt } from "./run-iterators.ts";
import { checkRunId, checkTraceparent, freezeMetadata, type StartOptions } from "./run-options.ts";

/**
 * Command for a run, which any process can send through the store with `sendCommand`. `type` tells
 * which fields are there.
 *
 * @example
 * ```ts
 * const commands: RunCommand[] = [
 *   { type: "steer", message: "Leave out imports.", agentPath: "lead/researcher" },
 *   { type: "grant", budget: { steps: 10 }, by: "alice@example.com" },
 *   { type: "pause" },
 * ];
 * for (const command of commands) await orchestrator.sendCommand("order-4711", command);
 * ```
 */
export type RunCommand =
  /** Pauses the run like `run.requestPause()`. It stays paused until `resume`. */
  | { readonly type: "pause" }
  /** Continues a paused run. A run with open questions needs answers as well. */
  | { readonly type: "resume" }
  /** Stops the run like `run.requestStop()`. */
  | { readonly type: "stop"; readonly message?: string | undefined }
  /** Sends a message to an agent like `run.steer()`. `agentPath` is the root by default. */
  | {
      readonly type: "steer";
      readonly message: MessageContent;
      readonly agentPath?: string | undefined;
    }
  /** Raises budget limits of an agent like `run.grant()`. `agentPath` is the root by default. */
  | {
      readonly type: "grant";
      readonly budget: Budget;
      readonly by: string;
      readonly agentPath?: string | undefined;
    };

const text = lazySchema(() => z.string().min(1));
const CodeSchema = lazySchema(() => z.custom<ErrorCode>((value) => typeof value === "string"));
const MailSchema = lazyUnion("type", () => [
  z.strictObject({ type: z.literal("order"), order: z.unknown() }),
  z.strictObject({ type: z.literal("answer"), answer: AnswerSchema() }),
  z.strictObject({ type: z.literal("cancel"), message: text() }),
  z.strictObject({ type: z.literal("pause") }),
  z.strictObject({ type: z.literal("resume") }),
  z.strictObject({ type: z.literal("stop"), message: text().exactOptional() }),
  z.strictObject({
    type: z.literal("steer"),
    message: MessageContentSchema(),
    agentPath: text().exactOptional(),
  }),
  z.strictObject({
    type: z.literal("grant"),
    budget: z.record(z.string(), z.number()),
    by: text(),
    agentPath: text().exactOptional(),
  }),
  /** Why no process could execute the run, which is paused until other mail arrives. */
  z.strictObject({ type: z.literal("refused"), code: CodeSchema(), message: z.string() }),
]);
/** Parsed mail. */
export type RunMail = z.infer<ReturnType<typeof MailSchema>>;

/** Parsed mail with its number. */
export interface ReceivedMail {
  readonly number: number;
  readonly mail: RunMail;
}

/** Parses mail. `undefined` if only a later release understands it. */
export function parseMail({ number, body }: Mail): ReceivedMail | undefined {
  const { data: mail } = MailSchema().safeParse(parseMailBody(body));
  return mail && { number, mail };
}

function parseMailBody(body: string): unknown {
  try {
    return parseJson(body);
  } catch {
    return undefined;
  }
}

/**
 * Returns the mail that arrived since the journal of a run was last written, in order. `handled`
 * contains the numbers of handled mail.
 */
export async function readUnreadMail(
  store: RunStore,
  runId: RunId,
  handled: readonly number[],
): Promise<readonly ReceivedMail[]> {
  const known = new Set(handled);
  const posts = await store.readMail(runId);
  return posts.flatMap((post) => (known.has(post.number) ? [] : (parseMail(post) ?? [])));
}

/** Returns true if the mailbox has mail that only a later release understands. */
export async function hasUnknownMail(
  store: RunStore,
  runId: RunId,
  handled: readonly number[],
): Promise<boolean> {
  const posts = await store.readMail(runId);
  return posts.some((post) => !handled.includes(post.number) && parseMail(post) === undefined);
}

/** Returns true if mail continues a paused run. */
export function continuesRun({ mail: { type } }: ReceivedMail): boolean {
  return type !== "order" && type !== "refused";
}

const ORDER_KEY = "order";

/** Sends the request of a run. Returns the first request that was sent, which is the valid one. */
export async function sendRunRequest(store: RunStore, order: CheckedOrder): Promise<CheckedOrder> {
  const { runId } = order;
  await sendMail(store, runId, { type: "order", order }, ORDER_KEY);
  return (await readRunRequest(store, runId)) ?? order;
}

/**
 * Returns the request of a run, if it has one. Rejects with `unsupported_version` for the request
 * of a later release.
 */
export async function readRunRequest(
  store: RunStore,
  runId: RunId,
): Promise<CheckedOrder | undefined> {
  return findRunRequest(await store.readMail(runId));
}

/** Returns the request among the mail of a run. Throws like `readRunRequest`. */
export function findRunRequest(posts: readonly Mail[]): CheckedOrder | undefined {
  const post = posts.find(({ key }) => key === ORDER_KEY);
  const mail = post && parseMail(post)?.mail;
  if (mail?.type !== "order") return undefined;
  return copyRequest(parseStoredOrder(mail.order));
}

const OrderFormSchema = lazySchema(() =>
  z.custom<CheckedOrder>((value) => typeof value === "object" && value !== null),
);

function parseStoredOrder(value: unknown): CheckedOrder {
  const { data } = OrderFormSchema().safeParse(value);
  if (data !== undefined) return data;
  const message =
    "Expected the stored request of a run to be an object, got something else. Restore the store from a copy.";
  throw createStoreError("corrupt", message);
}

/**
 * Sends mail, under a random key by default, and returns its number. Rejects with `unknown_run` or
 * `run_ended`.
 */
export async function sendMail(
  store: RunStore,
  runId: RunId,
  mail: RunMail,
  key = `${mail.type}:${randomIds.next("post")}`,
): Promise<number> {
  return await store.sendMail(runId, { key, body: JSON.stringify(mail) });
}

const COMMAND_CHECKS: Readonly<Record<RunCommand["type"], FieldChecks>> = {
  pause: {},
  resume: {},
  stop: { message: checkText },
  steer: { message: copyContent, agentPath: checkText },
  grant: { budget: checkLater, by: checkLater, agentPath: checkText },
};

/** Returns a validated copy of a command. Throws `invalid_argument`. */
export function copyCommand(request: RunCommand): RunMail {
  checkKeys("request", request, ["type", "message", "agentPath", "budget", "by"]);
  const { type } = request;
  if (!Object.hasOwn(COMMAND_CHECKS, type))
    throw mismatch("request.type", "pause, resume, stop, steer or grant", type, "Correct it.");
  checkFields("request", request, { type: checkLater, ...COMMAND_CHECKS[type] });
  if (request.type === "pause" || request.type === "resume") return { type: request.type };
  if (request.type === "stop")
    return { type: request.type, ...omitUndefined({ message: request.message }) };
  const agentPath = omitUndefined({ agentPath: request.agentPath });
  if (request.type === "grant") {
    const { budget, by } = copyGrant("request", request);
    return { type: request.type, budget: { ...budget }, by, ...agentPath };
  }
  const message = copyContent("request.message", request.message);
  return { type: request.type, message, ...agentPath };
}

/** Returns mail that explains why no process could execute a run. */
export function createRefusal(cause: unknown): RunMail {
  const code: ErrorCode = EspalierError.is(cause) ? cause.code : "internal_error";
  return { type: "refused", code, message: getErrorMessage(cause) };
}

/** Polling interval while a question waits for an answer. */
const ANSWER_MS = 500;

/** Controls of a run that mail uses. */
type MailedRun = Pick<Run, "cancel" | "requestPause" | "requestStop" | "steer" | "grant">;

export class MailReader {
  readonly #run: MailedRun;
  readonly #runtime: RunRuntime;
  readonly #journal: RunJournal;
  /** Polling interval otherwise. */
  #everyMs: number;
  #stopTimer: (() => void) | undefined;
  #isReading = false;
  #isDue = false;

  constructor(run: MailedRun, runtime: RunRuntime, journal: RunJournal) {
    this.#run = run;
    this.#runtime = runtime;
    this.#journal = journal;
    this.#everyMs = runtime.settings.heartbeatIntervalMs;
    runtime.pendingAnswers.onWait(() => this.#resetTimer());
  }

  /** Starts polling. */
  start(): void {
    const { pendingAnswers, settings } = this.#runtime;
    const delayMs = pendingAnswers.isWaiting ? Math.min(ANSWER_MS, this.#everyMs) : this.#everyMs;
    const look = (): void => {
      this.start();
      this.look();
    };
    this.#stopTimer = runOutsideScopes(() => settings.clock.setTimer(delayMs, look));
  }

  stop(): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.#isDue = false;
  }

  /** Sets a shorter polling interval, since other processes send mail. */
  shortenInterval(everyMs: number): void {
    this.#everyMs = everyMs;
    this.#resetTimer();
  }

  #resetTimer(): void {
    if (this.#stopTimer === undefined) return;
    this.#stopTimer();
    this.start();
  }

  /** Reads the mailbox now, and once more if it is being read already. */
  look(): void {
    this.#isDue = true;
    if (!this.#isReading) void this.#readAll();
  }

  async #readAll(): Promise<void> {
    this.#isReading = true;
    while (this.#isDue) {
      this.#isDue = false;
      // A failed read is repeated later. A store that is lost is noticed by the journal's writes.
      const posts = await this.#journal.writer.readUnreadMail().catch(() => []);
      if (this.#stopTimer !== undefined)
        this.handle(posts.flatMap((post) => parseMail(post) ?? []));
    }
    this.#isReading = false;
  }

  /**
   * Carries out mail, in order. `settled` contains the numbers of handled mail, with the problem if
   * it had no effect.
   */
  handle(
    posts: readonly ReceivedMail[],
    settled: ReadonlyMap<number, string | undefined> = NOTHING,
  ): void {
    for (const { number, mail } of posts) {
      const outcome = settled.has(number) ? settled.get(number) : this.#handleMail(mail);
      if (outcome === false) continue;
      const problem = outcome === undefined ? {} : { problem: outcome };
      this.#journal.append({ type: "post", number, ...problem });
    }
  }

  /**
   * Carries out mail. Returns `undefined` if it is done, a text if it had no effect, and `false` if
   * it must wait.
   */
  #handleMail(mail: RunMail): string | false | undefined {
    try {
      if (mail.type !== "answer") return this.#doAsAsked(mail);
      const outcome = this.#runtime.pendingAnswers.submit(mail.answer);
      return outcome === true ? undefined : outcome;
    } catch (cause) {
      return getErrorMessage(cause);
    }
  }

  #doAsAsked(mail: Exclude<RunMail, { readonly type: "answer" }>): undefined {
    switch (mail.type) {
      case "cancel":
        this.#run.cancel(mail.message).catch(() => undefined); // A waiting caller receives the result or the failure.
        return;
      case "pause":
        this.#run.requestPause();
        return;
      case "stop":
        this.#run.requestStop(mail.message);
        return;
      case "steer":
        void this.#run.steer(
          mail.message,
          findNodeAt(this.#runtime, mail.agentPath).identity.agentId,
        );
        return;
      case "grant": {
        const { budget, by, agentPath } = mail;
        this.#run.grant(budget, { by, ...omitUndefined({ agentPath }) });
        return;
      }
      case "order":
      case "resume":
      case "refused":
    }
  }
}

const NOTHING: ReadonlyMap<number, string | undefined> = new Map();

/** Version of the request format. */
export const ORDER_VERSION = 1;

/**
 * Plain JSON description of a run, for `orchestrator.execute` or a job queue. The role is given by
 * name, so that another process can execute the request.
 *
 * @example
 * ```ts
 * const request: RunRequest = {
 *   runId: "order-4711",
 *   role: "buyer",
 *   task: "Buy a pear tree.",
 *   budget: { costUsd: 2 },
 * };
 * const { status, text } = await orchestrator.execute(request);
 * ```
 */
export interface RunRequest extends Pick<StartOptions, "budget" | "deadlineAtMs" | "traceparent"> {
  /**
   * Version of the request format.
   *
   * @default 1
   */
  readonly version?: number;
  /**
   * Id of the run, 1 to 512 characters. Executing the same request again continues or returns the
   * same run.
   */
  readonly runId: string;
  /** Name of the root's role. The executing orchestrator must have it in `roles`. */
  readonly role: string;
  /** Task of the root: a text, or text with images, audio and files. */
  readonly task: MessageContent;
  /**
   * Plain JSON data for tools and hooks. Subagents inherit it if their context policy allows that.
   */
  readonly metadata?: JsonObject;
  /** Id of the session that the run continues, in the orchestrator's store. */
  readonly sessionId?: string;
  /**
   * Version of the roles. Only workers with the same `rolesVersion` execute the run.
   *
   * @default "1"
   */
  readonly rolesVersion?: string;
}

/** Validated request. */
export interface CheckedOrder extends RunRequest {
  readonly version: typeof ORDER_VERSION;
  readonly runId: RunId;
  readonly rolesVersion: string;
}

const FIELDS = [
  "version",
  "runId",
  "role",
  "task",
  "budget",
  "deadlineAtMs",
  "metadata",
  "sessionId",
  "traceparent",
  "rolesVersion",
];

export const DEFAULT_ROLES_VERSION = "1";

/**
 * Returns a validated copy. Throws `unsupported_version` for another version, and `invalid_argument`, naming the field.
 */
export function copyRequest(request: RunRequest): CheckedOrder {
  checkOrderVersion(request);
  checkKeys("order", request, FIELDS);
  const { runId, role, task, budget, deadlineAtMs, metadata, sessionId, traceparent } = request;
  const { rolesVersion = DEFAULT_ROLES_VERSION } = request;
  checkRunId("order.runId", runId);
  checkText("order.role", role);
  checkVersionName("order.rolesVersion", rolesVersion);
  if (budget !== undefined) checkBudget("order.budget", budget);
  if (deadlineAtMs !== undefined) checkAmount("order.deadlineAtMs", deadlineAtMs, NO_LIMIT_ADVICE);
  if (sessionId !== undefined) checkText("order.sessionId", sessionId);
  if (traceparent !== undefined) checkTraceparent("order.traceparent", traceparent);
  return Object.freeze({
    version: ORDER_VERSION,
    runId: parseId<"RunId">(runId),
    role,
    task: copyContent("order.task", task),
    rolesVersion,
    ...omitUndefined({
      budget: budget && omitUndefined(budget),
      deadlineAtMs,
      metadata: metadata && freezeMetadata(metadata),
      sessionId,
      traceparent,
    }),
  });
}

function checkOrderVersion(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  const version: unknown = Reflect.get(value, "version");
  if (version === undefined || version === ORDER_VERSION) return;
  throw new EspalierError({
    code: "unsupported_version",
    message: `Expected a run request of format version ${ORDER_VERSION}, got ${JSON.stringify(version)}. Use workers with the version of espalier that wrote it.`,
    data: { expected: ORDER_VERSION, got: typeof version === "number" ? version : null },
  });
}

/**
 * Throws `invalid_argument` for an invalid version of roles, which is part of the names of queues and
 * services.
 */
export function checkVersionName(field: string, version: unknown): void {
  if (typeof version === "string" && /^[\w.-]{1,40}$/u.test(version)) return;
  const expected = "1 to 40 letters, digits, dots, hyphens and underscores";
  throw mismatch(field, expected, version, "Name a release of your roles, for example v3.");
}
