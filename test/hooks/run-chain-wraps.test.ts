// Goal: wraps nest around a call, processors run one after the other, and observers cannot affect a
// run.
// Method: hooks that record when they are called, and hooks that misbehave.

import { expect, test } from "vitest";

import { observe, processStep, wrapToolCall, type Hook } from "../../src/hooks/hook.ts";
import { compileHooks } from "../../src/hooks/hook-set.ts";
import { notify, runProcessors, runInsideWraps } from "../../src/hooks/run-chain.ts";
import { deepFreeze } from "../../src/kernel/json.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import { flushEventLoop } from "../harness/run-scripted.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import { sampleEvents } from "../support/sample-events.ts";
import { rejectionOf } from "../support/thrown.ts";
import { setUp, STEP } from "../support/hook-chains.ts";

const callId = CallIdSchema().parse("call_1");

const oak = (): Promise<unknown> => Promise.resolve("oak");

/** Runs `inner` inside the wraps of a list, as a tool call. */
function call(hooks: readonly Hook[], inner: () => Promise<unknown>): Promise<unknown> {
  const { bounds } = setUp();
  return runInsideWraps(
    compileHooks(hooks).toolWraps("search"),
    (hookName) => ({
      toolName: "search",
      callId,
      arguments: { query: "trees" },
      context: bounds.createContext(hookName),
    }),
    inner,
    bounds,
  );
}

test("runs the first wrap outermost, each under its own name", async () => {
  const log: string[] = [];
  const skin = (name: string, priority = 0): Hook =>
    wrapToolCall(
      async ({ context, toolName }, next) => {
        log.push(`${context.hookName} before ${toolName}`);
        const result = await next();
        log.push(`${context.hookName} after`);
        return `${name}(${String(result)})`;
      },
      { name, priority },
    );
  const result = await call([skin("inner"), skin("outer", 1)], async () => {
    log.push("tool");
    return "oak";
  });
  expect(result).toBe("outer(inner(oak))");
  expect(log).toEqual([
    "outer before search",
    "inner before search",
    "tool",
    "inner after",
    "outer after",
  ]);
});

test("makes the call directly if there are no wraps", async () => {
  expect(await call([], oak)).toBe("oak");
});

test("returns the value of a wrap that does not call next", async () => {
  let runs = 0;
  const inner = async (): Promise<unknown> => {
    runs += 1;
    return "oak";
  };
  expect(await call([wrapToolCall(() => "cached")], inner)).toBe("cached");
  expect(runs).toBe(0);
});

test("allows a wrap to retry the call", async () => {
  let runs = 0;
  const retry = wrapToolCall((_call, next) => next().catch(() => next()));
  const inner = async (): Promise<unknown> => {
    runs += 1;
    if (runs === 1) throw new Error("flaky");
    return "oak";
  };
  expect([await call([retry], inner), runs]).toEqual(["oak", 2]);
});

test("passes an error of the call unchanged through any number of wraps", async () => {
  const error = new Error("no network");
  const through = wrapToolCall(async (_call, next) => await next());
  const outcome = call([through, through], () => Promise.reject(error));
  expect(await outcome.catch((cause: unknown) => cause)).toBe(error);
});

test("names the innermost wrap that threw", async () => {
  const bad = wrapToolCall(
    () => {
      throw new Error("boom");
    },
    { name: "bad" },
  );
  const worse = wrapToolCall(
    async (_call, next) => {
      await next();
      throw new Error("boom later");
    },
    { name: "worse" },
  );
  const through = wrapToolCall((_call, next) => next());
  expect([
    await rejectionOf(call([through, bad], oak)),
    await rejectionOf(call([worse, through], oak)),
  ]).toEqual([
    {
      code: "hook_failed",
      message: 'The hook "bad" failed at wrapToolCall: boom',
      data: { point: "wrapToolCall", hook: "bad" },
    },
    {
      code: "hook_failed",
      message: 'The hook "worse" failed at wrapToolCall: boom later',
      data: { point: "wrapToolCall", hook: "worse" },
    },
  ]);
});

