// Stop conditions: plain functions over read-only facts that give reasons or nothing, and their combinations with or, and, not.

import { isPromiseLike } from "../kernel/cancel.ts";
import { checkFunction, checkName, misdefinition } from "../kernel/check.ts";
import { deepFreeze } from "../kernel/json.ts";
import { FINISH_REASONS, type FinishReason } from "../protocol/finish-reason.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import { StopReasonSchema, type StopReason } from "../protocol/stop.ts";
import type { Usage } from "../protocol/usage.ts";

/** What a stop condition may look at. `Context`: what the condition asks of the run's context; default: nothing. */
export interface StopContext<out Context = unknown> {
  /** Steps of this execution, oldest first; the last one has just completed. Empty before the first step. */
  readonly steps: readonly StepRecord[];
  /** What the agent itself has consumed. */
  readonly usage: Usage;
  /** Since its start, without the time in which it waited for an answer or was paused. */
  readonly elapsedMs: number;
  /** The context of the run: the very value that was given with it; undefined: none was. */
  readonly context: Context;
}

/**
 * Called once before the first step and once after every step, in the order of the role's list. Gives the reason to stop, with a
 * code of your choice, a list of such reasons, or nothing. Of several reasons all are recorded, and the highest by rank is the one reported.
 * Must be pure and keep no state of its own: the same condition serves many runs at once. If it throws or rejects, the run fails.
 */
export type StopCondition<Context = unknown> = (
  facts: StopContext<Context>,
) =>
  | StopReason
  | readonly StopReason[]
  | undefined
  | Promise<StopReason | readonly StopReason[] | undefined>;

