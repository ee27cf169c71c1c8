// What all wrappers share: the same tool with another use of its calls. Nothing is kept between two calls here.

import { omitUndefined, isRecord, type JsonValue } from "../../kernel/json.ts";
import { checkTool } from "../check-tool.ts";
import { ToolError } from "../tool-error.ts";
import { QUESTION_ENDED, type AskRequest, type ToolContext } from "../tool-context.ts";
import type { Bound, FunctionTool, FunctionUse } from "../tool.ts";

/** Throws `invalid_definition` unless `tool` is one that can be wrapped. */
export function checkWrappable(wrapper: string, tool: unknown): void {
  const advice = "Wrap a tool that has its own execute function.";
  checkTool(`${wrapper}.tool`, tool, ["function"], advice);
}

/** The tool, whose calls do what `change` makes of them. Name, schema and settings stay. */
export function replaceUse<Context>(
  tool: FunctionTool<Context>,
  change: (use: FunctionUse<Context>) => FunctionUse<Context>,
): FunctionTool<Context> {
  const { name, description, inputSchema, settings, sequential, retryAfterCrash } = tool;
  const { strictSchema } = tool;
  // Named one by one: a tool that a class makes has some of them on its prototype.
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

/** The tool, whose calls run as `run` says. Whether they need an approval stays. */
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

/** A context for one attempt at a call: once closed, what is asked of it is dropped, and what it has asked ends. */
export function createClosableContext<Context>(context: ToolContext<Context>): {
  readonly context: ToolContext<Context>;
  close(): void;
} {
  let isClosed = false;
  /** Made with its first question. */
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

/** A question that ends with an attempt, too. What is no request stays as it is: the receiver says what is wrong with it. */
function addEndingSignal(request: AskRequest, ending: AbortSignal): AskRequest {
  const given: unknown = isRecord(request) ? request.signal : null;
  if (given === undefined) return { ...request, signal: ending };
  return given instanceof AbortSignal
    ? { ...request, signal: AbortSignal.any([ending, given]) }
    : request;
}

/** The failure of a call whose signal was aborted before it had a result. What is made of it depends on what aborted it. */
export function createEndedEarlyError(toolName: string): ToolError {
  return new ToolError(`${toolName} was stopped before it had a result.`);
}
