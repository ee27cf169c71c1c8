// Goal: an agent with a typed output is corrected a bounded number of times, and fails alone if it
// never returns it.
// Method: scripts with results that do not fit, alone and in a tree, beside other calls and under
// tight error budgets.

import { expect, test } from "vitest";
import { z } from "zod";

import { transform } from "../../../src/hooks/hook.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { asks, says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { calls, part, spawn, receivedTexts, use } from "../../harness/scripted-agents.ts";
import {
  acting,
  ending,
  ends,
  fails,
  historyOf,
  retries,
  succeeds,
} from "../../support/tool-acts.ts";

const output = z.object({ count: z.int() });
const RIGHT = asks("Finish", { count: 3 });
const WRONG = asks("Finish", { count: "three" });
const finish = (count: unknown) => ({ toolName: "Finish", arguments: { count } });

const MISSED = ["failed", "error", { error: "model_invalid_reply" }];

/** Shows that the third miss ended the agent, and not the end of a script. */
function expectMissed(result: RunResult, problem: string, agent = 0): void {
  expect(ending(result, agent)).toEqual(MISSED);
  expect(result.agents[agent]?.reason.message).toContain(
    `to call Finish with a result that fits its schema, but it failed 3 times. Last problems: ${problem.replace(/\.?$/, ".")} Simplify the output schema, or use a stronger model.`,
  );
  const { agentPath } = result.agents[agent] ?? {};
  expect(
    result.errors.flatMap((error) => (error.agentPath === agentPath ? error.data : [])),
  ).toEqual([{ role: result.agents[agent]?.role, missed: 3, problems: [problem] }]);
}

const NOT_THREE = 'count: expected an integer, got "three"';

proves(["X20"], "accepts the third result after two corrections that name the error", async () => {
  const { role, model } = soloist([WRONG, WRONG, RIGHT], { output });
  const result = await newFixture().run(role);
  expect([result.status, result.output, result.steps.length]).toEqual([
    "completed",
    { count: 3 },
    3,
  ]);
  const text =
    'The arguments of Finish do not fit its schema:\n- count: expected an integer, got "three"\nCorrect them and call Finish again.';
  expect([receivedTexts(model.requests[1]), receivedTexts(model.requests[2])]).toEqual([
    [text],
    [text],
  ]);
  expect(ends(result)).toEqual(["retry invalid_arguments", "retry invalid_arguments", "succeeded"]);
});

proves(["X20"], "fails the agent after three wrong results, with a valid history", async () => {
  const fixture = newFixture();
  const run = fixture.start(soloist([WRONG, WRONG, WRONG], { output }).role);
  const history = await historyOf(fixture, run);
  const result = await run.result;
  expectMissed(result, NOT_THREE);
  expect([result.output, history.texts.length, history.problems]).toEqual([undefined, 3, []]);
});

proves(
  ["X20"],
  "fails only a child with three wrong results, and continues its sibling and its parent",
  async () => {
    const bad = part("bad", [WRONG, WRONG, WRONG], { output });
    const good = part("good", [WRONG, WRONG, RIGHT], { output });
    const root = part("root", [calls(spawn("bad"), spawn("good")), says("Root.")], {
      subagents: [bad.role, good.role],
    });
    const result = await newFixture().run(root.role);
    expect(result.agents.map(({ role, status, output: given }) => [role, status, given])).toEqual([
      ["root", "completed", undefined],
      ["bad", "failed", undefined],
      ["good", "completed", { count: 3 }],
    ]);
    expectMissed(result, NOT_THREE, 1);
    const [failed, gave] = receivedTexts(root.model.requests[1]);
    expect(JSON.parse(failed ?? "")).toMatchObject({
      outcome: "failed",
      error: "model_invalid_reply",
    });
    expect(JSON.parse(gave ?? "")).toMatchObject({ outcome: "completed", output: { count: 3 } });
  },
);

test("counts three wrong results in one reply as three misses", async () => {
  const result = await newFixture().run(
    soloist([calls(finish("a"), finish("b"), finish("c"))], { output }).role,
  );
  expectMissed(result, 'count: expected an integer, got "c"');
});

test("accepts a right result after two wrong ones in one reply", async () => {
  const result = await newFixture().run(
    soloist([calls(finish("a"), finish("b"), finish(3))], { output }).role,
  );
  expect([result.status, result.output]).toEqual(["completed", { count: 3 }]);
});

test("counts texts and wrong results together", async () => {
  const result = await newFixture().run(
    soloist([says("Three."), WRONG, says("3")], { output }).role,
  );
  expectMissed(result, "the result: expected an object, got 3");
});

