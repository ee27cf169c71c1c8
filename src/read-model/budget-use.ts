// BudgetUse: the amounts that an agent used, with and without its subagents, and its unspent
// budget. The only place where views add up usage.
//
// 1. The usage of an agent counts for the agent and for every ancestor.
// 2. Reservations of calls in flight count as unspent.
// 3. An agent never has more left than its parent.

import type { EspalierEvent } from "../protocol/event.ts";
import { handleEvent, type EventHandlers } from "../protocol/event-handlers.ts";
import type { Usage } from "../protocol/usage.ts";
import { addAmounts, raiseAmounts } from "./amounts.ts";
import type { AxisAmounts, Spent } from "./viewer-data.ts";

type UsedAmounts = Record<string, number>;

/** Usage and unspent budget of an agent. Updated in place by its `AgentFold`. */
export class BudgetUse {
  readonly #above: BudgetUse | undefined;
  readonly #own: UsedAmounts = {};
  readonly #tree: UsedAmounts = {};
  /** Tool calls of completed steps. */
  #completedCalls = 0;
  /** Unspent budget in the latest event that reported it. */
  #left: AxisAmounts;
  /** Usage of the subtree at that time. */
  #before: AxisAmounts = {};

  /** `above` belongs to the parent. `budget` is the budget of the agent at its start. */
  constructor(above: BudgetUse | undefined, budget: AxisAmounts) {
    this.#above = above;
    this.#left = budget;
  }

  /** Tokens and cost of the agent's own calls. */
  get own(): Spent {
    return readSpent(this.#own);
  }

  /** Tokens and cost of the agent and all its descendants. */
  get subtree(): Spent {
    return readSpent(this.#tree);
  }

  /** Returns the unspent budget by axis. Only limited axes are present. */
  computeLeft(): Record<string, number> {
    const left: UsedAmounts = {};
    const above = this.#above?.computeLeft() ?? {};
    for (const [axis, amount] of Object.entries(this.#left)) {
      const since = addAmounts(axis, this.#tree[axis] ?? 0, -(this.#before[axis] ?? 0));
      const unspent = addAmounts(axis, amount, -since);
      left[axis] = Math.max(0, Math.min(unspent, above[axis] ?? Infinity));
    }
    return left;
  }

  /** Applies an event of the agent. */
  take(event: EspalierEvent): void {
    handleEvent(BudgetUse.#HANDLERS, event, this);
  }

  static readonly #HANDLERS: EventHandlers<[BudgetUse]> = {
    "budget.granted": ({ budget, remaining }, use) => {
      if (use.#above === undefined) use.#left = raiseAmounts(use.#left, budget);
      else use.#learnLeft(remaining);
    },
    "budget.settled": (event, use) => use.#settle(event),
    // Tool calls have no charge event: the count is exact once the step completes.
    "tool.started": ({ kind }, use) => {
      if (kind !== "finish") use.#use({ toolCalls: 1 });
    },
    // Denied calls are charged too, although they never start.
    "step.completed": ({ usage }, use) => {
      use.#completedCalls += usage.toolCalls;
      use.#use({ toolCalls: use.#completedCalls - (use.#own["toolCalls"] ?? 0) });
    },
    "agent.ended": (event, use) => use.#close(event),
  };

  /**
   * Returns the agent's own usage on the limited axes. Elapsed time counts for the agent and its
   * subagents alike.
   */
  computeUsed(budget: AxisAmounts): AxisAmounts {
    const left = this.computeLeft();
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

  /**
   * Adds the usage before the first folded event, which is known at the end of the agent. That
   * usage is not part of the folded budget.
   */
  #close({ usage }: EspalierEvent<"agent.ended">): void {
    Object.assign(this.#own, readUsedAmounts(usage.own));
    this.#completedCalls = usage.own.toolCalls;
    const unseen = readUsedAmounts(usage.total);
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

/** Returns usage as numbers. An unknown cost counts as 0. */
function readUsedAmounts(usage: Partial<Usage>): UsedAmounts {
  return Object.fromEntries(
    Object.entries(usage).map(([axis, amount]) => [axis, amount ?? 0] as const),
  );
}

function add(sums: UsedAmounts, more: Partial<Usage> | UsedAmounts): void {
  for (const [axis, amount] of Object.entries(more))
    sums[axis] = addAmounts(axis, sums[axis] ?? 0, amount ?? 0);
}

/**
 * Returns the part of usage that rows show. `costUsd` is `null` if no part of the cost is known.
 */
function readSpent({ totalTokens = 0, costUsd = 0, unpricedCalls = 0 }: UsedAmounts): Spent {
  // Repeats `toUsage`, so that commands need not load its file.
  const isUnknown = costUsd === 0 && unpricedCalls > 0;
  return { totalTokens, costUsd: isUnknown ? null : costUsd, unpricedCalls };
}
