// RecordedOutcomes: the outcomes of effects in a replay. Owns what the agents wait for, and what they may act upon already.

import type { RecordOf } from "../../orchestrator/durability/journal-record.ts";

/** One effect by its name, which may come several times. */
class Effect {
  /** How often it ends in what is left of the recording. */
  endsLeft = 0;
  /** The waiters for its end, the first one first. */
  readonly waiting: ((outcome: unknown) => void)[] = [];
  /** Outcomes that were not waited for yet. */
  readonly outcomes: unknown[] = [];
  /** How often it came to its end by itself, before its turn. */
  passed = 0;
}

export class RecordedOutcomes {
  /** By agent and name: `agent_1 tool.3.1:search`. */
  readonly #effects = new Map<string, Effect>();
  #isOver = false;
  #works = 0;

  constructor(effects: readonly RecordOf<"effect">[]) {
    for (const { agentId, name } of effects) this.#effect(agentId, name).endsLeft += 1;
  }

  #effect(agentId: string, name: string): Effect {
    const key = `${agentId} ${name}`;
    const effect = this.#effects.get(key) ?? new Effect();
    this.#effects.set(key, effect);
    return effect;
  }

  /** Lets an effect end, at once or as soon as it is waited for. */
  release({ agentId, name, outcome }: RecordOf<"effect">): void {
    const effect = this.#effect(agentId, name);
    effect.endsLeft -= 1;
    if (effect.passed > 0) {
      effect.passed -= 1;
      return;
    }
    const first = effect.waiting.shift();
    if (first === undefined) effect.outcomes.push(outcome);
    else first(outcome);
  }

  /** True if an agent has come so far that the effect may end. */
  isAwaited({ agentId, name }: RecordOf<"effect">): boolean {
    const { waiting, passed } = this.#effect(agentId, name);
    return waiting.length > 0 || passed > 0;
  }

  /** Lets an effect that needs nothing from outside end before its turn. */
  pass(agentId: string, name: string): void {
    this.#effect(agentId, name).passed += 1;
  }

  /** Resolves with what the effect came to, when its turn has come; with undefined once the replay is over. */
  async turn(agentId: string, name: string): Promise<unknown> {
    const { outcomes, waiting } = this.#effect(agentId, name);
    if (outcomes.length > 0) return outcomes.shift();
    return this.#isOver ? undefined : await new Promise<unknown>((go) => waiting.push(go));
  }

  /** True if the recording has an end of this effect that was not taken yet. */
  hasEnd(agentId: string, name: string): boolean {
    const { endsLeft, outcomes } = this.#effect(agentId, name);
    return endsLeft > 0 || outcomes.length > 0;
  }

  /** What an agent waits for of which the recording has no end. */
  unknownOf(agentId: string): string | undefined {
    const opening = `${agentId} `;
    for (const [key, { waiting, endsLeft }] of this.#effects)
      if (key.startsWith(opening) && waiting.length > 0 && endsLeft === 0)
        return key.slice(opening.length);
    return undefined;
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
    for (const { waiting } of this.#effects.values())
      for (const go of waiting.splice(0)) go(undefined);
  }
}
