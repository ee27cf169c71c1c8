// A second ledger for the tree property, derived from events alone and independent of the real one.
// It checks B1, B2, B4, X4, X5 and X7 at every event.

import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import {
  toLedgerLimits,
  tightenLimits,
  type Amounts,
  type Budget,
  type SpendLimits,
} from "../../../src/policies/budget.ts";
import { LEDGER_AXES, type LedgerAxis } from "../../../src/protocol/account.ts";
import type { Account } from "../../../src/protocol/account.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { toAmounts, type Usage } from "../../../src/protocol/usage.ts";
import { PRICE } from "./tree-foreign.ts";
import { law, same } from "./tree-law.ts";
import type { PlayedRun } from "./tree-fixture.ts";
import { roleAt, type World } from "./tree-world.ts";

/** Throws, naming the law, unless it held after every single event. */
export function checkBooks(world: World, run: PlayedRun, { accounts }: RunResult): void {
  const books = new Books(world, accounts, run);
  for (const event of run.events) books.post(event);
  books.close(run.events);
}

type Sums = Record<LedgerAxis, number>;

interface Book {
  readonly account: Account;
  /** The limits at opening; grants raise them. */
  limits: SpendLimits;
  readonly spent: Sums;
  readonly reserved: Sums;
  readonly excess: Sums;
  /** The amounts that descendants have spent and hold, and by how much they have overspent. */
  readonly below: Sums;
  readonly excessBelow: Sums;
}

interface OpenLease {
  readonly agentId: string;
  readonly hold: Amounts;
  isUsed: boolean;
  /**
   * True once parts of the call may have been charged, which no event reports: the amounts that
   * they released are free for others.
   */
  isUnknown: boolean;
}

class Books {
  readonly #world: World;
  readonly #books: ReadonlyMap<string, Book>;
  readonly #leases = new Map<string, OpenLease>();

  constructor(world: World, accounts: readonly Account[], { origin }: PlayedRun) {
    this.#world = world;
    this.#books = new Map(accounts.map((account) => [account.agentId, emptyBook(account)]));
    const [root] = this.#books.values();
    const [role] = world.roles;
    if (root === undefined || role === undefined || origin !== undefined) return;
    const limits = tightenLimits(toLedgerLimits(role.budget), toLedgerLimits(world.budget));
    sameLimits(root.limits, limits, "X7: the limits of the root, without what was granted");
  }

