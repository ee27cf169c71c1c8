// From the tools of a server to tools that agents can be given.

import type { CallToolResult, Tool } from "@modelcontextprotocol/client";
import { trace } from "@opentelemetry/api";

import { isPromiseLike } from "../kernel/cancel.ts";
import { misdefinition } from "../kernel/check.ts";
import { EspalierError } from "../kernel/error.ts";
import { deepFreeze, type JsonObject } from "../kernel/json.ts";
import { JsonObjectSchema } from "../protocol/json-value.ts";
import { defineTool } from "../tools/define-tool.ts";
import { jsonSchema } from "../tools/json-schema.ts";
import type { ToolContext, ToolProgress } from "../tools/tool-context.ts";
import { ToolError } from "../tools/tool-error.ts";
import { toolResult } from "../tools/tool-result.ts";
import type { FunctionTool, ToolReturn } from "../tools/tool.ts";
import type { ListedTools } from "./list-tools.ts";
import type { McpConnection } from "./mcp-connection.ts";
import { McpFault } from "./mcp-fault.ts";
import type { McpSettings, McpTool } from "./mcp-options.ts";
import type { SkippedMcpTool } from "./skipped-mcp-tool.ts";
import type { McpProgress } from "./mcp-session.ts";
import { mcpResult } from "./mcp-result.ts";
import { currentTrace, describeCall } from "./trace-context.ts";

/** What became of the tools of a server. */
export interface McpToolset {
  readonly tools: readonly FunctionTool[];
  readonly skipped: readonly SkippedMcpTool[];
}

/**
 * Makes the tools. One that only its server could mend is skipped, so that the others can be used. One that `prefix` or `filter` can
 * help is an error: `invalid_definition` for a name that cannot be made to fit, `duplicate_tool` for two that come out the same.
 */
export function mcpToolset(
  settings: McpSettings,
  connection: McpConnection,
  listed: ListedTools,
): McpToolset {
  const tools: FunctionTool[] = [];
  const skipped: SkippedMcpTool[] = [...listed.unreadable];
  const names = new Map<string, string>();
  for (const tool of listed.tools) {
    const face = faceOf(tool);
    if (!isSelected(settings, face)) continue;
    const name = nameFor(settings, tool.name);
    const other = names.get(name);
    if (other !== undefined) throw collision(settings, name, [other, tool.name]);
    names.set(name, tool.name);
    const reason = unusable(tool);
    if (reason !== undefined) {
      skipped.push({ name: tool.name, reason });
      continue;
    }
    try {
      tools.push(functionTool(settings, connection, { name, tool, face }));
    } catch (cause) {
      if (!EspalierError.is(cause)) throw cause;
      skipped.push({ name: tool.name, reason: cause.message });
    }
  }
  return deepFreeze({ tools, skipped });
}

/** What `filter` says. Anything else than yes or no would quietly take the tool, or leave it out. */
function isSelected({ filter }: McpSettings, face: McpTool): boolean {
  const answer: unknown = filter(face);
  if (typeof answer === "boolean") return answer;
  // A rejection of a promise that should not be here must not go unhandled.
  if (isPromiseLike(answer)) Promise.resolve(answer).catch(() => undefined);
  const field = `the answer of connectMcp.filter about ${JSON.stringify(face.name)}`;
  throw misdefinition(field, "true or false", answer, "Say which, at once.");
}

/** Why a tool cannot be called at all. */
function unusable(tool: Tool): string | undefined {
  if (tool.execution?.taskSupport !== "required") return undefined;
  return "It can only be called as a task (execution.taskSupport is required), which is not supported.";
}

interface Placed {
  /** What the model calls it. */
  readonly name: string;
  readonly tool: Tool;
  readonly face: McpTool;
}

function functionTool(
  settings: McpSettings,
  connection: McpConnection,
  { name, tool, face }: Placed,
): FunctionTool {
  const needsApproval = approvalFor(settings, face);
  return defineTool({
    name,
    description: descriptionOf(tool),
    input: jsonSchema(JsonObjectSchema.parse(structuredClone(tool.inputSchema))),
    timeoutMs: settings.timeoutMs,
    ...(needsApproval === undefined ? {} : { needsApproval }),
    isRepeatable: isRepeatable(face),
    execute: (input: JsonObject, context: ToolContext) =>
      execute({ settings, connection, tool }, input, context),
  });
}

interface Callee {
  readonly settings: McpSettings;
  readonly connection: McpConnection;
  readonly tool: Tool;
}

async function execute(
  { settings, connection, tool }: Callee,
  input: JsonObject,
  context: ToolContext,
): Promise<ToolReturn> {
  const span = trace.getActiveSpan();
  const onProgress = (progress: McpProgress): void => context.reportProgress(reportOf(progress));
  let result: CallToolResult;
  try {
    const call = { tool, arguments: input, trace: currentTrace(), onProgress };
    result = await connection.call(call, context.signal);
  } catch (cause) {
    throw cause instanceof McpFault ? failure(settings, tool, cause) : cause;
  } finally {
    describeCall(span, connection.attributes);
  }
  const { text, attachments, structured } = mcpResult(result);
  if (result.isError === true) throw new ToolError(text === "" ? "It gave no reason." : text);
  return toolResult({
    text,
    ...(attachments.length === 0 ? {} : { attachments }),
    ...(structured === undefined ? {} : { structured }),
  });
}

