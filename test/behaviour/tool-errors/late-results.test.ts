// Goal: a call has its time limit; everything that it does later is ignored.
// Method: tools that ignore their signal and are released by hand after their time, or after the
// run was asked to end.

import { expect, test } from "vitest";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { ToolError } from "../../../src/tools/tool-error.ts";
import type { ToolContext } from "../../../src/tools/tool-context.ts";
import { withRetries } from "../../../src/tools/wrappers/with-retries.ts";
import { withTimeout } from "../../../src/tools/wrappers/with-timeout.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { aborted, calls, part, quiet, receivedTexts, use } from "../../harness/scripted-agents.ts";
import { ending, ends, executions, texts, type Act } from "../../support/tool-acts.ts";

const DONE = says("Done.");
const never: Act = () => new Promise(() => undefined);

/** Lets time pass, once everything is idle, and returns the result. */
async function after(fixture: Fixture, run: Run, timeMs: number): Promise<RunResult> {
  await quiet();
  fixture.clock.advance(timeMs);
  return await fixture.outcome(run);
}

proves(["R163"], "reports a timed-out call to the model with tool, limit and hint", async () => {
  const { role, model } = soloist([calls(use("work")), DONE], {
    tools: [spyTool("work", never, { timeoutMs: 30_000 })],
  });
  const fixture = newFixture();
  const run = fixture.start(role);
  await quiet();
  fixture.clock.advance(29_999);
  await quiet();
  expect(fixture.sink.ofType("tool.ended")).toEqual([]);
  const result = await after(fixture, run, 1);
  expect(receivedTexts(model.requests[1])).toEqual([
    "work did not end within 30 s. It may have taken effect nevertheless: check that first. Then request less at once, or do without it.",
  ]);
  expect(
    executions(result).map(({ type, errorCode, severity }) => [type, errorCode, severity]),
  ).toEqual([["failed", "tool_timeout", "recoverable"]]);
  expect(result.status).toBe("completed");
});

const LIMITS: readonly {
  readonly what: string;
  readonly inside: number | undefined;
  readonly own: number | undefined;
  readonly role: number | undefined;
  readonly expected: number;
  readonly text: string;
}[] = [
  {
    what: "the wrapper, if it is tighter",
    inside: 10_000,
    own: 30_000,
    role: 60_000,
    expected: 10_000,
    text: "10 s",
  },
  {
    what: "the tool, if it is tighter",
    inside: 30_000,
    own: 10_000,
    role: 5_000,
    expected: 10_000,
    text: "10 s",
  },
  {
    what: "the wrapper alone",
    inside: 250,
    own: undefined,
    role: undefined,
    expected: 250,
    text: "250 ms",
  },
  {
    what: "the role, if the tool says nothing",
    inside: undefined,
    own: undefined,
    role: 90_000,
    expected: 90_000,
    text: "90 s",
  },
  {
    what: "the tool before the role, though it is longer",
    inside: undefined,
    own: 120_000,
    role: 1_000,
    expected: 120_000,
    text: "2 min",
  },
];

for (const { what, inside, own, role: ofRole, expected, text } of LIMITS) {
  proves(["R163"], `applies and reports the limit of ${what}`, async () => {
    const tool = spyTool("work", never, own === undefined ? {} : { timeoutMs: own });
    const limited = inside === undefined ? tool : withTimeout(tool, { timeoutMs: inside });
    const { role, model } = soloist([calls(use("work")), DONE], {
      tools: [limited],
      toolDefaults: ofRole === undefined ? {} : { timeoutMs: ofRole },
    });
    const fixture = newFixture();
    const run = fixture.start(role);
    await quiet();
    fixture.clock.advance(expected - 1);
    await quiet();
    expect(fixture.sink.ofType("tool.ended")).toEqual([]);
    const result = await after(fixture, run, 1);
    expect([result.status, ends(result)]).toEqual(["completed", ["failed tool_timeout"]]);
    expect(receivedTexts(model.requests[1])[0]).toContain(`work did not end within ${text}.`);
  });
}

