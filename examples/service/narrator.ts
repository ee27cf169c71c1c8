// Who answers in the service: a narrator that looks something up, then speaks word by word. In your program its model is
// `openai("gpt-5-mini")`; this one needs no key.

import { setTimeout } from "node:timers/promises";

import { defineAgent, defineTool, type Model } from "espalier";
import { buildReplyMessage, toCallId } from "espalier/extend";
import { z } from "zod";

const WORDS = "A tree that is trained along a wall is called an espalier. "
  .repeat(16)
  .split(/(?<= )/);
const PAUSE_MS = 15;

const model: Model = {
  provider: "example",
  id: "narrator",
  price: { inputUsdPerMillion: 1, outputUsdPerMillion: 4 },
  generate: async ({ messages }, { signal, onDelta }) => {
    if (messages.at(-1)?.role === "user") {
      const call = { callId: toCallId("call_1"), toolName: "look_up", argumentsText: "{}" };
      return {
        message: buildReplyMessage([{ type: "call", ...call }]),
        finishReason: "tool_calls",
      };
    }
    for (const text of WORDS) {
      await setTimeout(PAUSE_MS, undefined, { signal });
      onDelta?.({ type: "text", text });
    }
    const text = WORDS.join("");
    return { message: buildReplyMessage([{ type: "text", text }]), finishReason: "stop" };
  },
};

const lookUp = defineTool({
  name: "look_up",
  description: "Looks up what is known of trees.",
  inputSchema: z.object({}),
  execute: () => "Espaliers are trees trained along a wall.",
});

export const narrator = defineAgent({
  name: "narrator",
  instructions: "Tell what you find.",
  model,
  tools: [lookUp],
});
