// Goal: wrappers apply to a tool in the order in which they are written, and each keeps its meaning
// in every order.
// Method: call the same tool in different wrappings without a run, with a manual clock.

import { expect, test } from "vitest";

import { ToolRetryError } from "../../../src/tools/tool-error.ts";
import type { FunctionTool } from "../../../src/tools/tool.ts";
import { isToolTimeout, createToolTimeout } from "../../../src/tools/tool-timeout.ts";
import { withApproval } from "../../../src/tools/wrappers/with-approval.ts";
import { withRateLimit } from "../../../src/tools/wrappers/rate-limit.ts";
import { withRetries } from "../../../src/tools/wrappers/with-retries.ts";
import { withTimeout } from "../../../src/tools/wrappers/with-timeout.ts";
import { proves } from "../../harness/proves.ts";
import { CallFixture, never, toolThat, useOf, type CallEnd } from "../../support/tool-calls.ts";

type Wrapper = (tool: FunctionTool) => FunctionTool;

interface Trial {
  /** The start time of each attempt. */
  readonly startsMs: readonly number[];
  readonly endedAtMs: number;
  readonly end: CallEnd;
  readonly retries: number;
  readonly pendingTimers: number;
}

/**
 * Calls a tool in these wrappers, outermost first, and advances the clock by tens until the call
 * ends.
 */
async function trial(
  wrappers: readonly Wrapper[],
  execute: (attempt: number) => unknown,
): Promise<Trial> {
  const fixture = new CallFixture();
  const nowMs = (): number => fixture.clock.nowMs() - 1_000;
  const startsMs: number[] = [];
  const tool = toolThat("deploy", () => {
    startsMs.push(nowMs());
    return execute(startsMs.length);
  });
  const call = fixture.call(wrappers.reduceRight((inner, wrap) => wrap(inner), tool));
  for (;;) {
    const end = await call.now();
    if (end !== undefined) {
      const { pendingTimers } = fixture.clock;
      return { startsMs, endedAtMs: nowMs(), end, retries: fixture.notes.length, pendingTimers };
    }
    fixture.clock.advance(10);
  }
}

const within: (timeoutMs: number) => Wrapper = (timeoutMs) => (tool) =>
  withTimeout(tool, { timeoutMs });
const tries: Wrapper = (tool) => withRetries(tool, { maxAttempts: 3, initialDelayMs: 100 });
const onceIn: (windowMs: number) => Wrapper = (windowMs) => (tool) =>
  withRateLimit(tool, { maxCalls: 1, windowMs });
const asks: Wrapper = (tool) => withApproval(tool, { reason: "Real money." });

/** Hangs twice and succeeds at the third attempt. */
const hangsTwice = (attempt: number): unknown => (attempt < 3 ? never() : "deployed");

function failsTwice(attempt: number): unknown {
  if (attempt < 3) throw new Error("broken");
  return "deployed";
}

proves(
  ["R120"],
  "bounds all attempts if the time limit is around retries, and each attempt if it is inside",
  async () => {
    expect(await trial([within(500), tries], hangsTwice)).toEqual({
      startsMs: [0],
      endedAtMs: 500,
      end: { type: "threw", error: createToolTimeout("deploy", 500) },
      retries: 0,
      pendingTimers: 0,
    });
    expect(await trial([tries, within(500)], hangsTwice)).toEqual({
      startsMs: [0, 600, 1_300],
      endedAtMs: 1_300,
      end: { type: "returned", value: "deployed" },
      retries: 2,
      pendingTimers: 0,
    });
  },
);

test("applies both limits, to each attempt and to all together", async () => {
  expect(await trial([within(1_000), tries, within(500)], hangsTwice)).toEqual({
    startsMs: [0, 600],
    endedAtMs: 1_000,
    end: { type: "threw", error: createToolTimeout("deploy", 1_000) },
    retries: 1,
    pendingTimers: 0,
  });
});

test("ends the delay between attempts when an outer time limit expires", async () => {
  expect(await trial([within(150), tries], failsTwice)).toEqual({
    startsMs: [0, 100],
    endedAtMs: 150,
    end: { type: "threw", error: createToolTimeout("deploy", 150) },
    retries: 2,
    pendingTimers: 0,
  });
});

test("counts attempts if the rate limit is inside retries, and calls if it is around them", async () => {
  const inside = await trial([tries, onceIn(1_000)], failsTwice);
  const around = await trial([onceIn(1_000), tries], failsTwice);
  expect([inside.startsMs, around.startsMs]).toEqual([
    [0, 1_000, 2_000],
    [0, 100, 300],
  ]);
});