  post(event: EspalierEvent): void {
    switch (event.type) {
      case "subagent.spawned":
        this.#open(event);
        return;
      case "budget.reserved":
        this.#reserve(event);
        break;
      case "step.started":
        this.#start(event);
        break;
      case "model.requested":
        this.#request(event);
        break;
      case "budget.settled":
        this.#settle(event);
        break;
      case "budget.released":
        this.#release(event);
        break;
      case "budget.granted":
        this.#grant(event);
        break;
      default:
        return;
    }
    for (const book of this.#path(event.agentId)) checkLimits(book);
  }

  close(events: readonly EspalierEvent[]): void {
    same([...this.#leases.keys()], [], "B2: every lease is given back");
    for (const { account, spent, excess, limits } of this.#books.values()) {
      const { agentPath: path } = account;
      const total = toLedgerAmounts(account.total);
      const reported = toLedgerLimits(account.excess);
      for (const axis of LEDGER_AXES) {
        if (axis === "toolCalls") continue;
        law(
          spent[axis] === total[axis],
          `B3: ${path} has ${total[axis]} ${axis}, not ${spent[axis]}`,
        );
        law(
          (reported[axis] ?? 0) <= excess[axis],
          `B1: the excess of ${path} is more than reported`,
        );
      }
      law(total.toolCalls <= (account.limits.toolCalls ?? Infinity), `X3: tool calls of ${path}`);
      sameLimits(
        limits,
        toLedgerLimits(account.limits),
        `X7: ${path} has been granted what events say`,
      );
      const granted = events.filter(
        (event) => event.type === "budget.granted" && event.agentId === account.agentId,
      );
      law(granted.length === account.grants.length, `X7: grants of ${path} are on record`);
    }
    this.#checkDeadlines(events);
  }

  /**
   * R142, X4, X5: an account is within its role's budget and its parent's share, and reserves what
   * its role defines.
   */
  #open({ childId, childPath, agentPath, agentId }: EspalierEvent<"subagent.spawned">): void {
    const book = this.#books.get(childId);
    const parent = this.#books.get(agentId);
    law(book !== undefined && parent !== undefined, `T3: ${childPath} has an account`);
    const role = roleAt(this.#world, childPath);
    const share = roleAt(this.#world, agentPath)?.share ?? { type: "pool" };
    if (book === undefined || role === undefined) return;
    same(book.account.reserve, role.reserve, `X5: what ${childPath} keeps`);
    within(book.limits, toLedgerLimits(role.budget), `R142: the budget of ${childPath}`);
    if (share.type === "fixed")
      within(book.limits, toLedgerLimits(share.budget), `X4: the fixed share of ${childPath}`);
    if (share.type !== "pool" || share.maxShare === undefined) return;
    for (const { limits } of this.#path(agentId)) {
      const part: Partial<Record<LedgerAxis, number>> = {};
      for (const axis of LEDGER_AXES) {
        const limit = limits[axis];
        if (limit !== undefined) part[axis] = Math.floor(limit * share.maxShare);
      }
      within(book.limits, part, `X4: the share of ${childPath}`);
    }
  }

  #reserve({
    leaseId,
    agentId,
    inputTokens,
    maxOutputTokens,
    callId,
  }: EspalierEvent<"budget.reserved">): void {
    law(!this.#leases.has(leaseId), "B2: a lease is granted once");
    // A summary is not a step.
    const hold = { ...holdOf(inputTokens, maxOutputTokens), steps: callId === null ? 1 : 0 };
    this.#leases.set(leaseId, { agentId, hold, isUsed: false, isUnknown: false });
    this.#add(agentId, "reserved", hold, 1);
  }

  /**
   * A call with hooks around it may be cancelled, and release its lease, before it calls a model.
   */
  #start({ agentId, agentPath }: EspalierEvent<"step.started">): void {
    for (const lease of this.#leases.values())
      if (lease.agentId === agentId) this.#forgetHold(lease, agentPath);
  }

  #request({ agentId, agentPath, maxOutputTokens }: EspalierEvent<"model.requested">): void {
    const [lease, ...others] = [...this.#leases.values()].filter((one) => one.agentId === agentId);
    law(lease !== undefined && others.length === 0, `B4: ${agentPath} asks a model with one lease`);
    if (lease === undefined || lease.isUsed) return;
    lease.isUsed = true;
    law(maxOutputTokens === lease.hold.outputTokens, "X1: the output cap is the lease's");
    this.#forgetHold(lease, agentPath);
  }

  #forgetHold(lease: OpenLease, agentPath: string): void {
    if (lease.isUnknown || !this.#isChargedInParts(agentPath)) return;
    lease.isUnknown = true;
    this.#add(lease.agentId, "reserved", lease.hold, -1);
  }

  /** Failed attempts, and additional calls of hooks, are charged before their lease is settled. */
  #isChargedInParts(agentPath: string): boolean {
    const { maxAttempts, roles } = this.#world;
    const role = roleAt(this.#world, agentPath);
    // The model of a drafted role is that of another role.
    return (role === undefined ? roles : [role]).some(
      ({ hooks, script }) =>
        hooks.some(({ point }) => point === "wrapModelCall") ||
        (maxAttempts > 1 && script.some((act) => act.type === "fails" && act.lost !== undefined)),
    );
  }

  #settle({ leaseId, agentId, usage }: EspalierEvent<"budget.settled">): void {
    const hold = this.#give(leaseId, agentId);
    const used = toLedgerAmounts(usage);
    this.#add(agentId, "spent", used, 1);
    const beyond = nothing();
    for (const axis of LEDGER_AXES) beyond[axis] = Math.max(0, used[axis] - hold[axis]);
    this.#add(agentId, "excess", beyond, 1);
  }

  #release({ leaseId, agentId }: EspalierEvent<"budget.released">): void {
    this.#give(leaseId, agentId);
  }

  /** The known amount of the lease, which is free from now on. */
  #give(leaseId: string, agentId: string): Amounts {
    const lease = this.#leases.get(leaseId);
    law(this.#leases.delete(leaseId), "B2: a lease is settled or released once");
    law(lease?.agentId === agentId, "B2: a lease is settled by its agent");
    if (lease === undefined || lease.isUnknown) return nothing();
    this.#add(agentId, "reserved", lease.hold, -1);
    return lease.hold;
  }

  #grant({ agentId, agentPath, accountPath, budget }: EspalierEvent<"budget.granted">): void {
    const book = this.#books.get(agentId);
    law(book !== undefined && accountPath === agentPath, "X7: a grant is to an agent");
    if (book !== undefined) book.limits = raised(book.limits, budget, 1);
  }

