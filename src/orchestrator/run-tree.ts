// RunTree: the agents of one run, and what counts against its limits.
// T3: admission is one synchronous step, so limits hold under parallel spawns; a failed set-up gives its place back once.

import { invariant } from "../kernel/assert.ts";
import type { AgentId } from "../protocol/ids.ts";
import type { StopSignal } from "../protocol/stop.ts";
import type { SpawnRefusal } from "../protocol/subagent.ts";
import { checkSubagentLimits, type SubagentLimits } from "../policies/subagent-limits.ts";
import type { AgentNode } from "./agent-node.ts";

/** The right to start one subagent. */
export interface SpawnPermit {
  readonly childPath: string;
  readonly childDepth: number;
  /** Undoes the admission of a child that could not be set up; allowed once. */
  giveBack(): void;
}

export class RunTree {
  readonly #limits: SubagentLimits;
  readonly #nodes = new Map<AgentId, AgentNode>();
  readonly #byDepth = new Map<number, number>();
  readonly #refusals = new Map<string, number>();
  #total = 0;
  #stop: StopSignal | undefined;

  constructor(limits: SubagentLimits) {
    this.#limits = limits;
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
    for (const node of this.#nodes.values()) if (node.ended === undefined) node.raise(signal);
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

  #count(depth: number, by: 1 | -1): void {
    this.#total += by;
    this.#byDepth.set(depth, (this.#byDepth.get(depth) ?? 0) + by);
  }
}
