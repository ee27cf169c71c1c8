// Goal: no time window contains more starts than allowed, in order of arrival, across all agents of
// a run.
// Method: many concurrent calls without a run and with a manual clock; a property test chooses who
// calls, waits and leaves.

import { getEventListeners } from "node:events";

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { AgentIdSchema, type AgentId } from "../../../src/protocol/ids.ts";
import { ToolError } from "../../../src/tools/tool-error.ts";
import type { FunctionTool } from "../../../src/tools/tool.ts";
import { renameTools } from "../../../src/tools/toolsets.ts";
import {
  rateLimit,
  withRateLimit,
  type RateLimitOptions,
} from "../../../src/tools/wrappers/rate-limit.ts";
import { withTimeout } from "../../../src/tools/wrappers/with-timeout.ts";
import { proves } from "../../harness/proves.ts";
import { CallFixture, never, toolThat, useOf, type Call } from "../../support/tool-calls.ts";
import { thrownBy } from "../../support/thrown.ts";

const TWO_A_SECOND: RateLimitOptions = { maxCalls: 2, windowMs: 1_000 };

/** A tool that records when it starts and for which agent. */
function noting(
  fixture: CallFixture,
  name = "search",
): { readonly tool: FunctionTool; readonly starts: readonly string[] } {
  const starts: string[] = [];
  const tool = toolThat(name, ({ agentId }) => {
    starts.push(`${agentId} at ${fixture.clock.nowMs() - 1_000}`);
    return "found";
  });
  return { tool, starts };
}

function by(agent: string): { readonly agentId: AgentId } {
  return { agentId: AgentIdSchema().parse(agent) };
}

test("delays the third of three parallel calls of three agents until the window allows it", async () => {
  const fixture = new CallFixture();
  const { tool, starts } = noting(fixture);
  const limited = withRateLimit(tool, TWO_A_SECOND);
  const calls = ["a", "b", "c"].map((agent) => fixture.call(limited, by(agent)));
  const third = calls[2];
  const seen = [];
  for (const byMs of [0, 999, 1]) {
    fixture.clock.advance(byMs);
    seen.push([await third?.now(), [...starts]]);
  }
  expect(seen).toEqual([
    [undefined, ["a at 0", "b at 0"]],
    [undefined, ["a at 0", "b at 0"]],
    [{ type: "returned", value: "found" }, ["a at 0", "b at 0", "c at 1000"]],
  ]);
  expect([
    fixture.clock.pendingTimers,
    getEventListeners(fixture.controller.signal, "abort").length,
  ]).toEqual([0, 0]);
});

test('refuses a call over the limit and reports when to retry, with exceededPolicy "refuse"', async () => {
  const fixture = new CallFixture();
  const { tool, starts } = noting(fixture);
  const limited = withRateLimit(tool, { ...TWO_A_SECOND, exceededPolicy: "refuse" });
  await fixture.call(limited, by("a")).ended;
  fixture.clock.advance(250.5);
  await fixture.call(limited, by("b")).ended;
  const refused = await fixture.call(limited, by("c")).ended;
  if (refused.type !== "threw" || !(refused.error instanceof ToolError))
    expect.unreachable("it is refused");
  const { message, hint, severity, code, data } = refused.error;
  expect({ message, hint, severity, code, data }).toEqual({
    message: "Not executed: the rate limit of search, 2 times within 1 s, is used up.",
    hint: "Try again in 750 ms, or continue without it.",
    severity: "recoverable",
    code: "tool_error",
    data: { maxCalls: 2, windowMs: 1_000, retryAfterMs: 750 },
  });
  fixture.clock.advance(750);
  await fixture.call(limited, by("c")).ended;
  expect([starts.map((start) => start[0]), fixture.clock.pendingTimers]).toEqual([
    ["a", "b", "c"],
    0,
  ]);
});

test("frees each place one whole window after its own start", async () => {
  const fixture = new CallFixture();
  const { tool, starts } = noting(fixture);
  const limited = withRateLimit(tool, TWO_A_SECOND);
  void fixture.call(limited, by("a"));
  fixture.clock.advance(900);
  const calls = ["b", "c", "d"].map((agent) => fixture.call(limited, by(agent)));
  for (let ms = 0; ms < 2_000; ms += 100) {
    await Promise.all(calls.map((call) => call.now()));
    fixture.clock.advance(100);
  }
  expect(starts).toEqual(["a at 0", "b at 900", "c at 1000", "d at 1900"]);
});