  #add(
    agentId: string,
    part: "spent" | "reserved" | "excess",
    amounts: Amounts,
    sign: 1 | -1,
  ): void {
    for (const [index, book] of this.#path(agentId).entries()) {
      add(book[part], amounts, sign);
      if (index === 0) continue;
      add(part === "excess" ? book.excessBelow : book.below, amounts, sign);
    }
  }

  /**
   * R58: no agent calls a model at or after its deadline, as grants and pauses have finally moved
   * it.
   */
  #checkDeadlines(events: readonly EspalierEvent[]): void {
    for (const { agentId, agentPath, type, atMs } of events) {
      if (type !== "model.requested") continue;
      const deadlines = this.#path(agentId).map(({ account }) => deadlineOf(account));
      law(atMs < Math.min(...deadlines), `R58: ${agentPath} asks after its deadline`);
    }
  }

  #path(agentId: string): readonly Book[] {
    const path: Book[] = [];
    for (let id: string | null = agentId; id !== null;) {
      const book: Book | undefined = this.#books.get(id);
      if (book === undefined) throw new Error(`Broken: ${id} has no account.`);
      path.push(book);
      id = book.account.parentAgentId;
    }
    return path;
  }
}

function checkLimits({ account, limits, spent, reserved, excess, below, excessBelow }: Book): void {
  const { agentPath: path } = account;
  const reserve = toLedgerLimits(account.reserve);
  for (const axis of LEDGER_AXES) {
    const limit = limits[axis];
    if (limit === undefined) continue;
    const taken = spent[axis] + reserved[axis];
    law(taken <= limit + excess[axis], () => `B1: ${path} has ${taken} of ${limit} ${axis}`);
    const forOthers = Math.max(0, limit - (reserve[axis] ?? 0));
    law(
      below[axis] <= forOthers + excessBelow[axis],
      () => `X5: those below ${path} have ${below[axis]} of ${forOthers} ${axis}`,
    );
  }
}

function emptyBook(account: Account): Book {
  const limits = account.grants.reduce<SpendLimits>(
    (rest, { budget }) => raised(rest, budget, -1),
    toLedgerLimits(account.limits),
  );
  return {
    account,
    limits,
    spent: nothing(),
    reserved: nothing(),
    excess: nothing(),
    below: nothing(),
    excessBelow: nothing(),
  };
}

function raised(limits: SpendLimits, budget: Budget, sign: 1 | -1): SpendLimits {
  const given = toLedgerLimits(budget);
  const next: Partial<Record<LedgerAxis, number>> = {};
  for (const axis of LEDGER_AXES) {
    const limit = limits[axis];
    if (limit !== undefined) next[axis] = limit + sign * (given[axis] ?? 0);
  }
  return next;
}

function within(limits: SpendLimits, most: SpendLimits, rule: string): void {
  for (const axis of LEDGER_AXES) {
    const [limit = Infinity, maximum = Infinity] = [limits[axis], most[axis]];
    law(limit <= maximum, () => `${rule}: ${limit} of ${maximum} ${axis}`);
  }
}

function sameLimits(left: SpendLimits, right: SpendLimits, rule: string): void {
  same(inOrder(left), inOrder(right), rule);
}

function inOrder(limits: SpendLimits): unknown {
  return LEDGER_AXES.map((axis) => limits[axis] ?? null);
}

function holdOf(inputTokens: number, outputTokens: number): Amounts {
  const costMicroUsd =
    inputTokens * PRICE.inputUsdPerMillion + outputTokens * PRICE.outputUsdPerMillion;
  const totalTokens = inputTokens + outputTokens;
  const tokens = { inputTokens, cachedInputTokens: inputTokens, outputTokens, totalTokens };
  return { ...tokens, costMicroUsd, steps: 1, toolCalls: 0 };
}

/** The usage in whole micro-dollars. */
function toLedgerAmounts(usage: Usage): Amounts {
  const { costUsd, ...counts } = toAmounts(usage);
  return { ...counts, costMicroUsd: Math.round(costUsd * 1_000_000) };
}

function nothing(): Sums {
  return { ...holdOf(0, 0), steps: 0 };
}

function add(sums: Sums, amounts: Amounts, sign: 1 | -1): void {
  for (const axis of LEDGER_AXES) sums[axis] += sign * amounts[axis];
}

/** The end of the account's own time; Infinity if it has no limit. */
function deadlineOf({ fixedDeadlineAtMs, timeLimitMs, openedAtMs, pausedMs }: Account): number {
  const moving = timeLimitMs === null ? Infinity : openedAtMs + timeLimitMs + pausedMs;
  return Math.min(fixedDeadlineAtMs ?? Infinity, moving);
}
