// Goal: whatever is altered in a paused run, its agents get at most what their roles in code allow,
// and an inconsistent run is refused without effect.
// Method: a lead and a subagent pause; fields of the paused run are altered; greedy models then use
// everything they get.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { describe, expect, test } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import { localTracing } from "../../support/local-tracing.ts";
import type { ResumeOptions } from "../../../src/orchestrator/run/run-options.ts";
import type { Budget } from "../../../src/policies/budget.ts";
import { approve } from "../../../src/protocol/question.ts";
import { NO_USAGE } from "../../../src/protocol/usage.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { altered } from "../../support/altered.ts";
import { payTool } from "../../support/pause-stories.ts";
import { calls, part, spawn, tool, use } from "../../harness/scripted-agents.ts";

const PAY = { toolName: "pay", arguments: { amount: 3 } };
const LIMITS = { maxDepth: 2, maxBreadthPerParent: 3, maxTotalSubagents: 3 };

interface Changes {
  readonly leadBudget?: Budget;
  readonly childBudget?: Budget;
  readonly deniedTools?: readonly string[];
  readonly isGreedy?: boolean;
}

/**
 * A lead that starts a child, which needs an approval. Greedy ones work until a limit stops them.
 */
function cast({ leadBudget, childBudget, deniedTools = ["danger"], isGreedy = false }: Changes) {
  const ran: string[] = [];
  const recorded = (name: string) => tool(name, () => ran.push(name));
  const child = part(
    "child",
    () => (isGreedy ? calls(use("look"), use("danger")) : calls(PAY, use("look"))),
    {
      tools: [recorded("look"), recorded("danger"), payTool()],
      budget: childBudget ?? { steps: 3 },
    },
  );
  const lead = part("lead", () => calls(spawn("child")), {
    tools: [recorded("look")],
    subagents: [child.role],
    contextPolicy: { deniedTools },
    budget: leadBudget ?? { steps: 7 },
  });
  return { role: lead.role, ran };
}

async function paused(budget: Budget = {}) {
  const fixture = newFixture({ limits: LIMITS });
  const run = fixture.start(cast({}).role, "Lead.", { budget });
  const { pausedRun, questions } = await fixture.outcome(run);
  const text = JSON.stringify(pausedRun);
  const answers = questions.map((question) => approve(question));
  const resume = (
    stored: string,
    role: AgentRole,
    more: { readonly options?: OrchestratorOptions; readonly how?: ResumeOptions } = {},
  ) => {
    const fresh = newFixture({ limits: LIMITS, tracing: localTracing(), ...more.options });
    return fresh.orchestrator.resume(readPausedRun(stored), { answers, ...more.how, role });
  };
  return { text, resume };
}

function refusalIn(resume: () => unknown): readonly [string, string] {
  try {
    resume();
  } catch (error) {
    if (EspalierError.is(error)) return [error.code, error.message];
    throw error;
  }
  return expect.fail("nothing was thrown");
}

/** Returns the steps of all agents, and the tools that ran after the pause. */
async function used(
  story: Awaited<ReturnType<typeof paused>>,
  stored: string,
  changes: Changes = {},
  more: Parameters<typeof story.resume>[2] = {},
) {
  const { role, ran } = cast({ isGreedy: true, ...changes });
  const { agents, usage } = await story.resume(stored, role, more).settled;
  const steps = agents.map((agent) => `${agent.agentPath} ${agent.usage.own.steps}`);
  return {
    total: usage.total.steps,
    steps,
    tools: [...new Set(ran)],
    subagents: agents.length - 1,
  };
}

const NO_HISTORY = { "agents.*.state.step.context.budget": {} };

proves(["D450"], "applies the budgets of the roles if the paused run lists no limits", async () => {
  const story = await paused();
  const whole = await used(story, story.text);
  const emptied = altered(story.text, { "accounts.*.limits": {}, ...NO_HISTORY });
  expect(await used(story, emptied)).toEqual(whole);
  expect(whole.total).toBe(7);
  expect(whole.steps.slice(0, 2)).toEqual(["lead 4", "lead/child#1 3"]);
});

proves(
  ["D450"],
  "raises limits by the grants recorded in the run and those passed to `resume`",
  async () => {
    const story = await paused();
    const grants = [{ budget: { steps: 2 }, by: "Ada" }];
    expect((await used(story, story.text, {}, { how: { grants } })).total).toBe(9);
    const recorded = altered(story.text, {
      "accounts.0.grants": [{ by: "Ada", atMs: 0, budget: { steps: 2 } }],
      "accounts.0.limits.steps": 9,
    });
    expect((await used(story, recorded)).total).toBe(9);
    const raised = altered(recorded, { "accounts.0.limits.steps": 90, ...NO_HISTORY });
    expect((await used(story, raised)).total).toBe(9);
  },
);

proves(
  ["D450"],
  "denies the tools that the parent's role denies if the paused run lists no denials",
  async () => {
    const story = await paused();
    for (const rules of [[], [{ source: "lead", denied: [] }]]) {
      const emptied = altered(story.text, { "agents.1.toolRules": rules });
      expect((await used(story, emptied)).tools).toEqual(["look"]);
    }
  },
);

proves(
  ["D450"],
  "applies the tree limits of the orchestrator if those in the paused run are higher",
  async () => {
    const story = await paused();
    const wide = altered(story.text, {
      limits: { maxDepth: 9, maxBreadthPerParent: 90, maxTotalSubagents: 90 },
    });
    const changes = { leadBudget: { steps: 40 }, childBudget: { steps: 1 } };
    const high = altered(wide, {
      "accounts.*.limits": {},
      ...NO_HISTORY,
    });
    expect((await used(story, high, changes)).subagents).toBe(3);
  },
);