const FREE: readonly (readonly [string, object])[] = [
  ["maxRetries of the role", { toolDefaults: { maxRetries: 0 } }],
  ["maxToolErrors", { errorBudget: { maxToolErrors: 0 } }],
  ["maxConsecutiveErrors", { errorBudget: { maxConsecutiveErrors: 0 } }],
];

for (const [what, more] of FREE) {
  test(`does not apply ${what} to the output, which has its own limit`, async () => {
    const result = await newFixture().run(soloist([WRONG, WRONG, RIGHT], { output, ...more }).role);
    expect([result.status, result.output]).toEqual(["completed", { count: 3 }]);
  });
}

test("counts wrong results against maxRetryErrors", async () => {
  const errorBudget = { maxRetryErrors: 1 };
  const borne = await newFixture().run(soloist([WRONG, RIGHT], { output, errorBudget }).role);
  expect(borne.status).toBe("completed");
  const stopped = await newFixture().run(soloist([WRONG, WRONG], { output, errorBudget }).role);
  expect(ending(stopped)).toEqual([
    "stopped",
    "error_budget",
    { limit: "maxRetryErrors", maximum: 1, current: 2 },
  ]);
});

proves(["X20"], "prefers an output to failures in the same reply", async () => {
  const tools = [acting("bad", [fails]), acting("r", [retries], { maxRetries: 0 })];
  const script: readonly ScriptedReply[] = [calls(use("bad"), use("r"), finish(3))];
  const errorBudget = { maxToolErrors: 0, maxConsecutiveErrors: 0, maxRetryErrors: 0 };
  const fixture = newFixture();
  const result = await fixture.run(soloist(script, { output, tools, errorBudget }).role);
  expect([result.status, result.output]).toEqual(["completed", { count: 3 }]);
  expect(result.agents[0]?.toolErrors.map(({ code }) => code)).toEqual([
    "tool_error",
    "retry_limit",
  ]);
  expect(fixture.sink.ofType("signal.raised").map(({ signal }) => signal.reason.code)).toEqual([
    "completed",
  ]);
});

test("stops the agent for failures in a reply before the output", async () => {
  const tools = [acting("bad", [fails])];
  const errorBudget = { maxToolErrors: 0 };
  const result = await newFixture().run(
    soloist([calls(use("bad"), finish("three"))], { output, tools, errorBudget }).role,
  );
  expect(ending(result).slice(0, 2)).toEqual(["stopped", "error_budget"]);
});

test("counts an output that a hook denies as a miss", async () => {
  const hooks = [transform("beforeTool", () => ({ deny: "Not yet." }), { tools: ["Finish"] })];
  const result = await newFixture().run(soloist([RIGHT, RIGHT, RIGHT], { output, hooks }).role);
  expectMissed(
    result,
    "Not executed: Finish was denied. Not yet. Do without it, or answer with what you have.",
  );
  expect(ends(result)).toEqual(["refused blocked", "refused blocked", "refused blocked"]);
});

test("counts invalid JSON and missing arguments as misses", async () => {
  const script = [asks("Finish", "{oops"), asks("Finish", ""), RIGHT];
  const result = await newFixture().run(soloist(script, { output }).role);
  expect([result.status, ends(result)]).toEqual([
    "completed",
    ["retry invalid_json", "retry invalid_arguments", "succeeded"],
  ]);
});

test("coerces text to a number in an output without loss", async () => {
  const result = await newFixture().run(soloist([asks("Finish", { count: "3" })], { output }).role);
  expect([result.status, result.output]).toEqual(["completed", { count: 3 }]);
});

test("does not reset misses by calls of other tools", async () => {
  const tools = [acting("good", [succeeds])];
  const script = [WRONG, calls(use("good")), WRONG, calls(use("good")), WRONG];
  const result = await newFixture().run(soloist(script, { output, tools }).role);
  expectMissed(result, NOT_THREE);
});

test("names the last miss, if it is a text or invalid JSON", async () => {
  const text = await newFixture().run(soloist([WRONG, WRONG, says("Three.")], { output }).role);
  expectMissed(text, "the reply is not a call of Finish");
  const oops = asks("Finish", "{oops");
  const json = await newFixture().run(soloist([WRONG, WRONG, oops], { output }).role);
  const problem = json.steps.at(-1)?.tools.executions[0]?.text ?? "";
  expect(problem).toContain("The arguments of Finish are not valid JSON");
  expectMissed(json, problem);
});
