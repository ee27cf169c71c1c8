// Bugs found by the last review of the tools; each test reproduces one bug.

import { expect, test } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { approve } from "../../../src/protocol/question.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { defineDelegation, defineTool } from "../../../src/tools/define-tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";

test.for([false, true])(
  "runs subtasks that a delegation queued before its subagent was paused (paused: %s)",
  async (needsApproval) => {
    const kid = defineAgent({
      name: "kid",
      description: "Pays.",
      instructions: "Pay.",
      model: new ScriptedModel([asks("pay", {}), says("paid"), says("later done")]),
      tools: [spyTool("pay", () => "ok", { needsApproval })],
    });
    const hand = defineDelegation({
      name: "hand",
      description: "Hands on.",
      inputSchema: z.object({}),
      execute: async (_input, context) => {
        context.queueSubtask({ role: "kid", task: "later" });
        return await context.spawn({ role: "kid", task: "now" });
      },
    });
    const lead = defineAgent({
      name: "lead",
      instructions: "Lead.",
      model: new ScriptedModel([asks("hand", {}), says("done")]),
      subagents: [kid],
      tools: [hand],
    });
    const { run, outcome, resume } = newFixture();
    const first = await run(lead);
    const answers = first.questions.map((question) => approve(question));
    const { agents } = needsApproval
      ? await outcome(resume(lead, first.pausedRun, answers))
      : first;
    expect(agents.map(({ agentPath }) => agentPath)).toEqual(["lead", "lead/kid#1", "lead/kid#2"]);
  },
);

const ring = z.object({}).transform(() => {
  const node: { self?: unknown } = {};
  node.self = node;
  return node;
});

const shy = z.object({}).transform(() => ({
  get part(): string {
    throw new Error("not to be looked at");
  },
}));

test.for([
  { what: "refers to itself", input: ring },
  { what: "throws when it is looked at", input: shy },
])(
  "guards and asks about arguments that the schema transforms to what $what",
  async ({ input }) => {
    const seen: unknown[] = [];
    const guard = toolGuard((call) => {
      seen.push(call.arguments);
      return { type: "ask", reason: "Really?" };
    });
    const look = defineTool({
      name: "look",
      description: "Looks.",
      inputSchema: input,
      execute: () => "seen",
    });
    const { role } = soloist([asks("look", {}), says("done")], { tools: [look], guards: [guard] });
    const { status, questions } = await newFixture().run(role);
    expect({ status, seen, asked: questions.map((question) => question.arguments) }).toEqual({
      status: "paused",
      seen: [{}],
      asked: [{}],
    });
  },
);

test("runs an approved call even if the schema would not produce JSON a second time", async () => {
  const got: number[] = [];
  const grow = defineTool({
    name: "grow",
    description: "Grows.",
    inputSchema: z.object({ by: z.number().transform((by) => by * 1e200) }),
    needsApproval: true,
    execute: ({ by }) => {
      got.push(by);
      return "grown";
    },
  });
  const { role } = soloist([asks("grow", { by: 1 }), says("done")], { tools: [grow] });
  const { run, outcome, resume } = newFixture();
  const { pausedRun, questions } = await run(role);
  await outcome(
    resume(
      role,
      pausedRun,
      questions.map((question) => approve(question)),
    ),
  );
  expect(got).toEqual([1e200]);
});
