// The runs whose recordings are in recorded/, by their names.

import { z } from "zod";

import type { AgentRole } from "../../src/agent/agent-role.ts";
import { defineAgent, type AgentDefinition } from "../../src/agent/define-agent.ts";
import { processStep, transform } from "../../src/hooks/hook.ts";
import { isRecord } from "../../src/kernel/json.ts";
import { JsonObjectSchema } from "../../src/protocol/json-value.ts";
import { approve, deny } from "../../src/protocol/question.ts";
import { defineDelegation } from "../../src/tools/define-tool.ts";
import { toolGuard } from "../../src/tools/tool-guard.ts";
import { spawnCall, type Sight, type Thought } from "../journal/thinkers.ts";
import type { Build, Fakes } from "./fakes.ts";

type Calls = readonly (readonly [string, object])[];

/** Calls one after the other, then a text. */
export function inTurn(...steps: readonly Calls[]): (sight: Sight) => Thought {
  return ({ results, heard }) => {
    let seen = 0;
    for (const calls of steps) {
      if (results.length === seen) return { calls };
      seen += calls.length;
    }
    return { text: ["Done", ...results.slice(-1), ...heard].join(" ") };
  };
}

export function worker(fakes: Fakes, turns = 2, name = "worker"): AgentRole {
  return defineAgent({
    name,
    description: "Works",
    instructions: "You work.",
    model: fakes.model(name, ({ results, task, heard }) =>
      results.length === 0
        ? { calls: [["measure", { thing: task }]] }
        : { text: [`${task} is done`, ...heard].join(" | ") },
    ),
    tools: [fakes.slow("measure", turns)],
  });
}

export function failing(fakes: Fakes): AgentRole {
  return defineAgent({
    name: "failing",
    description: "Fails",
    instructions: "You fail.",
    model: fakes.model("failing", () => {
      throw new Error("No.");
    }),
  });
}

export function endless(fakes: Fakes): AgentRole {
  return defineAgent({
    name: "endless",
    description: "Does not end",
    instructions: "You go on.",
    model: fakes.model("endless", () => ({ calls: [["wait", { thing: "it" }]] })),
    tools: [fakes.endless("wait")],
  });
}

type Lead = Partial<AgentDefinition>;

export function lead(fakes: Fakes, think: (sight: Sight) => Thought, more: Lead = {}): AgentRole {
  return defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: fakes.model("lead", think),
    subagents: [worker(fakes)],
    ...more,
  });
}

/** Workers of different speed at two depths, and a tool beside. */
const parallel: Build = (fakes) => {
  const workers = [worker(fakes, 7, "slow"), worker(fakes, 0, "quick")];
  const below = lead(fakes, inTurn([spawnCall("slow", "a"), spawnCall("quick", "b")]), {
    name: "middle",
    description: "Leads",
    subagents: workers,
  });
  const calls = [
    spawnCall("middle", "left"),
    ["look", { thing: "map" }] as const,
    spawnCall("quick", "alone"),
  ];
  const tools = [fakes.slow("look", 4)];
  return { role: lead(fakes, inTurn(calls), { tools, subagents: [below, ...workers] }) };
};

const background: Build = (fakes) => ({
  role: lead(
    fakes,
    inTurn(
      [
        spawnCall("worker", "first", { background: true }),
        spawnCall("endless", "second", { background: true }),
        spawnCall("slow", "third", { background: true }),
      ],
      [["MessageSubagent", { subagent: "slow#1", message: "Hurry." }]],
      [["WaitForSubagents", { subagents: ["worker#1"] }]],
      [["CancelSubagent", { subagent: "endless#1", reason: "Enough." }]],
      [spawnCall("worker", "more", { continue: "worker#1" })],
    ),
    {
      delegation: { background: true },
      subagents: [worker(fakes), endless(fakes), worker(fakes, 8, "slow")],
    },
  ),
});

const groups: Build = (fakes) => {
  const subagents = [worker(fakes), endless(fakes), failing(fakes)];
  const group = (name: string, onFailure: "fail_fast" | { readonly quorum: number }): AgentRole => {
    const other = onFailure === "fail_fast" ? "failing" : "worker";
    const calls = [spawnCall("endless", "a"), spawnCall(other, "b")];
    return lead(fakes, inTurn(calls), {
      name,
      description: "Leads",
      delegation: { failurePolicy: onFailure },
      subagents,
    });
  };
  return {
    role: lead(fakes, inTurn([spawnCall("fast", "x")], [spawnCall("quorum", "y")]), {
      subagents: [group("fast", "fail_fast"), group("quorum", { quorum: 1 })],
    }),
  };
};