test("applies the limit of a tool to all attempts of its wrapper together", async () => {
  const tool = spyTool("work", () => Promise.reject(new Error("again")), { timeoutMs: 700 });
  const { role, model } = soloist([calls(use("work")), DONE], { tools: [withRetries(tool)] });
  const fixture = newFixture();
  const run = fixture.start(role);
  await quiet();
  fixture.clock.advance(500);
  await quiet();
  const result = await after(fixture, run, 200);
  expect([tool.calls.length, ends(result)]).toEqual([2, ["failed tool_timeout"]]);
  expect(receivedTexts(model.requests[1])[0]).toContain("700 ms");
});

test("fails a tool that ends by its signal when its time is up", async () => {
  const reasons: unknown[] = [];
  const tool = spyTool(
    "work",
    async ({ signal }) => {
      await aborted(signal);
      reasons.push(signal.reason);
      return "in time after all";
    },
    { timeoutMs: 1_000 },
  );
  const fixture = newFixture();
  const result = await after(
    fixture,
    fixture.start(soloist([calls(use("work")), DONE], { tools: [tool] }).role),
    1_000,
  );
  expect(ends(result)).toEqual(["failed tool_timeout"]);
  expect(reasons).toEqual([expect.objectContaining({ name: "TimeoutError" })]);
});

test("accepts a result at the last moment", async () => {
  const held = latch();
  const tool = spyTool("work", async () => (await held.opened, "just so"), { timeoutMs: 1_000 });
  const fixture = newFixture();
  const run = fixture.start(soloist([calls(use("work")), DONE], { tools: [tool] }).role);
  await quiet();
  fixture.clock.advance(999);
  held.open();
  const result = await after(fixture, run, 1);
  expect(texts(result)).toEqual(["just so"]);
});

test("leaves no timer after a tool that ends in time", async () => {
  const tool = spyTool("work", () => "quick", { timeoutMs: 1_000 });
  const fixture = newFixture();
  const result = await fixture.run(soloist([calls(use("work")), DONE], { tools: [tool] }).role);
  fixture.clock.advance(5_000);
  expect(texts(result)).toEqual(["quick"]);
});

test("limits parallel calls of one tool separately", async () => {
  const held = latch();
  let called = 0;
  const tool = spyTool(
    "work",
    async (context) => {
      called += 1;
      if (called === 1) return await never(context);
      await held.opened;
      return "done";
    },
    { timeoutMs: 1_000 },
  );
  const fixture = newFixture();
  const run = fixture.start(
    soloist([calls(use("work"), use("work")), DONE], { tools: [tool] }).role,
  );
  await quiet();
  fixture.clock.advance(500);
  held.open();
  const result = await after(fixture, run, 500);
  expect(ends(result)).toEqual(["failed tool_timeout", "succeeded"]);
});

const NOTHING: unknown = undefined;

/** Actions of a tool long after its call has ended. */
const LATE: Readonly<Record<string, (context: ToolContext) => unknown>> = {
  "gives a result": () => "late",
  "gives a result that cannot be shown": () => () => "late",
  "reports progress": ({ reportProgress }) => reportProgress({ done: 1, message: "late" }),
  "queues a subtask": ({ queueSubtask }) => queueSubtask({ role: "child", task: "late" }),
  rejects: () => Promise.reject(new Error("late")),
  "asks for a retry": () => Promise.reject(new ToolError("late", { severity: "retryable" })),
  "wants to end everything": () => Promise.reject(new ToolError("late", { severity: "abortive" })),
  "throws nothing at all": () => Promise.reject(NOTHING),
};

/**
 * Returns a tool in a run that ends first; the tool takes its late action when the latch is opened.
 */
function lateWork(late: (context: ToolContext) => unknown, timeoutMs?: number) {
  const held = latch();
  const work = spyTool(
    "work",
    async (context) => {
      await held.opened;
      return await late(context);
    },
    timeoutMs === undefined ? {} : { timeoutMs },
  );
  const child = part("child", () => says("Child."));
  const answered = latch();
  const script = [calls(use("work")), says("Answer.", { after: answered.opened }), says("never")];
  const { role } = part("root", script, { tools: [work], subagents: [child.role] });
  return { held, role, answered };
}

