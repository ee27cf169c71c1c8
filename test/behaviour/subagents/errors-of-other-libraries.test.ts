// Goal: errors that small programs showed in comparable systems do not occur here.
// Method: the same small programs, one block for each error.

import { describe, expect, test } from "vitest";
import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import type { JsonObject } from "../../../src/kernel/json.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { Budget } from "../../../src/policies/budget.ts";
import { JsonObjectSchema } from "../../../src/protocol/json-value.ts";
import { deny } from "../../../src/protocol/question.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { approveAll, asked, ending, payTool, questionOf } from "../../support/pause-stories.ts";
import { byTurn, several } from "../../support/peers-agents.ts";
import { CUT_OFF, LOOK, TYPED } from "../../support/peers-cut-off.ts";
import {
  byTask,
  calls,
  ends,
  part,
  quiet,
  spawn,
  receivedTexts,
  tool,
  until,
  use,
  type Part,
} from "../../harness/scripted-agents.ts";

const PRICE = { scripted: { price: { inputUsdPerMillion: 1, outputUsdPerMillion: 2 } } };

/** Returns the parsed delegation results in a request of the parent's model. */
function toldOf(parent: Part, request = 1): readonly JsonObject[] {
  return receivedTexts(parent.model.requests[request]).map((text) =>
    JsonObjectSchema().parse(JSON.parse(text)),
  );
}

describe("limits of a parent over its children", () => {
  const RICH = {
    steps: 1_000,
    totalTokens: 1_000_000,
    inputTokens: 1_000_000,
    outputTokens: 1_000_000,
    costUsd: 1,
    toolCalls: 1_000,
  };
  // A step of any agent here: 10 tokens in, 5 out, 20 micro-dollars, one call.
  const bounds: readonly (readonly [Budget, string, number])[] = [
    [{ steps: 5 }, "steps", 5],
    [{ totalTokens: 80 }, "totalTokens", 80],
    [{ inputTokens: 50 }, "inputTokens", 50],
    [{ outputTokens: 25 }, "outputTokens", 25],
    [{ costUsd: 0.0001 }, "costUsd", 0.0001],
    [{ toolCalls: 5 }, "toolCalls", 5],
  ];
  for (const [budget, axis, most] of bounds) {
    proves(
      ["X16", "R145"],
      `give a child and a grandchild at most the remaining budget: ${axis}`,
      async () => {
        const work = tool("work", () => "worked");
        const restless = { budget: RICH, ...PRICE, maxOutputTokens: 5 };
        const leaf = part("leaf", () => calls(use("work")), { tools: [work], ...restless });
        const child = part("child", byTurn([calls(spawn("leaf")), says("Child.")]), {
          subagents: [leaf.role],
          ...restless,
        });
        const root = part("root", byTurn([calls(spawn("child")), says("Root.")]), {
          subagents: [child.role],
          ...PRICE,
          maxOutputTokens: 5,
        });
        const bounded = { ...root.role.budget, ...budget };
        const result = await newFixture().run(root.role, { budget: bounded });
        const spent = new Map<string, number>(Object.entries(result.usage.total)).get(axis);
        expect(spent).toBeLessThanOrEqual(most);
        expect(spent).toBeGreaterThan(most * 0.7);
        // An agent that makes no further calls may still answer.
        const above = axis === "toolCalls" ? "completed" : "stopped";
        expect(ends(result)).toEqual([above, above, "stopped"]);
      },
    );
  }

  proves(
    ["X16"],
    "give a role's tree limits to its subtree without widening those of the run",
    async () => {
      const leaf = part("leaf", () => says("Leaf."));
      const child = (name: string, limits: AgentDefinition["limits"]): Part =>
        part(name, byTurn([() => several(3, "leaf"), says("Child.")]), {
          subagents: [leaf.role],
          ...(limits === undefined ? {} : { limits }),
        });
      const wide = child("wide", { maxDepth: 9, maxBreadthPerParent: 9, maxTotalSubagents: 99 });
      const narrow = child("narrow", { maxBreadthPerParent: 1 });
      const few = child("few", { maxTotalSubagents: 2 });
      const none = child("none", { maxDepth: 1 });
      const children = [wide, narrow, few, none];
      const root = part(
        "root",
        [calls(...children.map(({ role }) => spawn(role.name))), says("Root.")],
        { subagents: children.map(({ role }) => role) },
      );
      const s = newFixture({
        limits: { maxDepth: 2, maxBreadthPerParent: 4, maxTotalSubagents: 50 },
      });
      const result = await s.run(root.role);
      const below = (path: string): number =>
        result.agents.filter(({ agentPath }) => agentPath.startsWith(`${path}/`)).length;
      expect(children.map(({ role }) => [role.name, below(`root/${role.name}#1`)])).toEqual([
        ["wide", 3],
        ["narrow", 1],
        ["few", 2],
        ["none", 0],
      ]);
      const refused = s.sink
        .ofType("subagent.refused")
        .map(({ agentPath, error }) => `${agentPath} ${error.code} ${error.maximum}`);
      expect(refused.toSorted()).toEqual([
        "root/few#1 total_limit 2",
        "root/narrow#1 breadth_limit 1",
        "root/narrow#1 breadth_limit 1",
        "root/none#1 depth_limit 1",
        "root/none#1 depth_limit 1",
        "root/none#1 depth_limit 1",
      ]);
    },
  );
});

