// Comparison: what a replay did against what was recorded, agent by agent. Owns what the replay did that was not compared yet.
// Ids agree, since a replay is given those of the recording; times and positions in traces need not.

import { isRecord } from "../../kernel/json.ts";
import type { JournalRecord } from "../../orchestrator/durability/journal-record.ts";
import { ActionReader, isTime, isTimeOnly, type AgentPositions, type Action } from "./actions.ts";

/** Where a replay goes its own way. */
export interface Divergence {
  readonly agentPath: string;
  /** 0: before the first step. */
  readonly stepNumber: number;
  /** What differs: `state.conversation.messages[3].text`, `budget.reserved.inputTokens`. */
  readonly field: string;
  /** Undefined: nothing was recorded. */
  readonly expected: unknown;
  /** Undefined: nothing came. */
  readonly got: unknown;
}

/** What depends on what others have done by then, and so on their order. */
const SHARED: ReadonlySet<string> = new Set([
  "account",
  "budget",
  "leaseId",
  "maxOutputTokens",
  "remaining",
  "runRemaining",
  "subagentsByDepth",
]);

/** Parts that are the user's own: nothing in them is left out. */
const FOREIGN: ReadonlySet<string> = new Set([
  "arguments",
  "metadata",
  "output",
  "structured",
  "toolCalls",
]);

export interface ComparisonOptions {
  readonly isInOrder: boolean;
  readonly positions: AgentPositions;
}

export class Comparison {
  readonly #reader: ActionReader;
  readonly #actions = new Map<string, Action[]>();
  readonly #isInOrder: boolean;

  /** `isInOrder`: effects end in the order in which they did. `positions`: of agents that exist already. */
  constructor({ isInOrder, positions }: ComparisonOptions) {
    this.#reader = new ActionReader(positions);
    this.#isInOrder = isInOrder;
  }

  /** Takes what the replay wrote. True: it is an action. */
  take(record: JournalRecord): boolean {
    const action = this.#reader.read(record);
    if (action === undefined) return false;
    const line = this.#lineOf(action);
    const actions = this.#actions.get(line);
    if (actions === undefined) this.#actions.set(line, [action]);
    else actions.push(action);
    return true;
  }

  /** Actions of an agent come one after the other; in another order, what concerns one subagent does not wait for what concerns others. */
  #lineOf({ agentId, what, facts }: Action): string {
    const isOfOne = what.startsWith("subagent.") || what === "tool.started";
    if (this.#isInOrder || !isOfOne || !isRecord(facts)) return agentId;
    return `${agentId} ${String(facts["childId"] ?? facts["callId"])}`;
  }

  /** True if the agent has done something instead of this that was not compared yet. */
  hasNext(expected: Action): boolean {
    return (this.#actions.get(this.#lineOf(expected))?.length ?? 0) > 0;
  }

  /** Looks at the next action of the agent; undefined: it is what was recorded. */
  check(expected: Action): Divergence | undefined {
    const got = this.#actions.get(this.#lineOf(expected))?.shift();
    const { what, facts } = expected;
    if (got === undefined)
      return { ...positionOf(expected), field: what, expected: facts, got: undefined };
    if (what !== got.what)
      return { ...positionOf(expected), field: "record", expected: what, got: got.what };
    const found = this.#differenceIn(what, facts, got.facts);
    return found && { ...positionOf(expected), ...found };
  }

  /** The first difference in what follows, as far as the replay has come. */
  firstIn(following: readonly Action[]): Divergence | undefined {
    for (const expected of following) {
      const found = this.hasNext(expected) ? this.check(expected) : undefined;
      if (found !== undefined) return found;
    }
    return this.surplus();
  }

  /** Something that was done and not recorded. */
  surplus(): Divergence | undefined {
    const [action] = [...this.#actions.values()].flat();
    if (action === undefined) return undefined;
    const { what: field, facts: got } = action;
    return { ...positionOf(action), field, expected: undefined, got };
  }

  #isLeftOut(key: string): boolean {
    return isTime(key) || (!this.#isInOrder && SHARED.has(key));
  }

  #differenceIn(
    field: string,
    expected: unknown,
    got: unknown,
    isForeign = false,
  ): Pick<Divergence, "field" | "expected" | "got"> | undefined {
    if (Object.is(expected, got)) return undefined;
    if (!isForeign && isJustTime(expected, got)) return undefined;
    const pairs = pairsOf(expected, got);
    if (pairs === undefined) return { field, expected, got };
    for (const [key, one, other] of pairs) {
      if (!isForeign && (this.#isLeftOut(key) || isTimeSpent(key, expected))) continue;
      const name = key.startsWith("[") ? `${field}${key}` : `${field}.${key}`;
      const found = this.#differenceIn(name, one, other, isForeign || FOREIGN.has(key));
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

/** True for how much of a limit in time was over when it refused something. */
function isTimeSpent(key: string, refusal: unknown): boolean {
  return (
    (key === "current" || key === "spent") && isRecord(refusal) && refusal["axis"] === "wallTimeMs"
  );
}

/** True if only one of them took any time. */
function isJustTime(expected: unknown, got: unknown): boolean {
  if (expected !== undefined && got !== undefined) return false;
  const given = expected ?? got;
  return isRecord(given) && Object.keys(given).length > 0 && isTimeOnly(given);
}

type Pair = readonly [key: string, expected: unknown, got: unknown];

/** The parts of two lists, or of two objects, side by side. */
function pairsOf(expected: unknown, got: unknown): readonly Pair[] | undefined {
  if (Array.isArray(expected) && Array.isArray(got)) {
    const length = Math.max(expected.length, got.length);
    return Array.from({ length }, (_one, at) => [`[${at}]`, expected[at], got[at]]);
  }
  if (Array.isArray(expected) || Array.isArray(got)) return undefined;
  if (!isRecord(expected) || !isRecord(got)) return undefined;
  const keys = new Set([...Object.keys(expected), ...Object.keys(got)]);
  return [...keys].map((key) => [key, expected[key], got[key]]);
}

function positionOf({ agentPath, stepNumber }: Action) {
  return { agentPath, stepNumber };
}
