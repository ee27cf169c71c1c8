// Goal: an endpoint has few batches at once; what holds the tree together goes first; an endpoint that is gone holds nothing up; and
// every batch is answered once.
// Method: an exporter whose answers are given by hand.

import { context, createContextKey, trace } from "@opentelemetry/api";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { expect, test } from "vitest";

import { ManualClock } from "../../src/testing/manual-clock.ts";
import type {
  AnySpanExporter,
  AnyExportResult,
  FinishedSpan,
} from "../../src/telemetry/delivery/any-sdk.ts";
import { ExportLimiter } from "../../src/telemetry/delivery/export-limiter.ts";
import { proves } from "../harness/proves.ts";
import { settled } from "../harness/run-scripted.ts";

const SUCCESS: AnyExportResult = { code: 0 };
const FAILURE: AnyExportResult = { code: 1, error: new Error("gone") };

/** Batches are named by a span that only has a name. */
function setUp(): {
  readonly limiter: ExportLimiter;
  readonly clock: ManualClock;
  readonly exported: readonly string[];
  readonly answered: readonly string[];
  readonly errors: readonly string[];
  answer(name: string, result: AnyExportResult): void;
  send(name: string, isUrgent?: boolean): void;
} {
  const exported: string[] = [];
  const answered: string[] = [];
  const errors: string[] = [];
  const open = new Map<string, (result: AnyExportResult) => void>();
  const exporter: AnySpanExporter = {
    export: (spans, done) => {
      const name = String(spans[0]?.attributes["name"]);
      exported.push(name);
      open.set(name, done);
      if (name === "broken") throw new Error("broken");
      if (name === "rejects") return Promise.reject(new Error("rejected"));
      if (name === "resolves") return Promise.resolve();
      if (name === "odd") return UNREADABLE;
      return undefined;
    },
    shutdown: () => Promise.resolve(),
  };
  const clock = new ManualClock();
  const limiter = new ExportLimiter(exporter, { timeoutMs: 1_000, clock });
  return {
    limiter,
    clock,
    exported,
    answered,
    errors,
    answer: (name, result) => open.get(name)?.(result),
    send: (name, isUrgent = false) =>
      limiter.send([span(name)], isUrgent, ({ code, error }) => {
        answered.push(`${name} ${code}`);
        if (error !== undefined) errors.push(String(error));
      }),
  };
}

/** As a promise of another make may be: asking for its `then` fails. */
const UNREADABLE = new Proxy(
  {},
  {
    get: () => {
      throw new Error("not to be read");
    },
  },
);

function span(name: string): FinishedSpan {
  const ids = { traceId: "a".repeat(32), spanId: "b".repeat(16), traceFlags: 1 };
  return { attributes: { name }, spanContext: () => ids };
}

const EIGHT = ["1", "2", "3", "4", "5", "6", "7", "8"];

test("eight batches are in flight; then the urgent ones go first, each queue in its order", () => {
  const { send, answer, exported } = setUp();
  for (const name of [...EIGHT, "9", "10"]) send(name);
  send("urgent 1", true);
  send("urgent 2", true);
  expect(exported).toEqual(EIGHT);
  for (const name of ["3", "1", "urgent 1", "2"]) answer(name, SUCCESS);
  expect(exported).toEqual([...EIGHT, "urgent 1", "urgent 2", "9", "10"]);
});

test("eight failures in a row give up what waits; one success among them does not", () => {
  const { send, answer, exported, answered } = setUp();
  for (const name of [...EIGHT, "9", "10"]) send(name);
  for (const name of EIGHT.slice(0, 7)) answer(name, FAILURE);
  answer("8", SUCCESS);
  expect(exported).toEqual([...EIGHT, "9", "10"]);
  for (const name of ["11", "12", "13", "14", "15", "16", "17"]) send(name);
  for (const name of ["9", "10", "11", "12", "13", "14", "15"]) answer(name, FAILURE);
  send("18");
  answer("16", FAILURE);
  const failed = ["11", "12", "13", "14", "15", "16", "17", "18"];
  expect(answered.slice(10)).toEqual(failed.map((name) => `${name} 1`));
  send("19");
  expect(exported.at(-1)).toBe("19");
});

test("what waits is given up with the failure of the eighth, and is never exported", () => {
  const { send, answer, exported, answered } = setUp();
  for (const name of [...EIGHT, "9", "10"]) send(name);
  send("urgent", true);
  for (const name of EIGHT.slice(0, 5)) answer(name, FAILURE);
  send("11");
  for (const name of EIGHT.slice(5)) answer(name, FAILURE);
  expect(exported).toEqual(EIGHT);
  expect(answered).toEqual([...EIGHT, "urgent", "9", "10", "11"].map((name) => `${name} 1`));
});

test("an endpoint that was gone is tried with one batch, and has eight again when it takes it", () => {
  const { send, answer, exported } = setUp();
  for (const name of EIGHT) send(name);
  for (const name of EIGHT) answer(name, FAILURE);
  const later = ["9", "10", "11", "12", "13", "14", "15", "16", "17", "18"];
  for (const name of later) send(name);
  expect(exported).toEqual([...EIGHT, "9"]);
  answer("9", SUCCESS);
  expect(exported).toEqual([...EIGHT, ...later.slice(0, 9)]);
});

