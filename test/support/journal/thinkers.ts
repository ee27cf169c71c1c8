// Models without a memory: their replies follow from the request, so that a repeated call gets the
// same reply. And tools that count how often each call was made.

import { z } from "zod";

import type { Model, ModelReply, ModelRequest } from "../../../src/model/model.ts";
import { buildReplyMessage, type ReplyPiece } from "../../../src/protocol/reply-message.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import { defineTool, type ToolDefinition } from "../../../src/tools/define-tool.ts";
import type { FunctionTool } from "../../../src/tools/tool.ts";
import type { ToolContext } from "../../../src/tools/tool-context.ts";

/** The input of a scripted model: the history of its agent, in short. */
export interface Sight {
  readonly task: string;
  /** Texts of results of tool calls, in order. */
  readonly results: readonly string[];
  /** Texts of all messages for the model except its task. */
  readonly heard: readonly string[];
  readonly request: ModelRequest;
}

export type Thought = (
  | { readonly text: string }
  | { readonly calls: readonly (readonly [toolName: string, input: object])[] }
) & {
  /** Its reasoning before the reply, which also has encrypted data. */
  readonly reasoning?: string;
};

/**
 * Returns a model that replies as `think` decides. `isCounting`: false if it does not report its
 * usage.
 */
export function thinker(
  name: string,
  think: (sight: Sight) => Thought,
  { isCounting = true }: { readonly isCounting?: boolean } = {},
): Model {
  return {
    provider: "test",
    id: name,
    price: { inputUsdPerMillion: 1, outputUsdPerMillion: 1 },
    generate: async (request) => {
      await Promise.resolve();
      const { usage, ...unmeasured } = replyOf(think(sightOf(request)), request);
      return isCounting && usage !== undefined ? { ...unmeasured, usage } : unmeasured;
    },
  };
}

function sightOf(request: ModelRequest): Sight {
  const { messages } = request;
  const told = messages.filter(({ role }) => role === "user").map(({ text }) => text);
  return {
    task: told[0] ?? "",
    results: messages.flatMap((message) => (message.role === "tool" ? [message.text] : [])),
    heard: told.slice(1),
    request,
  };
}

/** Converts a thought to a reply. */
export function replyOf(thought: Thought, { messages }: ModelRequest): ModelReply {
  const usage = {
    inputTokens: messages.length * 10,
    cachedInputTokens: 0,
    outputTokens: 5,
    reasoningTokens: 0,
  };
  const { reasoning } = thought;
  const data = { test: { sealed: `at ${messages.length}` } };
  const thinking: readonly ReplyPiece[] =
    reasoning === undefined ? [] : [{ type: "reasoning", text: reasoning, data }];
  if ("text" in thought) {
    const message = buildReplyMessage([...thinking, { type: "text", text: thought.text }]);
    return { message, finishReason: "stop", usage };
  }
  const calls = thought.calls.map(([toolName, input], index): ReplyPiece => {
    const callId = CallIdSchema().parse(`call_${messages.length}_${index}`);
    return { type: "call", callId, toolName, argumentsText: JSON.stringify(input) };
  });
  return { message: buildReplyMessage([...thinking, ...calls]), finishReason: "tool_calls", usage };
}

/** Returns the call that starts a subagent. */
export function spawnCall(role: string, task: string, more: object = {}) {
  return ["SpawnSubagent", { role, task, ...more }] as const;
}

/** Returns a tool that counts its executions in `calls`, by their idempotency keys. */
export function countedTool(
  calls: Map<string, number>,
  name: string,
  execute: (
    input: { readonly thing: string },
    context: ToolContext,
  ) => Promise<string> | string = ({ thing }) => `${name} of ${thing}`,
  more: Partial<
    Omit<ToolDefinition<z.ZodObject>, "name" | "description" | "inputSchema" | "execute">
  > = {},
): FunctionTool {
  return defineTool({
    name,
    description: `Does ${name}.`,
    inputSchema: z.object({ thing: z.string() }),
    ...more,
    execute: async (input, context) => {
      const { idempotencyKey } = context;
      calls.set(idempotencyKey, (calls.get(idempotencyKey) ?? 0) + 1);
      return await execute(input, context);
    },
  });
}
