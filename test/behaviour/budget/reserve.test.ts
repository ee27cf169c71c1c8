// Goal: children cannot use a parent's reserve for its own answer, however many there are and
// however much they spend.
// Method: real runs in which children spend until they are stopped; requests, refusals and ends
// compared in full.

import { expect, test } from "vitest";

import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import type { Budget } from "../../../src/policies/budget.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import {
  calls,
  part,
  spawn,
  receivedTexts,
  tool,
  until,
  use,
  type Part,
} from "../../harness/scripted-agents.ts";

const ONE_MORE = calls(use("nothing"));

/** A child that requests calls as long as it can. Each call reserves and uses 10 + 5 tokens. */
function greedy(more: Partial<Pick<AgentDefinition, "budget">> = {}): Part {
  return part("greedy", () => ONE_MORE, { maxOutputTokens: 5, errorBudget: UNBOUND, ...more });
}

const UNBOUND = { maxToolErrors: 1_000, maxConsecutiveErrors: 1_000, maxRetryErrors: 1_000 };

/**
 * A lead that reserves `reserve` of its budget and starts greedy children with each reply but the
 * last.
 */
function leadWith(
  reserve: Budget,
  script: readonly ScriptedReply[],
  more: Partial<Pick<AgentDefinition, "budget" | "delegation">> = {},
): { readonly lead: Part; readonly child: Part } {
  const child = greedy();
  const lead = part("lead", script, {
    subagents: [child.role],
    maxOutputTokens: 5,
    ...more,
    delegation: { reserve, ...more.delegation },
  });
  return { lead, child };
}

proves(
  ["X5"],
  "children exhaust the rest of the budget, and the parent still makes its last call",
  async () => {
    const both = calls(spawn("greedy", "A"), spawn("greedy", "B"));
    const answer = says("What we have.");
    const { lead, child } = leadWith({ totalTokens: 15 }, [both, answer]);
    const s = newFixture();
    const result = await s.run(lead.role, { budget: { totalTokens: 100 } });
    expect(result.agents.map(({ status, reason, text }) => [status, reason.code, text])).toEqual([
      ["completed", "completed", "What we have."],
      ["stopped", "token_limit", ""],
      ["stopped", "token_limit", ""],
    ]);
    // 15 for the lead's first call. Of the other 85 its reserve is 15, and four calls of children
    // fit into the 70.
    expect(child.model.requests).toHaveLength(4);
    expect(result.usage.total.totalTokens).toBe(90);
  },
);

test("the same children leave their parent no budget without a reserve", async () => {
  const both = calls(spawn("greedy", "A"), spawn("greedy", "B"));
  const { lead } = leadWith({}, [both, says("What we have.")]);
  const result = await newFixture().run(lead.role, { budget: { totalTokens: 100 } });
  expect([result.status, result.reason.code, result.text]).toEqual(["stopped", "token_limit", ""]);
});

const AXES: readonly (readonly [reserve: Budget, limit: Budget, childRequests: number])[] = [
  [{ steps: 1 }, { steps: 5 }, 3],
  [{ inputTokens: 10 }, { inputTokens: 50 }, 3],
  [{ outputTokens: 5 }, { outputTokens: 27 }, 4],
  [{ cachedInputTokens: 10 }, { cachedInputTokens: 10 }, 0],
  [{ costUsd: 0.00002 }, { costUsd: 0.0001 }, 3],
];

for (const [reserve, limit, childRequests] of AXES)
  proves(
    ["X5"],
    `a reserve of ${JSON.stringify(reserve)} in ${JSON.stringify(limit)} remains for the parent`,
    async () => {
      const price = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };
      const child = part("greedy", () => ONE_MORE, {
        maxOutputTokens: 5,
        scripted: { price },
        errorBudget: UNBOUND,
      });
      const lead = part("lead", [calls(spawn("greedy")), says("Done.")], {
        subagents: [child.role],
        maxOutputTokens: 5,
        scripted: { price },
        delegation: { reserve },
      });
      const result = await newFixture().run(lead.role, { budget: limit });
      expect([result.status, result.text]).toEqual(["completed", "Done."]);
      expect(child.model.requests).toHaveLength(childRequests);
    },
  );

proves(
  ["X5"],
  "a reserve of tool calls refuses the child's call, and lets the parent's call run",
  async () => {
    const work = tool("work", () => "done");
    const child = part("child", [calls(use("work"), use("work"))], { tools: [work] });
    const lead = part("lead", [calls(spawn("child")), calls(use("work")), says("Done.")], {
      subagents: [child.role],
      tools: [work],
      delegation: { reserve: { toolCalls: 1 } },
    });
    const result = await newFixture().run(lead.role, { budget: { toolCalls: 3 } });
    const executions = result.agents.map(({ agentPath, steps }) => [
      agentPath,
      steps.flatMap(({ tools }) => tools.executions.map(({ type, call }) => [call.toolName, type])),
    ]);
    expect(executions).toEqual([
      [
        "lead",
        [
          ["SpawnSubagent", "failed"],
          ["work", "succeeded"],
        ],
      ],
      [
        "lead/child#1",
        [
          ["work", "succeeded"],
          ["work", "refused"],
        ],
      ],
    ]);
    expect(result.agents[1]?.steps[0]?.tools.executions[1]?.text).toBe(
      "Not executed: the toolCalls budget of lead, which is 3, is used up, except for 1 reserved for its own answer. Answer with what you have.",
    );
    expect([result.status, result.agents[1]?.reason.code]).toEqual([
      "completed",
      "tool_call_limit",
    ]);
  },
);

