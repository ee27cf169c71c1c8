// Goal: the hooks of a chain build on one another, cannot change their input, and cannot delay a
// run without limit.
// Method: chains at every point with handlers that mutate, throw and hang; a manual clock.

import { getEventListeners } from "node:events";

import { expect, test } from "vitest";

import { transform } from "../../src/hooks/hook.ts";
import type { PointPatch, TransformPoint } from "../../src/hooks/hook-points.ts";
import { compileHooks } from "../../src/hooks/hook-set.ts";
import { runChain } from "../../src/hooks/run-chain.ts";
import { proves } from "../harness/proves.ts";
import { flushEventLoop } from "../harness/run-scripted.ts";
import { vandalised } from "../support/frozen.ts";
import { rejectionOf, type Thrown } from "../support/thrown.ts";
import { gives, INPUTS, MESSAGES, PATCHES, POINTS, run, setUp } from "../support/hook-chains.ts";

proves(["R81"], "shows a hook the arguments that an earlier hook wrote", async () => {
  const seen: unknown[] = [];
  const { patch, changedBy } = await run("beforeTool", [
    transform("beforeTool", () => ({ arguments: { query: "oaks" } }), { name: "one" }),
    transform("beforeTool", (input) => void seen.push(input.arguments), { name: "silent" }),
    transform(
      "beforeTool",
      async (input) => {
        seen.push(input.arguments);
        return { arguments: [input.arguments, "and more"] };
      },
      { name: "two" },
    ),
  ]);
  expect(seen).toEqual([{ query: "oaks" }, { query: "oaks" }]);
  expect(patch).toEqual({ arguments: [{ query: "oaks" }, "and more"] });
  expect(changedBy).toEqual([
    { hook: "one", fields: ["arguments"] },
    { hook: "two", fields: ["arguments"] },
  ]);
});

proves(["R81"], "shows a hook the changes of an earlier hook at every point", async () => {
  for (const point of POINTS) {
    const patch: PointPatch[TransformPoint] = PATCHES[point][0] ?? {};
    if ("continueWith" in patch) continue;
    const shown: unknown[] = [];
    const watch = [point, (input: unknown) => void shown.push(input)];
    await run(point, [gives(point, patch), Reflect.apply(transform, undefined, watch)]);
    const visible = Object.entries(patch).filter(([field]) => field in INPUTS[point]);
    expect(shown).toEqual([{ ...INPUTS[point], ...Object.fromEntries(visible) }]);
  }
});

test("merges patches by field, and metadata by key; later values win", async () => {
  const { patch } = await run("afterTool", [
    transform("afterTool", () => ({ text: "1", metadata: { a: 1, b: { x: 1 } } })),
    transform("afterTool", () => ({ metadata: { b: { y: 2 } } })),
    transform("afterTool", () => ({ text: "3" })),
  ]);
  expect(patch).toEqual({ text: "3", metadata: { a: 1, b: { y: 2 } } });
});

test("ends the chain at a refusal, a deny and a veto", async () => {
  for (const [point, final] of [
    ["userInput", { task: "Other.", refuse: "No." }],
    ["beforeTool", { deny: "No." }],
    ["stop", { continueWith: "More." }],
    ["subagentStop", { continueWith: "More." }],
  ] as const) {
    const later = gives(point, { typo: 1 });
    const outcome = await run(point, [gives(point, {}), gives(point, final), later]);
    expect(outcome).toEqual({
      patch: final,
      changedBy: [{ hook: "odd", fields: Object.keys(final) }],
    });
  }
});

test("prevents a handler from changing its input and the original", async () => {
  for (const point of POINTS) {
    const before = JSON.stringify(INPUTS[point]);
    const damage: unknown[] = [];
    const vandal = (input: unknown, context: object): void => {
      damage.push(vandalised(input), Reflect.set(context, "hookName", "me"));
    };
    const hooks = [
      gives(point, PATCHES[point][0]),
      Reflect.apply(transform, undefined, [point, vandal]),
    ];
    await run(point, hooks.toReversed());
    expect([damage, JSON.stringify(INPUTS[point])]).toEqual([[[], false], before]);
    expect(Object.isFrozen(INPUTS[point])).toBe(false);
  }
});

test("shows frozen input without copying it", async () => {
  const { bounds } = setUp();
  const messages = Object.freeze([...MESSAGES]);
  const seen: unknown[] = [];
  const chain = compileHooks([
    transform("beforeCompaction", (input) => void seen.push(input.messages)),
  ]).chain("beforeCompaction");
  await runChain(
    "beforeCompaction",
    chain,
    { messages, inputTokens: 1, maxInputTokens: 2 },
    bounds,
  );
  expect(seen[0]).toBe(messages);
});