test("queues a new call behind waiting calls", async () => {
  const fixture = new CallFixture();
  const { tool, starts } = noting(fixture);
  const limited = withRateLimit(tool, { maxCalls: 1, windowMs: 10 });
  const calls = ["a", "b", "c"].map((agent) => fixture.call(limited, by(agent)));
  fixture.clock.advance(10); // The turn of b has come, but b has not been called yet.
  calls.push(fixture.call(limited, by("d")));
  for (let turn = 0; turn < 5; turn += 1) {
    await calls[3]?.now();
    fixture.clock.advance(10);
  }
  expect(starts).toEqual(["a at 0", "b at 10", "c at 20", "d at 30"]);
});

test("starts waiting calls first between a granted turn and its start", async () => {
  const fixture = new CallFixture();
  const { tool, starts } = noting(fixture);
  const limited = withRateLimit(tool, { maxCalls: 2, windowMs: 10 });
  void fixture.call(limited, by("a"));
  fixture.clock.advance(5);
  void fixture.call(limited, by("b"));
  const third = fixture.call(limited, by("c"));
  await third.now();
  fixture.clock.advance(10); // The turn of c came after 5 ms, and a second place is free now.
  const fourth = fixture.call(limited, by("d"));
  await fourth.now();
  expect(starts).toEqual(["a at 0", "b at 5", "c at 15", "d at 15"]);
});

test("starts waiting calls first while a place is free but the next in the queue has not started", async () => {
  const fixture = new CallFixture();
  const { tool, starts } = noting(fixture);
  const limited = withRateLimit(tool, { maxCalls: 1, windowMs: 10 });
  const calls: Call[] = [];
  fixture.clock.setTimer(10, () => calls.push(fixture.call(limited, by("c")))); // Due first.
  calls.push(fixture.call(limited, by("a")), fixture.call(limited, by("b")));
  fixture.clock.advance(10);
  await calls[2]?.now();
  fixture.clock.advance(10);
  await calls[2]?.now();
  expect(starts).toEqual(["a at 0", "b at 10", "c at 20"]);
});

test("removes a cancelled call from the queue at once, without using a place", async () => {
  const fixture = new CallFixture();
  const { tool, starts } = noting(fixture);
  const limited = withRateLimit(tool, { maxCalls: 1, windowMs: 10 });
  void fixture.call(limited, by("a"));
  const leaver = new AbortController();
  const second = fixture.call(limited, { ...by("b"), signal: leaver.signal });
  const third = fixture.call(limited, by("c"));
  leaver.abort();
  expect(await second.now()).toEqual({
    type: "threw",
    error: new ToolError("search was stopped before it had a result."),
  });
  fixture.clock.advance(10);
  expect([(await third.now())?.type, starts, fixture.clock.pendingTimers]).toEqual([
    "returned",
    ["a at 0", "c at 10"],
    0,
  ]);
});

test("clears its timer when the last waiting call is cancelled", async () => {
  const fixture = new CallFixture();
  const limited = withRateLimit(noting(fixture).tool, { maxCalls: 1, windowMs: 10 });
  const calls = ["a", "b", "c"].map((agent) => fixture.call(limited, by(agent)));
  fixture.controller.abort();
  const ends = await Promise.all(calls.map((call) => call.now()));
  expect([ends.map((end) => end?.type), fixture.clock.pendingTimers]).toEqual([
    ["returned", "threw", "threw"],
    0,
  ]);
});

test("does not start a call that was cancelled before, and counts no start", async () => {
  const fixture = new CallFixture();
  const { tool, starts } = noting(fixture);
  const limited = withRateLimit(tool, { maxCalls: 1, windowMs: 10 });
  const end = await fixture.call(limited, { ...by("a"), signal: AbortSignal.abort() }).ended;
  await fixture.call(limited, by("b")).ended;
  expect([end.type, starts]).toEqual(["threw", ["b at 0"]]);
});

test("passes a turn to the next in the queue if its call is cancelled at that moment", async () => {
  const fixture = new CallFixture();
  const { tool, starts } = noting(fixture);
  const limited = withRateLimit(tool, { maxCalls: 1, windowMs: 10 });
  void fixture.call(limited, by("a"));
  const leaver = new AbortController();
  const second = fixture.call(limited, { ...by("b"), signal: leaver.signal });
  const third = fixture.call(limited, by("c"));
  fixture.clock.advance(10);
  leaver.abort();
  expect([(await second.now())?.type, (await third.now())?.type, starts]).toEqual([
    "threw",
    "returned",
    ["a at 0", "c at 10"],
  ]);
  expect(fixture.clock.pendingTimers).toBe(0);
});

