// Questions across deaths: an approver that has answered is not asked again, open questions stay
// open, and interrupted calls that must not be repeated are reported (D2).

import { expect, test } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import type { Answer, Question } from "../../../src/protocol/question.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { z } from "zod";
import {
  aborted,
  killedEverywhere,
  turns,
  type Play,
  type Story,
} from "../../support/journal/crash-play.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";

function approved({ questionId, argumentsHash }: Question): Answer {
  return { type: "approved", questionId, argumentsHash };
}

async function approver(question: Question): Promise<Answer> {
  await turns(2);
  return approved(question);
}

function answer(question: Question): Answer {
  const { questionId, argumentsHash } = question;
  return question.kind === "approval"
    ? approved(question)
    : { type: "result", questionId, argumentsHash, result: "done elsewhere" };
}

/** Returns an agent that asks before one of its calls. */
function asker(name: string, calls: Map<string, number>) {
  return defineAgent({
    name,
    description: "Asks first",
    instructions: "You ask.",
    model: thinker(name, ({ results, task }) =>
      results.length === 0
        ? {
            calls: [
              ["change", { thing: task }],
              ["look", { thing: task }],
            ],
          }
        : { text: results.join(" ") },
    ),
    tools: [
      countedTool(calls, "change", undefined, { needsApproval: true }),
      countedTool(calls, "look"),
    ],
  });
}

/** Expects one answer per question: asking an approver again would record another one. */
function hasTwoAnswers({ events }: Story): void {
  expect(events.filter(({ type }) => type === "question.answered")).toHaveLength(2);
}

test("does not ask an approver again that has answered", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      model: thinker("lead", ({ results }) =>
        results.length === 0
          ? { calls: [spawnCall("asker", "a"), spawnCall("asker", "b")] }
          : { text: results.join(" ") },
      ),
      subagents: [asker("asker", calls)],
    });
    return { role, calls, options: { approver } };
  }, hasTwoAnswers);
});

for (const goesOnBy of ["recover", "resume"] as const)
  test(`recovers questions that pause the run while others work, and that are answered by ${goesOnBy}`, async () => {
    await killedEverywhere(
      (): Play => {
        const calls = new Map<string, number>();
        const external = defineTool({
          name: "elsewhere",
          description: "Is done elsewhere.",
          inputSchema: z.object({ thing: z.string() }),
        });
        const cousin = defineAgent({
          name: "cousin",
          description: "Works",
          instructions: "You work.",
          model: thinker("cousin", ({ results }) =>
            results.length < 2
              ? { calls: [["work", { thing: `${results.length}` }]] }
              : { text: results.join(" ") },
          ),
          tools: [
            countedTool(calls, "work", async () => {
              await turns(4);
              return "worked";
            }),
          ],
        });
        const caller = defineAgent({
          name: "caller",
          description: "Has it done elsewhere",
          instructions: "You call.",
          model: thinker("caller", ({ results }) =>
            results.length === 0
              ? { calls: [["elsewhere", { thing: "x" }]] }
              : { text: results.join(" ") },
          ),
          tools: [external],
        });
        const role = defineAgent({
          name: "lead",
          instructions: "You lead.",
          model: thinker("lead", ({ results }) =>
            results.length === 0
              ? {
                  calls: [
                    spawnCall("asker", "a"),
                    spawnCall("cousin", "b"),
                    spawnCall("caller", "c"),
                  ],
                }
              : { text: results.join(" ") },
          ),
          subagents: [asker("asker", calls), cousin, caller],
        });
        return { role, calls, answer, goesOnBy };
      },
      (story) => {
        hasTwoAnswers(story);
        const asked = story.events.filter(({ type }) => type === "question.asked");
        expect(asked).toHaveLength(2);
      },
    );
  });

test("reports a call that must not be repeated as interrupted", async () => {
  const reports = new Set<string>();
  await killedEverywhere(
    (): Play => {
      const calls = new Map<string, number>();
      const role = defineAgent({
        name: "solo",
        instructions: "You work.",
        model: thinker("solo", ({ results }) =>
          results.length === 0
            ? {
                calls: [
                  ["pay", { thing: "rent" }],
                  ["look", { thing: "it" }],
                ],
              }
            : { text: results.length === 2 ? "Both." : "Not both." },
        ),
        tools: [
          countedTool(
            calls,
            "pay",
            async () => {
              await turns(6);
              return "paid";
            },
            { retryAfterCrash: false },
          ),
          countedTool(calls, "look"),
        ],
      });
      return { role, calls };
    },
    (story) => {
      const payments = story.plays.reduce(
        (sum, { calls }) =>
          sum + [...(calls?.keys() ?? [])].filter((key) => key.endsWith("_0")).length,
        0,
      );
      expect(payments).toBeLessThanOrEqual(1);
      const [end] = story.events.filter(
        (event): event is EspalierEvent<"tool.ended" | "tool.rejected"> =>
          (event.type === "tool.ended" || event.type === "tool.rejected") &&
          event.toolName === "pay",
      );
      reports.add(`${payments} ${end?.outcome} ${end?.error?.code ?? ""}`);
    },
    { isSame: false, afterEvery: 1 },
  );
  expect([...reports].toSorted()).toEqual([
    "0 failed interrupted",
    "1 failed interrupted",
    "1 succeeded ",
  ]);
});

test("reports a call that must not be repeated as interrupted if the run was cancelled meanwhile", async () => {
  const reports = new Set<string>();
  await killedEverywhere(
    (): Play => {
      const calls = new Map<string, number>();
      const role = defineAgent({
        name: "solo",
        instructions: "You work.",
        model: thinker("solo", () => ({ calls: [["pay", { thing: "rent" }]] })),
        tools: [
          countedTool(
            calls,
            "pay",
            async (_input, { signal }) => {
              await aborted(signal);
              return "paid";
            },
            { retryAfterCrash: false },
          ),
        ],
      });
      return {
        role,
        calls,
        callerActions: [
          {
            when: ({ type }) => type === "tool.started",
            act: (run) => void turns(4).then(() => run.cancel().catch(() => undefined)),
            isKept: ({ type }) => type === "cancel",
          },
        ],
      };
    },
    (story) => {
      const payments = story.plays.reduce((sum, { calls }) => sum + (calls?.size ?? 0), 0);
      expect(payments).toBeLessThanOrEqual(1);
      const ends = story.events.flatMap((event) =>
        event.type === "tool.ended" || event.type === "tool.rejected"
          ? [`${event.outcome} ${event.error?.code ?? ""}`]
          : [],
      );
      reports.add(`${payments} ${ends.join()}`);
    },
    { isSame: false, afterEvery: 1 },
  );
  expect([...reports].toSorted()).toEqual([
    "0 failed interrupted,not_executed not_executed",
    "1 cancelled cancelled",
    "1 failed interrupted,not_executed not_executed",
  ]);
});
