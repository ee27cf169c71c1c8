// Stop conditions: plain functions over read-only facts that give reasons or nothing, and their combinations with or, and, not.

import { checkName, misdefinition } from "../kernel/check.ts";
import { deepFreeze, isRecord } from "../kernel/json.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import { StopReasonSchema, type StopReason } from "../protocol/stop.ts";
import { addUsage, NO_USAGE, subtractUsage, type Usage } from "../protocol/usage.ts";

/** What a stop condition may look at. */
export interface StopFacts {
  /** Steps of this execution, oldest first; the last one has just completed. Empty before the first step. */
  readonly steps: readonly StepRecord[];
  /** What the agent itself has consumed. */
  readonly usage: Usage;
  /** Since its start, without the time in which it waited for an answer or was paused (R34). */
  readonly elapsedMs: number;
}

/** A reason to stop, several when several conditions fired, or nothing. An empty list is nothing. */
export type StopConditionAnswer = StopReason | readonly StopReason[] | undefined;

/**
 * Called once before the first step and once after every step, in the order of the role's list. Gives the reason to stop, with a
 * code of your choice, or nothing. Of several reasons all are recorded, and the highest by rank is the one reported.
 * Must be pure and keep no state of its own: the same condition serves many runs at once (R63). If it throws or rejects, the run fails.
 */
export type StopCondition = (
  facts: StopFacts,
) => StopConditionAnswer | Promise<StopConditionAnswer>;

const FINISH_REASONS = [
  "stop",
  "tool_calls",
  "length",
  "content_filter",
  "error",
  "other",
  "unknown",
] as const;

/** Stops after a step in which the tool of this name was called; earlier steps do not count (R54). */
export function toolWasCalled(toolName: string): (facts: StopFacts) => StopReason | undefined {
  checkName("toolWasCalled(toolName)", toolName, /./, "the name of a tool");
  return named(`toolWasCalled(${toolName})`, ({ steps }: StopFacts) => {
    const last = steps.at(-1);
    if (last === undefined || !last.tools.calls.some((call) => call.toolName === toolName))
      return undefined;
    return {
      code: "tool_called",
      message: `The tool ${toolName} was called.`,
      data: { toolName, step: last.number },
    };
  });
}

/** Stops after a step whose reply ended for one of these reasons, also when it asked for tools; earlier steps do not count (R55). */
export function finishReasonWas(
  ...finishReasons: readonly (typeof FINISH_REASONS)[number][]
): (facts: StopFacts) => StopReason | undefined {
  checkFinishReasons(finishReasons);
  const wanted: ReadonlySet<string> = new Set(finishReasons);
  return named(`finishReasonWas(${finishReasons.join(", ")})`, ({ steps }: StopFacts) => {
    const last = steps.at(-1);
    if (last === undefined || !wanted.has(last.io.finishReason)) return undefined;
    const { finishReason } = last.io;
    return {
      code: "finish_reason",
      message: `The model's reply ended with the finish reason ${finishReason}.`,
      data: { finishReason, step: last.number },
    };
  });
}

/** Fires when at least one part fires. All parts are asked, one after the other, and every reason is given, in their order (R59). */
export function anyOf(...conditions: readonly StopCondition[]): StopCondition {
  checkParts("anyOf", conditions);
  return combination("anyOf", conditions, (facts) => askAny(conditions, facts));
}

/**
 * Fires when every part has fired, at this step or an earlier one of this execution: what fired stays fired (R60). Gives the reasons
 * of all parts in their order, each as it last fired, so that the result has a code and data that a part wrote, and says of each when.
 *
 * Nothing is remembered: a part that does not fire now is asked again about the earlier steps, the latest first, back to before the
 * first step. Parts are asked in order up to the first that has never fired; put those first that are quick.
 */
export function allOf(...conditions: readonly StopCondition[]): StopCondition {
  checkParts("allOf", conditions);
  return combination("allOf", conditions, (facts) => askAll(conditions, facts));
}

/**
 * Fires with `reason` after every step after which the condition does not; never before the first step. As a part
 * of `allOf` it stays fired like any other (R60): to say "this, and that has not happened", write a function that asks both.
 */
export function not(condition: StopCondition, reason: StopReason): StopCondition {
  checkPart("not(condition)", condition);
  const given = checkedReason(reason);
  return combination("not", [condition], (facts) => askNot({ condition, facts }, given));
}

/** A talk with conditions: yields questions, is told the reasons, and ends with its own reasons; none if it does not fire. */
type Asking = Generator<Question, readonly StopReason[], readonly StopReason[]>;

interface Question {
  readonly condition: StopCondition;
  readonly facts: StopFacts;
}

function combination(
  name: string,
  parts: readonly StopCondition[],
  ask: (facts: StopFacts) => Asking,
): StopCondition {
  const wholeName = `${name}(${parts.map(shownName).join(", ")})`;
  return named(wholeName, (facts: StopFacts) => drive(ask(facts)));
}

function* askAny(conditions: readonly StopCondition[], facts: StopFacts): Asking {
  const reasons: StopReason[] = [];
  for (const condition of conditions) reasons.push(...(yield { condition, facts }));
  return reasons;
}