describe("a child that its limit cut off", () => {
  for (const [limit, { script, role = {}, end, text }] of Object.entries(CUT_OFF)) {
    proves(
      ["X15"],
      `has the outcome ${end[0]} for its parent's model, in events and in the log: ${limit}`,
      async () => {
        const child = part("child", script, { tools: [LOOK], ...role });
        const root = part("root", [calls(spawn("child")), says("Root.")], {
          subagents: [child.role],
        });
        const s = newFixture();
        const result = await s.run(root.role);
        const [outcome, status, code] = end;
        expect(toldOf(root)).toMatchObject([{ outcome, reason: code, text }]);
        expect(
          s.sink
            .ofType("subagent.ended")
            .map((event) => [event.outcome, event.status, event.reason.code]),
        ).toEqual([end]);
        const spawned = s.sink
          .ofType("tool.ended")
          .filter((one) => one.toolName === "SpawnSubagent");
        expect(spawned.map((one) => [one.success, one.outcome, one.error?.code])).toEqual([
          [false, "failed", `subagent_${outcome}`],
        ]);
        expect([ends(result), result.text]).toEqual([["completed", status], "Root."]);
      },
    );
  }

  proves(["X15"], "differs from a completed one with a text or a typed result", async () => {
    const child = part("child", [asks("Finish", { pages: 3 })], { output: TYPED });
    const plain = part("plain", [says("Three.")]);
    const root = part("root", [calls(spawn("child"), spawn("plain")), says("Root.")], {
      subagents: [child.role, plain.role],
    });
    const s = newFixture();
    await s.run(root.role);
    expect(toldOf(root)).toMatchObject([
      { outcome: "completed", output: { pages: 3 } },
      { outcome: "completed", text: "Three." },
    ]);
    expect(s.sink.ofType("subagent.ended").map((event) => event.outcome)).toEqual([
      "completed",
      "completed",
    ]);
  });

  test("differs from a silent one, which is retried and then fails", async () => {
    const child = part("child", () => says(""));
    const root = part("root", [calls(spawn("child")), says("Root.")], { subagents: [child.role] });
    const result = await newFixture().run(root.role);
    expect([ends(result), toldOf(root).map(({ outcome }) => outcome)]).toEqual([
      ["completed", "failed"],
      ["failed"],
    ]);
    expect(child.model.requests.length).toBeGreaterThan(1);
  });
});