test("includes the wait for a rate limit in an outer time limit, but not in an inner one", async () => {
  const ends = [];
  for (const order of [
    [within(500), onceIn(1_000)],
    [onceIn(1_000), within(500)],
  ]) {
    const fixture = new CallFixture();
    const tool = order.reduceRight(
      (inner, wrap) => wrap(inner),
      toolThat("deploy", () => "deployed"),
    );
    await fixture.call(tool).ended;
    const second = fixture.call(tool);
    fixture.clock.advance(500);
    const soon = await second.now();
    fixture.clock.advance(500);
    const later = await second.now();
    ends.push([soon?.type, later, fixture.clock.pendingTimers]);
  }
  expect(ends).toEqual([
    ["threw", { type: "threw", error: createToolTimeout("deploy", 500) }, 0],
    [undefined, { type: "returned", value: "deployed" }, 0],
  ]);
});

test("requests approval once and first, at every position among the wrappers", async () => {
  const others = [within(500), tries, onceIn(1_000)];
  for (const place of [0, 1, 2, 3]) {
    const order = others.toSpliced(place, 0, asks);
    const tool = order.reduceRight(
      (inner, wrap) => wrap(inner),
      toolThat("deploy", () => "deployed", { needsApproval: () => "It is Friday." }),
    );
    const { needsApproval } = useOf(tool);
    if (typeof needsApproval !== "function") expect.unreachable("it decides call by call");
    const fixture = new CallFixture();
    expect(await needsApproval(fixture.context())).toBe("It is Friday. Real money.");
    expect(await fixture.call(tool).ended).toEqual({ type: "returned", value: "deployed" });
  }
});

test("preserves the properties and the outcome of the tool in every order of all four wrappers", async () => {
  const value = { rows: [1] };
  for (const order of orders([asks, within(500), tries, onceIn(1_000)])) {
    const { end, pendingTimers } = await trial(order, () => value);
    expect([end.type === "returned" && end.value === value, pendingTimers]).toEqual([true, 0]);
    const request = new ToolRetryError("Give a date.");
    const { startsMs, end: refused } = await trial(order, () => Promise.reject(request));
    expect([startsMs, refused.type === "threw" && refused.error === request]).toEqual([[0], true]);
    const hanging = await trial(order, never);
    expect([hanging.end.type === "threw" && isToolTimeout(hanging.end.error)]).toEqual([true]);
    expect(hanging.pendingTimers).toBe(0);
  }
});

function orders<T>(things: readonly T[]): readonly (readonly T[])[] {
  if (things.length === 0) return [[]];
  return things.flatMap((first, index) =>
    orders(things.toSpliced(index, 1)).map((others) => [first, ...others]),
  );
}

test("ends a cancelled tool through all wrappers in every order, within the grace period", async () => {
  for (const order of orders([asks, within(500), tries, onceIn(1_000)])) {
    const fixture = new CallFixture();
    const tool = order.reduceRight((inner, wrap) => wrap(inner), toolThat("deploy", never));
    const first = fixture.call(tool);
    const second = fixture.call(tool);
    await second.now();
    fixture.controller.abort();
    await second.now();
    fixture.clock.advance(50);
    expect([(await first.now())?.type, (await second.now())?.type]).toEqual(["threw", "threw"]);
    expect(fixture.clock.pendingTimers).toBe(0);
  }
});

test("preserves the properties of a tool instance of a class", () => {
  class Deploy implements FunctionTool {
    readonly kind = "function";
    readonly name = "deploy";
    readonly inputSchema = { type: "object" };
    readonly sequential = true;
    readonly retryAfterCrash = false;
    get description(): string {
      return "Deploys.";
    }
    get settings(): FunctionTool["settings"] {
      return { maxRetries: 7 };
    }
    bind(): ReturnType<FunctionTool["bind"]> {
      return toolThat("deploy", () => 1).bind({});
    }
  }
  const { bind: _bind, ...wrapped } = withTimeout(withRetries(new Deploy()), { timeoutMs: 1 });
  expect(wrapped).toEqual({
    kind: "function",
    name: "deploy",
    description: "Deploys.",
    inputSchema: { type: "object" },
    settings: { maxRetries: 7 },
    sequential: true,
    retryAfterCrash: false,
  });
});
