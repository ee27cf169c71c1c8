// Random schedules over random trees of accounts, played on the real and the naive ledger in
// parallel. After every operation both must agree, and the laws are checked on the accounts of the
// real ledger alone.

import { isDeepStrictEqual } from "node:util";

import type {
  LeaseAsk,
  LeaseOutcome,
  LedgerWatch,
  ReachedThreshold,
} from "../../../src/budget/lease.ts";
import type { BudgetAccount } from "../../../src/budget/budget-account.ts";
import { BudgetLedger } from "../../../src/budget/ledger.ts";
import { LedgerOperationSchema } from "../../../src/budget/ledger-operation.ts";
import { replayOperation } from "../../../src/budget/replay-operation.ts";
import { toSpendAmounts } from "../../../src/policies/budget.ts";
import { LEDGER_AXES } from "../../../src/protocol/account.ts";
import {
  AgentIdSchema,
  LeaseIdSchema,
  type AgentId,
  type LeaseId,
} from "../../../src/protocol/ids.ts";
import { NO_USAGE, type Usage } from "../../../src/protocol/usage.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import {
  addOwn,
  matchRoomWith,
  matchLease,
  matchThresholds,
  raiseOf,
  restoredFrom,
  throwsAny,
  usageOfLease,
  wholeOf,
  wrong,
} from "./ledger-checks.ts";
import { checkAccounts } from "./ledger-laws.ts";
import { PRICES, type Operation, type Schedule, type Seed } from "./ledger-operations.ts";
import {
  closeStill,
  LedgerReference,
  openHoldOf,
  type ReferenceAccount,
  type ReferenceAnswer,
  type ReferenceLease,
  type ReferenceWaiter,
} from "./ledger-reference.ts";

interface Pending {
  readonly waiter: ReferenceWaiter;
  readonly controller: AbortController;
}

/**
 * Plays one schedule to its end, then settles open leases until none holds and none waits. Throws
 * at the first violation.
 */
export async function play({ seeds, operations }: Schedule): Promise<void> {
  const player = new Player();
  for (const one of seeds) player.openAccount(one);
  for (const one of operations) {
    player.apply(one);
    await player.compare();
  }
  await player.drain();
}

class Player {
  readonly #clock = new ManualClock();
  /**
   * The form that a journal would store: the accounts as opened, and every operation repeated (D2).
   */
  #copy = new BudgetLedger(this.#clock);
  readonly #holders = new Map<LeaseId, AgentId>();
  readonly #watch: LedgerWatch = {
    onThreshold: (reached) => this.#thresholds.push(reached),
    onOperation: (done) => {
      this.#operations += 1;
      const copied = LedgerOperationSchema().parse(done);
      if (copied.operation === "lease") this.#holders.set(copied.lease.leaseId, copied.agentId);
      const agentId = "agentId" in copied ? copied.agentId : this.#holders.get(copied.leaseId);
      if (agentId === undefined) throw wrong("a lease that was given", copied);
      replayOperation(this.#copy.getAccount(agentId), copied);
    },
  };
  #ledger = new BudgetLedger(this.#clock, this.#watch);
  readonly #reference = new LedgerReference();
  readonly #ids: AgentId[] = [];
  readonly #pending = new Map<number, Pending>();
  readonly #leaseIds = new Map<ReferenceLease, LeaseId>();
  readonly #ended: { readonly leaseId: LeaseId; readonly agentId: AgentId }[] = [];
  /** The usage of each account itself, calculated independently. */
  readonly #own: Usage[] = [];
  /** Answers of the real ledger since the last comparison. */
  #answers = new Map<number, LeaseOutcome>();
  #expected: readonly ReferenceAnswer[] = [];
  #cancelled: readonly ReferenceWaiter[] = [];
  #thresholds: ReachedThreshold[] = [];
  #operations = 0;
  #asked = 0;
  #granted = 0;

