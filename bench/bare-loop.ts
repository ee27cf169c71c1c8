// (a) What one would write by hand: a loop on the `openai` client, no framework, no tracing.

import OpenAI from "openai";
import type {
  ChatCompletionMessageParam,
  ChatCompletionTool,
} from "openai/resources/chat/completions";

import type { Contender } from "./contender.ts";

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

export function bareLoop(baseUrl: string): Contender {
  const client = new OpenAI({ apiKey: "none", baseURL: `${baseUrl}/v1`, maxRetries: 0 });

  async function loop(
    model: string,
    task: string,
    tool: ChatCompletionTool,
    child = "tools-2",
  ): Promise<string> {
    const messages: ChatCompletionMessageParam[] = [
      { role: "system", content: "You work." },
      { role: "user", content: task },
    ];
    for (;;) {
      const reply = await client.chat.completions.create({ model, messages, tools: [tool] });
      const message = reply.choices[0]?.message;
      if (message === undefined) throw new Error("no reply");
      messages.push(message);
      const calls = (message.tool_calls ?? []).filter((call) => call.type === "function");
      if (calls.length === 0) return message.content ?? "";
      const contents = await Promise.all(
        calls.map((call) => run(call.function.name, parse(call.function.arguments), child)),
      );
      for (const [index, call] of calls.entries()) {
        messages.push({ role: "tool", tool_call_id: call.id, content: contents[index] ?? "" });
      }
    }
  }

  function run(name: string, input: Input, child: string): Promise<string> {
    if (name === "add") return Promise.resolve(String((input.a ?? 0) + (input.b ?? 0)));
    return loop(child, input.task ?? "", add);
  }

  return {
    steps: async (count) => void (await loop(`tools-${count}`, "Add up.", add)),
    children: async (count) => void (await loop(`lead-${count}`, "Delegate.", delegate)),
    waiting: async (count) => void (await loop(`lead-${count}`, "Delegate.", delegate, "hold-1")),
    close: () => Promise.resolve(),
  };
}
