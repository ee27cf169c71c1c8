// SpawnGroup: the subagents that one reply of their parent started. Owns the counts of their
// endings, and decides when the other members have to end.
//
// - `fail_fast`: the first member that does not complete decides.
// - `quorum`: decided once n members have completed, or once n can no longer complete.
//
// After the decision, active members are cancelled, and later ones are not started. A member
// cancelled by the decision does not count as a further failure.
//
// All calls of a batch are checked before anyone answers a question about them. A call that guards,
// hooks or approvers still decide therefore takes a place, which counts as a started subagent when
// the calls behind it are checked.

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
  #openCalls: number;
  /**
   * True once more subagents were started than the reply has delegations, because a custom
   * delegation may start any number.
   */
  #isOpenEnded = false;
  /** Calls that may start a subagent each, and are neither started nor denied yet. */
  readonly #places = new Set<CallId>();
  #completed = 0;
  #sharedBudget: Remaining | undefined;
  #decision: string | undefined;

  /** `size` is the number of calls of the reply that name a role to start. */
  constructor(failurePolicy: FailurePolicy, size: number) {
    this.#failurePolicy = failurePolicy;
    this.#openCalls = size;
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

  /** Number of places that calls ahead of the next one have taken. */
  get takenPlaces(): number {
    return this.#places.size;
  }

  /** Takes a place for a call that may start a subagent once its questions are answered. */
  takePlace(callId: CallId): void {
    this.#places.add(callId);
  }

  /** Gives the place of a call back, because its subagent is admitted now or does not start. */
  givePlaceBack(callId: CallId): void {
    this.#places.delete(callId);
  }

  /** Adds the subagent of a call as a member. */
  join(member: GroupMember): void {
    if (this.#openCalls === 0) this.#isOpenEnded = true;
    else this.#openCalls -= 1;
    this.#active.add(member);
  }

  /** Adds a member that had joined before the run was paused. */
  rejoin(member: GroupMember): void {
    this.#active.add(member);
  }

  /** Counts a call of the reply that does not become a member. */
  countMissing(): void {
    this.#openCalls = Math.max(0, this.#openCalls - 1);
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
    else if (!this.#isOpenEnded && this.#completed + this.#active.size + this.#openCalls < quorum)
      this.#end(`Of those started by the same reply, ${quorum} cannot complete any more.`);
  }

  #end(message: string): void {
    if (this.#decision !== undefined) return;
    this.#decision = message;
    for (const member of this.#active) member.cancel(message);
  }
}
