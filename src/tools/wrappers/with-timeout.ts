import { invoke, runTimed } from "../../kernel/cancel.ts";
import { checkKeys } from "../../kernel/check.ts";
import { checkSpan } from "../tool-settings.ts";
import type { ToolContext, ToolRuntime } from "../tool-context.ts";
import { toolTimedOut } from "../tool-timeout.ts";
import type { FunctionTool, FunctionUse } from "../tool.ts";
import { checkWrappable, closable, endedEarly, withRun } from "./wrapped-tool.ts";

/**
 * The tool, whose runs take at most so long: then its `context.signal` is aborted, what it gives later is discarded, and the call fails
 * with an error for which `isToolTimeout` is true. The model reads it. Around `withRetries` it bounds all attempts together, inside of it
 * each of them. A tool that ignores its signal continues unseen.
 *
 * @throws EspalierError `invalid_definition` or `invalid_option`.
 */
export function withTimeout<Context>(
  tool: FunctionTool<Context>,
  options: {
    /** How long one run of what is wrapped may take. More than 0. */
    readonly timeoutMs: number;
  },
): FunctionTool<Context> {
  checkWrappable("withTimeout", tool);
  checkKeys("withTimeout", options, ["timeoutMs"]);
  const { timeoutMs } = options;
  checkSpan("withTimeout.timeoutMs", timeoutMs);
  return withRun(tool, (use, context, runtime) => runInTime(use, context, runtime, timeoutMs));
}

/** One run within a time limit: for `withTimeout`, and for the `timeoutMs` of a tool. */
export async function runInTime<Context>(
  use: FunctionUse<Context>,
  context: ToolContext<Context>,
  runtime: () => ToolRuntime,
  timeoutMs: number,
): Promise<unknown> {
  const { clock, graceMs, toolName } = runtime();
  const { signal: outer } = context;
  const once = closable(context);
  const outcome = await runTimed(
    (signal) =>
      unlessGivenUp(outer, toolName, () =>
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
      throw toolTimedOut(toolName, timeoutMs);
    case "abandoned":
      throw endedEarly(toolName);
  }
}

/**
 * What comes of `work`. If a time limit around this one runs out first, it ends without a grace period: that limit has its result, and
 * this one is not waited for.
 */
async function unlessGivenUp(
  signal: AbortSignal,
  toolName: string,
  work: () => unknown,
): Promise<unknown> {
  if (isTimeUp(signal)) throw endedEarly(toolName);
  const given = Promise.withResolvers<never>();
  const giveUp = (): void => {
    if (isTimeUp(signal)) given.reject(endedEarly(toolName));
  };
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    return await Promise.race([given.promise, invoke(work)]);
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

/** True if the signal was aborted by a limit of time, as `runTimed` does it. */
function isTimeUp({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason instanceof DOMException && reason.name === "TimeoutError";
}
