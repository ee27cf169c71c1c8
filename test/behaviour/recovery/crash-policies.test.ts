// An agent's own policies are applied once across deaths: compaction, summaries, hooks, vetoes,
// typed outputs, tight budgets (D2).

import { expect, test } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { transform, wrapModelCall, wrapToolCall } from "../../../src/hooks/hook.ts";
import { allOf, hasToolCall } from "../../../src/policies/stop-conditions.ts";
import { proves } from "../../harness/proves.ts";
import {
  killedEverywhere,
  turns,
  type Play,
  type Story,
} from "../../support/journal/crash-play.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";

const LONG = "a long result, word for word, ".repeat(20);

for (const strategy of ["truncate", "summarize"] as const)
  test(`recovers an agent whose history is compacted (${strategy})`, async () => {
    const plain = await killedEverywhere((): Play => {
      const calls = new Map<string, number>();
      const role = defineAgent({
        name: "solo",
        instructions: "You read.",
        compaction: { strategy, maxInputTokens: 800, keepMessages: 4 },
        maxOutputTokens: 200,
        model: thinker(
          "solo",
          ({ request }) => {
            const { messages } = request;
            if (request.tools.length === 0) return { text: "a summary" };
            const last = messages.findLast((message) => message.role === "tool")?.text ?? "0";
            const count = Number.parseInt(last, 10);
            return count >= 6
              ? { text: "I have read it all." }
              : { calls: [["read", { thing: `${count + 1}` }]] };
          },
          { isCounting: false },
        ),
        tools: [countedTool(calls, "read", ({ thing }) => `${thing}: ${LONG}`)],
      });
      return { role, calls };
    });
    const summarized = plain.events.flatMap((event) =>
      event.type === "conversation.compacted" ? [event.summaryCharacters !== undefined] : [],
    );
    expect([...new Set(summarized)]).toEqual([strategy === "summarize"]);
  });

for (const strategy of ["truncate", "summarize"] as const)
  proves(
    ["S7.15"],
    `recovers an agent whose requests overflow the context and are compacted (${strategy})`,
    async () => {
      const plain = await killedEverywhere((): Play => {
        const calls = new Map<string, number>();
        const role = defineAgent({
          name: "solo",
          instructions: "You read.",
          budget: { steps: 5 },
          showBudget: true,
          compaction: { strategy, keepMessages: 2 },
          model: thinker("solo", ({ request }) => {
            const { messages, tools } = request;
            if (messages.some(({ text }) => text.startsWith("4"))) return { text: "I have read." };
            if (tools.length === 0) return { text: "a summary" };
            if (messages.length > 7)
              throw new ModelError({ code: "model_context_overflow", message: "Too long." });
            const last = messages.findLast((message) => message.role === "tool")?.text ?? "0";
            return { calls: [["read", { thing: `${Number.parseInt(last, 10) + 1}` }]] };
          }),
          tools: [countedTool(calls, "read", ({ thing }) => `${thing}: ${LONG}`)],
        });
        return { role, calls };
      });
      const told = plain.events.filter(({ type }) => type.startsWith("step."));
      expect(told.map((event) => [event.type, "number" in event && event.number])).toEqual(
        [1, 2, 3, 4, 5].flatMap((number) => [
          ["step.started", number],
          ["step.completed", number],
        ]),
      );
      expect(plain.events.filter(({ type }) => type === "model.failed")).toHaveLength(1);
    },
  );

test("recovers an agent whose long results are summarised by extra calls", async () => {
  const plain = await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const role = defineAgent({
      name: "solo",
      instructions: "You read.",
      model: thinker("solo", ({ request, results }) => {
        if (request.tools.length === 0) return { text: "in short" };
        return results.length === 0
          ? {
              calls: [
                ["read", { thing: "a" }],
                ["read", { thing: "b" }],
                ["read", { thing: "c" }],
              ],
            }
          : { text: results.join(" ") };
      }),
      tools: [
        countedTool(calls, "read", ({ thing }) => `${thing}: ${LONG}`, {
          maxResultCharacters: 100,
          longResultPolicy: "summarize",
        }),
      ],
    });
    return { role, calls };
  });
  expect(plain.events.filter(({ type }) => type === "result.summarized")).toHaveLength(3);
});

async function slowly<T>(patch: T): Promise<T> {
  await turns(2);
  return patch;
}

test("recovers a run whose hooks change task, requests, calls, results and delegations", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const worker = defineAgent({
      name: "worker",
      description: "Works",
      instructions: "You work.",
      model: thinker("worker", ({ task, results }) =>
        results.length === 0 ? { calls: [["work", { thing: task }]] } : { text: results.join(" ") },
      ),
      tools: [countedTool(calls, "work")],
    });
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      model: thinker("lead", ({ task, results }) =>
        results.length === 0
          ? {
              calls: [
                ["look", { thing: task }],
                spawnCall("worker", "a"),
                spawnCall("worker", "b"),
              ],
            }
          : { text: results.join(" ") },
      ),
      tools: [countedTool(calls, "look")],
      subagents: [worker],
    });
    return {
      role,
      calls,
      options: {
        hooks: [
          transform("userInput", ({ task }) => slowly({ task: `${task} Now.` })),
          transform("beforeModel", ({ instructions }) =>
            slowly({ instructions: `${instructions} Be brief.` }),
          ),
          transform("beforeTool", ({ toolName }) =>
            slowly(toolName === "look" ? { arguments: { thing: "elsewhere" } } : undefined),
          ),
          transform("afterTool", ({ text }) => slowly({ text: `${text}!` })),
          transform("subagentStart", ({ task }) => slowly({ task: `${task}, please` })),
          wrapModelCall(async (_call, next) => await slowly(await next())),
          wrapToolCall(async (_call, next) => await slowly(await next())),
        ],
      },
    };
  });
});

