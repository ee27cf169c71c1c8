// Random schedules over random trees of accounts, played on the real ledger and on the naive one at once. After every operation
// both must agree, and what must always hold is checked on the real one's accounts alone.

import { isDeepStrictEqual } from "node:util";

import type {
  LeaseAsk,
  LeaseOutcome,
  LedgerWatch,
  ReachedThreshold,
} from "../../src/budget/lease.ts";
import type { BudgetAccount } from "../../src/budget/budget-account.ts";
import { BudgetLedger } from "../../src/budget/ledger.ts";
import { LedgerOperationSchema } from "../../src/budget/ledger-operation.ts";
import { redoOperation } from "../../src/budget/redo-operation.ts";
import { type SpendLimits } from "../../src/policies/budget.ts";
import { SPEND_AXES } from "../../src/protocol/account.ts";
import {
  AgentIdSchema,
  LeaseIdSchema,
  type AgentId,
  type LeaseId,
} from "../../src/protocol/ids.ts";
import { NO_USAGE, type Usage } from "../../src/protocol/usage.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { checkAccounts } from "./ledger-laws.ts";
import { MOST, PRICES, type Operation, type Schedule, type Seed } from "./ledger-operations.ts";
import {
  closeStill,
  LedgerReference,
  leftOf,
  openHoldOf,
  type ReferenceAnswer,
  type ReferenceLease,
  type ReferenceWaiter,
} from "./ledger-reference.ts";

interface Pending {
  readonly waiter: ReferenceWaiter;
  readonly controller: AbortController;
}

