// SpawnGroup: the subagents that one reply of their parent started. Owns the counts of their
// endings, and decides when the other members have to end.
//
// - `fail_fast`: the first member that does not complete decides.
// - `quorum`: decided once n members have completed, or once n can no longer complete.
//
// After the decision, active members are cancelled, and later ones are not started. A member
// cancelled by the decision does not count as a further failure.

import type { Remaining } from "../budget/lease.ts";
import type { CallId } from "../protocol/ids.ts";
import type { FailurePolicy } from "../policies/delegation-policy.ts";

/** The properties of a member that this file needs. */
export interface GroupMember {
  readonly childName: string;
  cancel(message: string): void;
}

export class SpawnGroup {
  readonly #failurePolicy: FailurePolicy;
  readonly #active = new Set<GroupMember>();
  /** Number of calls of the reply that may still become members. */
  #expected: number;
  /**
   * True once more subagents were started than the reply has delegations, because a custom
   * delegation may start any number.
   */
  #isOpenEnded = false;
  /**
   * Calls that may start a subagent each and are not decided yet. For the calls behind them they
   * count as started.
   */
  readonly #ahead = new Set<CallId>();
  #completed = 0;
  #sharedBudget: Remaining | undefined;
  #decision: string | undefined;

  /** `size` is the number of calls of the reply that name a role to start. */
  constructor(failurePolicy: FailurePolicy, size: number) {
    this.#failurePolicy = failurePolicy;
    this.#expected = size;
  }

  /**
   * Returns the budget that was left when the first member was about to start. All shares are parts
   * of this amount.
   */
  getSharedBudget(read: () => Remaining): Remaining {
    this.#sharedBudget ??= read();
    return this.#sharedBudget;
  }

  /** The reason why no further member is started. `undefined` while the group is open. */
  get decision(): string | undefined {
    return this.#decision;
  }

  /** Number of calls of the reply, ahead of the next one, that may still start a subagent. */
  get aheadCount(): number {
    return this.#ahead.size;
  }

  /** Notes that a call of the reply may start a subagent once its questions are answered. */
  expect(callId: CallId): void {
    this.#ahead.add(callId);
  }

  /**
   * Removes a call from those ahead, because its subagent is about to be admitted or does not
   * start.
   */
  forget(callId: CallId): void {
    this.#ahead.delete(callId);
  }

  /** Adds the subagent of a call as a member. */
  join(member: GroupMember): void {
    if (this.#expected === 0) this.#isOpenEnded = true;
    else this.#expected -= 1;
    this.#active.add(member);
  }

  /** Adds a member that had joined before the run was paused. */
  rejoin(member: GroupMember): void {
    this.#active.add(member);
  }

  /** Counts a call of the reply that does not become a member. */
  countMissing(): void {
    this.#expected = Math.max(0, this.#expected - 1);
    this.#decide();
  }

  /** Counts the end of a member. */
  noteEnd(member: GroupMember, isCompleted: boolean): void {
    if (!this.#active.delete(member)) return;
    if (isCompleted) this.#completed += 1;
    else if (this.#failurePolicy === "fail_fast")
      this.#end(`${member.childName}, started by the same reply, did not complete.`);
    this.#decide();
  }

  #decide(): void {
    if (typeof this.#failurePolicy === "string") return;
    const { quorum } = this.#failurePolicy;
    if (this.#completed >= quorum)
      this.#end(
        `${this.#completed} of those started by the same reply have completed, which is enough.`,
      );
    else if (!this.#isOpenEnded && this.#completed + this.#active.size + this.#expected < quorum)
      this.#end(`Of those started by the same reply, ${quorum} cannot complete any more.`);
  }

  #end(message: string): void {
    if (this.#decision !== undefined) return;
    this.#decision = message;
    for (const member of this.#active) member.cancel(message);
  }
}
