// RunTree: the agents of one run, and what counts against its limits.
// T3: admission is one synchronous step, so limits hold under parallel spawns; a failed set-up gives its place back once.

import { invariant } from "../kernel/assert.ts";
import type { AgentId } from "../protocol/ids.ts";
import type { StopSignal } from "../protocol/stop.ts";
import type { SpawnRefusal } from "../protocol/subagent.ts";
import { checkSubagentLimits, type SubagentLimits } from "../policies/subagent-limits.ts";
import type { AgentNode } from "./agent-node.ts";
import type { PriceUsed } from "./prices-used.ts";

/** The right to start one subagent. */
export interface SpawnPermit {
  readonly childPath: string;
  readonly childDepth: number;
  /** Undoes the admission of a child that could not be set up; allowed once. */
  giveBack(): void;
}

/** What a tree counts besides its agents. */
export interface Counts {
  readonly subagentsByDepth: Readonly<Record<string, number>>;
  readonly refusalsByCode: Readonly<Record<string, number>>;
}

/** What is known of a run that was paused. */
export interface Before extends Counts {
  readonly prices: readonly PriceUsed[];
}

const NOTHING: Before = { subagentsByDepth: {}, refusalsByCode: {}, prices: [] };

export class RunTree {
  readonly #limits: SubagentLimits;
  readonly #nodes = new Map<AgentId, AgentNode>();
  readonly #byDepth = new Map<number, number>();
  readonly #refusals = new Map<string, number>();
  #total = 0;
  #stop: StopSignal | undefined;
  readonly #pause = new AbortController();
  /** The prices of the models that had run before the run was paused. */
  readonly pricesBefore: readonly PriceUsed[];

  /** `before`: of a run that was paused. */
  constructor(limits: SubagentLimits, before: Before = NOTHING) {
    this.#limits = limits;
    this.pricesBefore = before.prices;
    for (const [code, count] of Object.entries(before.refusalsByCode))
      this.#refusals.set(code, count);
    for (const [depth, count] of Object.entries(before.subagentsByDepth))
      this.#count(Number(depth), count);
  }

  get limits(): SubagentLimits {
    return this.#limits;
  }

  /** Asks every agent to come to rest at its next step or before its next tool calls. */
  requestPause(): void {
    this.#pause.abort();
  }

  /** Aborted once the tree was asked to pause. */
  get pauseSignal(): AbortSignal {
    return this.#pause.signal;
  }

  /** Takes a new agent in. A tree that was asked to stop asks it, too. */
  add(node: AgentNode): void {
    this.#nodes.set(node.identity.agentId, node);
    if (this.#stop !== undefined) node.raise(this.#stop);
  }

  /** Asks every agent that lives, or that will be started yet, to stop. Only the first request counts. */
  stop(signal: StopSignal): void {
    if (this.#stop !== undefined) return;
    this.#stop = signal;
    for (const node of this.#nodes.values()) if (!node.hasEnded) node.raise(signal);
  }

  find(agentId: AgentId): AgentNode | undefined {
    return this.#nodes.get(agentId);
  }

  /** All agents that were ever started, in the order of their start. */
  get nodes(): readonly AgentNode[] {
    return [...this.#nodes.values()];
  }

  /** Takes a place below `parent`, or says which limit forbids it. */
  admit(parent: AgentNode, roleName: string): SpawnPermit | SpawnRefusal {
    const parentDepth = parent.identity.depth;
    const facts = { parentDepth, breadth: parent.breadth, total: this.#total };
    const refusal = checkSubagentLimits(this.#limits, facts);
    if (refusal !== undefined) return refusal;
    const childDepth = parentDepth + 1;
    const childPath = parent.adopt(roleName);
    this.#count(childDepth, 1);
    let held = true;
    return {
      childPath,
      childDepth,
      giveBack: () => {
        invariant(held, "T3: a place is given back once");
        held = false;
        parent.disown();
        this.#count(childDepth, -1);
      },
    };
  }

  countRefusal(code: string): void {
    this.#refusals.set(code, (this.#refusals.get(code) ?? 0) + 1);
  }

  /** Subagents started at each depth (R140). */
  get subagentsByDepth(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#byDepth].filter(([, count]) => count > 0));
  }

  get refusalsByCode(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#refusals);
  }

  #count(depth: number, by: number): void {
    this.#total += by;
    this.#byDepth.set(depth, (this.#byDepth.get(depth) ?? 0) + by);
  }
}
