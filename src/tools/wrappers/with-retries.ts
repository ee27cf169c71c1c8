// withRetries: repeats a failed call without the model. One of three layers of retries, each with
// its own count: the model's transport, this one, and corrected calls by the model.

import { invoke, sleep } from "../../kernel/cancel-signal.ts";
import {
  checkAmount,
  checkAtLeastOne,
  checkFunction,
  checkKeys,
  adviseDefault,
  describeReceived,
} from "../../kernel/argument-checks.ts";
import { getErrorMessage } from "../../kernel/error.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import { SpawnRequestSchema, type SpawnRequest } from "../../protocol/subagent.ts";
import type { ToolContext, ToolRuntime } from "../tool-context.ts";
import { findErrorSeverity } from "../tool-error.ts";
import type { FunctionTool, FunctionUse } from "../tool.ts";
import { checkWrappable, createClosableContext, replaceRun } from "./wrapped-tool.ts";

type RetriesOptions = NonNullable<Parameters<typeof withRetries>[1]>;
type Policy = Required<RetriesOptions>;

const FIELDS = ["maxAttempts", "initialDelayMs", "maxDelayMs", "shouldRetry"];

/**
 * Returns the tool with automatic retries: a failed call is repeated with exponential backoff,
 * before the model sees the error. If the last attempt fails, too, its error is that of the call.
 *
 * Not repeated are a `ToolRetryError`, which is meant for the model, and errors with the severity
 * `fatal` or `abortive`. Subagents that an attempt queued with `queueSubtask` are started only if
 * that attempt is the last.
 *
 * @throws EspalierError `invalid_argument` if the tool has no `execute` of its own, or
 * `shouldRetry` is not a function.
 * @throws EspalierError `invalid_argument` if an option is unknown or out of range.
 *
 * @example
 * ```ts
 * const robust = withRetries(withTimeout(search, { timeoutMs: 2_000 }), {
 *   maxAttempts: 5,
 *   initialDelayMs: 200,
 * });
 * ```
 */
export function withRetries<Context>(
  tool: FunctionTool<Context>,
  options: {
    /**
     * Maximum number of attempts, including the first. 1 means no retries.
     *
     * @default 3
     */
    readonly maxAttempts?: number;
    /**
     * Milliseconds before the second attempt. The delay doubles before each further attempt.
     *
     * @default 500
     */
    readonly initialDelayMs?: number;
    /**
     * Maximum milliseconds between two attempts.
     *
     * @default 30_000
     */
    readonly maxDelayMs?: number;
    /**
     * Returns true if another attempt makes sense after this error. The function must be
     * synchronous. If it throws or does not return a boolean, there is no further attempt.
     *
     * @default every error is retried
     */
    readonly shouldRetry?: (error: unknown) => boolean;
  } = {},
): FunctionTool<Context> {
  checkWrappable("withRetries", tool);
  const policy = checkRetriesOptions(options);
  return replaceRun(tool, (use, context, runtime) => runWithRetries(policy, use, context, runtime));
}

function checkRetriesOptions(options: RetriesOptions): Policy {
  checkKeys("withRetries", options, FIELDS);
  const {
    maxAttempts = 3,
    initialDelayMs = 500,
    maxDelayMs = 30_000,
    shouldRetry = () => true,
  } = options;
  checkAtLeastOne("withRetries.maxAttempts", maxAttempts, "1 means no retries.");
  checkAmount("withRetries.initialDelayMs", initialDelayMs, adviseDefault(500));
  checkAmount("withRetries.maxDelayMs", maxDelayMs, adviseDefault(30_000));
  const advice = "Pass a function of the error that returns true or false.";
  checkFunction("withRetries.shouldRetry", shouldRetry, advice);
  return { maxAttempts, initialDelayMs: initialDelayMs, maxDelayMs, shouldRetry };
}

async function runWithRetries<Context>(
  policy: Policy,
  use: FunctionUse<Context>,
  context: ToolContext<Context>,
  runtime: () => ToolRuntime,
): Promise<unknown> {
  const { clock, endSignal, noteRetry } = runtime();
  const signal = AbortSignal.any([context.signal, endSignal]);
  for (let attempt = 1; ; attempt += 1) {
    const queued: SpawnRequest[] = [];
    const queueSubtask = (request: SpawnRequest): void => {
      const parsed = SpawnRequestSchema().safeParse(request);
      if (parsed.success) queued.push(parsed.data);
      else context.queueSubtask(request); // Throws for an invalid request.
    };
    const once = createClosableContext({ ...context, queueSubtask });
    const [tried] = await Promise.allSettled([invoke(() => use.run(once.context, runtime))]);
    once.close();
    const error: unknown = tried.status === "rejected" ? tried.reason : undefined;
    const mayFollow = tried.status === "rejected" && attempt < policy.maxAttempts;
    if (mayFollow && !signal.aborted && isForRepetition(error, policy)) {
      const delayMs = computeToolRetryDelay(attempt, policy);
      noteRetry({ attempt, error, delayMs });
      await sleep(clock, delayMs, signal);
      if (!signal.aborted) continue;
    }
    for (const request of queued) context.queueSubtask(request);
    if (tried.status === "rejected") throw error;
    return tried.value;
  }
}

function computeToolRetryDelay(attempt: number, { initialDelayMs, maxDelayMs }: Policy): number {
  const doublings = Math.min(attempt - 1, 1_000); // 0 * Infinity is NaN.
  return Math.min(initialDelayMs * 2 ** doublings, maxDelayMs);
}

function isForRepetition(error: unknown, { shouldRetry }: Policy): boolean {
  const severity = findErrorSeverity(error);
  const isRecoverable = severity === undefined || severity === "recoverable";
  return isRecoverable && isAccepted(shouldRetry, error);
}

function isAccepted(shouldRetry: Policy["shouldRetry"], error: unknown): boolean {
  let problem: string;
  try {
    const answer: unknown = shouldRetry(error);
    if (typeof answer === "boolean") return answer;
    problem = `it returned ${describeReceived(answer)}`;
    void Promise.resolve(answer).catch(() => undefined); // Handles a rejection of the promise.
  } catch (cause) {
    problem = `it threw: ${getErrorMessage(cause)}`;
  }
  const message = `Expected shouldRetry of withRetries to return true or false, but ${problem}. The call is not retried.`;
  warnOnce(shouldRetry, message);
  return false;
}
