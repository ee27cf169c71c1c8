// Goal: the outcome of a call is persisted before it is used, also if its end is written together
// with later records (D1).
// Method: a store that knows which ends of calls it has; user code and models record what the store
// had when they were called.

import { expect, test } from "vitest";
import { z } from "zod";

import { defineAgent, type AgentDefinition } from "../../../src/agent/define-agent.ts";
import { transform } from "../../../src/hooks/hook.ts";
import { parseRecord } from "../../../src/orchestrator/durability/journal-record.ts";
import { RecordCodec } from "../../../src/orchestrator/durability/record-codec.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { defineDelegation } from "../../../src/tools/define-tool.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";

interface Watched {
  readonly store: Store;
  /** The names of the persisted ends. */
  readonly ends: readonly string[];
}

function watched(): Watched {
  const inner = memoryStore();
  const reader = new RecordCodec();
  const ends: string[] = [];
  const store: Store = forwarding(inner, {
    append: async (ownership, batch) => {
      await new Promise((resolve) => setTimeout(resolve, 2));
      await inner.append(ownership, batch);
      for (const record of batch.records.flatMap((line) => reader.read(line).map(parseRecord)))
        if (record.type === "effect" && record.name.startsWith("tool.")) ends.push(record.name);
    },
  });
  return { store, ends };
}

/** A reply without a further request: the agent ends with it. */
const LAST = { calls: [["pay", { thing: "b" }]] } as const;

const LOOK_AND_TURN = {
  calls: [
    ["look", { thing: "a" }],
    ["turn", { thing: "b" }],
  ],
} as const;

/** Returns a tool, a sequential tool, and a condition; the last two record their calls. */
function noting(note: (who: string) => void): Pick<AgentDefinition, "tools" | "stopWhen"> {
  const turn = (): string => {
    note("turn");
    return "turned";
  };
  const condition = (): undefined => {
    note("condition");
    return undefined;
  };
  return {
    tools: [
      countedTool(new Map(), "look"),
      countedTool(new Map(), "turn", turn, { sequential: true }),
    ],
    stopWhen: [condition],
  };
}

test("persists outcomes before conditions, further calls, requests and subagents that follow from them", async () => {
  const { store, ends } = watched();
  const had: (readonly [who: string, ends: number])[] = [];
  const note = (who: string): void => void had.push([who, ends.length]);
  const worker = defineAgent({
    name: "worker",
    description: "Works",
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
      if (results.length === 0) return LOOK_AND_TURN;
      return results.length === 2 ? { calls: [spawnCall("worker", "t")] } : { text: "Done." };
    }),
    ...noting(note),
    subagents: [worker],
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

test("persists outcomes before they are used for an agent without subagents, whose calls are batched", async () => {
  const { store, ends } = watched();
  const had: (readonly [who: string, ends: number])[] = [];
  const note = (who: string): void => void had.push([who, ends.length]);
  const role = defineAgent({
    name: "lead",
    instructions: "You work.",
    model: thinker("lead", ({ results }) => {
      note("lead");
      if (results.length === 0) return LOOK_AND_TURN;
      return results.length === 2 ? { calls: [["look", { thing: "c" }]] } : { text: "Done." };
    }),
    ...noting(note),
    budget: { steps: 3 },
  });
  const { status } = await new Orchestrator({ store }).start(role, "Go.").result;
  expect(status).toBe("completed");
  expect(had).toEqual([
    ["condition", 0],
    ["lead", 0],
    ["turn", 1],
    ["condition", 2],
    ["lead", 2],
    ["condition", 3],
    ["lead", 3],
    ["condition", 3],
  ]);
});

test("resolves the result of an agent without subagents once its last call is persisted", async () => {
  const { store, ends } = watched();
  const role = defineAgent({
    name: "lead",
    instructions: "You work.",
    model: thinker("lead", () => LAST),
    tools: [countedTool(new Map(), "pay")],
    budget: { steps: 1 },
  });
  await new Orchestrator({ store }).start(role, "Go.").result;
  expect(ends).toEqual(["tool.1.0:pay"]);
});

test("returns a subagent's result to a delegation once the subagent's last call is persisted", async () => {
  const { store, ends } = watched();
  const had: (readonly string[])[] = [];
  const worker = defineAgent({
    name: "worker",
    description: "Works",
    instructions: "You work.",
    model: thinker("worker", () => LAST),
    tools: [countedTool(new Map(), "pay")],
    budget: { steps: 1 },
  });
  const role = defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("lead", ({ results }) =>
      results.length === 0 ? { calls: [["ask", {}]] } : { text: "Done." },
    ),
    tools: [
      defineDelegation({
        name: "ask",
        description: "Asks.",
        inputSchema: z.object({}),
        execute: async (_input, context) => {
          const outcome = await context.spawn({ role: "worker", task: "Work." });
          had.push([...ends]);
          return outcome;
        },
      }),
    ],
    subagents: [worker],
  });
  await new Orchestrator({ store }).start(role, "Go.").result;
  expect(had).toEqual([["tool.1.0:pay"]]);
});

test("resolves the result of a run with detached subagents once the root's last call is persisted", async () => {
  const { store, ends } = watched();
  const gate = Promise.withResolvers<string>();
  const worker = defineAgent({
    name: "worker",
    description: "Works",
    instructions: "You work.",
    model: thinker("worker", ({ results }) =>
      results.length === 0 ? { calls: [["wait", { thing: "a" }]] } : { text: "Worked." },
    ),
    tools: [countedTool(new Map(), "wait", () => gate.promise)],
  });
  const role = defineAgent({
    name: "lead",
    instructions: "You lead.",
    output: z.object({ a: z.string() }),
    delegation: { background: true, parentEndPolicy: "detach" },
    model: thinker("lead", ({ results }) =>
      results.length === 0
        ? { calls: [spawnCall("worker", "Work.", { background: true })] }
        : {
            calls: [
              ["pay", { thing: "b" }],
              ["Finish", { a: "x" }],
            ],
          },
    ),
    tools: [countedTool(new Map(), "pay")],
    subagents: [worker],
  });
  const run = new Orchestrator({ store }).start(role, "Go.");
  await run.result;
  expect(ends).toContain("tool.2.0:pay");
  gate.resolve("waited");
  await run.settled;
});

test("starts a subtask once the call that queued it is persisted", async () => {
  const { store, ends } = watched();
  const had: (readonly string[])[] = [];
  const worker = defineAgent({
    name: "worker",
    description: "Works",
    instructions: "You work.",
    model: thinker("worker", () => ({ text: "Worked." })),
  });
  const role = defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("lead", ({ results }) =>
      results.length === 0 ? { calls: [["plan", { thing: "a" }]] } : { text: "Done." },
    ),
    tools: [
      countedTool(new Map(), "plan", (_input, { queueSubtask }) => {
        queueSubtask({ role: "worker", task: "Work." });
        return "planned";
      }),
    ],
    subagents: [worker],
    hooks: [
      transform("subagentStart", () => {
        had.push([...ends]);
        return {};
      }),
    ],
  });
  await new Orchestrator({ store }).start(role, "Go.").result;
  expect(had).toEqual([["tool.1.0:plan"]]);
});