proves(
  ["D451"],
  "applies budgets, denials and limits that became stricter in code since the pause",
  async () => {
    const story = await paused();
    expect((await used(story, story.text, { leadBudget: { steps: 5 } })).total).toBe(5);
    const [, child] = (await used(story, story.text, { childBudget: { steps: 2 } })).steps;
    expect(child).toBe("lead/child#1 2");
    const denied = await used(story, story.text, { deniedTools: ["danger", "look"] });
    expect(denied.tools).toEqual([]);
    const options = { limits: { ...LIMITS, maxTotalSubagents: 1 } };
    expect((await used(story, story.text, {}, { options })).subagents).toBe(1);
  },
);

proves(
  ["D451"],
  "keeps limits that are lower than those of roles that became wider since the pause",
  async () => {
    const story = await paused();
    const wider = { leadBudget: { steps: 70 }, childBudget: { steps: 30 }, deniedTools: [] };
    const { total, steps, tools } = await used(story, story.text, wider);
    expect([total, steps[1], tools.includes("danger")]).toEqual([7, "lead/child#1 3", false]);
  },
);

describe("a paused run is refused if", () => {
  const cases: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
    "its history shows a limit that its account lacks": { "accounts.*.limits": {} },
    "more is left than the first step of the root found": { "accounts.0.limits.steps": 8 },
    "a total is below the sum of its parts": { "accounts.0.total.steps": 1 },
    "an account has used less than its history shows": {
      "accounts.1.own.steps": 0,
      "accounts.1.total.steps": 0,
      "accounts.0.total.steps": 1,
    },
    "an agent is not as deep as its parent is high": { "agents.1.depth": 0 },
    "an agent has another path than its role": { "agents.1.agentPath": "lead/other#1" },
    "a result of a call that has run is missing": { "agents.1.state.step.executions": [] },
    "a paused agent is awaited by nobody": { "agents.1.isDetached": true },
    "a subagent is in the background twice": {
      "agents.0.state.log.background": ["agent_2", "agent_2"],
    },
    "a deadline is not that of the parent": { "accounts.1.fixedDeadlineAtMs": 5 },
    "a count of failures is not that of the steps": {
      "agents.1.state.log.failures.toolErrors": 1,
    },
    "the open step does not follow the last one": { "agents.1.state.step.number": 2 },
    "its last reply differs from its history": {
      "agents.1.state.step.reply.message.text": "Other.",
    },
    "a paused agent has ended": {
      "agents.1.state.telemetry": { usage: NO_USAGE, startedAtMs: 0, endedAtMs: 5, waitedMs: 0 },
    },
    "an agent that completed is said to be paused": {
      "agents.1.state.reason": { code: "completed", message: "It is done.", data: {} },
    },
  };
  for (const [name, changes] of Object.entries(cases)) {
    proves(["D452"], name, async () => {
      const { text, resume } = await paused({ steps: 7 });
      const { role } = cast({});
      const [code, message] = refusalIn(() => resume(altered(text, changes), role));
      expect([code, message.endsWith("unchanged.")]).toEqual(["invalid_paused_run", true]);
      expect((await resume(text, role).settled).status).toBe("paused");
    });
  }

  test("an agent has a role that its parent may not start", async () => {
    const { text, resume } = await paused();
    const { role } = cast({});
    const other = part("other", () => calls(use("danger")), { tools: [tool("danger", () => 1)] });
    const swapped = altered(text, {
      "agents.1.role": "other",
      "agents.1.agentPath": "lead/other#1",
      "agents.0.ordinals": { other: 1 },
      "accounts.1.agentPath": "lead/other#1",
      "agents.1.state.step.deferrals.0.question.agentPath": "lead/other#1",
      "questions.0.agentPath": "lead/other#1",
    });
    const options = { roles: [other.role] };
    expect(refusalIn(() => resume(swapped, role, { options }))).toEqual([
      "invalid_paused_run",
      'Invalid paused run: lead/other#1 has the role "other", which lead may not start. Pass result.pausedRun complete and unchanged.',
    ]);
  });
});

describe("a fork of a paused run", () => {
  proves(["D453"], "is bound by the budgets and denials of the roles in code", async () => {
    const { text } = await paused();
    const emptied = altered(text, { "accounts.*.limits": {}, ...NO_HISTORY });
    const fixture = newFixture({ limits: LIMITS });
    const { role } = cast({ isGreedy: true });
    const fork = fixture.orchestrator.fork(readPausedRun(emptied), {
      role,
      atStep: 0,
      message: "Work.",
    });
    expect((await fork.settled).usage.total.steps).toBe(7);
  });

  proves(["D453"], "keeps a grant of its original across its own pause", async () => {
    const fixture = newFixture();
    const asks = tool("ask", () => "asked");
    const clerk = (isDone: boolean) =>
      part("clerk", () => (isDone ? calls(use("ask")) : calls(PAY)), {
        tools: [payTool(), asks],
        budget: { steps: 2 },
      }).role;
    const run = fixture.start(clerk(false));
    run.grant({ steps: 3 }, { by: "Ada" });
    const { pausedRun } = await fixture.outcome(run);
    const fork = await fixture.fork(clerk(false), pausedRun, { atStep: 0, message: "Again." })
      .settled;
    const answers = fork.questions.map((question) => approve(question));
    const done = await fixture.resume(clerk(true), fork.pausedRun, answers).settled;
    expect([done.usage.total.steps, done.reason.code]).toEqual([5, "step_limit"]);
  });
});
