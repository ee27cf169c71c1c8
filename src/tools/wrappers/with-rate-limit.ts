import { timeText } from "../time-text.ts";
import type { ToolContext } from "../tool-context.ts";
import { ToolError } from "../tool-error.ts";
import type { ToolRuntime } from "../tool-runtime.ts";
import type { FunctionTool, FunctionUse } from "../tool.ts";
import { limitNamed, lineOf, type RateLimit, type RateLimitOptions } from "./rate-limit.ts";
import { checkWrappable, endedEarly, withRun } from "./wrapped-tool.ts";

/**
 * The tool, of whose calls only so many start in a span of time, counted over the whole tree of a run; another run counts for itself.
 * Give options for a limit of its own, or a `rateLimit()` that it shares with other tools. Around `withRetries` it counts calls, inside
 * of it attempts; inside of `withTimeout`, waiting for a turn is part of the time. A call that waits keeps its place among the tool calls
 * that run at the same time. A resumed run begins to count anew.
 *
 * @throws EspalierError `invalid_definition` or `invalid_option`.
 */
export function withRateLimit<Context>(
  tool: FunctionTool<Context>,
  limit: RateLimit | RateLimitOptions,
): FunctionTool<Context>;
export function withRateLimit(
  tool: FunctionTool,
  limit: RateLimit | RateLimitOptions,
): FunctionTool {
  checkWrappable("withRateLimit", tool);
  const checked = limitNamed("withRateLimit", limit);
  return withRun(tool, (use, context, runtime) => runInTurn(checked, use, context, runtime));
}

async function runInTurn(
  limit: RateLimit,
  use: FunctionUse,
  context: ToolContext,
  runtime: () => ToolRuntime,
): Promise<unknown> {
  const { clock, toolName, run, endSignal } = runtime();
  if (context.signal.aborted) throw endedEarly(toolName);
  const line = lineOf(limit, run);
  if (!line.startAtOnce(clock.monotonicMs())) {
    if (limit.whenExceeded === "refuse")
      throw tooManyCalls(toolName, limit, line.freeInMs(clock.monotonicMs()));
    const signal = AbortSignal.any([context.signal, endSignal]);
    const hasPlace = await line.wait(clock, signal);
    if (hasPlace && signal.aborted) line.giveBack(clock);
    if (!hasPlace || signal.aborted) throw endedEarly(toolName);
    line.start(clock);
  }
  return await use.run(context, runtime);
}

function tooManyCalls(toolName: string, limit: RateLimit, freeInMs: number): ToolError {
  const { maxCalls, perMs } = limit;
  const retryAfterMs = Math.ceil(freeInMs);
  const often = maxCalls === 1 ? "once" : `${maxCalls} times`;
  return new ToolError(
    `Not executed: ${toolName} may be called ${often} within ${timeText(perMs)}, and that is used up.`,
    {
      hint: `Try again in ${timeText(retryAfterMs)}, or go on without it.`,
      data: { maxCalls, perMs, retryAfterMs },
    },
  );
}
