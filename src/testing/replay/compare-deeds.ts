// Comparison: what a replay did against what was recorded, agent by agent. Owns what the replay did and nobody has looked at yet.
// Ids agree, since a replay is given those of the recording; times and places in traces need not.

import { isRecord } from "../../kernel/json.ts";
import type { JournalRecord } from "../../orchestrator/durability/journal-record.ts";
import { DeedReader, isTime, isTimeOnly, type AgentPlaces, type Deed } from "./deeds.ts";

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

/** What is said by later releases only: a recording that does not have it is as good. */
const YOUNG: ReadonlySet<string> = new Set([
  "arguments",
  "cacheWriteInputTokens",
  "fromAgentId",
  "isKnownRole",
  "modelCallNumber",
  "server",
  "sessionId",
  "signals",
]);

export interface ComparisonOptions {
  readonly isInOrder: boolean;
  readonly places: AgentPlaces;
  /** Delegations whose beginning is not compared, by `callKey`. */
  readonly untold: ReadonlySet<string>;
}

export class Comparison {
  readonly #reader: DeedReader;
  readonly #deeds = new Map<string, Deed[]>();
  readonly #isInOrder: boolean;

  /** `isInOrder`: effects end in the order in which they did. `places`: where agents stand that live already. */
  constructor({ isInOrder, places, untold }: ComparisonOptions) {
    this.#reader = new DeedReader(places, untold);
    this.#isInOrder = isInOrder;
  }

  /** Takes in what the replay wrote. True: it is a deed. */
  take(record: JournalRecord): boolean {
    const deed = this.#reader.read(record);
    if (deed === undefined) return false;
    const line = this.#lineOf(deed);
    const deeds = this.#deeds.get(line);
    if (deeds === undefined) this.#deeds.set(line, [deed]);
    else deeds.push(deed);
    return true;
  }

  /** Deeds of an agent come one after the other; in another order, what it says of one subagent does not wait for what it says of others. */
  #lineOf({ agentId, what, facts }: Deed): string {
    const isOfOne = what.startsWith("subagent.") || what === "tool.started";
    if (this.#isInOrder || !isOfOne || !isRecord(facts)) return agentId;
    return `${agentId} ${String(facts["childId"] ?? facts["callId"])}`;
  }

  /** True if the agent has done something instead of this that nobody has looked at. */
  hasNext(expected: Deed): boolean {
    return (this.#deeds.get(this.#lineOf(expected))?.length ?? 0) > 0;
  }

  /** Looks at the next deed of the agent; undefined: it is what was recorded. */
  check(expected: Deed): Divergence | undefined {
    const got = this.#deeds.get(this.#lineOf(expected))?.shift();
    const { what, facts } = expected;
    if (got === undefined)
      return { ...placeOf(expected), field: what, expected: facts, got: undefined };
    if (what !== got.what)
      return { ...placeOf(expected), field: "record", expected: what, got: got.what };
    const found = this.#differenceIn(what, facts, got.facts);
    return found === undefined ? undefined : { ...placeOf(expected), ...found };
  }

  /** The first difference in what follows, as far as the replay has come. */
  firstIn(following: readonly Deed[]): Divergence | undefined {
    for (const expected of following) {
      const found = this.hasNext(expected) ? this.check(expected) : undefined;
      if (found !== undefined) return found;
    }
    return this.surplus();
  }

  /** Something that was done and not recorded. */
  surplus(): Divergence | undefined {
    for (const [deed] of this.#deeds.values())
      if (deed !== undefined)
        return { ...placeOf(deed), field: deed.what, expected: undefined, got: deed.facts };
    return undefined;
  }

  #isLeftOut(key: string, expected: unknown): boolean {
    if (isTime(key) || (YOUNG.has(key) && expected === undefined)) return true;
    return !this.#isInOrder && SHARED.has(key);
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
      if (!isForeign && (this.#isLeftOut(key, one) || isTimeSpent(key, expected))) continue;
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

function placeOf({ agentPath, stepNumber }: Deed): Pick<Divergence, "agentPath" | "stepNumber"> {
  return { agentPath, stepNumber };
}
