// Shared by all wrappers: the same tool with another use of its calls. Stores nothing between two
// calls.

import { omitUndefined, isRecord, type JsonValue } from "../../kernel/json.ts";
import { checkTool } from "../check-tool.ts";
import { ToolError } from "../tool-error.ts";
import { QUESTION_ENDED, type AskRequest, type ToolContext } from "../tool-context.ts";
import type { Bound, FunctionTool, FunctionUse } from "../tool.ts";

/** Throws `invalid_argument` unless `tool` can be wrapped. */
export function checkWrappable(wrapper: string, tool: unknown): void {
  const advice = "Wrap a tool that has its own execute function.";
  checkTool(`${wrapper}.tool`, tool, ["function"], advice);
}

/**
 * Returns the tool with `change` applied to the use of each call. Name, schema and settings stay.
 */
export function replaceUse<Context>(
  tool: FunctionTool<Context>,
  change: (use: FunctionUse<Context>) => FunctionUse<Context>,
): FunctionTool<Context> {
  const { name, description, inputSchema, settings, sequential, retryAfterCrash } = tool;
  const { strictSchema } = tool;
  // Copied one by one, since a tool of a class has some of these on its prototype.
  return Object.freeze({
    kind: "function",
    name,
    description,
    inputSchema,
    ...omitUndefined({ strictSchema }),
    settings,
    sequential,
    retryAfterCrash,
    bind: (input: JsonValue, parsed?: JsonValue): Bound<FunctionUse<Context>> => {
      const bound = tool.bind(input, parsed);
      if (bound.type === "invalid") return bound;
      return { ...bound, use: change(bound.use) };
    },
  });
}

/** Returns the tool with `run` around each call. The need for an approval stays. */
export function replaceRun<Context>(
  tool: FunctionTool<Context>,
  run: (
    use: FunctionUse<Context>,
    ...call: Parameters<FunctionUse<Context>["run"]>
  ) => Promise<unknown>,
): FunctionTool<Context> {
  return replaceUse(tool, (use) => ({
    run: (context, runtime) => run(use, context, runtime),
    needsApproval: use.needsApproval,
  }));
}

/**
 * Creates a context for one attempt of a call. Once it is closed, requests are dropped, and open
 * questions end.
 */
export function createClosableContext<Context>(context: ToolContext<Context>): {
  readonly context: ToolContext<Context>;
  close(): void;
} {
  let isClosed = false;
  /** Created with the first question. */
  let asking: AbortController | undefined;
  return {
    context: Object.freeze({
      ...context,
      queueSubtask: (request) => {
        if (!isClosed) context.queueSubtask(request);
      },
      reportProgress: (progress) => {
        if (!isClosed) context.reportProgress(progress);
      },
      ask: async (request) => {
        if (isClosed) return QUESTION_ENDED;
        asking ??= new AbortController();
        return await context.ask(addEndingSignal(request, asking.signal));
      },
    } satisfies ToolContext<Context>),
    close: () => {
      isClosed = true;
      asking?.abort();
    },
  };
}

/**
 * Ties a question to the attempt's signal. Invalid requests pass through, since the receiver
 * reports them.
 */
function addEndingSignal(request: AskRequest, ending: AbortSignal): AskRequest {
  const ownSignal: unknown = isRecord(request) ? request.signal : null;
  if (ownSignal === undefined) return { ...request, signal: ending };
  return ownSignal instanceof AbortSignal
    ? { ...request, signal: AbortSignal.any([ending, ownSignal]) }
    : request;
}

/**
 * Creates the failure of a call whose signal was aborted before it had a result. The cause of the
 * abort decides how it is handled.
 */
export function createEndedEarlyError(toolName: string): ToolError {
  return new ToolError(`${toolName} was stopped before it had a result.`);
}
