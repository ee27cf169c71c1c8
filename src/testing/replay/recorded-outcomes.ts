// RecordedOutcomes: the outcomes of effects in a replay. Owns what the agents wait for, and what they may act upon already.

import type { RecordOf } from "../../orchestrator/durability/journal-record.ts";
import type { SpawnRefusal } from "../../protocol/subagent.ts";
import { callPosition } from "./actions.ts";
import type { ReplayScript } from "./replay-script.ts";

export class RecordedOutcomes {
  /** The waiters for the end of an effect. */
  readonly #waiting = new Map<string, ((outcome: unknown) => void)[]>();
  /** Outcomes that were not waited for yet. */
  readonly #outcomes = new Map<string, unknown[]>();
  /** Effects that end in this recording, as often as they do. */
  readonly #known = new Map<string, number>();
  /** Calls of delegations about which a question was asked, and that were not allowed. */
  readonly #unallowed: ReadonlySet<string>;
  readonly #forbidden: ReplayScript["forbidden"];
  /** Effects that came to their end by themselves, before their turn. */
  readonly #passed = new Map<string, number>();
  readonly #onCall: (call: string) => void;
  #isOver = false;
  #works = 0;

  /** `onCall`: called with each call that would begin now, by `callPosition`. */
  constructor(
    effects: readonly RecordOf<"effect">[],
    { unallowed, forbidden }: Pick<ReplayScript, "unallowed" | "forbidden">,
    onCall: (call: string) => void,
  ) {
    this.#onCall = onCall;
    for (const { agentId, name } of effects) {
      const key = keyOf(agentId, name);
      this.#known.set(key, (this.#known.get(key) ?? 0) + 1);
    }
    this.#unallowed = unallowed;
    this.#forbidden = forbidden;
  }

  /** Lets an effect end, at once or as soon as it is waited for. */
  release({ agentId, name, outcome }: RecordOf<"effect">): void {
    const key = keyOf(agentId, name);
    this.#known.set(key, (this.#known.get(key) ?? 0) - 1);
    const passed = this.#passed.get(key) ?? 0;
    if (passed > 0) {
      this.#passed.set(key, passed - 1);
      return;
    }
    const [first, ...others] = this.#waiting.get(key) ?? [];
    if (first === undefined) {
      this.#outcomes.set(key, [...(this.#outcomes.get(key) ?? []), outcome]);
      return;
    }
    if (others.length === 0) this.#waiting.delete(key);
    else this.#waiting.set(key, others);
    first(outcome);
  }

  /** True if an agent has come so far that the effect may end. */
  isAwaited({ agentId, name }: RecordOf<"effect">): boolean {
    const key = keyOf(agentId, name);
    return this.#waiting.has(key) || (this.#passed.get(key) ?? 0) > 0;
  }

  /** Lets an effect that needs nothing from outside end before its turn. */
  pass(agentId: string, name: string): void {
    const key = keyOf(agentId, name);
    this.#passed.set(key, (this.#passed.get(key) ?? 0) + 1);
  }

  /** Resolves with what the effect came to, when its turn has come; with undefined once the replay is over. */
  async turn(agentId: string, name: string): Promise<unknown> {
    const key = keyOf(agentId, name);
    const outcomes = this.#outcomes.get(key) ?? [];
    if (outcomes.length > 0) return outcomes.shift();
    if (this.#isOver) return undefined;
    return await new Promise<unknown>((go) => {
      this.#waiting.set(key, [...(this.#waiting.get(key) ?? []), go]);
    });
  }

  /** True if the recording has an end of this effect that was not taken yet. */
  hasEnd(agentId: string, name: string): boolean {
    const key = keyOf(agentId, name);
    return (this.#known.get(key) ?? 0) > 0 || (this.#outcomes.get(key)?.length ?? 0) > 0;
  }

  /** What an agent waits for of which the recording has no end. */
  unknownOf(agentId: string): string | undefined {
    const opening = `${agentId} `;
    for (const key of this.#waiting.keys())
      if (key.startsWith(opening) && (this.#known.get(key) ?? 0) === 0)
        return key.slice(opening.length);
    return undefined;
  }

  /** True if the call was left open, or denied: its subagents were not started, nor are they now. */
  isUnallowed(agentId: string, stepId: string, callId: string): boolean {
    return this.#unallowed.has(callPosition({ agentId, stepId, callId }));
  }

  /** How a guard or a hook forbade the delegation; undefined: none did. */
  forbiddance(agentId: string, stepId: string, callId: string): SpawnRefusal | undefined {
    return this.#forbidden.get(callPosition({ agentId, stepId, callId }));
  }

  /** A call would begin now. */
  begin(agentId: string, stepId: string, callId: string): void {
    this.#onCall(callPosition({ agentId, stepId, callId }));
  }

  /** True while code of the user's is under way. */
  get isBusy(): boolean {
    return this.#works > 0;
  }

  /** Code of the user's begins; it is under way until the result is called. */
  working(): () => void {
    this.#works += 1;
    return () => void (this.#works -= 1);
  }

  /** Gives up all waits, present and later ones. */
  close(): void {
    this.#isOver = true;
    const waiting = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    for (const go of waiting) go(undefined);
  }
}

function keyOf(agentId: string, name: string): string {
  return `${agentId} ${name}`;
}
