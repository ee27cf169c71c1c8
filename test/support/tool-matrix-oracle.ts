// Expected outcomes of wrapped calls, computed independently: calls are generators that wait for a
// time or for their turn, and time is a number. This file follows the documents of wrappers and
// guards, not their code.

import {
  ACTS,
  MAX_ATTEMPTS,
  TIMES,
  type Act,
  type CallRecord,
  type OrderCase,
  type OrderRecord,
  type Way,
  type Wrapper,
} from "./tool-matrix-orders.ts";

/** Expected outcome of two concurrent calls. */
export function expectedOrder({ order, act, way }: OrderCase): OrderRecord {
  const blocked = blockedRecord(way);
  const calls = blocked === undefined ? simulated(order, ACTS[act]) : [blocked, blocked];
  const isAborted = calls.some(({ severity }) => severity === "abortive");
  return {
    calls,
    status: isAborted ? "failed" : "completed",
    reason: isAborted ? "error" : "completed",
  };
}

/** A guard that denies, throws or returns nothing prevents the call, and no approver is asked. */
function blockedRecord(way: Way): CallRecord | undefined {
  if (way !== "deny" && way !== "throw" && way !== "slow") return undefined;
  return {
    triesAtMs: [],
    waitsMs: [],
    endedAtMs: way === "slow" ? TIMES.guard : 0,
    outcome: "refused",
    errorCode: "blocked",
    severity: "fatal",
    blockedBy: "calendar",
    questions: 0,
  };
}

type Wait =
  | { readonly type: "time"; readonly atMs: number }
  | { readonly type: "turn"; readonly untilMs: number };

interface Woken {
  readonly nowMs: number;
  readonly isTurn: boolean;
}

/** `cut`: an outer time limit expired, so the result of the call is not visible. */
type End = { readonly type: Exclude<Act, "hangs"> | "timeout" | "cut" };

type Course = Generator<Wait, End, Woken>;

/** A call in progress. */
interface Traveller {
  readonly course: Course;
  readonly triesAtMs: number[];
  readonly waitsMs: number[];
  wait: Wait | undefined;
  end: End | undefined;
  endedAtMs: number;
}

/** State that all calls of a run share: the time, and the queue of the rate limit. */
class World {
  nowMs = 0;
  lastStartMs = Number.NEGATIVE_INFINITY;
  line: readonly Traveller[] = [];

  get freeAtMs(): number {
    return Math.max(this.nowMs, this.lastStartMs + TIMES.limitSpan);
  }

  get isFree(): boolean {
    return this.line.length === 0 && this.freeAtMs === this.nowMs;
  }
}

function simulated(order: readonly Wrapper[], acts: readonly Act[]): readonly CallRecord[] {
  const world = new World();
  const travellers = [1, 2].map((): Traveller => {
    const triesAtMs: number[] = [];
    const waitsMs: number[] = [];
    const course = through(order, { world, acts, triesAtMs, waitsMs }, Infinity);
    return { course, triesAtMs, waitsMs, wait: undefined, end: undefined, endedAtMs: 0 };
  });
  for (const traveller of travellers) move(world, traveller, { nowMs: 0, isTurn: false });
  for (;;) {
    const next = earliest(world, travellers);
    if (next === undefined) break;
    world.nowMs = next.atMs;
    world.line = world.line.filter((other) => other !== next.traveller);
    move(world, next.traveller, { nowMs: next.atMs, isTurn: next.isTurn });
  }
  return travellers.map(({ triesAtMs, waitsMs, endedAtMs, end }) => ({
    triesAtMs,
    waitsMs,
    endedAtMs,
    ...outcomeOf(end),
    questions: 1,
  }));
}

function move(world: World, traveller: Traveller, woken: Woken): void {
  const next = traveller.course.next(woken);
  if (next.done === true) {
    Object.assign(traveller, { wait: undefined, end: next.value, endedAtMs: woken.nowMs });
    return;
  }
  traveller.wait = next.value;
  if (next.value.type === "turn") world.line = [...world.line, traveller];
}

interface Next {
  readonly traveller: Traveller;
  readonly atMs: number;
  readonly isTurn: boolean;
}

