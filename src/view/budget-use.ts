// BudgetUse: what one agent used by itself, what it and all below it used, and what is left of its
// budget. The one place in which views add up the use of an agent.
//
// 1. What an agent uses counts for it and for every agent above it.
// 2. What is held for calls in flight still counts as left.
// 3. An agent never has more left than its parent.

import type { EspalierEvent } from "../protocol/event.ts";
import type { Usage } from "../protocol/usage.ts";
import { addAmounts, raiseAmounts } from "./amounts.ts";
import type { AxisAmounts, Spent } from "./viewer-data.ts";

type UsedAmounts = Record<string, number>;

/** The use of one agent. Changed in place by its `AgentFold`. */
export class BudgetUse {
  readonly #above: BudgetUse | undefined;
  readonly #own: UsedAmounts = {};
  readonly #tree: UsedAmounts = {};
  /** Tool calls of completed steps. */
  #completedCalls = 0;
  /** What was left when that was last said. */
  #left: AxisAmounts;
  /** What it and all below it had used then. */
  #before: AxisAmounts = {};

  /** `above`: of its parent. `budget`: what it may spend when it begins. */
  constructor(above: BudgetUse | undefined, budget: AxisAmounts) {
    this.#above = above;
    this.#left = budget;
  }

  /** What it has spent by its own calls. */
  get own(): Spent {
    return spentOf(this.#own);
  }

  /** What it and all below it have spent. */
  get subtree(): Spent {
    return spentOf(this.#tree);
  }

  /** Returns what is left on the limited axes. */
  left(): Record<string, number> {
    const left: UsedAmounts = {};
    const above = this.#above?.left() ?? {};
    for (const [axis, amount] of Object.entries(this.#left)) {
      const since = addAmounts(axis, this.#tree[axis] ?? 0, -(this.#before[axis] ?? 0));
      const own = addAmounts(axis, amount, -since);
      left[axis] = Math.max(0, Math.min(own, above[axis] ?? Infinity));
    }
    return left;
  }

  /** Takes an event of the agent. */
  take(event: EspalierEvent): void {
    switch (event.type) {
      case "budget.granted":
        if (this.#above === undefined) this.#left = raiseAmounts(this.#left, event.budget);
        else this.#learnLeft(event.remaining);
        return;
      case "budget.settled":
        this.#settle(event);
        return;
      case "tool.started":
        // Tool calls are charged without an event of their own: exact once their step completes.
        if (event.kind !== "finish") this.#use({ toolCalls: 1 });
        return;
      case "step.completed":
        // Calls that a guard or a person denied are charged, too, and never start.
        this.#completedCalls += event.usage.toolCalls;
        this.#use({ toolCalls: this.#completedCalls - (this.#own["toolCalls"] ?? 0) });
        return;
      case "agent.ended":
        this.#close(event);
        return;
      default:
    }
  }

  /** Returns its own use on the limited axes. Time passes for an agent as for its subagents. */
  within(budget: AxisAmounts): AxisAmounts {
    const left = this.left();
    const used: UsedAmounts = {};
    for (const [axis, limit] of Object.entries(budget))
      used[axis] =
        axis === "timeMs" ? Math.max(0, limit - (left[axis] ?? limit)) : (this.#own[axis] ?? 0);
    return used;
  }

  #settle({ usage, remaining }: EspalierEvent<"budget.settled">): void {
    this.#use(usage);
    if (this.#above !== undefined) this.#learnLeft(remaining);
    else if (remaining["timeMs"] !== undefined)
      this.#left = { ...this.#left, timeMs: remaining["timeMs"] };
  }

  #learnLeft(left: AxisAmounts): void {
    this.#left = left;
    this.#before = { ...this.#tree };
  }

  #use(usage: Partial<Usage>): void {
    add(this.#own, usage);
    for (let at: BudgetUse | undefined = this; at !== undefined; at = at.#above)
      add(at.#tree, usage);
  }

  /** What it spent before a resumption, unseen, is known at its end: it took nothing of what is left. */
  #close({ usage }: EspalierEvent<"agent.ended">): void {
    Object.assign(this.#own, amountsOf(usage.own));
    this.#completedCalls = usage.own.toolCalls;
    const unseen = amountsOf(usage.total);
    for (const axis of Object.keys(unseen))
      unseen[axis] = addAmounts(axis, unseen[axis] ?? 0, -(this.#tree[axis] ?? 0));
    for (let at: BudgetUse | undefined = this; at !== undefined; at = at.#above) {
      add(at.#tree, unseen);
      const before = { ...at.#before };
      add(before, unseen);
      at.#before = before;
    }
  }
}

/** A cost may be unknown. */
function amountsOf(usage: Partial<Usage>): UsedAmounts {
  return Object.fromEntries(
    Object.entries(usage).map(([axis, amount]) => [axis, amount ?? 0] as const),
  );
}

function add(sums: UsedAmounts, more: Partial<Usage> | UsedAmounts): void {
  for (const [axis, amount] of Object.entries(more))
    sums[axis] = addAmounts(axis, sums[axis] ?? 0, amount ?? 0);
}

/** The part of a use that rows show. A cost of which no part is known is null. */
function spentOf({ totalTokens = 0, costUsd = 0, unpricedCalls = 0 }: UsedAmounts): Spent {
  // As `toUsage`, whose file a command that shows runs would load for this line alone.
  const isUnknown = costUsd === 0 && unpricedCalls > 0;
  return { totalTokens, costUsd: isUnknown ? null : costUsd, unpricedCalls };
}