function* askAll(conditions: readonly StopCondition[], facts: StopFacts): Asking {
  const reasons: StopReason[] = [];
  for (const condition of conditions) {
    const fired = yield* askSince(condition, facts);
    if (fired.length === 0) return [];
    reasons.push(...fired);
  }
  return reasons;
}

function* askSince(condition: StopCondition, facts: StopFacts): Asking {
  const now = yield { condition, facts };
  if (now.length > 0) return now;
  for (const earlier of earlierFacts(facts)) {
    const then = yield { condition, facts: earlier };
    if (then.length > 0) return then;
  }
  return [];
}

function* askNot(question: Question, reason: StopReason): Asking {
  const fired = yield question;
  return fired.length > 0 || question.facts.steps.length === 0 ? [] : [reason];
}

/** The facts as they stood after each earlier step, the latest first, and last those before the first step. */
function* earlierFacts({ steps }: StopFacts): Generator<StopFacts, void, undefined> {
  let usage = steps.reduce((sum, step) => addUsage(sum, step.telemetry.usage), NO_USAGE);
  for (const [index, step] of [...steps.entries()].toReversed()) {
    usage = subtractUsage(usage, step.telemetry.usage);
    const elapsedMs = steps[index - 1]?.telemetry.elapsedMs ?? 0;
    yield { steps: steps.slice(0, index), usage, elapsedMs };
  }
}

/** Asks question after question: at once while conditions answer at once, and from the first promise on later. */
function drive(asking: Asking): ReturnType<StopCondition> {
  let next = asking.next();
  while (next.done !== true) {
    const { condition, facts } = next.value;
    const answer = condition(facts);
    if (isPromiseLike(answer)) return driveLater(asking, condition, answer);
    next = asking.next(reasonsOf(condition, answer));
  }
  return answerOf(next.value);
}

async function driveLater(
  asking: Asking,
  asked: StopCondition,
  answer: PromiseLike<unknown>,
): Promise<StopConditionAnswer> {
  let next = asking.next(reasonsOf(asked, await answer));
  while (next.done !== true) {
    const { condition, facts } = next.value;
    next = asking.next(reasonsOf(condition, await condition(facts)));
  }
  return answerOf(next.value);
}

function answerOf(reasons: readonly StopReason[]): StopConditionAnswer {
  return reasons.length > 0 ? reasons : undefined;
}

function isPromiseLike(answer: unknown): answer is PromiseLike<unknown> {
  return isRecord(answer) && typeof answer["then"] === "function";
}

/** A part that answers something else must not count as fired, nor its negation as silent. */
function reasonsOf(condition: StopCondition, answer: unknown): readonly StopReason[] {
  if (answer === undefined) return [];
  const parsed = StopReasonSchema.array().safeParse(Array.isArray(answer) ? answer : [answer]);
  if (parsed.success) return parsed.data;
  throw new TypeError(
    `${shownName(condition)} returned something else than a reason, a list of reasons or nothing`,
  );
}

const MAX_NAME_LENGTH = 120;

function shownName({ name }: StopCondition): string {
  return name === "" ? "condition" : name;
}

/** Names the function for messages and debuggers. A long name loses its end, so that nesting does not let it grow. */
function named<F extends (facts: StopFacts) => unknown>(name: string, condition: F): F {
  const start = name.slice(0, MAX_NAME_LENGTH - 1).toWellFormed();
  const value = name.length > MAX_NAME_LENGTH ? `${start}…` : name;
  return Object.defineProperty(condition, "name", { value });
}

function checkParts(combinator: string, conditions: readonly unknown[]): void {
  const field = `${combinator}(conditions)`;
  if (conditions.length === 0)
    throw misdefinition(field, "at least one condition", undefined, "See toolWasCalled().");
  for (const [index, condition] of conditions.entries())
    checkPart(`${combinator}(conditions[${index}])`, condition);
}

function checkPart(field: string, condition: unknown): void {
  if (typeof condition === "function") return;
  const advice = Array.isArray(condition) ? "Spread the list." : "See toolWasCalled().";
  throw misdefinition(field, "a function", condition, advice);
}

function checkFinishReasons(finishReasons: readonly string[]): void {
  const known: readonly string[] = FINISH_REASONS;
  const expected = `one of ${known.join(", ")}`;
  const field = "finishReasonWas(finishReasons)";
  if (finishReasons.length === 0)
    throw misdefinition(field, expected, undefined, "Name at least one.");
  for (const [index, finishReason] of finishReasons.entries()) {
    if (known.includes(finishReason)) continue;
    const place = `finishReasonWas(finishReasons[${index}])`;
    throw misdefinition(place, expected, finishReason, "Correct the name.");
  }
}

function checkedReason(reason: unknown): StopReason {
  const parsed = StopReasonSchema.safeParse(reason);
  if (parsed.success) return deepFreeze(parsed.data); // Parsing copies.
  const advice = "It is what is reported when the condition does not fire.";
  throw misdefinition("not(reason)", "a reason with code, message and data", reason, advice);
}