/** Stops after a step in which the tool of this name was called; earlier steps do not count. */
export function hasToolCall(toolName: string): (facts: StopContext) => StopReason | undefined {
  checkName("hasToolCall(toolName)", toolName, /./, "the name of a tool");
  return setName(`hasToolCall(${toolName})`, ({ steps }: StopContext) => {
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

/** Stops after a step whose reply ended for one of these reasons, also when it asked for tools; earlier steps do not count. */
export function hasFinishReason(
  ...finishReasons: readonly FinishReason[]
): (facts: StopContext) => StopReason | undefined {
  checkFinishReasons(finishReasons);
  const reasons: ReadonlySet<string> = new Set(finishReasons);
  return setName(`hasFinishReason(${finishReasons.join(", ")})`, ({ steps }: StopContext) => {
    const last = steps.at(-1);
    if (last === undefined || !reasons.has(last.io.finishReason)) return undefined;
    const { finishReason } = last.io;
    return {
      code: "finish_reason",
      message: `The model's reply ended with the finish reason ${finishReason}.`,
      data: { finishReason, step: last.number },
    };
  });
}

/** Fires when at least one part fires. All parts are asked, one after the other, and every reason is given, in their order. */
export function anyOf<Context = unknown>(
  ...conditions: readonly StopCondition<Context>[]
): StopCondition<Context>;
export function anyOf(...conditions: readonly StopCondition[]): StopCondition {
  checkParts("anyOf", conditions);
  return combination("anyOf", conditions, (answers) => answers.flat());
}

/**
 * Fires when every part has fired, at this check or an earlier one of this execution: what fired stays fired. Gives the reasons
 * of all parts in their order, each as it last fired, so that the result has a code and data that a part wrote, and says of each when.
 * Every check asks each part once, one after the other, also those that have fired.
 *
 * The agent remembers what fired, over a pause and a crash too; the condition itself keeps nothing. That holds for `allOf` in
 * `stopWhen`, also as a part of other combinations. Called by a function of your own it knows of nothing earlier, and fires when all
 * parts fire at once.
 */
export function allOf<Context = unknown>(
  ...conditions: readonly StopCondition<Context>[]
): StopCondition<Context>;
export function allOf(...conditions: readonly StopCondition[]): StopCondition {
  checkParts("allOf", conditions);
  return combination("allOf", conditions, allFired);
}

/**
 * Fires with `reason` after every step after which the condition does not; never before the first step. As a part
 * of `allOf` it stays fired like any other: to say "this, and that has not happened", write a function that asks both.
 */
export function not<Context = unknown>(
  condition: StopCondition<Context>,
  reason: StopReason,
): StopCondition<Context>;
export function not(condition: StopCondition, reason: StopReason): StopCondition {
  checkCondition("not(condition)", condition);
  const given = checkedReason(reason);
  return combination("not", [condition], ([fired = []], { facts }) =>
    fired.length > 0 || facts.steps.length === 0 ? [] : [given],
  );
}

type Reasons = readonly StopReason[];

/** One asking of a condition. */
export interface Check {
  readonly facts: StopContext;
  /** Where the condition stands in the role's list and in combinations: `0.1` is the second part of the first. */
  readonly place: string;
  /** What parts of `allOf` gave when they last fired before this check, by their place. */
  readonly fired: Readonly<Record<string, Reasons>>;
  /** What parts of `allOf` give at this check, by their place; filled while it runs. */
  readonly firing: Map<string, Reasons>;
}

/** Asks a condition. A combination is asked with what its parts gave at earlier checks, any other with the facts alone. */
export function askCondition(condition: StopCondition, check: Check): ReturnType<StopCondition> {
  const combination = combinations.get(condition);
  return combination === undefined ? condition(check.facts) : askParts(combination, check, []);
}

interface Combination {
  readonly parts: readonly StopCondition[];
  /** The reasons of the whole, from what each part gives at this check. */
  readonly conclude: (answers: readonly Reasons[], check: Check) => Reasons;
}

/** What each combination is made of. */
const combinations: WeakMap<StopCondition, Combination> = new WeakMap();

function combination(
  name: string,
  parts: readonly StopCondition[],
  conclude: Combination["conclude"],
): StopCondition {
  const whole = { parts, conclude };
  const condition = (facts: StopContext): ReturnType<StopCondition> =>
    askParts(whole, { facts, place: "", fired: {}, firing: new Map() }, []);
  combinations.set(condition, whole);
  return setName(`${name}(${parts.map(shownName).join(", ")})`, condition);
}

/** Asks the parts behind those that have answered, each once: at once while they answer at once, and from the first promise on later. */
function askParts(
  whole: Combination,
  check: Check,
  answered: readonly Reasons[],
): ReturnType<StopCondition> {
  const answers = [...answered];
  for (const part of whole.parts.slice(answered.length)) {
    const answer = askCondition(part, { ...check, place: findPartPlace(check, answers.length) });
    if (isPromiseLike(answer)) return askLater(whole, check, answers, { part, answer });
    answers.push(reasonsOf(part, answer));
  }
  const reasons = whole.conclude(answers, check);
  return reasons.length > 0 ? reasons : undefined;
}

async function askLater(
  whole: Combination,
  check: Check,
  answered: readonly Reasons[],
  { part, answer }: { readonly part: StopCondition; readonly answer: PromiseLike<unknown> },
): Promise<Awaited<ReturnType<StopCondition>>> {
  const reasons = reasonsOf(part, await answer);
  return await askParts(whole, check, [...answered, reasons]);
}

function allFired(answers: readonly Reasons[], check: Check): Reasons {
  const latest = answers.map((now, index) => {
    const place = findPartPlace(check, index);
    if (now.length === 0) return check.fired[place] ?? [];
    check.firing.set(place, now);
    return now;
  });
  return latest.every(({ length }) => length > 0) ? latest.flat() : [];
}

function findPartPlace({ place }: Check, index: number): string {
  return `${place}.${index}`;
}

/** A part that answers something else must not count as fired, nor its negation as silent. */
function reasonsOf(condition: StopCondition, answer: unknown): readonly StopReason[] {
  if (answer === undefined) return [];
  const parsed = StopReasonSchema()
    .array()
    .safeParse(Array.isArray(answer) ? answer : [answer]);
  if (parsed.success) return parsed.data;
  throw new TypeError(
    `${shownName(condition)} returned neither a reason, an array of reasons nor undefined`,
  );
}

const MAX_NAME_LENGTH = 120;

function shownName({ name }: StopCondition): string {
  return name === "" ? "condition" : name;
}

/** Names the function for messages and debuggers. A long name loses its end, so that nesting does not let it grow. */
function setName<F extends (facts: StopContext) => unknown>(name: string, condition: F): F {
  const start = name.slice(0, MAX_NAME_LENGTH - 1).toWellFormed();
  const value = name.length > MAX_NAME_LENGTH ? `${start}…` : name;
  return Object.defineProperty(condition, "name", { value });
}

function checkParts(combinator: string, conditions: readonly unknown[]): void {
  const field = `${combinator}(conditions)`;
  if (conditions.length === 0)
    throw misdefinition(field, "at least one condition", undefined, "See hasToolCall().");
  for (const [index, condition] of conditions.entries())
    checkCondition(`${combinator}(conditions[${index}])`, condition);
}

function checkCondition(field: string, condition: unknown): void {
  const advice = Array.isArray(condition) ? "Spread the list." : "See hasToolCall().";
  checkFunction(field, condition, advice);
}

function checkFinishReasons(finishReasons: readonly string[]): void {
  const known: readonly string[] = FINISH_REASONS;
  const expected = `one of ${known.join(", ")}`;
  const field = "hasFinishReason(finishReasons)";
  if (finishReasons.length === 0)
    throw misdefinition(field, expected, undefined, "Name at least one.");
  for (const [index, finishReason] of finishReasons.entries()) {
    if (known.includes(finishReason)) continue;
    const place = `hasFinishReason(finishReasons[${index}])`;
    throw misdefinition(place, expected, finishReason, "Correct the name.");
  }
}

function checkedReason(reason: unknown): StopReason {
  const parsed = StopReasonSchema().safeParse(reason);
  if (parsed.success) return deepFreeze(parsed.data); // Parsing copies.
  const advice = "Pass the reason that the condition reports.";
  throw misdefinition("not(reason)", "a reason with code, message and data", reason, advice);
}
