// Models of the spawn workload, in this process: nothing is measured but the tree itself. Replies come in a turn of their own, as from
// a network.

import { setImmediate as nextTurn } from "node:timers/promises";

import type { Model } from "espalier";
import { toCallId, type ModelReply } from "espalier/extend";

const usage = { inputTokens: 100, cachedInputTokens: 0, outputTokens: 20, reasoningTokens: 0 };
const price = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };

/** No two tasks are the same: delegating the same thing again and again would be questioned. */
let tasks = 0;

function newTask(): string {
  tasks += 1;
  return `Part ${tasks}`;
}

function text(words: string): ModelReply {
  return {
    message: { role: "assistant", text: words, toolCalls: [] },
    finishReason: "stop",
    usage,
  };
}

/** Delegates to `role` `total` times, `perReply` at once, then answers. */
export function leadModel(role: string, total: number, perReply: number): Model {
  const calls = (from: number, count: number): ModelReply => ({
    message: {
      role: "assistant",
      text: "",
      toolCalls: Array.from({ length: count }, (_value, index) => ({
        callId: toCallId(`call_${from + index}`),
        toolName: "SpawnSubagent",
        argumentsText: JSON.stringify({ role, task: newTask() }),
      })),
    },
    finishReason: "tool_calls",
    usage,
  });
  return {
    provider: "bench",
    id: `lead-of-${role}`,
    price,
    generate: async ({ messages }) => {
      await nextTurn();
      const done = messages.filter((message) => message.role === "tool").length;
      return done >= total ? text("All is done.") : calls(done, Math.min(perReply, total - done));
    },
  };
}

/** Answers at once. */
export const leafModel: Model = {
  provider: "bench",
  id: "leaf",
  price,
  generate: async () => {
    await nextTurn();
    return text("Done.");
  },
};
