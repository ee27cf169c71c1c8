// Tools that queue subtasks, and the results that their agent reads.

import type { SpawnRequest } from "../../src/protocol/subagent.ts";
import type { Fixture } from "../harness/run-scripted.ts";
import { spyTool } from "../harness/tools.ts";

/** A tool that queues these, in this order. */
export function planner(...requests: readonly SpawnRequest[]) {
  return spyTool("plan", ({ queueSubtask }) => {
    for (const request of requests) queueSubtask(request);
    return "planned";
  });
}

export const help = (task: string): SpawnRequest => ({ role: "helper", task });

/** Returns the text about a subtask that the parent reads. */
export function report(task: string, childName: string, text: string): string {
  const result = { outcome: "completed", steps: 1, subagent: childName, text, totalTokens: 15 };
  return `${heading(task)}${JSON.stringify(result)}`;
}

export function heading(task: string, role = "helper"): string {
  return `A subtask that was queued for ${role} has ended. Its task: ${task}\nIts result: `;
}

/** Returns the agents that called a model, in order. */
export function callers({ sink }: Fixture): readonly string[] {
  return sink.ofType("model.requested").map(({ agentPath }) => agentPath);
}