for (const [what, late] of Object.entries(LATE)) {
  proves(["R163"], `ignores a tool that ${what} after its timeout`, async () => {
    const { held, role, answered } = lateWork(late, 1_000);
    const fixture = newFixture();
    const run = fixture.start(role);
    await quiet();
    fixture.clock.advance(1_000);
    await quiet();
    expect(fixture.sink.ofType("tool.ended").map(({ error }) => error?.code)).toEqual([
      "tool_timeout",
    ]);
    held.open();
    await quiet();
    answered.open();
    const result = await fixture.outcome(run);
    await quiet();
    expect([result.status, ends(result), result.agents.length]).toEqual([
      "completed",
      ["failed tool_timeout"],
      1,
    ]);
    expect(fixture.sink.ofType("tool.progressed")).toEqual([]);
    expect(JSON.stringify([result, fixture.sink.events])).not.toContain("late");
  });

  test(`ignores a tool that ${what} after its run was cancelled`, async () => {
    const { held, role } = lateWork(late);
    const fixture = newFixture({ graceMs: 300 });
    const run = fixture.start(role);
    await quiet();
    void run.cancel("Enough.");
    await quiet();
    fixture.clock.advance(300);
    const result = await fixture.outcome(run);
    const before = JSON.stringify([result, fixture.sink.events]);
    held.open();
    await quiet();
    expect([result.status, ends(result)]).toEqual(["cancelled", ["cancelled cancelled"]]);
    expect(JSON.stringify([result, fixture.sink.events])).toBe(before);
  });

  test(`ignores a tool that ${what} within the grace period of a cancelled run`, async () => {
    const { held, role } = lateWork(late);
    const fixture = newFixture({ graceMs: 300 });
    const run = fixture.start(role);
    await quiet();
    void run.cancel("Enough.");
    await quiet();
    held.open();
    const result = await fixture.outcome(run);
    expect([result.status, ends(result), result.agents.length, result.agents[0]?.errors]).toEqual([
      "cancelled",
      ["cancelled cancelled"],
      1,
      [],
    ]);
  });
}

test("keeps progress and subtasks of a call from before its timeout", async () => {
  const child = part("child", [says("Child.")]);
  const work = spyTool(
    "work",
    (context) => {
      context.reportProgress({ done: 1 });
      context.queueSubtask({ role: "child", task: "Tidy up." });
      return never(context);
    },
    { timeoutMs: 1_000 },
  );
  const { role } = part("root", [calls(use("work")), DONE], {
    tools: [work],
    subagents: [child.role],
  });
  const fixture = newFixture();
  const result = await after(fixture, fixture.start(role), 1_000);
  expect([fixture.sink.ofType("tool.progressed").length, result.agents.length]).toEqual([1, 2]);
});

test("cancels a call in flight when the time of the run is up, without a timeout error", async () => {
  const tool = spyTool("work", async ({ signal }) => await aborted(signal), { timeoutMs: 5_000 });
  const fixture = newFixture();
  const run = fixture.start(soloist([calls(use("work"))], { tools: [tool] }).role, "Do it.", {
    budget: { timeMs: 1_000 },
  });
  const result = await after(fixture, run, 1_000);
  expect([result.status, result.reason.code, ends(result)]).toEqual([
    "stopped",
    "time_limit",
    ["cancelled cancelled"],
  ]);
});

test("counts consecutive timeouts against the error budget", async () => {
  const tool = spyTool("work", never, { timeoutMs: 10 });
  const fixture = newFixture();
  const script = Array.from({ length: 4 }, () => calls(use("work")));
  const run = fixture.start(soloist(script, { tools: [tool] }).role);
  for (let call = 0; call < 3; call += 1) {
    await quiet();
    fixture.clock.advance(10);
  }
  const result = await after(fixture, run, 10);
  expect(ending(result)).toEqual([
    "stopped",
    "error_budget",
    { limit: "maxConsecutiveErrors", maximum: 3, current: 4 },
  ]);
});
