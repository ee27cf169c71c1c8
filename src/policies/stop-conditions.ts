// Stop conditions: functions of read-only facts that return reasons or nothing, and their
// combinations `anyOf`, `allOf` and `not`.

import { isPromiseLike } from "../kernel/cancel-signal.ts";
import { checkAtLeastOne, checkFunction, checkName, mismatch } from "../kernel/argument-checks.ts";
import { deepFreeze } from "../kernel/json.ts";
import { FINISH_REASONS, type FinishReason } from "../protocol/finish-reason.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import { StopReasonSchema, type StopReason } from "../protocol/stop.ts";
import { FINISH_TOOL_NAME } from "../protocol/tool-rule.ts";
import type { Usage } from "../protocol/usage.ts";

/**
 * The facts that a stop condition may read. `Context` is the type of the run context that the
 * condition reads.
 *
 * @example
 * ```ts
 * const isExpensive = ({ usage }: StopContext): boolean => usage.totalTokens > 50_000;
 * ```
 */
export interface StopContext<out Context = unknown> {
  /** Completed steps of this execution, oldest first. Empty before the first step. */
  readonly steps: readonly StepRecord[];
  /** Consumption of the agent itself, without its subagents. */
  readonly usage: Usage;
  /**
   * Milliseconds since the start of the agent, without pauses and time spent waiting for answers.
   */
  readonly elapsedMs: number;
  /**
   * The run context: the value passed as `context` to `start`, `resume` or `fork`.
   * `undefined` if none was passed.
   */
  readonly context: Context;
}

/**
 * A function that decides whether an agent stops, called before the first step and after every
 * step.
 *
 * The function returns a reason with a code of your choice, an array of reasons, or `undefined` to
 * continue. The codes `error`, `cancelled`, `completed`, `input_required` and `pause_requested` are
 * not allowed. All reasons are recorded, and the highest in rank is reported as the reason.
 *
 * The function must be pure and keep no state, because many runs share it. If it throws, rejects or
 * exceeds `hookTimeoutMs`, the agent fails.
 *
 * @example
 * ```ts
 * const enoughSearches: StopCondition = ({ steps }) => {
 *   const calls = steps.flatMap(({ tools }) => tools.calls);
 *   const searches = calls.filter(({ toolName }) => toolName === "search").length;
 *   if (searches < 5) return undefined;
 *   return { code: "enough_searches", message: "Five searches are enough.", data: { searches } };
 * };
 * ```
 */
export type StopCondition<Context = unknown> = (
  facts: StopContext<Context>,
) =>
  | StopConditionReason
  | readonly StopConditionReason[]
  | undefined
  | Promise<StopConditionReason | readonly StopConditionReason[] | undefined>;

/**
 * Reason that a stop condition returns: a {@link StopReason} whose `data` is optional.
 *
 * @example
 * ```ts
 * const reason: StopConditionReason = { code: "too_late", message: "The shop is closed." };
 * ```
 */
export type StopConditionReason = Omit<StopReason, "data"> & Partial<Pick<StopReason, "data">>;

/**
 * Returns a condition that stops the agent after a step in which the tool was called. The code of
 * the reason is `tool_called`.
 *
 * @throws EspalierError `invalid_argument` if the name is not a non-empty text.
 *
 * @example
 * ```ts
 * const publisher = defineAgent({
 *   name: "publisher",
 *   instructions: "Search once, then stop.",
 *   model,
 *   tools: [search],
 *   stopWhen: hasToolCall("search"),
 * });
 * ```
 */
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

/**
 * Returns a condition that stops the agent after its step with number `count`, or a later one, if
 * the step called tools. An agent that answers in that step completes. The code of the reason is
 * `step_count`.
 *
 * Only the agent's own steps count, as with `isStepCount` of the AI SDK. The steps of a budget
 * include those of the agent's subagents.
 *
 * @throws EspalierError `invalid_argument` if `count` is not a whole number from 1 up.
 *
 * @example
 * ```ts
 * const stopWhen = isStepCount(8);
 * ```
 */