test("recovers an agent whose answer is vetoed twice by hooks and that has a stop condition", async () => {
  await killedEverywhere((): Play => {
    const role = defineAgent({
      name: "solo",
      instructions: "You answer.",
      model: thinker("solo", ({ heard }) => ({ text: `Answer ${heard.length}` })),
      stopWhen: [hasToolCall("nothing")],
    });
    const hooks = [
      transform("stop", async ({ vetoes }) => {
        await turns(1);
        return vetoes < 2 ? { continueWith: `Not yet ${vetoes}.` } : undefined;
      }),
    ];
    return { role, options: { hooks } };
  });
});

test("recovers the typed outputs of a tree", async () => {
  await killedEverywhere(
    (): Play => {
      const worker = defineAgent({
        name: "worker",
        description: "Counts",
        instructions: "You count.",
        output: z.object({ count: z.number() }),
        model: thinker("worker", ({ task, heard }) =>
          heard.length === 0 ? { text: "Seven." } : { calls: [["Finish", { count: task.length }]] },
        ),
      });
      const role = defineAgent({
        name: "lead",
        instructions: "You lead.",
        output: z.object({ text: z.string() }),
        model: thinker("lead", ({ results }) =>
          results.length === 0
            ? { calls: [spawnCall("worker", "one"), spawnCall("worker", "three")] }
            : { calls: [["Finish", { text: `${results.length}` }]] },
        ),
        subagents: [worker],
      });
      return { role };
    },
    (story) => {
      if (story.result !== undefined) expect(story.result.output).toEqual({ text: "2" });
    },
  );
});

test("recovers agents that wait for budget", async () => {
  const plain = await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const worker = defineAgent({
      name: "worker",
      description: "Works",
      instructions: "You work.",
      maxOutputTokens: 100,
      model: thinker("worker", ({ task, results }) =>
        results.length === 0 ? { calls: [["work", { thing: task }]] } : { text: `${task} is done` },
      ),
      tools: [countedTool(calls, "work")],
    });
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      maxOutputTokens: 100,
      model: thinker("lead", ({ results }) =>
        results.length === 0
          ? {
              calls: [spawnCall("worker", "a"), spawnCall("worker", "b"), spawnCall("worker", "c")],
            }
          : { text: `${results.length} are done` },
      ),
      subagents: [worker],
    });
    return { role, calls, start: { budget: { outputTokens: 250 } } };
  });
  expect(mostLeases(plain.events), "one of them waits").toBe(2);
});

/** Returns the highest number of open leases. */
function mostLeases(events: Story["events"]): number {
  const open = new Set<string>();
  return events.reduce((most, event) => {
    if (event.type === "budget.reserved") open.add(event.leaseId);
    if (event.type === "budget.settled") open.delete(event.leaseId);
    return Math.max(most, open.size);
  }, 0);
}

test("recovers a run whose budget refused calls with the same refusals", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const role = defineAgent({
      name: "solo",
      instructions: "You work.",
      model: thinker("solo", ({ results }) =>
        results.length < 6
          ? {
              calls: [
                ["work", { thing: `${results.length}` }],
                ["work", { thing: `${results.length + 1}` }],
              ],
            }
          : { text: "Done." },
      ),
      tools: [countedTool(calls, "work")],
    });
    return { role, calls, start: { budget: { toolCalls: 3 } } };
  });
});

test("recovers a subagent with a role that the model wrote", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const look = countedTool(calls, "look");
    const small = thinker("small", ({ results }) =>
      results.length === 0 ? { calls: [["look", { thing: "it" }]] } : { text: results.join(" ") },
    );
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      dynamicRoles: { tools: [look], models: { small } },
      model: thinker("lead", ({ results }) =>
        results.length === 0
          ? {
              calls: [
                spawnCall("scout", "Look.", {
                  newRole: { instructions: "You scout.", tools: ["look"], steps: 3 },
                }),
              ],
            }
          : { text: results.join(" ") },
      ),
    });
    return { role, calls };
  });
});

test("excludes the time between a death and the recovery from the time limit", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const role = defineAgent({
      name: "solo",
      instructions: "You work.",
      model: thinker("solo", ({ results }) =>
        results.length < 2
          ? { calls: [["work", { thing: `${results.length}` }]] }
          : { text: "In time." },
      ),
      tools: [countedTool(calls, "work")],
    });
    return { role, calls, start: { budget: { timeMs: 900 } } }; // The next process begins a second later.
  });
});

proves(
  ["S7.19", "R60"],
  "persists the fired parts of allOf, and does not evaluate them for earlier steps again",
  async () => {
    const plain = await killedEverywhere((): Play => {
      const calls = new Map<string, number>();
      let latest = 0;
      const role = defineAgent({
        name: "solo",
        instructions: "You work.",
        model: thinker("solo", ({ results }) => ({
          calls: [[["look", "work", "pay"][results.length] ?? "look", { thing: "it" }]],
        })),
        tools: [countedTool(calls, "look"), countedTool(calls, "work"), countedTool(calls, "pay")],
        stopWhen: [
          allOf(
            hasToolCall("look"),
            async (facts) => {
              await turns(1);
              expect(facts.steps.length).toBeGreaterThanOrEqual(latest);
              latest = facts.steps.length;
              return hasToolCall("work")(facts);
            },
            hasToolCall("pay"),
          ),
        ],
      });
      return { role, calls };
    });
    expect(plain.result?.signals.map(({ reason }) => reason.data)).toEqual([
      { toolName: "look", step: 1 },
      { toolName: "work", step: 2 },
      { toolName: "pay", step: 3 },
    ]);
  },
);