test("counts a failed call, because it has started", async () => {
  const fixture = new CallFixture();
  const error = new Error("broken");
  let calls = 0;
  const tool = toolThat("search", () => {
    calls += 1;
    throw error;
  });
  const limited = withRateLimit(tool, { maxCalls: 1, windowMs: 10, exceededPolicy: "refuse" });
  const first = await fixture.call(limited).ended;
  await fixture.call(limited).ended;
  expect([first, calls]).toEqual([{ type: "threw", error }, 1]);
});

test("counts tools that share a limit together, in one queue", async () => {
  const fixture = new CallFixture();
  const limit = rateLimit({ maxCalls: 2, windowMs: 1_000 });
  const search = noting(fixture, "search");
  const read = noting(fixture, "read");
  const tools = [withRateLimit(search.tool, limit), withRateLimit(read.tool, limit)] as const;
  const calls = [tools[0], tools[1], tools[0], tools[1]].map((tool) => fixture.call(tool, by("a")));
  await calls[0]?.now();
  fixture.clock.advance(1_000);
  await calls[3]?.now();
  expect([search.starts, read.starts]).toEqual([
    ["a at 0", "a at 1000"],
    ["a at 0", "a at 1000"],
  ]);
  const own = withRateLimit(read.tool, { maxCalls: 2, windowMs: 1_000 });
  expect((await fixture.call(own).now())?.type).toBe("returned");
});

test("counts two concurrent runs separately", async () => {
  const limited = withRateLimit(
    toolThat("search", () => "found"),
    {
      maxCalls: 1,
      windowMs: 10,
      exceededPolicy: "refuse",
    },
  );
  const [one, other] = [new CallFixture(), new CallFixture()];
  const ends = [];
  for (const fixture of [one, other, one, other]) ends.push(await fixture.call(limited).ended);
  expect(ends.map(({ type }) => type)).toEqual(["returned", "returned", "threw", "threw"]);
});

proves(["S7.5"], "measures windows independently of changes of the wall clock", async () => {
  const fixture = new CallFixture();
  const { tool, starts } = noting(fixture);
  const limited = withRateLimit(tool, { maxCalls: 1, windowMs: 1_000 });
  fixture.clock.setWallClock(9_000_000);
  await useOf(limited).run(fixture.context(by("a")), fixture.runtime("search"));
  fixture.clock.setWallClock(fixture.clock.monotonicMs());
  const call = fixture.call(limited, by("b"));
  await call.now();
  fixture.clock.setWallClock(9_000_000);
  fixture.clock.advance(999);
  expect(await call.now()).toBeUndefined();
  fixture.clock.advance(1);
  expect([(await call.now())?.type, starts]).toEqual([
    "returned",
    ["a at 8999000", "b at 9000000"],
  ]);
});

test("reports the renamed tool in a refusal", async () => {
  const limit: RateLimitOptions = { maxCalls: 1, windowMs: 3_600_000, exceededPolicy: "refuse" };
  const limited = withRateLimit(
    toolThat("search", () => "found"),
    limit,
  );
  const [find] = renameTools([limited], { search: "find" });
  if (find === undefined) expect.unreachable("it is there");
  const fixture = new CallFixture();
  await fixture.call(find).ended;
  fixture.clock.advance(3_599_000);
  const refused = await fixture.call(find).ended;
  if (refused.type !== "threw" || !(refused.error instanceof ToolError))
    expect.unreachable("it is refused");
  expect([refused.error.message, refused.error.hint]).toEqual([
    "Not executed: the rate limit of find, once within 1 h, is used up.",
    "Try again in 1 s, or continue without it.",
  ]);
});

test("returns the tool's value unchanged", async () => {
  const value = { rows: [1] };
  const fixture = new CallFixture();
  const limited = withRateLimit(
    toolThat("search", () => Promise.resolve(value)),
    TWO_A_SECOND,
  );
  const end = await fixture.call(limited).ended;
  expect(end.type === "returned" && end.value === value).toBe(true);
});