export function isStepCount(count: number): (facts: StopContext) => StopReason | undefined {
  checkAtLeastOne("isStepCount(count)", count, "Pass the number of steps.");
  return setName(`isStepCount(${count})`, ({ steps }: StopContext) => {
    const last = steps.at(-1);
    if (last === undefined || steps.length < count || !hasOpenCalls(last)) return undefined;
    return {
      code: "step_count",
      message: `The agent took ${steps.length} steps, and isStepCount allows ${count}.`,
      data: { maximum: count, current: steps.length },
    };
  });
}

/** True for a step whose calls the model has to read in another step. */
function hasOpenCalls({ tools: { calls, executions } }: StepRecord): boolean {
  const isFinished = executions.some(
    ({ call, type }) => call.toolName === FINISH_TOOL_NAME && type === "succeeded",
  );
  return calls.length > 0 && !isFinished;
}

/**
 * Returns a condition that stops the agent after a step whose reply ended for one of these reasons,
 * even if it contains tool calls. The code of the reason is `finish_reason`.
 *
 * @throws EspalierError `invalid_argument` if no finish reason is given, or one is unknown.
 *
 * @example
 * ```ts
 * const stopWhen = hasFinishReason("length", "content_filter");
 * ```
 */
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

/**
 * Returns a condition that fires when at least one of the conditions fires. Calls all conditions in
 * order, and records every reason.
 *
 * @throws EspalierError `invalid_argument` if there are no conditions, or a condition is not a
 * function.
 *
 * @example
 * ```ts
 * const stopWhen = anyOf(hasToolCall("publish"), hasFinishReason("length"));
 * ```
 */
export function anyOf<Context = unknown>(
  ...conditions: readonly StopCondition<Context>[]
): StopCondition<Context>;
export function anyOf(...conditions: readonly StopCondition[]): StopCondition {
  checkParts("anyOf", conditions);
  return combine("anyOf", conditions, (answers) => answers.flat());
}

/**
 * Returns a condition that fires when every one of the conditions has fired, at this check or at an
 * earlier check of the same execution. The condition returns the reasons of all its parts, each as
 * last fired.
 *
 * The agent persists which conditions have fired. This requires `allOf` in `stopWhen`, directly or
 * inside other combinations. If a function of your own calls it, it fires only when all conditions
 * fire at once.
 *
 * @throws EspalierError `invalid_argument` if there are no conditions, or a condition is not a
 * function.
 *
 * @example
 * ```ts
 * const stopWhen = allOf(hasToolCall("search"), hasToolCall("save_note"));
 * ```
 */
export function allOf<Context = unknown>(
  ...conditions: readonly StopCondition<Context>[]
): StopCondition<Context>;
export function allOf(...conditions: readonly StopCondition[]): StopCondition {
  checkParts("allOf", conditions);
  return combine("allOf", conditions, collectFired);
}

/**
 * Returns a condition that fires with `reason` after every step at which the given condition does
 * not fire. The returned condition never fires before the first step.
 *
 * Inside `allOf` it stays fired once it has fired. For "A, and B has not happened", write a
 * function that checks both.
 *
 * @throws EspalierError `invalid_argument` if the condition is not a function, or the reason is
 * invalid.
 *
 * @example
 * ```ts
 * const brokenReply = not(hasFinishReason("stop", "tool_calls"), {
 *   code: "broken_reply",
 *   message: "The model did not finish its reply.",
 * });
 * ```
 */
export function not<Context = unknown>(
  condition: StopCondition<Context>,
  reason: StopConditionReason,
): StopCondition<Context>;
export function not(condition: StopCondition, reason: StopConditionReason): StopCondition {
  checkCondition("not(condition)", condition);
  const checkedReason = checkReason(reason);
  return combine("not", [condition], ([fired = []], { facts }) =>
    fired.length > 0 || facts.steps.length === 0 ? [] : [checkedReason],
  );
}

type Reasons = readonly StopReason[];

/** The input for checking a condition. */
export interface Check {
  readonly facts: StopContext;
  /**
   * Position of the condition in the role's list and in combinations: `0.1` is the second part of
   * the first.
   */
  readonly place: string;
  /** The last reasons of each part of `allOf` before this check, by position. */
  readonly fired: Readonly<Record<string, Reasons>>;
  /** The reasons of each part of `allOf` at this check, by position. Filled during the check. */
  readonly firing: Map<string, Reasons>;
}

