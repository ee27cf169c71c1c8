// A run that is killed at every append, before and after it, and recovered ends as if undisturbed
// (D1, D2, E3).

import { test } from "vitest";

import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { defineDelegation } from "../../../src/tools/define-tool.ts";
import { latch } from "../../harness/run-scripted.ts";
import {
  aborted,
  killedEverywhere,
  opens,
  turns,
  type Play,
} from "../../support/journal/crash-play.ts";
import { worker } from "../../support/journal/measuring-worker.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";

test("recovers a tool call and two concurrent subagents", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      model: thinker("lead", ({ results }) => {
        if (results.length === 0) return { calls: [["look", { thing: "map" }]] };
        if (results.length === 1)
          return { calls: [spawnCall("worker", "left"), spawnCall("worker", "right")] };
        return { text: `All: ${results.length}` };
      }),
      tools: [countedTool(calls, "look")],
      subagents: [worker(calls)],
    });
    return { role, calls };
  });
});

function isWritten(event: EspalierEvent): boolean {
  return event.type === "tool.ended" && event.toolName === "MessageSubagent";
}

function isAwaited(event: EspalierEvent): boolean {
  return event.type === "tool.started" && event.toolName === "WaitForSubagents";
}

test("recovers background subagents that are awaited, messaged and cancelled", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const written = latch();
    const awaited = latch();
    const slow = defineAgent({
      name: "slow",
      description: "Is slow",
      instructions: "You are slow.",
      model: thinker("slow", ({ results, heard }) =>
        results.length < 2
          ? { calls: [["measure", { thing: `thing ${results.length}` }]] }
          : { text: `slow is done${heard.length > 0 ? ": " : ""}${heard.join()}` },
      ),
      tools: [
        countedTool(calls, "measure", async (_input, { signal, agentPath }) => {
          if (agentPath.endsWith("#1")) await written.opened;
          else await aborted(signal);
          return "measured";
        }),
      ],
    });
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      delegation: { background: true },
      model: thinker("lead", ({ results }) => {
        const at = results.length;
        if (at === 0)
          return {
            calls: [
              spawnCall("slow", "first", { background: true }),
              spawnCall("worker", "second", { background: true }),
              spawnCall("slow", "third", { background: true }),
            ],
          };
        if (at === 3)
          return { calls: [["MessageSubagent", { subagent: "slow#1", message: "Hurry." }]] };
        if (at === 4) return { calls: [["WaitForSubagents", { subagents: ["worker#1"] }]] };
        if (at === 5) return { calls: [["CancelSubagent", { subagent: "slow#2" }]] };
        return { text: "I am done." };
      }),
      subagents: [slow, worker(calls, () => awaited.opened)],
    });
    return { role, calls, callerActions: [opens(written, isWritten), opens(awaited, isAwaited)] };
  });
});

function hasAnswered(event: EspalierEvent): boolean {
  return event.type === "step.completed" && event.agentPath === "lead" && event.number === 4;
}

test("recovers a subagent that is continued in the foreground and in the background", async () => {
  await killedEverywhere((): Play => {
    const answered = latch();
    const calls = new Map<string, number>();
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      delegation: { background: true },
      model: thinker("lead", ({ results }) => {
        const again = { continue: "worker#1" };
        if (results.length === 0) return { calls: [spawnCall("worker", "first")] };
        if (results.length === 1) return { calls: [spawnCall("worker", "second", again)] };
        if (results.length === 2)
          return { calls: [spawnCall("worker", "third", { ...again, background: true })] };
        return { text: "All done." };
      }),
      subagents: [
        worker(calls, (task) => (task === "third" ? answered.opened : Promise.resolve())),
      ],
    });
    return { role, calls, callerActions: [opens(answered, hasAnswered)] };
  });
});

const TASK = z.object({ task: z.string() });

test("recovers custom delegations that start two subagents, in sequence and concurrently", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const inTurn = defineDelegation({
      name: "in_turn",
      description: "Starts two, one after the other.",
      inputSchema: TASK,
      execute: async ({ task }, { spawn }) => {
        await spawn({ role: "nobody", task });
        await spawn({ role: "worker", task: `${task} 1` });
        return await spawn({ role: "worker", task: `${task} 2` });
      },
    });
    const atOnce = defineDelegation({
      name: "at_once",
      description: "Starts two at once.",
      inputSchema: TASK,
      execute: async ({ task }, { spawn }) => {
        const refused = spawn({ role: "nobody", task });
        const both = [1, 2].map(
          async (part) => await spawn({ role: "worker", task: `${task} ${part}` }),
        );
        await refused;
        const [first, second] = await Promise.all(both);
        return second ?? first ?? refused;
      },
    });
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      tools: [inTurn, atOnce],
      model: thinker("lead", ({ results }) =>
        results.length === 0
          ? {
              calls: [
                ["in_turn", { task: "a" }],
                ["at_once", { task: "b" }],
              ],
            }
          : { text: results.join(" ") },
      ),
      subagents: [worker(calls)],
    });
    return { role, calls };
  });
});

test("recovers subtasks that a tool queued, one of which cannot be started", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const plan = countedTool(calls, "plan", (_input, { queueSubtask }) => {
      queueSubtask({ role: "nobody", task: "x" });
      queueSubtask({ role: "worker", task: "a" });
      queueSubtask({ role: "worker", task: "b" });
      return "planned";
    });
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      tools: [plan],
      model: thinker("lead", ({ results, heard }) =>
        results.length === 0 ? { calls: [["plan", { thing: "all" }]] } : { text: heard.join(" ") },
      ),
      subagents: [worker(calls)],
    });
    return { role, calls };
  });
});

async function work({ thing }: { readonly thing: string }): Promise<string> {
  await turns(2);
  return `did ${thing}`;
}

test("recovers sequential tools between concurrent ones", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const role = defineAgent({
      name: "solo",
      instructions: "You work.",
      tools: [
        countedTool(calls, "free", work),
        countedTool(calls, "alone", work, { sequential: true }),
      ],
      model: thinker("solo", ({ results }) =>
        results.length === 0
          ? {
              calls: [
                ["free", { thing: "a" }],
                ["free", { thing: "b" }],
                ["alone", { thing: "c" }],
                ["free", { thing: "d" }],
              ],
            }
          : { text: results.join(" ") },
      ),
    });
    return { role, calls };
  });
});

test("ends a subagent that a delegation does not start again after a crash", async () => {
  let process = 0;
  await killedEverywhere(
    (): Play => {
      const calls = new Map<string, number>();
      process += 1;
      const which = process % 2;
      const fickle = defineDelegation({
        name: "fickle",
        description: "Starts what it likes.",
        inputSchema: TASK,
        execute: async ({ task }, { spawn }) =>
          which === 0
            ? { type: "answered", text: "I did it myself." }
            : await spawn({ role: "worker", task }),
      });
      const role = defineAgent({
        name: "lead",
        instructions: "You lead.",
        tools: [fickle],
        model: thinker("lead", ({ results }) =>
          results.length === 0 ? { calls: [["fickle", { task: "a" }]] } : { text: "Done." },
        ),
        subagents: [worker(calls)],
      });
      return { role, calls };
    },
    () => undefined,
    { isSame: false, isReplayed: false },
  );
});