test("fails the chain with the hook's name, point and cause if a hook throws or rejects", async () => {
  const later: string[] = [];
  for (const attempt of [
    () => {
      throw new Error("boom");
    },
    () => Promise.reject(new Error("boom")),
  ]) {
    const hooks = [
      transform("beforeTool", attempt, { name: "audit" }),
      transform("beforeTool", () => void later.push("called")),
    ];
    const outcome: unknown = await run("beforeTool", hooks).catch((cause: unknown) => cause);
    expect(outcome).toMatchObject({
      code: "hook_failed",
      message: 'The hook "audit" failed at beforeTool: boom',
      data: { point: "beforeTool", hook: "audit" },
      cause: new Error("boom"),
    });
  }
  expect(later).toEqual([]);
});

test("passes its path, name and metadata to a hook and accepts its stop request", async () => {
  const fixture = setUp();
  const hook = transform(
    "beforeModel",
    (_input, { agentPath, hookName, metadata, requestStop }) =>
      requestStop(`${agentPath} ${hookName} ${JSON.stringify(metadata)}`),
    { name: "brake" },
  );
  await run("beforeModel", [hook], fixture);
  expect(fixture.stops).toEqual(['brake: lead brake {"tenant":"acme"}']);
});

test("fails the chain at the time limit of a hook that does not settle", async () => {
  for (const late of ["value", "rejection"]) {
    const fixture = setUp();
    const work = Promise.withResolvers<undefined>();
    const signals: AbortSignal[] = [];
    const hook = transform(
      "stop",
      (_input, { signal }) => {
        signals.push(signal);
        return work.promise;
      },
      { name: "slow" },
    );
    const outcomes: Thrown[] = [];
    void rejectionOf(run("stop", [hook], fixture)).then((thrown) => outcomes.push(thrown));
    fixture.clock.advance(999);
    await flushEventLoop();
    expect([outcomes, signals[0]?.aborted]).toEqual([[], false]);
    fixture.clock.advance(1);
    await flushEventLoop();
    const data = { point: "stop", hook: "slow", timeoutMs: 1_000, wasCancelled: false };
    expect(outcomes.map((thrown) => [thrown.code, thrown.data])).toEqual([["hook_timeout", data]]);
    expect(signals[0]?.aborted).toBe(true);
    if (late === "value") work.resolve(undefined);
    else work.reject(new Error("late"));
    await flushEventLoop();
    fixture.controller.abort();
    expect([outcomes.length, fixture.clock.pendingTimers]).toEqual([1, 0]);
    expect(getEventListeners(fixture.controller.signal, "abort")).toHaveLength(0);
  }
});

test("gives each hook of a chain the full time limit", async () => {
  const fixture = setUp();
  const works = [Promise.withResolvers<undefined>(), Promise.withResolvers<undefined>()];
  const outcome = run(
    "stop",
    works.map(({ promise }) => transform("stop", () => promise)),
    fixture,
  );
  for (const { resolve } of works) {
    fixture.clock.advance(900);
    resolve(undefined);
    await flushEventLoop();
  }
  expect([(await outcome).changedBy, fixture.clock.pendingTimers]).toEqual([[], 0]);
});

test("gives a hook of a cancelled agent the grace period only", async () => {
  const fixture = setUp();
  const signals: AbortSignal[] = [];
  const hook = transform(
    "stop",
    (_input, { signal }) => {
      signals.push(signal);
      return new Promise<undefined>(() => undefined);
    },
    { name: "deaf" },
  );
  const outcome = rejectionOf(run("stop", [hook], fixture));
  fixture.controller.abort("enough");
  expect(signals[0]?.reason).toBe("enough");
  fixture.clock.advance(10);
  const { code, data } = await outcome;
  expect([code, data]).toEqual([
    "hook_timeout",
    { point: "stop", hook: "deaf", graceMs: 10, wasCancelled: true },
  ]);
  expect(fixture.clock.pendingTimers).toBe(0);
});

test("leaves no timer or listener after a hook has settled", async () => {
  const fixture = setUp();
  await run(
    "stop",
    [transform("stop", () => undefined), transform("stop", async () => undefined)],
    fixture,
  );
  expect(fixture.clock.pendingTimers).toBe(0);
  expect(getEventListeners(fixture.controller.signal, "abort")).toHaveLength(0);
});
