// Comparison: the actions of a replay against the recorded ones, agent by agent. Owns the first
// difference. Ids agree; times and positions in traces may differ.

import { EspalierError } from "../../kernel/error.ts";
import { isRecord } from "../../kernel/json.ts";
import type { JournalRecord } from "../../orchestrator/durability/journal-record.ts";
import { isTime, isTimeOnly, type Action, type ActionReader } from "./action.ts";

/** The first difference between a replay and its recording. */
export interface Divergence extends Pick<Action, "agentPath" | "stepNumber"> {
  /** For example `state.conversation.messages[3].text`. */
  readonly field: string;
  /** `undefined` if nothing was recorded. */
  readonly expected: unknown;
  /** `undefined` if nothing came. */
  readonly got: unknown;
}

/** Fields that depend on what other agents have done by then, and so on the order of effects. */
const SHARED =
  /^(?:account|budget|leaseId|maxOutputTokens|remaining|runRemaining|subagentsByDepth)$/u;

/** Fields with values of the user's: everything in them is compared. */
const FOREIGN = /^(?:arguments|metadata|output|structured|toolCalls)$/u;

/** Sizes and hashes in events: the states from which they follow say more. */
const DERIVED = /^budget\.|^step\.started\..*Hash$/u;

export class Comparison {
  readonly #reader: ActionReader;
  readonly #isInOrder: boolean;
  readonly #expected: Map<string, Action[]>;
  readonly #done = new Set<Action>();
  /** The first difference in a recorded action. */
  found: Divergence | undefined;
  /** The first difference in a derived field, or an action that was not recorded. */
  #suspected: Divergence | undefined;

  /** `isInOrder`: effects end in the recorded order. */
  constructor(reader: ActionReader, expected: readonly Action[], isInOrder: boolean) {
    this.#reader = reader;
    this.#isInOrder = isInOrder;
    this.#expected = Map.groupBy(expected, (action) => this.#queueOf(action));
  }

  /** Compares a record that the replay writes. Returns the key of its action. */
  take(record: JournalRecord): string | undefined {
    const action = this.#reader.read(record);
    if (action === undefined || action.what === "lease") return action?.key;
    const { agentPath, stepNumber, what, facts, key } = action;
    const expected = this.#expected.get(this.#queueOf(action))?.shift();
    if (expected !== undefined) this.#done.add(expected);
    const difference =
      expected === undefined || expected.what === what
        ? this.#difference(what, expected?.facts, facts)
        : { field: "record", expected: expected.what, got: what };
    const found = difference && { agentPath, stepNumber, ...difference };
    if (expected === undefined || DERIVED.test(found?.field ?? "")) this.#suspected ??= found;
    else this.found ??= found;
    return key;
  }

  /** In another order, the events of one subagent do not wait for those of other subagents. */
  #queueOf({ agentId, what, facts }: Action): string {
    const isOfOne = what.startsWith("subagent.") || what === "tool.started";
    if (this.#isInOrder || !isOfOne || !isRecord(facts)) return agentId;
    return `${agentId} ${String(facts["childId"] ?? facts["callId"])}`;
  }

  /** True if the replay has done what was recorded. */
  isDone(expected: Action): boolean {
    return this.#done.has(expected);
  }

  /** Returns the first difference of a replay that has come to its end, or that does not continue. */
  get first(): Divergence | undefined {
    return this.found ?? this.#suspected;
  }

  #difference(
    field: string,
    expected: unknown,
    got: unknown,
    isForeign = false,
  ): Pick<Divergence, "field" | "expected" | "got"> | undefined {
    if (Object.is(expected, got) || (!isForeign && isJustTime(expected, got))) return undefined;
    const [was, is] = [fieldsOf(expected), fieldsOf(got)];
    if (was === undefined || is === undefined || Array.isArray(expected) !== Array.isArray(got))
      return { field, expected, got };
    const isOfTime = was["axis"] === "wallTimeMs";
    for (const key of Object.keys({ ...was, ...is })) {
      const isTimeSpent = isOfTime && (key === "current" || key === "spent");
      const isLeftOut = isTimeSpent || isTime(key) || (!this.#isInOrder && SHARED.test(key));
      if (isLeftOut && !isForeign) continue;
      const name = key.startsWith("[") ? `${field}${key}` : `${field}.${key}`;
      const found = this.#difference(name, was[key], is[key], isForeign || FOREIGN.test(key));
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

/** Returns the fields of an object, or the items of a list as `[0]`, `[1]` and so on. */
function fieldsOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  if (!Array.isArray(value)) return isRecord(value) ? value : undefined;
  return Object.fromEntries(value.map((item: unknown, index) => [`[${index}]`, item]));
}

/** True if only one of the values exists and holds nothing but times. */
function isJustTime(expected: unknown, got: unknown): boolean {
  if (expected !== undefined && got !== undefined) return false;
  const given = expected ?? got;
  return isRecord(given) && Object.keys(given).length > 0 && isTimeOnly(given);
}

const MOST_CHARACTERS = 200;
/** Characters that are shown before the first one that differs. */
const LEAD_IN = 40;

/** `texts`: by their hashes. */
export function divergenceError(
  { agentPath, stepNumber, field, expected, got }: Divergence,
  segment: number,
  texts: ReadonlyMap<unknown, string>,
): EspalierError {
  const textOf = (value: unknown): string => JSON.stringify(texts.get(value) ?? value) ?? "nothing";
  const [was, is] = [textOf(expected), textOf(got)];
  let same = 0;
  while (same < was.length && was[same] === is[same]) same += 1;
  const from = same > MOST_CHARACTERS / 2 ? same - LEAD_IN : 0;
  const [shownWas, shownIs] = [cut(was, from), cut(is, from)];
  const where = `in step ${stepNumber}${segment === 1 ? "" : ` of segment ${segment}`}`;
  return new EspalierError({
    code: "replay_diverged",
    message: `Expected ${agentPath} to do ${where} what was recorded, got another ${field}: ${shownWas} was recorded, ${shownIs} came. Find what changed in roles, prompts or tools, or record the run anew.`,
    data: { segment, agentPath, stepNumber, field, expected: shownWas, got: shownIs },
  });
}

function cut(text: string, from: number): string {
  const ending = text.length > from + MOST_CHARACTERS ? "…" : "";
  return `${from > 0 ? "…" : ""}${text.slice(from, from + MOST_CHARACTERS)}${ending}`;
}
