// What one would write by hand: a loop on the `openai` client, no framework, no tracing.

import OpenAI from "openai";
import type {
  ChatCompletionMessageParam,
  ChatCompletionTool,
} from "openai/resources/chat/completions";

import { modelName, type AgentWork } from "../workloads/agent-work.ts";
import type { Contender, WorkWatch } from "./contender.ts";

const add: ChatCompletionTool = {
  type: "function",
  function: {
    name: "add",
    description: "Adds two numbers.",
    parameters: {
      type: "object",
      properties: { a: { type: "number" }, b: { type: "number" } },
      required: ["a", "b"],
      additionalProperties: false,
    },
  },
};
const delegate: ChatCompletionTool = {
  type: "function",
  function: {
    name: "SpawnSubagent",
    description: "Delegates a part.",
    parameters: {
      type: "object",
      properties: { role: { type: "string" }, task: { type: "string" } },
      required: ["role", "task"],
      additionalProperties: false,
    },
  },
};

interface Input {
  readonly a?: number;
  readonly b?: number;
  readonly task?: string;
}

function parse(text: string): Input {
  const input: unknown = JSON.parse(text);
  return isInput(input) ? input : {};
}

function isInput(input: unknown): input is Input {
  return typeof input === "object" && input !== null;
}

export function bareLoop(serverUrl: string): Contender {
  const client = new OpenAI({ apiKey: "none", baseURL: `${serverUrl}/v1`, maxRetries: 0 });

  async function loop(work: AgentWork, task: string, watch: WorkWatch): Promise<string> {
    const { child } = work;
    const model = modelName(work);
    const tools = [child === undefined ? add : delegate];
    const messages: ChatCompletionMessageParam[] = [
      { role: "system", content: "You work." },
      { role: "user", content: task },
    ];
    if (watch.onDelta !== undefined) return await stream(model, messages, watch.onDelta);
    for (;;) {
      const reply = await client.chat.completions.create({ model, messages, tools });
      const message = reply.choices[0]?.message;
      if (message === undefined) throw new Error("Expected a reply with a message, got none.");
      messages.push(message);
      const calls = (message.tool_calls ?? []).filter((call) => call.type === "function");
      if (calls.length === 0) return message.content ?? "";
      const contents = await Promise.all(
        calls.map((call) => run(parse(call.function.arguments), child, watch)),
      );
      for (const [index, call] of calls.entries())
        messages.push({ role: "tool", tool_call_id: call.id, content: contents[index] ?? "" });
    }
  }

  async function stream(
    model: string,
    messages: ChatCompletionMessageParam[],
    onDelta: (piece: string) => void,
  ): Promise<string> {
    const chunks = await client.chat.completions.create({
      model,
      messages,
      tools: [add],
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = "";
    for await (const chunk of chunks) {
      const piece = chunk.choices[0]?.delta.content ?? "";
      if (piece === "") continue;
      text += piece;
      onDelta(piece);
    }
    return text;
  }

  function run(input: Input, child: AgentWork | undefined, watch: WorkWatch): Promise<string> {
    if (child !== undefined) return loop(child, input.task ?? "", watch);
    watch.onToolCall?.();
    return Promise.resolve(String((input.a ?? 0) + (input.b ?? 0)));
  }

  return {
    prepare:
      (work, watch = {}) =>
      async () => {
        if ((await loop(work, "Begin.", watch)) === "") throw new Error("Expected a text.");
      },
    flush: () => Promise.resolve(),
    journalBytes: () => Promise.resolve(0),
    close: () => Promise.resolve(undefined),
  };
}
