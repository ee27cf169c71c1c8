// Groups of subagents in which one end ends others, and detached subagents, killed at every append
// (D2).

import { test } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { latch } from "../../harness/run-scripted.ts";
import { aborted, killedEverywhere, opens, type Play } from "../../support/journal/crash-play.ts";
import { worker } from "../../support/journal/measuring-worker.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";

test("recovers background subagents that their parent detached", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const lead = defineAgent({
      name: "lead",
      description: "Leads",
      instructions: "You lead.",
      delegation: { background: true, parentEndPolicy: "detach" },
      model: thinker("lead", ({ results }) =>
        results.length === 0
          ? {
              calls: [
                spawnCall("worker", "left", { background: true }),
                spawnCall("worker", "right", { background: true }),
              ],
            }
          : { text: "They go on." },
      ),
      subagents: [worker(calls)],
    });
    const top = defineAgent({
      name: "top",
      instructions: "You lead leads.",
      model: thinker("top", ({ results }) =>
        results.length === 0 ? { calls: [spawnCall("lead", "Lead.")] } : { text: "Done." },
      ),
      subagents: [lead],
    });
    return { role: top, calls };
  });
});

function hasEnded({ type, agentPath }: EspalierEvent): boolean {
  return type === "agent.ended" && agentPath === "lead";
}

test("recovers detached subagents that outlive the root", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const over = latch();
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      delegation: { background: true, parentEndPolicy: "detach" },
      model: thinker("lead", ({ results }) =>
        results.length === 0
          ? { calls: [spawnCall("worker", "a", { background: true })] }
          : { text: "It goes on." },
      ),
      subagents: [worker(calls, () => over.opened)],
    });
    return { role, calls, callerActions: [opens(over, hasEnded)] };
  });
});

const failing = () =>
  defineAgent({
    name: "failing",
    description: "Fails",
    instructions: "You fail.",
    model: thinker("failing", ({ results }) => {
      if (results.length === 0) return { calls: [["look", { thing: "it" }]] };
      throw new Error("No.");
    }),
    tools: [countedTool(new Map(), "look")],
  });

const endless = () =>
  defineAgent({
    name: "endless",
    description: "Does not end",
    instructions: "You go on.",
    model: thinker("endless", () => ({ calls: [["wait", { thing: "it" }]] })),
    tools: [
      countedTool(new Map(), "wait", async (_input, { signal }) => {
        await aborted(signal);
        return "over";
      }),
    ],
  });

test("recovers a fail_fast group whose first failure ends the others", async () => {
  await killedEverywhere((): Play => {
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      delegation: { failurePolicy: "fail_fast" },
      model: thinker("lead", ({ results }) =>
        results.length === 0
          ? {
              calls: [
                spawnCall("endless", "a"),
                spawnCall("failing", "b"),
                spawnCall("endless", "c"),
              ],
            }
          : { text: "One failed." },
      ),
      subagents: [failing(), endless()],
    });
    return { role };
  });
});

test("recovers a group that reached its quorum", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      delegation: { failurePolicy: { quorum: 2 } },
      model: thinker("lead", ({ results }) =>
        results.length === 0
          ? {
              calls: [
                spawnCall("worker", "a"),
                spawnCall("endless", "b"),
                spawnCall("nobody", "x"),
                spawnCall("worker", "c"),
              ],
            }
          : { text: "Two are enough." },
      ),
      subagents: [worker(calls), endless()],
    });
    return { role, calls };
  });
});

test("recovers a group that cannot reach its quorum", async () => {
  await killedEverywhere((): Play => {
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      delegation: { failurePolicy: { quorum: 2 } },
      model: thinker("lead", ({ results }) =>
        results.length === 0
          ? {
              calls: [
                spawnCall("endless", "b"),
                spawnCall("nobody", "x"),
                spawnCall("failing", "c"),
              ],
            }
          : { text: "It cannot be." },
      ),
      subagents: [failing(), endless()],
    });
    return { role };
  });
});
