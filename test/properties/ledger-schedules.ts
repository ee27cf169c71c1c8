// Random schedules over random trees of accounts, played on the real ledger and on the naive one at once. After every operation
// both must agree, and what must always hold is checked on the real one's accounts alone.

import { isDeepStrictEqual } from "node:util";

import type { LeaseAsk, LeaseOutcome } from "../../src/budget/lease.ts";
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
  LedgerReference,
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
  readonly #copy = new BudgetLedger(this.#clock);
  readonly #holders = new Map<LeaseId, AgentId>();
  readonly #ledger = new BudgetLedger(this.#clock, {
    onOperation: (done) => {
      this.#operations += 1;
      const copied = LedgerOperationSchema().parse(done);
      if (copied.operation === "lease") this.#holders.set(copied.lease.leaseId, copied.agentId);
      const agentId = "agentId" in copied ? copied.agentId : this.#holders.get(copied.leaseId);
      if (agentId === undefined) throw wrong("a lease that was given", copied);
      redoOperation(this.#copy.accountView(agentId), copied);
    },
  });
  readonly #reference = new LedgerReference();
  readonly #ids: AgentId[] = [];
  readonly #pending = new Map<number, Pending>();
  readonly #leaseIds = new Map<ReferenceLease, LeaseId>();
  readonly #ended: { readonly leaseId: LeaseId; readonly account: BudgetAccount }[] = [];
  /** What each account spent itself, by hand. */
  readonly #own: Usage[] = [];
  /** Answers of the real ledger since the last comparison. */
  #answers = new Map<number, LeaseOutcome>();
  #expected: readonly ReferenceAnswer[] = [];
  #cancelled: readonly ReferenceWaiter[] = [];
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
    this.#copy.adopt(this.#ledger.account(agentId));
    this.#reference.openAccount(above, { limits, reserve }, { openedAtMs, deadlineAtMs, limitMs });
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
      case "advance":
        return this.#clock.advance(operation.byMs);
    }
  }

  #ask({ agent, input, output, price }: Extract<Operation, { type: "ask" }>): void {
    const account = this.#reference.accounts[agent % this.#reference.accounts.length];
    const agentId = account === undefined ? undefined : this.#ids[account.index];
    if (account === undefined || agentId === undefined) return;
    const priced = PRICES[price % PRICES.length];
    const ask = { inputTokens: input, maxOutputTokens: output, price: priced };
    this.#wait({ account, ask, extended: undefined }, (signal) =>
      this.#ledger.accountView(agentId).reserve(ask, signal),
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
    const inputTokens = Math.max(0, one.hold.inputTokens + input);
    const outputTokens = Math.max(0, one.hold.outputTokens + output);
    const cost = Math.max(0, one.hold.costMicroUsd + input + output);
    this.#end(one, {
      ...NO_USAGE,
      modelCalls: 1,
      steps: one.hold.steps,
      inputTokens,
      cachedInputTokens: Math.min(cached, inputTokens),
      outputTokens,
      totalTokens: inputTokens + outputTokens,
      costMicroUsd: one.hold.costMicroUsd === 0 ? 0 : cost,
    });
  }

  #release(lease: number): void {
    const one = this.#chosen(lease);
    if (one !== undefined) this.#end(one, undefined);
  }

  /** The attempt under way is charged, and another one asked for. */
  #extend({ lease, used, input, output, price }: Extract<Operation, { type: "extend" }>): void {
    const one = this.#chosen(lease);
    const leaseId = one === undefined ? undefined : this.#leaseIds.get(one);
    if (one === undefined || leaseId === undefined) return;
    const tokens = Math.max(0, one.hold.inputTokens + used);
    const { steps } = one.hold;
    const lost = { ...NO_USAGE, steps, inputTokens: tokens, totalTokens: tokens };
    const sizes = { inputTokens: input, maxOutputTokens: output };
    const asked = { leaseId, ...sizes };
    const account = this.#holderOf(one);
    account.charge({ ...asked, attempt: one.attempt }, lost);
    this.#reference.charge(one, lost);
    this.#book(one.account.index, lost);
    this.#expected = this.#reference.serve(this.#clock.nowMs());
    const priced = PRICES[price % PRICES.length];
    one.isWaiting = true;
    const ask: LeaseAsk = { ...sizes, price: priced, steps: 0 };
    this.#wait({ account: one.account, ask, extended: one }, (signal) =>
      account.extend(asked, { price: priced }, signal),
    );
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
    return this.#ledger.accountView(agentId);
  }

  #end(lease: ReferenceLease, usage: Usage | undefined): void {
    const leaseId = this.#leaseIds.get(lease);
    if (leaseId === undefined) throw new Error("A lease of the reference was never granted.");
    const account = this.#holderOf(lease);
    if (usage === undefined) account.release({ leaseId });
    else account.settle({ leaseId }, wholeOf(lease, usage));
    this.#ended.push({ leaseId, account });
    this.#reference.end(lease, usage);
    this.#book(lease.account.index, usage ?? NO_USAGE);
    this.#expected = this.#reference.serve(this.#clock.nowMs());
  }

  #endAgain(lease: number): void {
    const ended = this.#ended[lease % Math.max(1, this.#ended.length)];
    if (ended === undefined) return;
    const { leaseId, account } = ended;
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
    const refusal = this.#ledger.accountView(agentId).chargeToolCall();
    const isCharged = this.#reference.chargeToolCall(account, this.#clock.nowMs());
    if (isCharged !== (refusal === undefined))
      throw new Error(`A tool call of ${agentId}: ${JSON.stringify(refusal)}`);
    if (isCharged) this.#book(account.index, { ...NO_USAGE, toolCalls: 1 });
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
      this.#ledger.accountView(agentId).resumeTime();
    } else {
      still.push({ fromMs: this.#clock.nowMs() });
      this.#ledger.accountView(agentId).stopTime();
    }
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
    if (outcome.type !== "granted" || answer.type !== "granted") return;
    const { leaseId, inputTokens, maxOutputTokens, attempt } = outcome.lease;
    const { hold } = answer.lease;
    const extended = answer.waiter.extended;
    if (extended === undefined) this.#granted += 1;
    const known = extended === undefined ? undefined : this.#leaseIds.get(extended);
    const isExpected =
      leaseId === (known ?? LeaseIdSchema().parse(`lease_${this.#granted}`)) &&
      attempt === (extended === undefined ? undefined : extended.attempt) &&
      inputTokens === hold.inputTokens &&
      maxOutputTokens === hold.outputTokens;
    if (!isExpected) throw wrong({ number: this.#granted, hold }, outcome);
    this.#leaseIds.set(answer.lease, leaseId);
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