function breathe(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test("never exceeds the limit and preserves the order for any calls, waits and cancellations", async () => {
  const command = fc.oneof(
    { weight: 4, arbitrary: fc.constant({ type: "call" } as const) },
    {
      weight: 3,
      arbitrary: fc.record({
        type: fc.constant("wait" as const),
        ms: fc.integer({ min: 1, max: 15 }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ type: fc.constant("leave" as const), which: fc.nat({ max: 20 }) }),
    },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 3 }),
      fc.array(fc.tuple(command, fc.boolean()), { maxLength: 40 }),
      async (maxCalls, commands) => {
        const fixture = new CallFixture();
        const starts: { readonly number: number; readonly atMs: number }[] = [];
        const tool = toolThat("search", ({ depth }) => {
          starts.push({ number: depth, atMs: fixture.clock.nowMs() });
          return "found";
        });
        const limited = withRateLimit(tool, { maxCalls, windowMs: 20 });
        const calls: { readonly call: Call; readonly leaver: AbortController }[] = [];
        for (const [command, isCalm] of commands) {
          if (command.type === "call") {
            const leaver = new AbortController();
            const more = { depth: calls.length, signal: leaver.signal };
            calls.push({ leaver, call: fixture.call(limited, more) });
          } else if (command.type === "wait") fixture.clock.advance(command.ms);
          else calls[command.which]?.leaver.abort();
          if (isCalm) await breathe();
        }
        for (await breathe(); fixture.clock.pendingTimers > 0; await breathe())
          fixture.clock.advance(1);
        const ends = await Promise.all(calls.map(({ call }) => call.ended));
        const started = starts.map(({ number }) => number);
        expect(started).toEqual(started.toSorted((left, right) => left - right));
        for (const [index, { atMs }] of starts.entries()) {
          const next = starts[index + maxCalls];
          if (next !== undefined) expect(next.atMs - atMs).toBeGreaterThanOrEqual(20);
        }
        // A call that did not start was cancelled; none is lost.
        expect(ends.map(({ type }) => type === "returned")).toEqual(
          calls.map((_, number) => started.includes(number)),
        );
        const stayed = calls.flatMap(({ leaver }, number) =>
          leaver.signal.aborted ? [] : [number],
        );
        expect(stayed.filter((number) => !started.includes(number))).toEqual([]);
      },
    ),
  );
});

test("includes the wait in a time limit around the rate limit", async () => {
  const fixture = new CallFixture();
  const { tool, starts } = noting(fixture);
  const limited = withRateLimit(tool, { maxCalls: 1, windowMs: 100 });
  const call = (agent: string): Call =>
    fixture.call(withTimeout(limited, { timeoutMs: 100 }), by(agent));
  void call("a");
  const second = call("b");
  fixture.clock.advance(50);
  const third = call("c");
  fixture.clock.advance(50); // The turn and the deadline of b coincide.
  await second.now();
  expect([(await third.now())?.type, starts.length]).toEqual(
    starts[1] === "b at 100" ? [undefined, 2] : ["returned", 2],
  );
  fixture.clock.advance(1_000);
  await third.now();
  expect(fixture.clock.pendingTimers).toBe(0);
});

/** Calls the function as plain JavaScript could. */
function wrap(...given: readonly unknown[]): unknown {
  return Reflect.apply(withRateLimit, undefined, given);
}

test("refuses a value that is not a function tool, and an invalid limit", () => {
  const tool = toolThat("search", never);
  const shared = rateLimit(TWO_A_SECOND);
  const complaints = [
    [Promise.resolve(tool), TWO_A_SECOND],
    [tool],
    [tool, { maxCalls: 0, windowMs: 1 }],
    [tool, { maxCalls: 1.5, windowMs: 1 }],
    [tool, { maxCalls: Infinity, windowMs: 1 }],
    [tool, { maxCalls: 1 }],
    [tool, { maxCalls: 1, windowMs: 0 }],
    [tool, { ...TWO_A_SECOND, exceededPolicy: "drop" }],
    [tool, { ...TWO_A_SECOND, group: shared }],
    [tool, { ...shared }],
  ].map((given) => thrownBy(() => wrap(...given)));
  expect(complaints.map(({ code, data }) => [code, data["field"], data["got"]])).toEqual([
    ["invalid_argument", "withRateLimit.tool", "a promise"],
    ["invalid_argument", "withRateLimit", "undefined"],
    ["invalid_argument", "withRateLimit.maxCalls", "0"],
    ["invalid_argument", "withRateLimit.maxCalls", "1.5"],
    ["invalid_argument", "withRateLimit.maxCalls", "Infinity"],
    ["invalid_argument", "withRateLimit.windowMs", "undefined"],
    ["invalid_argument", "withRateLimit.windowMs", "0"],
    ["invalid_argument", "withRateLimit.exceededPolicy", '"drop"'],
    ["invalid_argument", "withRateLimit.group", '"group"'],
    ["invalid_argument", "withRateLimit.kind", '"kind"'],
  ]);
  expect(thrownBy(() => rateLimit({ maxCalls: 0, windowMs: 1 })).data["field"]).toBe(
    "rateLimit.maxCalls",
  );
});
