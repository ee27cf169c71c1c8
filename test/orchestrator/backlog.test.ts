// Goal: a reader gets every event once and in order, ends with the run, and if it is too slow fails alone.
// Method: events pushed by hand, reads before and after.

import { expect, test } from "vitest";

import { Backlog } from "../../src/orchestrator/run/run-readers.ts";
import type { EspalierEvent } from "../../src/protocol/event.ts";
import { sampleEvents } from "../support/sample-events.ts";
import { rejectionOf } from "../support/thrown.ts";

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

test("events that came before are read in order, then the end", async () => {
  const { events, closed } = backlog();
  take(events, FIRST, SECOND, ENDED);
  events.end();
  const read: unknown[] = [];
  for await (const event of events) read.push(event);
  expect([read, closed()]).toEqual([[FIRST, SECOND, ENDED], 1]);
});

test("reads that come first get the events as they come, one each, in order", async () => {
  const { events } = backlog();
  const reads = [events.next(), events.next(), events.next()];
  take(events, FIRST, SECOND, ENDED);
  expect(await Promise.all(reads)).toEqual([value(FIRST), value(SECOND), value(ENDED)]);
});

test("reads that are left over at the end are answered with it", async () => {
  const { events } = backlog();
  const reads = [events.next(), events.next(), events.next()];
  take(events, ENDED);
  events.end();
  expect(await Promise.all([...reads, events.next()])).toEqual([value(ENDED), DONE, DONE, DONE]);
});

test("as many unread events as allowed are kept, one more ends this reader after what was kept", async () => {
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

test("reading makes room again", async () => {
  const { events, closed } = backlog(1);
  for (const event of [FIRST, SECOND, THIRD]) {
    take(events, event);
    expect(await events.next()).toEqual(value(event));
  }
  expect(closed()).toBe(0);
});

test("a reader that keeps up needs no backlog at all", async () => {
  const { events } = backlog(0);
  const read = events.next();
  take(events, FIRST);
  expect(await read).toEqual(value(FIRST));
  take(events, SECOND);
  expect((await rejectionOf(events.next())).code).toBe("backlog_overflow");
});

test("a run that ends on a full backlog overflows it: its end is an event like any other", async () => {
  const { events, closed } = backlog(1);
  take(events, FIRST, ENDED);
  expect([await events.next(), closed()]).toEqual([value(FIRST), 1]);
  expect((await rejectionOf(events.next())).code).toBe("backlog_overflow");
});

test("a run that broke off gives what came before, then why it did, at every read", async () => {
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

test("the loop of a reader that is too slow throws", async () => {
  const { events } = backlog(1);
  take(events, FIRST, SECOND);
  const read: unknown[] = [];
  const loop = async (): Promise<void> => {
    for await (const event of events) read.push(event);
  };
  expect((await rejectionOf(loop())).code).toBe("backlog_overflow");
  expect(read).toEqual([FIRST]);
});

test("breaking off closes once, drops what is unread and answers who still waits", async () => {
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

test("closing again, and the end of the run after breaking off, close nothing a second time", async () => {
  const { events, closed } = backlog();
  await events.return();
  await events.return();
  events.end();
  events.end({ cause: new Error("too late") });
  expect(closed()).toBe(1);
});

test("two readers share nothing", async () => {
  const [fast, slow] = [backlog(1), backlog(1)];
  for (const event of [FIRST, SECOND]) {
    const read = fast.events.next();
    take(fast.events, event);
    take(slow.events, event);
    expect(await read).toEqual(value(event));
  }
  expect([fast.closed(), slow.closed()]).toEqual([0, 1]);
});