/** What of a report can be shown; servers may write anything. */
function reportOf({ progress: done, total, message }: McpProgress): ToolProgress {
  return {
    ...(done < 0 ? {} : { done }),
    ...(total === undefined || total < 0 ? {} : { total }),
    ...(message === undefined || message.trim() === "" ? {} : { message }),
  };
}

function failure({ name }: McpSettings, tool: Tool, fault: McpFault): ToolError {
  const server = `The MCP server ${JSON.stringify(name)}`;
  const { kind, detail } = fault;
  const message = sentence(fault.message);
  const data = {
    server: name,
    tool: tool.name,
    reason: kind,
    ...(detail === undefined ? {} : { detail }),
  };
  switch (kind) {
    case "lost":
      return new ToolError(`${server} went away while it had the call: ${message}`, {
        hint: "It may have done what you asked, or not: see to that before you call it again.",
        data,
        cause: fault,
      });
    case "unreachable":
    case "not_taken":
      return new ToolError(`${server} cannot be reached: ${message}`, {
        hint: "Nothing was done. Do without it if you can.",
        data,
        cause: fault,
      });
    case "unauthorized":
      return new ToolError(`${server} takes no calls without other credentials: ${message}`, {
        hint: "Nothing was done. Do without it, and say that it needs credentials.",
        data,
        cause: fault,
      });
    case "answered":
      return new ToolError(`${server} refused it: ${message}`, { data, cause: fault });
    case "invalid":
      return new ToolError(`${server} gave an answer that cannot be used: ${message}`, {
        data,
        cause: fault,
      });
    case "closed":
    case "cancelled":
      return new ToolError(`${server} did not finish the call: ${message}`, { data, cause: fault });
  }
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function faceOf({ name, title, description, annotations = {} }: Tool): McpTool {
  const { readOnlyHint, destructiveHint, idempotentHint, openWorldHint } = annotations;
  return deepFreeze({
    name,
    ...(title === undefined ? {} : { title }),
    ...(description === undefined ? {} : { description }),
    annotations: {
      ...(readOnlyHint === undefined ? {} : { readOnlyHint }),
      ...(destructiveHint === undefined ? {} : { destructiveHint }),
      ...(idempotentHint === undefined ? {} : { idempotentHint }),
      ...(openWorldHint === undefined ? {} : { openWorldHint }),
    },
  });
}

function descriptionOf({ name, title, description, annotations }: Tool): string {
  const words = [description, title, annotations?.title];
  return words.find((text) => text !== undefined && text.trim() !== "") ?? name;
}

function approvalFor(
  { needsApproval }: McpSettings,
  tool: McpTool,
):
  | undefined
  | boolean
  | ((input: JsonObject, context: ToolContext) => boolean | string | Promise<boolean | string>) {
  if (typeof needsApproval === "function")
    return (input, context) => needsApproval(tool, input, context);
  return needsApproval === "destructive" ? mayDestroy(tool) : needsApproval;
}

/** A tool that says that it destroys something, and not that a second call does nothing more, is not called twice by us. */
function isRepeatable({ annotations }: McpTool): boolean {
  return annotations.destructiveHint !== true || annotations.idempotentHint === true;
}

/** What a server does not say of a tool is what the protocol takes for granted: it may change things, and destroy them. */
function mayDestroy({ annotations }: McpTool): boolean {
  return annotations.readOnlyHint !== true && annotations.destructiveHint !== false;
}

const LONGEST_NAME = 64;

/** Servers may use characters in names that models may not: they become `_`. */
function nameFor({ name: server, prefix }: McpSettings, toolName: string): string {
  const name = `${prefix}${toolName.replaceAll(/[^A-Za-z0-9_-]/gu, "_")}`;
  if (name.length > 0 && name.length <= LONGEST_NAME) return name;
  throw misdefinition(
    `the name of tool ${JSON.stringify(toolName)} of MCP server ${JSON.stringify(server)}`,
    `1 to ${LONGEST_NAME} characters with its prefix`,
    name,
    "Choose a shorter prefix, or leave the tool out with filter.",
  );
}

function collision(
  { name: server }: McpSettings,
  name: string,
  toolNames: readonly [string, string],
): EspalierError {
  const [first, second] = toolNames.map((toolName) => JSON.stringify(toolName));
  return new EspalierError({
    code: "duplicate_tool",
    message: `Expected the tools of MCP server ${JSON.stringify(server)} to have unique names, got ${first} and ${second}, which both become "${name}". Leave one out with filter.`,
    data: { field: `connectMcp.${server}`, name },
  });
}
