// Goal: what a call came to is kept before it is acted upon, also where its end is written together with what follows (D1).
// Method: a store that knows which ends of calls it has; code of the user's, and models, say what the store had when they were asked.

import { expect, test } from "vitest";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { JournalReader } from "../../src/orchestrator/durability/journal-reader.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import type { Store } from "../../src/store/store.ts";
import { forwarding } from "./forwarding-store.ts";
import { countedTool, spawnCall, thinker } from "./thinkers.ts";

interface Watched {
  readonly store: Store;
  /** The names of the ends that are kept. */
  readonly ends: readonly string[];
}

function watched(): Watched {
  const inner = memoryStore();
  const reader = new JournalReader();
  const ends: string[] = [];
  const store: Store = {
    ...forwarding(inner),
    append: async (ownership, batch) => {
      await new Promise((resolve) => setTimeout(resolve, 2));
      await inner.append(ownership, batch);
      for (const record of batch.records.flatMap((line) => reader.read(line)))
        if (record.type === "effect" && record.name.startsWith("tool.")) ends.push(record.name);
    },
  };
  return { store, ends };
}

test("D1: conditions, processors, further calls, requests and subagents come after what they follow from is kept", async () => {
  const { store, ends } = watched();
  const had: (readonly [who: string, ends: number])[] = [];
  const note = (who: string): void => void had.push([who, ends.length]);
  const tools = [
    countedTool(new Map(), "look"),
    countedTool(
      new Map(),
      "turn",
      () => {
        note("turn");
        return "turned";
      },
      { isSequential: true },
    ),
  ];
  const worker = defineAgent({
    name: "worker",
    purpose: "Works",
    instructions: "You work.",
    model: thinker("worker", () => {
      note("worker");
      return { text: "Worked." };
    }),
  });
  const role = defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("lead", ({ results }) => {
      note("lead");
      if (results.length === 0)
        return {
          calls: [
            ["look", { thing: "a" }],
            ["turn", { thing: "b" }],
          ],
        };
      return results.length === 2 ? { calls: [spawnCall("worker", "t")] } : { text: "Done." };
    }),
    tools,
    subagents: [worker],
    stopWhen: [
      () => {
        note("condition");
        return undefined;
      },
    ],
  });
  const { status } = await new Orchestrator({ store }).start(role, "Go.").result;
  expect(status).toBe("completed");
  expect(had).toEqual([
    ["condition", 0],
    ["lead", 0],
    ["turn", 1],
    ["condition", 2],
    ["lead", 2],
    ["worker", 2],
    ["condition", 3],
    ["lead", 3],
    ["condition", 3],
  ]);
});