/** Returns the next call: the earliest, and of two at the same time the one that was made first. */
function earliest(world: World, travellers: readonly Traveller[]): Next | undefined {
  const coming = travellers.flatMap((traveller): readonly Next[] => {
    const { wait } = traveller;
    if (wait === undefined) return [];
    if (wait.type === "time") return [{ traveller, atMs: wait.atMs, isTurn: false }];
    const isNext = world.line[0] === traveller && world.freeAtMs < wait.untilMs;
    return [{ traveller, atMs: isNext ? world.freeAtMs : wait.untilMs, isTurn: isNext }];
  });
  return coming.toSorted((left, right) => left.atMs - right.atMs)[0];
}

interface Trip extends Pick<Traveller, "triesAtMs" | "waitsMs"> {
  readonly world: World;
  readonly acts: readonly Act[];
}

/** Runs a call through the remaining wrappers and the tool. It is cut off at `untilMs`. */
function* through(order: readonly Wrapper[], trip: Trip, untilMs: number): Course {
  const [wrapper, ...inner] = order;
  switch (wrapper) {
    case "approval":
      return yield* through(inner, trip, untilMs); // Asked long ago.
    case "timeout":
      return yield* timed(inner, trip, untilMs);
    case "retries":
      return yield* repeated(inner, trip, untilMs);
    case "limit":
      return yield* inTurn(inner, trip, untilMs);
    default:
      return yield* body(trip, untilMs);
  }
}

function* body({ world, acts, triesAtMs }: Trip, untilMs: number): Course {
  const act = acts[triesAtMs.length] ?? "answers";
  triesAtMs.push(world.nowMs);
  const isInTime = act !== "hangs" && world.nowMs + TIMES.body < untilMs;
  yield { type: "time", atMs: isInTime ? world.nowMs + TIMES.body : untilMs };
  return { type: isInTime ? act : "cut" };
}

function* timed(inner: readonly Wrapper[], trip: Trip, untilMs: number): Course {
  const ownMs = trip.world.nowMs + TIMES.timeout;
  const end = yield* through(inner, trip, Math.min(ownMs, untilMs));
  return end.type === "cut" && ownMs < untilMs ? { type: "timeout" } : end;
}

const REPEATED: ReadonlySet<End["type"]> = new Set(["fails", "timeout"]);

function* repeated(inner: readonly Wrapper[], trip: Trip, untilMs: number): Course {
  const { world, waitsMs } = trip;
  for (let attempt = 1; ; attempt += 1) {
    const end = yield* through(inner, trip, untilMs);
    if (attempt === MAX_ATTEMPTS || !REPEATED.has(end.type)) return end;
    const delayMs = attempt === 1 ? TIMES.firstDelay : TIMES.secondDelay;
    waitsMs.push(delayMs);
    const nextMs = world.nowMs + delayMs;
    yield { type: "time", atMs: Math.min(nextMs, untilMs) };
    if (nextMs >= untilMs) return { type: "cut" };
  }
}

function* inTurn(inner: readonly Wrapper[], trip: Trip, untilMs: number): Course {
  const { world } = trip;
  if (!world.isFree) {
    const { isTurn } = yield { type: "turn", untilMs };
    if (!isTurn) return { type: "cut" };
  }
  world.lastStartMs = world.nowMs;
  return yield* through(inner, trip, untilMs);
}

function outcomeOf(end: End | undefined): Pick<CallRecord, "outcome" | "errorCode" | "severity"> {
  switch (end?.type) {
    case "answers":
      return { outcome: "succeeded" };
    case "fails":
    case "no_json":
      return { outcome: "failed", errorCode: "tool_error", severity: "recoverable" };
    case "timeout":
      return { outcome: "failed", errorCode: "tool_timeout", severity: "recoverable" };
    case "retryable":
      return { outcome: "retry", errorCode: "tool_retry", severity: "retryable" };
    case "fatal":
      return { outcome: "failed", errorCode: "tool_error", severity: "fatal" };
    case "abortive":
      return { outcome: "failed", errorCode: "tool_error", severity: "abortive" };
    case "cut":
    case undefined:
      throw new Error("A call that does not say how it ended.");
  }
}