proves(
  ["X5", "X14"],
  "a child that only the reserve could pay is refused, and the model learns about the reserve",
  async () => {
    const script = [calls(spawn("greedy")), calls(spawn("greedy")), says("Done.")];
    const { lead, child } = leadWith({ steps: 2 }, script);
    const s = newFixture();
    const result = await s.run(lead.role, { budget: { steps: 5 } });
    expect(child.model.requests).toHaveLength(2);
    expect(s.sink.ofType("subagent.refused").map(({ error }) => error.code)).toEqual([
      "budget_exhausted",
    ]);
    expect(receivedTexts(lead.model.requests[2])).toEqual([
      "Not started: 4 of 5 of the steps budget of lead are spent. The rest is reserved for the answer of lead. Answer with what you have.",
    ]);
    expect([result.status, result.text, result.refusalsByCode]).toEqual([
      "completed",
      "Done.",
      { budget_exhausted: 1 },
    ]);
  },
);

proves(
  ["X5"],
  "a call refused because of a reserve names it in the event and in the reason of the child's end",
  async () => {
    const { lead } = leadWith({ totalTokens: 18 }, [calls(spawn("greedy")), says("Done.")]);
    const s = newFixture();
    const result = await s.run(lead.role, { budget: { totalTokens: 50 } });
    const refusal = {
      axis: "totalTokens",
      accountPath: "lead",
      maximum: 50,
      spent: 30,
      requested: 11,
      reserve: 18,
    };
    expect(s.sink.ofType("budget.refused")).toMatchObject([
      { agentPath: "lead/greedy#1", ...refusal },
    ]);
    const { spent: current, ...others } = refusal;
    expect(result.agents[1]?.reason).toEqual({
      code: "token_limit",
      message:
        "The totalTokens budget of lead allows 50; 30 are spent, 18 are reserved for its own answer and 11 more were requested.",
      data: { ...others, current },
    });
  },
);

proves(
  ["X5"],
  "grandchildren leave the reserve of every ancestor, and each of them answers",
  async () => {
    const leaf = greedy();
    const middle = part("middle", [calls(spawn("greedy")), says("Middle.")], {
      subagents: [leaf.role],
      maxOutputTokens: 5,
      budget: { steps: 6 },
      delegation: { reserve: { steps: 1 } },
    });
    const lead = part("lead", [calls(spawn("middle")), says("Lead.")], {
      subagents: [middle.role],
      maxOutputTokens: 5,
      delegation: { reserve: { steps: 1 } },
    });
    const result = await newFixture().run(lead.role, { budget: { steps: 8 } });
    expect(
      result.agents.map(({ agentPath, text, steps }) => [agentPath, text, steps.length]),
    ).toEqual([
      ["lead", "Lead.", 2],
      ["lead/middle#1", "Middle.", 2],
      ["lead/middle#1/greedy#1", "", 4],
    ]);
  },
);

test("parallel children leave the reserve: one that does not fit waits, and is refused in the end", async () => {
  const open = latch();
  const child = part("child", () => ({ text: "Child.", after: open.opened }), {
    maxOutputTokens: 30,
  });
  const three = calls(spawn("child", "A"), spawn("child", "B"), spawn("child", "C"));
  const lead = part("lead", [three, says("Done.")], {
    subagents: [child.role],
    maxOutputTokens: 5,
    delegation: { reserve: { outputTokens: 5 } },
  });
  const s = newFixture();
  const run = s.start(lead.role, "Do it.", { budget: { outputTokens: 20 } });
  await until(() => child.model.requests.length === 1);
  // 20 minus 5 that the lead used, minus 5 in its reserve.
  expect(child.model.requests[0]?.maxOutputTokens).toBe(10);
  open.open();
  const result = await s.outcome(run);
  expect(result.agents.map(({ status }) => status)).toEqual([
    "completed",
    "completed",
    "completed",
    "stopped",
  ]);
  expect(child.model.requests.map(({ maxOutputTokens }) => maxOutputTokens)).toEqual([10, 5]);
});

proves(["X5", "X24", "S7.7"], "a fork has its parent's reserve", async () => {
  const both = calls(spawn("greedy", "A"), spawn("greedy", "B"));
  const { lead, child } = leadWith({ totalTokens: 15 }, [
    says("Not yet."),
    both,
    says("What we have."),
  ]);
  const s = newFixture();
  const run = s.start(lead.role, "Go.", { budget: { totalTokens: 100 } });
  await s.outcome(run);
  const forked = await s.outcome(s.fork(lead.role, run.snapshot(), { message: "Go on." }));
  expect([forked.status, forked.text]).toEqual(["completed", "What we have."]);
  expect(child.model.requests).toHaveLength(4);
  expect(forked.usage.total.totalTokens).toBe(90);
});