describe("an approval that a child needs", () => {
  proves(
    ["R149"],
    "pauses the run with the question, and the child's result follows the answer",
    async () => {
      const { pay, child, root } = payingChild();
      const s = newFixture();
      const paused = await s.run(root.role);
      expect([ending(paused), asked(paused), ends(paused), pay.paid]).toEqual([
        ["paused", "input_required"],
        [["root/child#1", "pay"]],
        ["paused", "paused"],
        [],
      ]);
      expect([root.model.requests.length, child.model.requests.length]).toEqual([1, 1]);
      expect([s.sink.ofType("subagent.ended"), s.sink.ofType("tool.ended")]).toEqual([[], []]);
      expect(s.sink.ofType("tool.paused").map(({ agentPath }) => agentPath)).toEqual(["root"]);
      const result = await s.outcome(s.resume(root.role, paused.pausedRun, approveAll(paused)));
      expect([ends(result), pay.paid]).toEqual([["completed", "completed"], [1]]);
      expect(toldOf(root)).toMatchObject([{ outcome: "completed", text: "Dealt with." }]);
    },
  );

  for (const [who, answer] of [
    ["a person who says no", "deny"],
    ["silence, where no approver can be asked,", "nobody"],
    ["an approver that breaks", "broken"],
  ] as const) {
    test(`is denied by ${who}, so the call is not executed and the child learns why`, async () => {
      const { pay, child, root } = payingChild();
      const s = newFixture(
        answer === "nobody" ? { unansweredPolicy: "deny" } : answer === "broken" ? BROKEN : {},
      );
      const first = await s.run(root.role);
      const result =
        first.status === "paused"
          ? await s.outcome(s.resume(root.role, first.pausedRun, [deny(questionOf(first))]))
          : first;
      expect([first.status, ends(result), pay.paid]).toEqual([
        answer === "nobody" ? "completed" : "paused",
        ["completed", "completed"],
        [],
      ]);
      expect(takeWarnings().map((one) => one.includes("The approver broke."))).toEqual(
        answer === "broken" ? [true] : [],
      );
      expect(receivedTexts(child.model.requests[1])[0]).toMatch(/^Not executed: pay was denied\./);
      expect(result.agents[1]?.toolErrors.map(({ toolName }) => toolName)).toEqual(["pay"]);
    });
  }

  const BROKEN = {
    approver: () => {
      throw new Error("The approver broke.");
    },
  };
});

describe("a child that reaches its limit", () => {
  const work = tool("work", () => "worked");
  const LIMITED: Readonly<Record<string, Part>> = {
    "its steps": part("first", () => calls(use("work")), { tools: [work], budget: { steps: 1 } }),
    "its tokens": part("first", [], { budget: { totalTokens: 1 } }),
    "its time": part("first", [], { budget: { timeMs: 0 } }),
    "its errors": part("first", () => asks("nothing", {}), { errorBudget: { maxToolErrors: 0 } }),
    "a broken model": part("first", [{ error: new Error("A bug.") }]),
  };
  for (const [what, first] of Object.entries(LIMITED)) {
    proves(["R136"], `lets its sibling continue, and both are reported: ${what}`, async () => {
      const held = latch();
      const second = part("second", [calls(use("hold")), says("Second.")], {
        tools: [tool("hold", () => held.opened)],
      });
      const root = part("root", [calls(spawn("first"), spawn("second")), says("Root.")], {
        subagents: [first.role, second.role],
      });
      const s = newFixture();
      const run = s.start(root.role);
      await until(() => s.sink.ofType("subagent.ended").length === 1);
      await quiet();
      expect([s.sink.ofType("subagent.ended")[0]?.childPath, s.sink.ofType("run.ended")]).toEqual([
        "root/first#1",
        [],
      ]);
      held.open();
      const result = await s.outcome(run);
      expect([ending(result), result.text]).toEqual([["completed", "completed"], "Root."]);
      expect(result.agents[1]?.status).toMatch(/^(stopped|failed)$/);
      expect(toldOf(root)).toMatchObject([
        { subagent: "first#1" },
        { subagent: "second#1", outcome: "completed", text: "Second." },
      ]);
      expect(result.usage.total.totalTokens).toBe(sumOfOwn(result));
    });
  }

  test("differs from a run at its limit, which stops all agents and waits for running tools", async () => {
    const held = latch();
    const second = part("second", [calls(use("hold"))], {
      tools: [tool("hold", () => held.opened)],
    });
    const first = part("first", () => calls(use("work")), { tools: [work] });
    const root = part("root", [calls(spawn("second"), spawn("first"))], {
      subagents: [first.role, second.role],
    });
    const s = newFixture();
    const run = s.start(root.role, "Do it.", { budget: { steps: 5 } });
    await until(() => s.sink.ofType("subagent.ended").length === 1);
    await quiet();
    expect(s.sink.ofType("run.ended")).toEqual([]);
    held.open();
    const result = await s.outcome(run);
    expect(result.agents.map(({ status, reason }) => [status, reason.code])).toEqual(
      Array.from({ length: 3 }, () => ["stopped", "step_limit"]),
    );
    expect(result.usage.total.steps).toBe(5);
  });
});