/** Plays one schedule to its end, then settles what is open until none holds and none waits. Throws at the first breach. */
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
  /** What a journal would make of it: the accounts as they were opened, and every operation done once more (D2). */
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
      redoOperation(this.#copy.getAccount(agentId), copied);
    },
  };
  #ledger = new BudgetLedger(this.#clock, this.#watch);
  readonly #reference = new LedgerReference();
  readonly #ids: AgentId[] = [];
  readonly #pending = new Map<number, Pending>();
  readonly #leaseIds = new Map<ReferenceLease, LeaseId>();
  readonly #ended: { readonly leaseId: LeaseId; readonly agentId: AgentId }[] = [];
  /** What each account spent itself, by hand. */
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
    const path = `agent_${accounts.length}`;
    const openedAtMs = this.#clock.nowMs();
    const deadlineAtMs = lifeMs === undefined ? undefined : openedAtMs + lifeMs;
    const parentId = above === undefined ? null : (this.#ids[above.index] ?? null);
    const agentId = AgentIdSchema().parse(path);
    const times = { deadlineAtMs, wallTimeMs: limitMs };
    this.#ledger.open({ agentId, path, limits, reserve, ...times }, parentId);
    this.#copy.adopt(this.#ledger.getAccount(agentId).snapshotAt(this.#ledger.clock.nowMs()));
    this.#reference.openAccount(
      above,
      { path, limits, reserve },
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

  #ask({ agent, input, output, price, least }: Extract<Operation, { type: "ask" }>): void {
    const account = this.#reference.accounts[agent % this.#reference.accounts.length];
    const agentId = account === undefined ? undefined : this.#ids[account.index];
    if (account === undefined || agentId === undefined) return;
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
    const held = openHoldOf(one);
    const inputTokens = Math.max(0, held.inputTokens + input);
    const outputTokens = Math.max(0, held.outputTokens + output);
    const cost = Math.max(0, held.costMicroUsd + input + output);
    this.#end(one, {
      ...NO_USAGE,
      modelCalls: 1,
      steps: held.steps,
      inputTokens,
      cachedInputTokens: Math.min(cached, inputTokens),
      outputTokens,
      totalTokens: inputTokens + outputTokens,
      costMicroUsd: held.costMicroUsd === 0 ? 0 : cost,
    });
  }

  #release(lease: number): void {
    const one = this.#chosen(lease);
    if (one !== undefined) this.#end(one, undefined);
  }

  /** One more attempt is asked for, once one under way is charged, or beside those. */
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

  /** An attempt ends whose call goes on: it may wait for a further one beside it. */
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
    const account = this.#reference.accounts[agent % this.#reference.accounts.length];
    const agentId = account === undefined ? undefined : this.#ids[account.index];
    if (account === undefined || agentId === undefined) return;
    const raise = raiseOf(account.limits, chosen);
    const { costMicroUsd, ...others } = raise;
    const budget = {
      ...others,
      ...(costMicroUsd === undefined ? {} : { costUsd: costMicroUsd / 1_000_000 }),
      ...(moreMs === undefined ? {} : { wallTimeMs: moreMs }),
    };
    let isGranted = true;
    try {
      this.#ledger.grant(agentId, { budget, by: "somebody" });
    } catch {
      isGranted = false;
    }
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
      let hasThrown = false;
      try {
        again();
      } catch {
        hasThrown = true;
      }
      if (!hasThrown) throw new Error(`B2: ${leaseId} was ended twice.`);
    }
  }

  /** What is refused has changed nothing: the lease is open, and no listener is called (B6). */
  #settleAbsurd({ lease, field, figure }: Extract<Operation, { type: "settleAbsurd" }>): void {
    const one = this.#chosen(lease);
    const leaseId = one === undefined ? undefined : this.#leaseIds.get(one);
    if (one === undefined || leaseId === undefined) return;
    const before = this.#ledger.snapshot();
    const told = this.#operations;
    let hasThrown = false;
    try {
      this.#holderOf(one).settle({ leaseId }, { ...NO_USAGE, [field]: figure });
    } catch {
      hasThrown = true;
    }
    if (!hasThrown) throw wrong(`a refusal of ${figure} ${field}`, "a settlement");
    if (!isDeepStrictEqual(this.#ledger.snapshot(), before))
      throw wrong(before, this.#ledger.snapshot());
    if (this.#operations !== told) throw wrong("nothing told", this.#operations - told);
  }

  #chargeToolCall(agent: number): void {
    const account = this.#reference.accounts[agent % this.#reference.accounts.length];
    const agentId = account === undefined ? undefined : this.#ids[account.index];
    if (account === undefined || agentId === undefined) return;
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
    const account = this.#reference.accounts[agent % this.#reference.accounts.length];
    const agentId = account === undefined ? undefined : this.#ids[account.index];
    if (account === undefined || agentId === undefined) return;
    const { still } = account.time;
    const last = still.at(-1);
    if (last !== undefined && last.untilMs === undefined) {
      last.untilMs = this.#clock.nowMs();
      this.#ledger.getAccount(agentId).resumeTime();
    } else {
      still.push({ fromMs: this.#clock.nowMs() });
      this.#ledger.getAccount(agentId).stopTime();
    }
  }

  #exclude({ agent, ms }: Extract<Operation, { type: "exclude" }>): void {
    const account = this.#reference.accounts[agent % this.#reference.accounts.length];
    const agentId = account === undefined ? undefined : this.#ids[account.index];
    if (account === undefined || agentId === undefined) return;
    const nowMs = this.#clock.nowMs();
    closeStill(account.time, nowMs);
    account.time.still.push({ fromMs: nowMs - ms, untilMs: nowMs });
    this.#ledger.getAccount(agentId).excludeTime(ms);
  }

  #releaseAll(agent: number): void {
    const account = this.#reference.accounts[agent % this.#reference.accounts.length];
    const agentId = account === undefined ? undefined : this.#ids[account.index];
    const held = this.#reference.open.filter((lease) => lease.account === account);
    if (agentId === undefined || held.some(({ isWaiting }) => isWaiting)) return;
    const released = this.#ledger.getAccount(agentId).releaseOpen();
    if (
      !isDeepStrictEqual(
        released,
        held.map((lease) => this.#leaseIds.get(lease)),
      )
    )
      throw wrong(held, released);
    for (const lease of held) {
      this.#ended.push(...released.map((leaseId) => ({ leaseId, agentId })));
      this.#reference.end(lease, undefined);
      this.#expected = [...this.#expected, ...this.#reference.serve(this.#clock.nowMs())];
    }
  }

  /** What waits is gone with its process; what was stored of the ledger is taken up by another one. */
  #restart(): void {
    this.#ledger = this.#restored(this.#ledger, this.#watch);
    this.#copy = this.#restored(this.#copy, {});
    this.#pending.clear();
    this.#reference.restart(this.#clock.nowMs());
  }

  #restored(ledger: BudgetLedger, watch: LedgerWatch): BudgetLedger {
    const restored = new BudgetLedger(this.#clock, watch);
    const leases = [...this.#holders].flatMap(([leaseId, agentId]) => {
      const open = ledger.getAccount(agentId).getLease(leaseId);
      if (open === undefined) return [];
      const { parts: _parts, ...stored } = open;
      return [stored];
    });
    restored.restore(ledger.snapshot(), ledger.leaseCount, leases);
    return restored;
  }

  /** Both ledgers gave the same answers, and the accounts obey the laws. */
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
    this.#matchThresholds();
    for (const lease of this.#reference.open) this.#matchRoomWith(lease, nowMs);
    checkAccounts(this.#ledger, this.#reference, this.#own, nowMs);
  }

  /** What was done, done once more on a copy, gives the same accounts (D2). */
  #compareCopy(): void {
    const copied = this.#copy.snapshot();
    if (!isDeepStrictEqual(copied, this.#ledger.snapshot()))
      throw wrong(this.#ledger.snapshot(), copied);
    if (this.#copy.leaseCount !== this.#ledger.leaseCount)
      throw wrong(this.#ledger.leaseCount, this.#copy.leaseCount);
  }

  /** B5: settling what is open answers everyone in the end, and nothing stays reserved. */
  async drain(): Promise<void> {
    for (let one = this.#chosen(0); one !== undefined; one = this.#chosen(0)) {
      this.#settle({ type: "settle", lease: 0, input: -5, output: -5, cached: 0 });
      await this.compare();
    }
    // A call that waits for a further attempt may have others under way.
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
      for (const axis of SPEND_AXES)
        if (account.reserved[axis] !== 0) throw wrong("nothing reserved", account);
    }
  }

  #matchAnswer(answer: ReferenceAnswer, nowMs: number): void {
    const outcome = this.#take(answer.waiter.id);
    if (outcome?.type !== answer.type || outcome.waitedMs !== nowMs - answer.waiter.askedAtMs) {
      throw wrong(answer, outcome);
    }
    if (outcome.type === "refused" && answer.type === "refused") {
      if (!isDeepStrictEqual(outcome.refusal, answer.refusal))
        throw wrong(answer.refusal, outcome.refusal);
    }
    if (outcome.type !== "granted" || answer.type !== "granted") return;
    const { hold, lastStep } = answer;
    const extended = answer.waiter.extended;
    if (extended === undefined) this.#granted += 1;
    const known = extended === undefined ? undefined : this.#leaseIds.get(extended);
    const leaseId = known ?? LeaseIdSchema().parse(`lease_${this.#granted}`);
    const lease = {
      leaseId,
      inputTokens: hold.inputTokens,
      maxOutputTokens: hold.outputTokens,
      ...(lastStep === undefined ? {} : { lastStep }),
      ...(extended === undefined ? {} : { attempt: extended.parts.length }),
    };
    if (!isDeepStrictEqual(outcome.lease, lease)) throw wrong(lease, outcome.lease);
    this.#leaseIds.set(answer.lease, leaseId);
  }

  /** A part of a limit is reported once, when it is spent (X6). */
  #matchThresholds(): void {
    const told = this.#thresholds.map(({ agentId: _agentId, ...reached }) => shown(reached));
    const expected = this.#reference.thresholds.map(
      ({ accountPath, axis, threshold, spent, maximum }) =>
        shown({ accountPath, axis, threshold, spent, maximum }),
    );
    if (!isDeepStrictEqual(told.toSorted(), expected.toSorted())) throw wrong(expected, told);
    this.#thresholds = [];
    this.#reference.thresholds = [];
  }

  /** What is left to the holder of a lease is as if it had never been given. */
  #matchRoomWith(lease: ReferenceLease, nowMs: number): void {
    const leaseId = this.#leaseIds.get(lease);
    if (leaseId === undefined) throw new Error("A lease of the reference was never granted.");
    const told = { ...this.#holderOf(lease).remainingWith({ leaseId }) };
    const expected = leftOf(lease.account, lease.account, nowMs, openHoldOf(lease));
    if (!isDeepStrictEqual(told, expected)) throw wrong(expected, told);
  }

  #take(id: number): LeaseOutcome | undefined {
    const outcome = this.#answers.get(id);
    this.#answers.delete(id);
    this.#pending.delete(id);
    return outcome;
  }

  #book(index: number, usage: Usage): void {
    const own = this.#own[index] ?? NO_USAGE;
    this.#own[index] = {
      ...own,
      modelCalls: own.modelCalls + usage.modelCalls,
      steps: own.steps + usage.steps,
      toolCalls: own.toolCalls + usage.toolCalls,
      inputTokens: own.inputTokens + usage.inputTokens,
      cachedInputTokens: own.cachedInputTokens + usage.cachedInputTokens,
      outputTokens: own.outputTokens + usage.outputTokens,
      totalTokens: own.totalTokens + usage.totalTokens,
      costMicroUsd: (own.costMicroUsd ?? 0) + (usage.costMicroUsd ?? 0),
    };
  }
}

function raiseOf(
  limits: SpendLimits,
  {
    axis,
    isForeign,
    percent,
  }: Pick<Extract<Operation, { type: "grant" }>, "axis" | "isForeign" | "percent">,
): SpendLimits {
  const axes = SPEND_AXES.filter((one) => isForeign || limits[one] !== undefined);
  const raised = axes[axis % Math.max(1, axes.length)];
  return raised === undefined ? {} : { [raised]: Math.ceil((MOST[raised] * percent) / 100) };
}

/** What a call used in all: what its attempts were charged, and the last one. */
function wholeOf({ charged }: ReferenceLease, usage: Usage): Usage {
  const whole = { ...usage };
  for (const axis of SPEND_AXES) whole[axis] += charged[axis];
  return whole;
}

function wrong(expected: unknown, got: unknown): Error {
  return new Error(`Expected ${shown(expected)}, got ${shown(got)}.`);
}

function shown(value: unknown): string {
  return JSON.stringify(value, (key, part: unknown) => (key === "parent" ? undefined : part));
}
