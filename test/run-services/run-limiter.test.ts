// Goal: at most as many calls run as there are slots, in order, and no aborted call takes or keeps
// a slot.
// Method: work that ends when the test opens its latch.

import { expect, test } from "vitest";

import { EspalierError } from "../../src/kernel/error.ts";
import { Throttle } from "../../src/kernel/throttle.ts";
import { DEFAULT_CONCURRENCY, RunLimiter } from "../../src/run-services/run-limiter.ts";
import { proves } from "../harness/proves.ts";
import { latch, flushEventLoop } from "../harness/run-scripted.ts";
import { rejectionOf } from "../support/thrown.ts";

type Kind = "model" | "tool";

const broken = (): Promise<never> =>
  Promise.reject(new EspalierError({ code: "model_timeout", message: "late" }));

/** Executes work in a slot, and releases the slot after it. */
async function inSlot<T>(
  slots: RunLimiter,
  kind: Kind,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T | undefined> {
  const entered = kind === "model" ? slots.acquireModelSlot(signal) : slots.acquireToolSlot(signal);
  const release = entered instanceof Promise ? await entered : entered;
  if (release === undefined) return undefined;
  try {
    return await work();
  } finally {
    release();
  }
}

/** A piece of work in a slot: its state, its result, and methods to end or abort it. */
class Job {
  readonly #latch = latch();
  readonly #controller = new AbortController();
  state: "waiting" | "running" | "ended" = "waiting";
  result: unknown = "none yet";

  constructor(slots: RunLimiter, kind: Kind, log: string[], name: string) {
    const work = async (): Promise<string> => {
      this.state = "running";
      log.push(name);
      await this.#latch.opened;
      return `${name} done`;
    };
    const ended = inSlot(slots, kind, this.#controller.signal, work);
    void ended.then((result) => {
      this.state = "ended";
      this.result = result;
    });
  }

  async end(): Promise<void> {
    this.#latch.open();
    await flushEventLoop();
  }

  async abort(): Promise<void> {
    this.#controller.abort();
    await flushEventLoop();
  }
}

function crowd(concurrency: { readonly modelCalls: number; readonly toolCalls: number }) {
  const slots = new RunLimiter(concurrency, new Throttle(64));
  const begun: string[] = [];
  const jobs: Job[] = [];
  const add = async (kind: Kind, name: string): Promise<Job> => {
    const job = new Job(slots, kind, begun, name);
    jobs.push(job);
    await flushEventLoop();
    return job;
  };
  const states = (): readonly string[] => jobs.map((job) => job.state);
  return { slots, begun, add, states };
}

test("allows 1,024 model calls and 1,024 tool executions at once by default", () => {
  expect(DEFAULT_CONCURRENCY).toEqual({ modelCalls: 1_024, toolCalls: 1_024 });
  expect(Object.isFrozen(DEFAULT_CONCURRENCY)).toBe(true);
});

proves(["X19"], "starts two of five calls, and the others in their order", async () => {
  const { add, states, begun } = crowd({ modelCalls: 2, toolCalls: 1 });
  const [one, two, three] = [
    await add("model", "1"),
    await add("model", "2"),
    await add("model", "3"),
  ];
  await add("model", "4");
  await add("model", "5");
  expect(states()).toEqual(["running", "running", "waiting", "waiting", "waiting"]);
  await two.end();
  expect(states()).toEqual(["running", "ended", "running", "waiting", "waiting"]);
  await three.end();
  await one.end();
  expect(states()).toEqual(["ended", "ended", "ended", "running", "running"]);
  expect([begun, one.result]).toEqual([["1", "2", "3", "4", "5"], "1 done"]);
});

proves(["X19"], "counts model calls and tool executions in separate slots", async () => {
  const { add, states } = crowd({ modelCalls: 2, toolCalls: 1 });
  await add("model", "m1");
  await add("tool", "t1");
  await add("tool", "t2");
  await add("model", "m2");
  await add("model", "m3");
  expect(states()).toEqual(["running", "running", "waiting", "running", "waiting"]);
});

test("starts work in the same tick if a slot is free", () => {
  let hasBegun = false;
  void inSlot(
    new RunLimiter({ modelCalls: 1, toolCalls: 1 }, new Throttle(64)),
    "model",
    new AbortController().signal,
    () => {
      hasBegun = true;
      return Promise.resolve();
    },
  );
  expect(hasBegun).toBe(true);
});

test("resolves an aborted waiting call at once without starting it, and serves the next", async () => {
  const { add, states, begun } = crowd({ modelCalls: 1, toolCalls: 1 });
  const one = await add("model", "1");
  const two = await add("model", "2");
  await add("model", "3");
  await two.abort();
  expect([states(), two.result]).toEqual([["running", "ended", "waiting"], undefined]);
  await one.end();
  expect([states(), begun]).toEqual([
    ["ended", "ended", "running"],
    ["1", "3"],
  ]);
});

test("starts no call that was aborted before", async () => {
  const { slots } = crowd({ modelCalls: 1, toolCalls: 1 });
  let hasBegun = false;
  const result = await inSlot(slots, "tool", AbortSignal.abort(), () => {
    hasBegun = true;
    return Promise.resolve("done");
  });
  expect([hasBegun, result]).toEqual([false, undefined]);
});

test("holds the slot of aborted work until the work has ended", async () => {
  const { add, states } = crowd({ modelCalls: 1, toolCalls: 1 });
  const one = await add("model", "1");
  await add("model", "2");
  await one.abort();
  expect(states()).toEqual(["running", "waiting"]);
  await one.end();
  expect([states(), one.result]).toEqual([["ended", "running"], "1 done"]);
});

test("holds the slot of aborted work that had waited until the work has ended", async () => {
  const { add, states } = crowd({ modelCalls: 1, toolCalls: 1 });
  const one = await add("model", "1");
  const two = await add("model", "2");
  await add("model", "3");
  await one.end();
  await two.abort();
  expect(states()).toEqual(["ended", "running", "waiting"]);
  await two.end();
  expect([states(), two.result]).toEqual([["ended", "ended", "running"], "2 done"]);
});

test("starts further work after all waiting calls were aborted", async () => {
  const { add, states } = crowd({ modelCalls: 1, toolCalls: 1 });
  const one = await add("model", "1");
  const waiting = [await add("model", "2"), await add("model", "3"), await add("model", "4")];
  for (const job of waiting) await job.abort();
  await one.end();
  await add("model", "5");
  expect(states()).toEqual(["ended", "ended", "ended", "ended", "running"]);
});

test("releases the slot of work that throws, and rejects with its error, whether it waited or not", async () => {
  const slots = new RunLimiter({ modelCalls: 1, toolCalls: 1 }, new Throttle(64));
  const { signal } = new AbortController();
  const both = [inSlot(slots, "model", signal, broken), inSlot(slots, "model", signal, broken)].map(
    rejectionOf,
  );
  expect((await Promise.all(both)).map(({ code }) => code)).toEqual([
    "model_timeout",
    "model_timeout",
  ]);
  expect(await inSlot(slots, "model", signal, () => Promise.resolve("next"))).toBe("next");
});

proves(["X19"], "executes a hundred calls over three slots, at most three at once", async () => {
  const slots = new RunLimiter({ modelCalls: 3, toolCalls: 1 }, new Throttle(64));
  let active = 0;
  let most = 0;
  const done = await Promise.all(
    Array.from({ length: 100 }, (_item, index) =>
      inSlot(slots, "model", new AbortController().signal, async () => {
        active += 1;
        most = Math.max(most, active);
        for (let turn = 0; turn <= index % 4; turn += 1) await Promise.resolve();
        active -= 1;
        return index;
      }),
    ),
  );
  expect([most, active, done]).toEqual([
    3,
    0,
    Array.from({ length: 100 }, (_item, index) => index),
  ]);
});

proves(
  ["X19"],
  "starts no extra call when calls wait again after the queue was empty",
  async () => {
    const { add, states } = crowd({ modelCalls: 2, toolCalls: 1 });
    const [one, two, three] = [
      await add("model", "1"),
      await add("model", "2"),
      await add("model", "3"),
    ];
    await one.end();
    await two.end();
    await add("model", "4");
    await add("model", "5");
    expect(states()).toEqual(["ended", "ended", "running", "running", "waiting"]);
    await three.end();
    expect(states()).toEqual(["ended", "ended", "ended", "running", "running"]);
  },
);

test("spreads concurrent model calls over turns of the event loop, two per turn", async () => {
  const slots = new RunLimiter(DEFAULT_CONCURRENCY, new Throttle(2));
  const begun: number[] = [];
  const { signal } = new AbortController();
  const work = (index: number) => () => Promise.resolve(begun.push(index));
  const done = [0, 1, 2, 3, 4].map((index) => inSlot(slots, "model", signal, work(index)));
  expect(begun).toEqual([0, 1]);
  await Promise.all(done);
  expect(begun).toEqual([0, 1, 2, 3, 4]);
});