describe("two agents of one role", () => {
  test("run in parallel below one parent, below two, and in two runs", async () => {
    const held = latch();
    const inside: string[] = [];
    const work = tool("work", async ({ runId, agentPath }) => {
      inside.push(`${runId} ${agentPath}`);
      await held.opened;
      return agentPath;
    });
    const worker = part(
      "worker",
      byTurn([calls(use("work")), (request) => says(receivedTexts(request)[0] ?? "")]),
      {
        tools: [work],
      },
    );
    const boss = part("boss", byTurn([() => several(2, "worker"), says("Boss.")]), {
      subagents: [worker.role],
    });
    const root = part(
      "root",
      byTask({ "Do it.": [calls(spawn("boss"), spawn("boss"), spawn("worker")), says("Root.")] }),
      { subagents: [boss.role, worker.role] },
    );
    const s = newFixture();
    const runs = [s.start(root.role), s.start(root.role)];
    await until(() => inside.length === 10);
    const paths = [
      "root/boss#1/worker#1",
      "root/boss#1/worker#2",
      "root/boss#2/worker#1",
      "root/boss#2/worker#2",
      "root/worker#1",
    ];
    expect(inside.toSorted()).toEqual(
      ["run_1", "run_2"].flatMap((run) => paths.map((path) => `${run} ${path}`)),
    );
    held.open();
    for (const run of runs) {
      const result = await s.outcome(run);
      const workers = result.agents.filter(({ role }) => role === "worker");
      expect(Object.fromEntries(workers.map(({ agentPath, text }) => [agentPath, text]))).toEqual(
        Object.fromEntries(paths.map((path) => [path, path])),
      );
    }
  });
});

describe("the total usage of an agent", () => {
  proves(
    ["X18", "R143"],
    "includes its descendants while they run, while they are paused, and at the end",
    async () => {
      const pay = payTool();
      const leaf = part("leaf", [asks("pay", { amount: 1 }), says("Leaf.")], { tools: [pay] });
      const child = part("child", [calls(spawn("leaf")), says("Child.")], {
        subagents: [leaf.role],
      });
      const broken = part("broken", [asks("nothing", {}), { error: new Error("A bug.") }]);
      const root = part("root", [calls(spawn("child"), spawn("broken")), says("Root.")], {
        subagents: [child.role, broken.role],
      });
      const s = newFixture();
      const paused = await s.run(root.role);
      expect(tokens(paused)).toEqual([
        ["root", 15, 60],
        ["root/child#1", 15, 30],
        ["root/broken#1", 15, 15],
        ["root/child#1/leaf#1", 15, 15],
      ]);
      const result = await s.outcome(s.resume(root.role, paused.pausedRun, approveAll(paused)));
      expect(tokens(result)).toEqual([
        ["root", 30, 105],
        ["root/child#1", 30, 60],
        ["root/broken#1", 15, 15],
        ["root/child#1/leaf#1", 30, 30],
      ]);
      expect(sumOfOwn(result)).toBe(105);
      expect(toldOf(root).map(({ totalTokens }) => totalTokens)).toEqual([60, 15]);
      expect(s.sink.ofType("run.ended").map(({ usage }) => usage.total.totalTokens)).toEqual([105]);
    },
  );
});

/** A root whose child needs an approval to pay. */
function payingChild() {
  const pay = payTool();
  const child = part("child", [asks("pay", { amount: 1 }), says("Dealt with.")], {
    tools: [pay],
  });
  const root = part("root", [calls(spawn("child")), says("Root.")], { subagents: [child.role] });
  return { pay, child, root };
}

function tokens(result: RunResult): readonly unknown[] {
  return result.agents.map(({ agentPath, usage }) => [
    agentPath,
    usage.own.totalTokens,
    usage.total.totalTokens,
  ]);
}

function sumOfOwn(result: RunResult): number {
  return result.agents.reduce((sum, { usage }) => sum + usage.own.totalTokens, 0);
}