test("each batch is answered once, also by an exporter that answers twice or throws", async () => {
  const { send, answer, answered, limiter } = setUp();
  send("broken");
  send("twice");
  answer("broken", SUCCESS);
  answer("twice", SUCCESS);
  answer("twice", FAILURE);
  await limiter.idle();
  expect(answered).toEqual(["broken 1", "twice 0"]);
});

test("an export that is a promise fails when it rejects, and is not over when it resolves", async () => {
  const { send, answer, answered, limiter, clock } = setUp();
  for (const name of ["rejects", "resolves", "odd"]) send(name);
  await settled();
  expect(answered).toEqual(["rejects 1", "odd 1"]);
  answer("resolves", SUCCESS);
  answer("rejects", SUCCESS);
  await limiter.idle();
  expect([answered, clock.pendingTimers]).toEqual([["rejects 1", "odd 1", "resolves 0"], 0]);
});

test("two batches are sent alone after eight timeouts; then the others fail unsent", () => {
  const { send, answered, errors, exported, clock } = setUp();
  for (const name of [...EIGHT, "9", "10", "11", "12"]) send(name);
  clock.advance(1_000);
  expect(exported).toEqual([...EIGHT, "9"]);
  clock.advance(1_000);
  expect(exported).toEqual([...EIGHT, "9", "10"]);
  clock.advance(1_000);
  expect(answered).toEqual([...EIGHT, "9", "10", "11", "12"].map((name) => `${name} 1`));
  expect(exported).toHaveLength(10);
  expect(errors.slice(8)).toEqual([
    "TimeoutError: no answer within 1,000 ms",
    "TimeoutError: no answer within 1,000 ms",
    "Error: given up after no answer within 1,000 ms",
    "Error: given up after no answer within 1,000 ms",
  ]);
});

/** Sends 40 batches to an endpoint that serves one request after another. */
function sendToSerialEndpoint(serviceMs: number): {
  readonly served: number;
  readonly confirmed: number;
  readonly elapsedMs: number;
} {
  const clock = new ManualClock();
  let [served, confirmed, freeAtMs] = [0, 0, 0];
  const exporter: AnySpanExporter = {
    export: (_spans, done) => {
      freeAtMs = Math.max(freeAtMs, clock.monotonicMs()) + serviceMs;
      clock.setTimer(freeAtMs - clock.monotonicMs(), () => {
        served += 1;
        done(SUCCESS);
      });
    },
    shutdown: () => Promise.resolve(),
  };
  const limiter = new ExportLimiter(exporter, { timeoutMs: 10_000, clock });
  for (let batch = 0; batch < 40; batch += 1)
    limiter.send([span(String(batch))], false, ({ code }) => {
      if (code === 0) confirmed += 1;
    });
  // Every batch in flight has a timer, here or in the limiter.
  while (clock.pendingTimers > 0) clock.advance(100);
  return { served, confirmed, elapsedMs: clock.monotonicMs() };
}

proves(["D470"], "an endpoint that serves one request after another receives every batch", () => {
  expect(sendToSerialEndpoint(1_000)).toEqual({ served: 40, confirmed: 40, elapsedMs: 40_000 });
  const reports = [1_500, 2_000, 3_000].map(sendToSerialEndpoint);
  expect(reports.map(({ served }) => served)).toEqual([40, 40, 40]);
  // Only the requests of the first seconds time out, before fewer are in flight.
  for (const { confirmed } of reports) expect(confirmed).toBeGreaterThan(40 - 12);
});

test("what is never answered fails in the end, a late answer is ignored, and others continue", async () => {
  const { send, answer, answered, exported, limiter, clock } = setUp();
  for (const name of EIGHT) send(name);
  clock.advance(400);
  answer("1", SUCCESS);
  send("9");
  send("10");
  clock.advance(599);
  expect(answered).toEqual(["1 0"]);
  clock.advance(1);
  expect(answered).toEqual(["1 0", ...EIGHT.slice(1).map((name) => `${name} 1`)]);
  answer("2", SUCCESS);
  answer("9", SUCCESS);
  answer("10", SUCCESS);
  await limiter.idle();
  expect([exported.slice(8), answered.slice(8), clock.pendingTimers]).toEqual([
    ["9", "10"],
    ["9 0", "10 0"],
    0,
  ]);
});

test("it is idle when nothing waits and nothing is in flight", async () => {
  const { send, answer, limiter } = setUp();
  await limiter.idle();
  const told: string[] = [];
  for (const name of [...EIGHT, "9"]) send(name);
  const idle = limiter.idle().then(() => told.push("idle"));
  for (const name of EIGHT) answer(name, SUCCESS);
  await Promise.resolve();
  told.push("the last");
  answer("9", SUCCESS);
  await idle;
  expect(told).toEqual(["the last", "idle"]);
});

test("a batch is exported in the context in which it was sent", () => {
  new NodeTracerProvider().register({ propagator: null });
  const key = createContextKey("whose");
  const seen: unknown[] = [];
  const answers: ((result: AnyExportResult) => void)[] = [];
  const exporter: AnySpanExporter = {
    export: (_spans, done) => {
      seen.push(context.active().getValue(key));
      answers.push(done);
    },
    shutdown: () => Promise.resolve(),
  };
  const limiter = new ExportLimiter(exporter, { timeoutMs: 1_000, clock: new ManualClock() });
  for (let batch = 1; batch <= 9; batch += 1) {
    const sent = context.active().setValue(key, batch);
    context.with(sent, () => limiter.send([], false, () => {}));
  }
  for (const answer of answers) answer(SUCCESS);
  context.disable();
  trace.disable();
  expect(seen).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
});