test("refuses a call of next after its wrap has settled", async () => {
  let runs = 0;
  const kept: (() => Promise<unknown>)[] = [];
  const keeper = wrapToolCall(
    (_call, next) => {
      kept.push(next);
      return "early";
    },
    { name: "keeper" },
  );
  await call([keeper], async () => {
    runs += 1;
  });
  const { code, data } = await rejectionOf(Promise.resolve(kept[0]?.()));
  expect([code, data["hook"], runs]).toEqual(["invalid_hook_result", "keeper", 0]);
});

test("handles the rejection of a call that its wrap does not await", async () => {
  const away = wrapToolCall((_call, next) => {
    void next();
    return "away";
  });
  expect(await call([away], () => Promise.reject(new Error("unseen")))).toBe("away");
});

test("shows wraps a frozen call", async () => {
  const damage: unknown[] = [];
  const vandal = wrapToolCall((shown, next) => {
    damage.push(Reflect.set(shown, "arguments", {}), Reflect.set(shown, "toolName", "rm"));
    return next();
  });
  await call([vandal], oak);
  expect(damage).toEqual([false, false]);
});

test("runs processors in order, one at a time, with the step", async () => {
  const log: string[] = [];
  const slow = async (): Promise<void> => {
    await flushEventLoop();
    log.push("two");
  };
  const hooks = compileHooks([
    processStep(() => void log.push("three"), { priority: -1 }),
    processStep((step) => void log.push(`one ${step.number}`)),
    processStep(slow),
  ]);
  await runProcessors(hooks.processors, STEP, setUp().bounds);
  expect(log).toEqual(["one 1", "two", "three"]);
});

test("stops at the first processor that fails", async () => {
  const log: string[] = [];
  const hooks = compileHooks([
    processStep(() => void log.push("one")),
    processStep(() => Promise.reject(new Error("boom")), { name: "second" }),
    processStep(() => void log.push("three")),
  ]);
  const thrown = await rejectionOf(runProcessors(hooks.processors, STEP, setUp().bounds));
  expect([thrown, log]).toEqual([
    {
      code: "hook_failed",
      message: 'The hook "second" failed at processStep: boom',
      data: { point: "processStep", hook: "second" },
    },
    ["one"],
  ]);
});

test("ends a processor that exceeds its time limit", async () => {
  const fixture = setUp();
  const hang = processStep(() => new Promise<void>(() => undefined), { name: "hang" });
  const outcome = rejectionOf(runProcessors(compileHooks([hang]).processors, STEP, fixture.bounds));
  fixture.clock.advance(1_000);
  const { code, data } = await outcome;
  expect([code, data["point"], data["hook"]]).toEqual(["hook_timeout", "processStep", "hang"]);
});

test("calls observers in order and reports each one's error once, without affecting the run", async () => {
  const [event] = sampleEvents((run) => run.started());
  if (event === undefined) throw new Error("Expected an event.");
  deepFreeze(event);
  const log: string[] = [];
  const { observers } = compileHooks([
    observe("run.started", () => Promise.reject(new Error("later")), { name: "rejects" }),
    observe(
      "run.started",
      () => {
        throw new Error("at once");
      },
      { name: "throws" },
    ),
    observe("run.started", () => new Promise<void>(() => undefined), { name: "hangs" }),
    observe("run.started", (shown, { hookName }) => void log.push(`${shown.task} ${hookName}`), {
      name: "fine",
    }),
    observe("run.started", (shown) => void log.push(String(Reflect.set(shown, "task", "mine")))),
  ]);
  for (let time = 0; time < 3; time += 1) notify(observers("run.started"), event, undefined);
  const once = [`${event.type === "run.started" ? event.task : ""} fine`, "false"];
  expect(log).toEqual([...once, ...once, ...once]);
  await flushEventLoop();
  expect(takeWarnings().toSorted()).toEqual([
    'EspalierWarning: The hook "rejects" threw at run.started (later); the run continues.',
    'EspalierWarning: The hook "throws" threw at run.started (at once); the run continues.',
  ]);
});