const TASK = z.object({ task: z.string() });

const delegations: Build = (fakes) => {
  const inOrder = defineDelegation({
    name: "in_order",
    description: "Starts two, one after the other.",
    inputSchema: TASK,
    execute: async ({ task }, { spawn }) => {
      await spawn({ role: "nobody", task });
      await spawn({ role: "worker", task: `${task} 1` });
      return await spawn({ role: "worker", task: `${task} 2` });
    },
  });
  const plan = fakes.tool("plan", (_input, { queueSubtask }) => {
    queueSubtask({ role: "nobody", task: "x" });
    queueSubtask({ role: "worker", task: "a" });
    return "planned";
  });
  return {
    role: lead(fakes, inTurn([["in_order", { task: "a" }]], [["plan", { thing: "all" }]]), {
      tools: [inOrder, plan],
    }),
  };
};

const guarding = toolGuard(
  function careful({ arguments: input }) {
    const thing = JSON.stringify(input);
    if (thing.includes("never")) return { type: "deny", reason: "Never." };
    if (thing.includes("perhaps") || thing.includes("task"))
      return { type: "ask", reason: "Is it wise?" };
    return { type: "allow" };
  },
  { tools: ["look", "ask_worker"] },
);

/** Guards, an approver who changes one call and denies another, delegations that are asked about. */
const approvals: Build = (fakes) => ({
  role: lead(
    fakes,
    inTurn(
      [
        ["look", { thing: "at once" }],
        ["look", { thing: "never" }],
        ["look", { thing: "perhaps yes" }],
        ["look", { thing: "perhaps no" }],
      ],
      [
        ["ask_worker", { task: "go" }],
        ["ask_worker", { task: "stay" }],
      ],
    ),
    {
      tools: [
        fakes.slow("look", 1),
        defineDelegation({
          name: "ask_worker",
          description: "Starts a worker.",
          inputSchema: TASK,
          execute: ({ task }, { spawn }) => spawn({ role: "worker", task }),
        }),
      ],
    },
  ),
  means: { guards: [guarding] },
  options: {
    approver: (question) => {
      const asked = JSON.stringify(question.arguments);
      if (asked.includes("no") || asked.includes("stay")) return deny(question, "No.");
      return asked.includes("yes")
        ? approve(question, { arguments: { thing: "something else" } })
        : approve(question);
    },
  },
});

/** Hooks at every point of the loop, a processor, a stop hook, a typed result. */
const hooked: Build = (fakes) => ({
  role: defineAgent({
    name: "lead",
    instructions: "You lead.",
    output: z.object({ answer: z.string() }),
    model: fakes.model("lead", (sight) => {
      const thought = inTurn([["look", { thing: "map" }]], [spawnCall("worker", "a")])(sight);
      return "text" in thought
        ? { calls: [["Finish", { answer: sight.heard.join(" ") }]] }
        : thought;
    }),
    tools: [fakes.slow("look", 2)],
    subagents: [worker(fakes)],
  }),
  means: {
    hooks: [
      transform("userInput", ({ task }) => ({ task: `${task} Carefully.` })),
      transform("beforeModel", async ({ instructions }, { stepNumber }) => {
        await Promise.resolve();
        return { instructions: `${instructions} Step ${stepNumber}.`, temperature: 0.5 };
      }),
      transform("beforeTool", ({ arguments: given }) => ({
        arguments: JsonObjectSchema().parse({ ...(isRecord(given) ? given : {}) }),
      })),
      transform("afterTool", ({ text }) => ({ text: `${text}!`, metadata: { seen: true } })),
      transform("subagentStart", ({ task }) => ({ task: `${task} Soon.` })),
      transform("stop", ({ vetoes }) => (vetoes < 1 ? { continueWith: "Once more." } : undefined)),
      processStep(({ number }, { requestStop }) => {
        if (number === 9) requestStop("Nine steps.");
      }),
    ],
  },
});

