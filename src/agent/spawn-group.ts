// SpawnGroup: the subagents that one reply of their parent started. Owns the count of how they ended, and decides when the others have to end.
//
// X11. `fail_fast`: the first that does not complete decides. `quorum`: n that completed decide, or that n cannot be reached any more.
//      Once decided, those that run are cancelled, and one that comes late is not started. One that was cancelled so is no further failure.

import type { Remaining } from "../budget/lease.ts";
import type { CallId } from "../protocol/ids.ts";
import type { FailurePolicy } from "../policies/delegation-policy.ts";

/** One of the group, as far as it matters here. */
export interface GroupMember {
  readonly childName: string;
  cancel(message: string): void;
}

export class SpawnGroup {
  readonly #failurePolicy: FailurePolicy;
  readonly #living = new Set<GroupMember>();
  /** Calls of the reply that may still become members. */
  #expected: number;
  /** True once more were started than the reply has calls for it: a delegation of one's own may start any number. */
  #isOpenEnded = false;
  /** Calls that may start a subagent each, and that have not come so far: for those behind them they count as started. */
  readonly #ahead = new Set<CallId>();
  #completed = 0;
  #left: Remaining | undefined;
  #decision: string | undefined;

  /** `size`: calls of the reply that name a role to start. */
  constructor(failurePolicy: FailurePolicy, size: number) {
    this.#failurePolicy = failurePolicy;
    this.#expected = size;
  }

  /** What was left for the group when its first member was to be started: all shares are parts of the same. */
  leftToShare(read: () => Remaining): Remaining {
    this.#left ??= read();
    return this.#left;
  }

  /** Why no further one is started; undefined: the group is open. */
  get decision(): string | undefined {
    return this.#decision;
  }

  /** How many calls of the reply, ahead of the next one, may start a subagent yet. */
  get ahead(): number {
    return this.#ahead.size;
  }

  /** A call of the reply may start a subagent, once its questions are answered. */
  expect(callId: CallId): void {
    this.#ahead.add(callId);
  }

  /** The subagent of a call is to be admitted now, or does not start. */
  forget(callId: CallId): void {
    this.#ahead.delete(callId);
  }

  /** A call of the reply became a subagent. */
  join(member: GroupMember): void {
    if (this.#expected === 0) this.#isOpenEnded = true;
    else this.#expected -= 1;
    this.#living.add(member);
  }

  /** One that had joined before the run was paused. */
  rejoin(member: GroupMember): void {
    this.#living.add(member);
  }

  /** A call of the reply came to nothing. */
  miss(): void {
    this.#expected = Math.max(0, this.#expected - 1);
    this.#decide();
  }

  /** A member has ended. */
  noteEnd(member: GroupMember, isCompleted: boolean): void {
    if (!this.#living.delete(member)) return;
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
    else if (!this.#isOpenEnded && this.#completed + this.#living.size + this.#expected < quorum)
      this.#end(`Of those started by the same reply, ${quorum} cannot complete any more.`);
  }

  #end(message: string): void {
    if (this.#decision !== undefined) return;
    this.#decision = message;
    for (const member of this.#living) member.cancel(message);
  }
}
