import { invoke, runTimed } from "../../kernel/cancel-signal.ts";
import { checkKeys } from "../../kernel/argument-checks.ts";
import { checkSpan } from "../tool-settings.ts";
import type { ToolContext, ToolRuntime } from "../tool-context.ts";
import { createToolTimeout } from "../tool-timeout.ts";
import type { FunctionTool, FunctionUse } from "../tool.ts";
import {
  checkWrappable,
  createClosableContext,
  createEndedEarlyError,
  replaceRun,
} from "./wrapped-tool.ts";

/**
 * Returns the tool with a timeout. After it, `context.signal` is aborted, a late result is
 * discarded, and the call fails with an error for which `isToolTimeout` is true.
 *
 * Around `withRetries` the timeout limits all attempts together, inside it each attempt. A tool
 * that ignores its signal keeps running in the background.
 *
 * @throws EspalierError `invalid_argument` if the tool has no `execute` of its own.
 * @throws EspalierError `invalid_argument` if an option is unknown, or `timeoutMs` is not a finite
 * number above 0.
 *
 * @example
 * ```ts
 * const quick = withTimeout(search, { timeoutMs: 2_000 });
 * ```
 */
export function withTimeout<Context>(
  tool: FunctionTool<Context>,
  options: {
    /** Maximum duration in milliseconds. Greater than 0. */
    readonly timeoutMs: number;
  },
): FunctionTool<Context> {
  checkWrappable("withTimeout", tool);
  checkKeys("withTimeout", options, ["timeoutMs"]);
  const { timeoutMs } = options;
  checkSpan("withTimeout.timeoutMs", timeoutMs);
  return replaceRun(tool, (use, context, runtime) => runInTime(use, context, runtime, timeoutMs));
}

/** Runs a call within a timeout: for `withTimeout`, and for `timeoutMs` of a tool. */
export async function runInTime<Context>(
  use: FunctionUse<Context>,
  context: ToolContext<Context>,
  runtime: () => ToolRuntime,
  timeoutMs: number,
): Promise<unknown> {
  const { clock, graceMs, toolName } = runtime();
  const { signal: outer } = context;
  const once = createClosableContext(context);
  const outcome = await runTimed(
    (signal) =>
      runUnlessGivenUp(outer, toolName, () =>
        use.run(Object.freeze({ ...once.context, signal }), runtime),
      ),
    { signal: outer, clock, graceMs, timeoutMs },
  );
  once.close();
  switch (outcome.type) {
    case "returned":
      return outcome.value;
    case "threw":
      throw outcome.error;
    case "timed_out":
      throw createToolTimeout(toolName, timeoutMs);
    case "abandoned":
      throw createEndedEarlyError(toolName);
  }
}

/**
 * Returns the result of `work`. If the timeout of an enclosing wrapper expires first, it ends
 * without a grace period, because that wrapper has the result already.
 */
async function runUnlessGivenUp(
  signal: AbortSignal,
  toolName: string,
  work: () => unknown,
): Promise<unknown> {
  if (isTimeUp(signal)) throw createEndedEarlyError(toolName);
  const abandonment = Promise.withResolvers<never>();
  const giveUp = (): void => {
    if (isTimeUp(signal)) abandonment.reject(createEndedEarlyError(toolName));
  };
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    return await Promise.race([abandonment.promise, invoke(work)]);
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

/** Returns true if a timeout of `runTimed` aborted the signal. */
function isTimeUp({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason instanceof DOMException && reason.name === "TimeoutError";
}