/** A long history, that the model sums up. */
const compacted: Build = (fakes) => ({
  role: defineAgent({
    name: "solo",
    instructions: "You read.",
    compaction: { strategy: "truncate", maxInputTokens: 220, keepMessages: 3 },
    sections: [
      {
        name: "place",
        lifetime: "step",
        text: ({ stepNumber }) => `You are at step ${stepNumber}.`,
      },
    ],
    model: fakes.model("solo", ({ request, results }) => {
      if (request.tools.length === 0) return { text: "Much was read." };
      const isDone = results.some((text) => text.includes("page 7"));
      const page = 1 + Number(/page (\d)/u.exec(results.at(-1) ?? "page 0")?.[1] ?? 0);
      return isDone ? { text: "Read." } : { calls: [["read", { thing: `page ${page}` }]] };
    }),
    tools: [fakes.tool("read", ({ thing }) => `${thing} ${"says much ".repeat(20)}`)],
  }),
});

/** A budget for which agents wait, and which is over at last. */
const tight: Build = (fakes) => ({
  role: lead(fakes, inTurn(Array.from({ length: 5 }, (_one, at) => spawnCall("worker", `${at}`))), {
    maxOutputTokens: 100,
    showBudget: true,
  }),
  start: { budget: { totalTokens: 450 } },
});

/** Refused by limits, failed by tools, stopped from outside. */
const stopped: Build = (fakes) => ({
  role: lead(
    fakes,
    inTurn(
      Array.from({ length: 4 }, (_one, at) => spawnCall("worker", `${at}`)),
      [
        ["broken", { thing: "it" }],
        ["look", { thing: "map" }],
      ],
      [["look", { thing: "more" }]],
    ),
    {
      limits: { maxBreadthPerParent: 3 },
      tools: [
        fakes.slow("look", 3),
        fakes.tool("broken", () => {
          throw new TypeError("It broke.");
        }),
      ],
    },
  ),
  acts: [
    {
      when: ({ type, agentPath }) => type === "tool.started" && agentPath === "lead/worker#2",
      act: (run) => void run.steer("Look around."),
    },
    {
      when: ({ type, ...event }) =>
        type === "tool.ended" && "toolName" in event && event.toolName === "broken",
      act: (run) => run.requestStop("Enough."),
    },
  ],
});

/** Paused for an answer, in the midst of a tree. */
const paused: Build = (fakes) => {
  const careful = defineAgent({
    name: "careful",
    description: "Asks",
    instructions: "You ask.",
    model: fakes.model("careful", inTurn([["pay", { thing: "bill" }]])),
    tools: [fakes.tool("pay", undefined, { needsApproval: true })],
  });
  return {
    role: lead(fakes, inTurn([spawnCall("worker", "a"), spawnCall("careful", "b")]), {
      subagents: [worker(fakes), careful],
    }),
  };
};

/** Models that think, a child that inherits the thoughts of its parent, and another that sees none of them. */
const thoughtful: Build = (fakes) => {
  const thinks =
    (think: (sight: Sight) => Thought) =>
    (sight: Sight): Thought => ({
      ...think(sight),
      reasoning: `There are ${sight.results.length} results.`,
    });
  const deep = (name: string, replayKey: string): AgentRole =>
    defineAgent({
      name,
      description: "Thinks",
      instructions: "You think.",
      model: fakes.model(
        name,
        thinks(({ heard }) => ({ text: heard.join(" ") })),
        { replayKey },
      ),
    });
  const work = inTurn(
    [["look", { thing: "map" }]],
    [spawnCall("same", "a"), spawnCall("other", "b")],
  );
  return {
    role: defineAgent({
      name: "lead",
      instructions: "You lead.",
      model: fakes.model("lead", thinks(work), { replayKey: "test/lead" }),
      tools: [fakes.tool("look")],
      subagents: [deep("same", "test/lead"), deep("other", "test/other")],
      contextPolicy: { inheritMessages: true },
    }),
  };
};

export const stories: Readonly<Record<string, { readonly build: Build }>> = {
  parallel: { build: parallel },
  background: { build: background },
  groups: { build: groups },
  delegations: { build: delegations },
  approvals: { build: approvals },
  hooked: { build: hooked },
  compacted: { build: compacted },
  tight: { build: tight },
  stopped: { build: stopped },
  paused: { build: paused },
  thoughtful: { build: thoughtful },
};