/**
 * Evaluates a condition. A combination also gets the reasons that its parts returned at earlier
 * checks.
 */
export function evaluateCondition(
  condition: StopCondition,
  check: Check,
): ReturnType<StopCondition> {
  const combination = combinations.get(condition);
  return combination === undefined ? condition(check.facts) : askParts(combination, check, []);
}

interface Combination {
  readonly parts: readonly StopCondition[];
  /**
   * Returns the reasons of the combination from the reasons that its parts return at this check.
   */
  readonly conclude: (answers: readonly Reasons[], check: Check) => Reasons;
}

/** The parts of each combination. */
const combinations: WeakMap<StopCondition, Combination> = new WeakMap();

function combine(
  name: string,
  parts: readonly StopCondition[],
  conclude: Combination["conclude"],
): StopCondition {
  const whole = { parts, conclude };
  const condition = (facts: StopContext): ReturnType<StopCondition> =>
    askParts(whole, { facts, place: "", fired: {}, firing: new Map() }, []);
  combinations.set(condition, whole);
  return setName(`${name}(${parts.map(getShownName).join(", ")})`, condition);
}

/** Evaluates the remaining parts once each: synchronously, until one returns a promise. */
function askParts(
  whole: Combination,
  check: Check,
  answered: readonly Reasons[],
): ReturnType<StopCondition> {
  const answers = [...answered];
  for (const part of whole.parts.slice(answered.length)) {
    const answer = evaluateCondition(part, {
      ...check,
      place: findPartPlace(check, answers.length),
    });
    if (isPromiseLike(answer)) return askLater(whole, check, answers, { part, answer });
    answers.push(parseReasons(part, answer));
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
  const reasons = parseReasons(part, await answer);
  return await askParts(whole, check, [...answered, reasons]);
}

function collectFired(answers: readonly Reasons[], check: Check): Reasons {
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

/**
 * Returns the reasons in an answer of a condition. Throws a `TypeError` for any other value: it
 * must neither count as fired, nor its negation as silent.
 */
function parseReasons(condition: StopCondition, answer: unknown): readonly StopReason[] {
  if (answer === undefined) return [];
  const parsed = StopReasonSchema()
    .array()
    .safeParse(Array.isArray(answer) ? answer : [answer]);
  if (parsed.success) return parsed.data;
  throw new TypeError(
    `${getShownName(condition)} returned neither a reason, an array of reasons nor undefined`,
  );
}

const MAX_NAME_LENGTH = 120;

function getShownName({ name }: StopCondition): string {
  return name === "" ? "condition" : name;
}

/**
 * Names the function for messages and debuggers. Long names are cut, so that nesting does not let
 * them grow.
 */
function setName<F extends (facts: StopContext) => unknown>(name: string, condition: F): F {
  const start = name.slice(0, MAX_NAME_LENGTH - 1).toWellFormed();
  const value = name.length > MAX_NAME_LENGTH ? `${start}…` : name;
  return Object.defineProperty(condition, "name", { value });
}

function checkParts(combinator: string, conditions: readonly unknown[]): void {
  const field = `${combinator}(conditions)`;
  if (conditions.length === 0)
    throw mismatch(field, "at least one condition", undefined, "See hasToolCall().");
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
  if (finishReasons.length === 0) throw mismatch(field, expected, undefined, "Name at least one.");
  for (const [index, finishReason] of finishReasons.entries()) {
    if (known.includes(finishReason)) continue;
    const place = `hasFinishReason(finishReasons[${index}])`;
    throw mismatch(place, expected, finishReason, "Correct the name.");
  }
}

function checkReason(reason: unknown): StopReason {
  const parsed = StopReasonSchema().safeParse(reason);
  if (parsed.success) return deepFreeze(parsed.data); // A copy, made by parsing.
  const advice = "Pass the reason that the condition reports.";
  throw mismatch("not(reason)", "a reason with code and message", reason, advice);
}