  openAccount({ parent, limits, reserve, lifeMs, limitMs }: Seed): void {
    const { accounts } = this.#reference;
    const above = accounts[parent % Math.max(1, accounts.length)];
    const agentPath = `agent_${accounts.length}`;
    const openedAtMs = this.#clock.nowMs();
    const deadlineAtMs = lifeMs === undefined ? undefined : openedAtMs + lifeMs;
    const parentId = above === undefined ? undefined : this.#ids[above.index];
    const account = parentId === undefined ? undefined : this.#ledger.getAccount(parentId);
    const agentId = AgentIdSchema().parse(agentPath);
    const times = { deadlineAtMs, timeMs: limitMs };
    const opening = { agentId, agentPath, limits, reserve, ...times };
    this.#ledger.open(opening, account);
    this.#copy.adopt(this.#ledger.getAccount(agentId).snapshotAt(this.#ledger.clock.nowMs()));
    this.#reference.openAccount(
      above,
      { path: agentPath, limits, reserve },
      { openedAtMs, deadlineAtMs, limitMs },
    );
    this.#ids.push(agentId);
    this.#own.push(NO_USAGE);
  }

  apply(operation: Operation): void {
    switch (operation.type) {
      case "open":
        return this.openAccount(operation.seed);
      case "ask":
        return this.#ask(operation);
      case "settle":
        return this.#settle(operation);
      case "release":
        return this.#release(operation.lease);
      case "extend":
        return this.#extend(operation);
      case "charge": {
        const { open } = this.#reference;
        const lease = open[operation.lease % Math.max(1, open.length)];
        if (lease !== undefined) this.#chargeAttempt(lease, operation.attempt, operation.used);
        return;
      }
      case "grant":
        return this.#grant(operation);
      case "endAgain":
        return this.#endAgain(operation.lease);
      case "settleAbsurd":
        return this.#settleAbsurd(operation);
      case "chargeToolCall":
        return this.#chargeToolCall(operation.agent);
      case "cancel":
        return this.#cancel(operation.waiter);
      case "turn":
        return this.#turn(operation.agent);
      case "exclude":
        return this.#exclude(operation);
      case "releaseAll":
        return this.#releaseAll(operation.agent);
      case "restart":
        return this.#restart();
      case "advance":
        return this.#clock.advance(operation.byMs);
    }
  }

  /** An account and its agent; schedules have at least one. */
  #agentAt(agent: number): { readonly account: ReferenceAccount; readonly agentId: AgentId } {
    const account = this.#reference.accounts[agent % this.#reference.accounts.length];
    const agentId = account === undefined ? undefined : this.#ids[account.index];
    if (account === undefined || agentId === undefined)
      throw new Error("A schedule has an account.");
    return { account, agentId };
  }

  #ask({ agent, input, output, price, least }: Extract<Operation, { type: "ask" }>): void {
    const { account, agentId } = this.#agentAt(agent);
    const priced = PRICES[price % PRICES.length];
    const sizes = { inputTokens: input, maxOutputTokens: output };
    const ask = { ...sizes, price: priced, minOutputTokens: least };
    this.#wait({ account, ask, extended: undefined }, (signal) =>
      this.#ledger.getAccount(agentId).requestLease(ask, signal),
    );
  }

  #wait(
    asked: Omit<ReferenceWaiter, "id" | "askedAtMs">,
    wait: (signal: AbortSignal) => Promise<LeaseOutcome>,
  ): void {
    const waiter = { ...asked, id: this.#asked, askedAtMs: this.#clock.nowMs() };
    this.#asked += 1;
    const controller = new AbortController();
    this.#pending.set(waiter.id, { waiter, controller });
    void wait(controller.signal).then((outcome) => this.#answers.set(waiter.id, outcome));
    this.#reference.line = [...this.#reference.line, waiter];
    this.#expected = [...this.#expected, ...this.#reference.serve(this.#clock.nowMs())];
  }

  /** An open lease that does not wait for one more attempt. */
  #chosen(lease: number): ReferenceLease | undefined {
    const settled = this.#reference.open.filter(({ isWaiting }) => !isWaiting);
    return settled[lease % Math.max(1, settled.length)];
  }

  #settle({ lease, input, output, cached }: Extract<Operation, { type: "settle" }>): void {
    const one = this.#chosen(lease);
    if (one === undefined) return;
    this.#end(one, usageOfLease(openHoldOf(one), { input, output, cached }));
  }

  #release(lease: number): void {
    const one = this.#chosen(lease);
    if (one !== undefined) this.#end(one, undefined);
  }

  /** Requests one more attempt, after a running one is charged or in parallel. */
  #extend(extension: Extract<Operation, { type: "extend" }>): void {
    const one = this.#chosen(extension.lease);
    const leaseId = one === undefined ? undefined : this.#leaseIds.get(one);
    if (one === undefined || leaseId === undefined) return;
    if (extension.used !== undefined) this.#chargeAttempt(one, extension.attempt, extension.used);
    const account = this.#holderOf(one);
    const asked = { inputTokens: extension.input, maxOutputTokens: extension.output };
    const priced = PRICES[extension.price % PRICES.length];
    one.isWaiting = true;
    const ask: LeaseAsk = { ...asked, price: priced, steps: 0 };
    this.#wait({ account: one.account, ask, extended: one }, (signal) =>
      account.extend({ leaseId, ...asked }, { price: priced }, signal),
    );
  }

  /** Ends an attempt of a call that continues: it may wait for a further one in parallel. */
  #chargeAttempt(lease: ReferenceLease, chosen: number, more: number): void {
    const leaseId = this.#leaseIds.get(lease);
    const attempt = lease.underWay[chosen % Math.max(1, lease.underWay.length)];
    if (leaseId === undefined || attempt === undefined) return;
    const part = lease.parts[attempt - 1];
    const tokens = Math.max(0, (part?.inputTokens ?? 0) + more);
    const usage = {
      ...NO_USAGE,
      steps: part?.steps ?? 0,
      inputTokens: tokens,
      totalTokens: tokens,
    };
    this.#holderOf(lease).charge({ leaseId, ...(attempt === 1 ? {} : { attempt }) }, usage);
    this.#reference.charge(lease, attempt, usage);
    this.#book(lease.account.index, usage);
    this.#expected = this.#reference.serve(this.#clock.nowMs());
  }

  #grant({ agent, moreMs, ...chosen }: Extract<Operation, { type: "grant" }>): void {
    const { account, agentId } = this.#agentAt(agent);
    const raise = raiseOf(account.limits, chosen);
    const time = moreMs === undefined ? {} : { timeMs: moreMs };
    const budget = { ...toSpendAmounts(raise), ...time };
    const isGranted = !throwsAny(() => this.#ledger.grant(agentId, { budget, by: "somebody" }));
    if (this.#reference.grant(account, raise, moreMs) !== isGranted)
      throw wrong({ raise, moreMs }, isGranted);
    if (isGranted) this.#expected = this.#reference.serve(this.#clock.nowMs());
  }

  #holderOf({ account }: ReferenceLease): BudgetAccount {
    const agentId = this.#ids[account.index];
    if (agentId === undefined) throw new Error("An account of the reference was never opened.");
    return this.#ledger.getAccount(agentId);
  }

  #end(lease: ReferenceLease, usage: Usage | undefined): void {
    const leaseId = this.#leaseIds.get(lease);
    if (leaseId === undefined) throw new Error("A lease of the reference was never granted.");
    const account = this.#holderOf(lease);
    if (usage === undefined) account.release({ leaseId });
    else account.settle({ leaseId }, wholeOf(lease, usage));
    this.#ended.push({ leaseId, agentId: account.agentId });
    this.#reference.end(lease, usage);
    this.#book(lease.account.index, usage ?? NO_USAGE);
    this.#expected = this.#reference.serve(this.#clock.nowMs());
  }

  #endAgain(lease: number): void {
    const ended = this.#ended[lease % Math.max(1, this.#ended.length)];
    if (ended === undefined) return;
    const { leaseId } = ended;
    const account = this.#ledger.getAccount(ended.agentId);
    for (const again of [
      () => account.settle({ leaseId }, NO_USAGE),
      () => account.release({ leaseId }),
    ]) {
      if (!throwsAny(again)) throw new Error(`B2: ${leaseId} was ended twice.`);
    }
  }

  /** A refused operation has changed nothing: the lease is open, and no listener is called (B6). */
  #settleAbsurd({ lease, field, figure }: Extract<Operation, { type: "settleAbsurd" }>): void {
    const one = this.#chosen(lease);
    const leaseId = one === undefined ? undefined : this.#leaseIds.get(one);
    if (one === undefined || leaseId === undefined) return;
    const before = this.#ledger.snapshot();
    const told = this.#operations;
    const usage = { ...NO_USAGE, [field]: field === "costUsd" ? figure / 1_000_000 : figure };
    const settle = () => this.#holderOf(one).settle({ leaseId }, usage);
    if (!throwsAny(settle)) throw wrong(`a refusal of ${figure} ${field}`, "a settlement");
    if (!isDeepStrictEqual(this.#ledger.snapshot(), before))
      throw wrong(before, this.#ledger.snapshot());
    if (this.#operations !== told) throw wrong("nothing told", this.#operations - told);
  }

  #chargeToolCall(agent: number): void {
    const { account, agentId } = this.#agentAt(agent);
    const refusal = this.#ledger.getAccount(agentId).chargeToolCall();
    const expected = this.#reference.chargeToolCall(account, this.#clock.nowMs());
    if (!isDeepStrictEqual(refusal, expected)) throw wrong(expected, refusal);
    if (expected === undefined) this.#book(account.index, { ...NO_USAGE, toolCalls: 1 });
  }

  #cancel(waiter: number): void {
    const one = this.#reference.line[waiter % Math.max(1, this.#reference.line.length)];
    if (one === undefined) return;
    this.#reference.line = this.#reference.line.filter((other) => other !== one);
    if (one.extended !== undefined) one.extended.isWaiting = false;
    this.#pending.get(one.id)?.controller.abort();
    this.#cancelled = [one];
    this.#expected = this.#reference.serve(this.#clock.nowMs());
  }

  #turn(agent: number): void {
    const { account, agentId } = this.#agentAt(agent);
    const { still } = account.time;
    const last = still.at(-1);
    if (last !== undefined && last.untilMs === undefined) {
      last.untilMs = this.#clock.nowMs();
      this.#ledger.getAccount(agentId).resumeClock();
    } else {
      still.push({ fromMs: this.#clock.nowMs() });
      this.#ledger.getAccount(agentId).pauseClock();
    }
  }

  #exclude({ agent, ms }: Extract<Operation, { type: "exclude" }>): void {
    const { account, agentId } = this.#agentAt(agent);
    const nowMs = this.#clock.nowMs();
    closeStill(account.time, nowMs);
    account.time.still.push({ fromMs: nowMs - ms, untilMs: nowMs });
    this.#ledger.getAccount(agentId).excludeTime(ms);
  }

  #releaseAll(agent: number): void {
    const { account, agentId } = this.#agentAt(agent);
    const held = this.#reference.open.filter((lease) => lease.account === account);
    if (held.some(({ isWaiting }) => isWaiting)) return;
    const released = this.#ledger.getAccount(agentId).releaseOpen();
    const leaseIds = held.map((lease) => this.#leaseIds.get(lease));
    if (!isDeepStrictEqual(released, leaseIds)) throw wrong(leaseIds, released);
    this.#ended.push(...released.map((leaseId) => ({ leaseId, agentId })));
    for (const lease of held) {
      this.#reference.end(lease, undefined);
      this.#expected = [...this.#expected, ...this.#reference.serve(this.#clock.nowMs())];
    }
  }

  /** Waiting requests are lost with their process; another process restores the stored ledger. */
  #restart(): void {
    this.#ledger = restoredFrom(
      this.#ledger,
      this.#holders,
      new BudgetLedger(this.#clock, this.#watch),
    );
    this.#copy = restoredFrom(this.#copy, this.#holders, new BudgetLedger(this.#clock));
    this.#pending.clear();
    this.#reference.restart(this.#clock.nowMs());
  }

  /** Expects the same answers from both ledgers, and that the accounts satisfy the laws. */
  async compare(): Promise<void> {
    await Promise.resolve();
    await Promise.resolve();
    const nowMs = this.#clock.nowMs();
    for (const answer of this.#expected) this.#matchAnswer(answer, nowMs);
    for (const waiter of this.#cancelled) {
      const outcome = this.#take(waiter.id);
      const waitedMs = nowMs - waiter.askedAtMs;
      if (outcome?.type !== "cancelled" || outcome.waitedMs !== waitedMs)
        throw wrong("cancelled", outcome);
    }
    if (this.#answers.size > 0) throw wrong("no further answer", Object.fromEntries(this.#answers));
    this.#expected = [];
    this.#cancelled = [];
    matchThresholds(this.#thresholds, this.#reference.thresholds);
    this.#thresholds = [];
    this.#reference.thresholds = [];
    for (const lease of this.#reference.open)
      matchRoomWith(this.#holderOf(lease), lease, this.#leaseIds.get(lease), nowMs);
    checkAccounts(this.#ledger, this.#reference, this.#own, nowMs);
  }

  /** Expects that repeating all operations on a copy gives the same accounts (D2). */
  #compareCopy(): void {
    const copied = this.#copy.snapshot();
    if (!isDeepStrictEqual(copied, this.#ledger.snapshot()))
      throw wrong(this.#ledger.snapshot(), copied);
    const { leaseCount } = this.#ledger;
    if (this.#copy.leaseCount !== leaseCount) throw wrong(leaseCount, this.#copy.leaseCount);
  }

  /** B5: settling open leases answers every request in the end, and nothing stays reserved. */
  async drain(): Promise<void> {
    for (let one = this.#chosen(0); one !== undefined; one = this.#chosen(0)) {
      this.#settle({ type: "settle", lease: 0, input: -5, output: -5, cached: 0 });
      await this.compare();
    }
    // A call that waits for a further attempt may have other attempts running.
    const waiting = this.#reference.open.find(({ underWay }) => underWay.length > 0);
    if (waiting !== undefined) {
      this.#chargeAttempt(waiting, 0, -5);
      await this.compare();
      return await this.drain();
    }
    if (this.#pending.size > 0)
      throw wrong("none waits when none holds a lease", [...this.#pending.keys()]);
    this.#compareCopy();
    for (const account of this.#ledger.snapshot()) {
      for (const axis of LEDGER_AXES)
        if (account.reserved[axis] !== 0) throw wrong("nothing reserved", account);
    }
  }

  #matchAnswer(answer: ReferenceAnswer, nowMs: number): void {
    const outcome = this.#take(answer.waiter.id);
    if (outcome?.type !== answer.type || outcome.waitedMs !== nowMs - answer.waiter.askedAtMs)
      throw wrong(answer, outcome);
    if (outcome.type === "refused" && answer.type === "refused")
      if (!isDeepStrictEqual(outcome.refusal, answer.refusal)) throw wrong(answer, outcome);
    if (outcome.type !== "granted" || answer.type !== "granted") return;
    const { extended } = answer.waiter;
    if (extended === undefined) this.#granted += 1;
    const known = extended === undefined ? undefined : this.#leaseIds.get(extended);
    const leaseId = known ?? LeaseIdSchema().parse(`lease_${this.#granted}`);
    matchLease(outcome.lease, leaseId, answer);
    this.#leaseIds.set(answer.lease, leaseId);
  }

  #take(id: number): LeaseOutcome | undefined {
    const outcome = this.#answers.get(id);
    this.#answers.delete(id);
    this.#pending.delete(id);
    return outcome;
  }

  #book(index: number, usage: Usage): void {
    this.#own[index] = addOwn(this.#own[index] ?? NO_USAGE, usage);
  }
}
