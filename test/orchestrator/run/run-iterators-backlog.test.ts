// Goal: a reader receives every event once and in order, ends with the run, and fails alone if it
// is too slow.
// Method: events pushed by hand, reads before and after.

import { expect, test } from "vitest";

import { Backlog } from "../../../src/orchestrator/run/run-iterators.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { sampleEvents } from "../../support/sample-events.ts";
import { rejectionOf } from "../../support/thrown.ts";

const EVENTS = sampleEvents((run) => {
  run.started();
  run.root.lives();
  run.ended();
});
const [FIRST, SECOND, THIRD] = EVENTS;
const ENDED = EVENTS.at(-1);

function backlog(maxBacklog = 10): { readonly events: Backlog<EspalierEvent>; closed(): number } {
  let closed = 0;
  return {
    events: new Backlog<EspalierEvent>({ maxBacklog, onClose: () => void (closed += 1) }),
    closed: () => closed,
  };
}

const value = (event: EspalierEvent | undefined): unknown => ({ done: false, value: event });
const DONE = { done: true, value: undefined };

function take(
  events: Backlog<EspalierEvent>,
  ...list: readonly (EspalierEvent | undefined)[]
): void {
  for (const event of list) if (event !== undefined) events.take(event);
}

test("returns earlier events in order, then the end", async () => {
  const { events, closed } = backlog();
  take(events, FIRST, SECOND, ENDED);
  events.end();
  const read: unknown[] = [];
  for await (const event of events) read.push(event);
  expect([read, closed()]).toEqual([[FIRST, SECOND, ENDED], 1]);
});

test("resolves pending reads with the next events, one each, in order", async () => {
  const { events } = backlog();
  const reads = [events.next(), events.next(), events.next()];
  take(events, FIRST, SECOND, ENDED);
  expect(await Promise.all(reads)).toEqual([value(FIRST), value(SECOND), value(ENDED)]);
});

test("resolves reads that remain pending at the end as done", async () => {
  const { events } = backlog();
  const reads = [events.next(), events.next(), events.next()];
  take(events, ENDED);
  events.end();
  expect(await Promise.all([...reads, events.next()])).toEqual([value(ENDED), DONE, DONE, DONE]);
});

test("rejects a reader after the buffered events once more than maxBacklog are unread", async () => {
  const { events, closed } = backlog(2);
  take(events, FIRST, SECOND);
  expect(closed()).toBe(0);
  take(events, THIRD);
  expect(closed()).toBe(1);
  expect([await events.next(), await events.next()]).toEqual([value(FIRST), value(SECOND)]);
  expect(await rejectionOf(events.next())).toEqual({
    code: "backlog_overflow",
    message:
      "Cannot buffer more than 2 unread items: this reader is too slow. Read faster, or raise maxBacklog.",
    data: { maxBacklog: 2 },
  });
});

test("frees room by each read", async () => {
  const { events, closed } = backlog(1);
  for (const event of [FIRST, SECOND, THIRD]) {
    take(events, event);
    expect(await events.next()).toEqual(value(event));
  }
  expect(closed()).toBe(0);
});

test("needs no backlog for a reader that keeps up", async () => {
  const { events } = backlog(0);
  const read = events.next();
  take(events, FIRST);
  expect(await read).toEqual(value(FIRST));
  take(events, SECOND);
  expect((await rejectionOf(events.next())).code).toBe("backlog_overflow");
});

test("overflows by the final event of a run like by any other", async () => {
  const { events, closed } = backlog(1);
  take(events, FIRST, ENDED);
  expect([await events.next(), closed()]).toEqual([value(FIRST), 1]);
  expect((await rejectionOf(events.next())).code).toBe("backlog_overflow");
});

test("returns earlier events of a failed run, then rejects every read with its cause", async () => {
  const { events, closed } = backlog();
  const cause = new Error("disk full");
  const reads = [events.next(), events.next()];
  take(events, FIRST);
  events.end({ cause });
  take(events, SECOND);
  expect(await Promise.allSettled(reads)).toEqual([
    { status: "fulfilled", value: value(FIRST) },
    { status: "rejected", reason: cause },
  ]);
  expect(closed()).toBe(1);
  const late = backlog().events;
  take(late, FIRST, SECOND);
  late.end({ cause });
  late.end();
  expect([await late.next(), await late.next()]).toEqual([value(FIRST), value(SECOND)]);
  for (const _again of [1, 2]) await expect(late.next()).rejects.toBe(cause);
  expect([await late.return(), await late.next()]).toEqual([DONE, DONE]);
});

test("throws in the loop of a reader that is too slow", async () => {
  const { events } = backlog(1);
  take(events, FIRST, SECOND);
  const read: unknown[] = [];
  const loop = async (): Promise<void> => {
    for await (const event of events) read.push(event);
  };
  expect((await rejectionOf(loop())).code).toBe("backlog_overflow");
  expect(read).toEqual([FIRST]);
});

test("closes once when a loop breaks, drops unread events and resolves pending reads", async () => {
  const { events, closed } = backlog();
  take(events, FIRST, SECOND);
  for await (const event of events) {
    expect(event).toBe(FIRST);
    break;
  }
  expect([closed(), await events.next(), await events.next()]).toEqual([1, DONE, DONE]);
  const waiting = backlog();
  const read = waiting.events.next();
  expect(await waiting.events.return()).toEqual(DONE);
  expect([await read, waiting.closed()]).toEqual([DONE, 1]);
});

test("closes only once after repeated returns and a late end", async () => {
  const { events, closed } = backlog();
  await events.return();
  await events.return();
  events.end();
  events.end({ cause: new Error("too late") });
  expect(closed()).toBe(1);
});

test("shares no state between two readers", async () => {
  const [fast, slow] = [backlog(1), backlog(1)];
  for (const event of [FIRST, SECOND]) {
    const read = fast.events.next();
    take(fast.events, event);
    take(slow.events, event);
    expect(await read).toEqual(value(event));
  }
  expect([fast.closed(), slow.closed()]).toEqual([0, 1]);
});
