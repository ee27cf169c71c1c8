// A run whose first step queues a subtask, for forks.

import { says } from "../../src/testing/scripted-model.ts";
import { calls, part, tool, use, type Part } from "../tree/cast.ts";

export function queueing(): { readonly lead: Part; readonly reader: Part } {
  const reader = part("reader", ({ messages }) => says(`Read: ${messages.at(-1)?.text ?? ""}`));
  const plan = tool("plan", ({ queueSubtask }) => {
    queueSubtask({ role: "reader", task: "Queued." });
    return "planned";
  });
  const lead = part("lead", [calls(use("plan")), says("Done."), says("Forked.")], {
    subagents: [reader.role],
    tools: [plan],
  });
  return { lead, reader };
}
