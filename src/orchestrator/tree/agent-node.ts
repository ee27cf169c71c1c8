// AgentNode: one agent in the tree. Owns its abort controllers, its clock, its inbox and the state in which it rests.
// Cancellation runs from parent to child, never back (R148): each node tells those below it that live, and no signal listens to another.

import { invariant } from "../../kernel/assert.ts";
import type { CancelReason } from "../../kernel/cancel.ts";
import type { Clock } from "../../kernel/clock.ts";
import type { JsonObject } from "../../kernel/json.ts";
import type { AgentIdentity } from "../../agent/agent-context.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import type { PausedState, PendingState, RestingState } from "../../agent/agent-state.ts";
import type { AgentId, CallId, StepId } from "../../protocol/ids.ts";
import type { StopSignal } from "../../protocol/stop.ts";
import { childNameOf, type RoleDraft } from "../../protocol/subagent.ts";
import { NO_TOOL_LIMITS, type ToolLimits } from "../../protocol/tool-rule.ts";
import { tighterShape, type TreeShape } from "../../policies/subagent-limits.ts";
import { AgentClock, type DeadlineKeeper, type TimeAccounts } from "../budget/agent-clock.ts";
import { AgentInbox } from "./mailbox.ts";
import { BackgroundChildren } from "./background-children.ts";
import type { Unfinished } from "../durability/in-flight.ts";
import { SpawnGroup } from "./spawn-group.ts";

export interface AgentNodeOptions {
  readonly identity: AgentIdentity;
  readonly role: AgentRole;
  readonly task: string;
  readonly metadata: JsonObject;
  readonly parent: AgentNode | undefined;
  /** The call in its parent that started it. */
  readonly spawnCallId: CallId | undefined;
  /** The step of its parent in which it was started. */
  readonly spawnStepId: StepId | undefined;
  /** The state from which it is to live: its first, or that of a paused run. */
  readonly state: PendingState | RestingState;
  readonly clock: Clock;
  /** Holds the agent's account already. */
  readonly ledger: TimeAccounts;
  /** Of an agent that lived before the run was paused. */
  readonly before?: NodeHistory;
  /** What its parent's model wrote, where its role was made at spawn (X27). */
  readonly draft?: RoleDraft | undefined;
  /** Aborted once the tree was asked to pause. */
  readonly pauseSignal: AbortSignal;
  /** How deep and how broad the tree below may be, as it holds above the agent. */
  readonly limits: TreeShape;
  /** What it may not use. Default: it has all tools of its role. */
  readonly toolLimits?: ToolLimits;
  /** What it had begun when its process died. */
  readonly unfinished?: Unfinished | undefined;
  /** Is told when its time is over. Default: nobody, and it ends. */
  readonly deadlines?: DeadlineKeeper | undefined;
}

/** What is known of an agent that has lived before. */
export interface NodeHistory {
  readonly startedAtMs: number;
  /** Subagents that it has started, and how many were started below it in all. */
  readonly children: number;
  readonly subagentsBelow: number;
  readonly ordinals: Readonly<Record<string, number>>;
  /** Which execution of it this is, from 1. */
  readonly execution: number;
  /** It was left to the run by its parent. */
  readonly isDetached: boolean;
}

export class AgentNode {
  readonly identity: AgentIdentity;
  readonly role: AgentRole;
  readonly task: string;
  readonly metadata: JsonObject;
  readonly spawnCallId: CallId | undefined;
  readonly spawnStepId: StepId | undefined;
  readonly draft: RoleDraft | undefined;
  readonly startedAtMs: number;
  /** Which execution of the agent this is, from 1. */
  readonly execution: number;
  /** How deep and how broad the tree below it may be (X16). */
  readonly limits: TreeShape;
  /** What it may not use, and nobody below it (T4). */
  readonly toolLimits: ToolLimits;
  readonly inbox: AgentInbox;
  readonly #time: AgentClock;
  #parent: AgentNode | undefined;
  readonly #controller = new AbortController();
  readonly #start = new AbortController();
  /** Those that are told of its cancel: its children, or those that were left to it, as far as they have not ended. Made when needed. */
  #followers: Set<AgentNode> | undefined;
  #ordinals: Map<string, number> | undefined;
  #state: PendingState | RestingState;
  #isLive = false;
  /** Lets its time go on, which stands still while it is paused. */
  #endRest = (): void => undefined;
  #children: number;
  #subagentsBelow: number;
  // Made when needed: most agents are leaves, and three empty maps for each of ten thousand are megabytes.
  #background: BackgroundChildren | undefined;
  #subagents: Map<string, AgentNode> | undefined;
  #groups: Map<StepId, SpawnGroup> | undefined;
  /** In which step it was last told of the end of a subagent by one of its own calls. */
  #told: Map<AgentId, StepId | undefined> | undefined;
  #living: Promise<unknown> = Promise.resolve();
  #isDetached: boolean;
  #unfinished: Unfinished | undefined;

  constructor(options: AgentNodeOptions) {
    this.identity = options.identity;
    this.role = options.role;
    this.task = options.task;
    this.metadata = options.metadata;
    this.#parent = options.parent;
    this.spawnCallId = options.spawnCallId;
    this.spawnStepId = options.spawnStepId;
    this.draft = options.draft;
    this.limits = tighterShape(options.limits, options.role.limits);
    this.toolLimits = options.toolLimits ?? NO_TOOL_LIMITS;
    this.execution = options.before?.execution ?? 1;
    this.#subagentsBelow = options.before?.subagentsBelow ?? 0;
    this.#isDetached = options.before?.isDetached ?? false;
    this.#state = options.state;
    this.#unfinished = options.unfinished;
    this.startedAtMs = options.before?.startedAtMs ?? options.clock.nowMs();
    this.#children = options.before?.children ?? 0;
    const { ordinals } = options.before ?? {};
    if (ordinals !== undefined) this.#ordinals = new Map(Object.entries(ordinals));
    this.inbox = new AgentInbox(this.signal, options.pauseSignal, options.state.log.signals);
    this.#time = new AgentClock({
      agentId: options.identity.agentId,
      clock: options.clock,
      ledger: options.ledger,
      parent: options.parent === undefined ? undefined : options.parent.#time,
      keeper: options.deadlines,
      onDeadline: (deadlineAtMs) => this.endAt(deadlineAtMs),
    });
    this.#follow(this.#isDetached ? this.root : options.parent); // What throws has thrown: nothing above knows of half an agent.
    if (this.#isDetached && !this.hasEnded) this.#time.standAlone();
    if (this.hasEnded) this.close();
    else if (options.before !== undefined) this.#time.heedOverdue();
  }

  /** Aborted when the agent, or one above it, must end. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Aborted when the agent must not start anything further: with `signal`, and as soon as somebody wishes it to stop. */
  get startSignal(): AbortSignal {
    return this.#start.signal;
  }

  /** Time that does not count against its time limit, since it waited for an answer or was paused. */
  get pausedMs(): number {
    return this.#time.stoodMs;
  }

  /** The state from which it lives next, or in which it rests. */
  get standingState(): PendingState | RestingState {
    return this.#state;
  }

  /** The state in which it rests; undefined while it has not begun, or runs. */
  get rested(): RestingState | undefined {
    return this.#isLive || this.#state.status === "pending" ? undefined : this.#state;
  }

  get hasEnded(): boolean {
    return this.rested !== undefined && this.rested.status !== "paused";
  }

  /** Subagents that it has started. */
  get breadth(): number {
    return this.#children;
  }

  /** Subagents that were started below it, at any depth. */
  get subagentsBelow(): number {
    return this.#subagentsBelow;
  }

  /** Its subagents, in the order of their start. */
  get subagents(): readonly AgentNode[] {
    return [...(this.#subagents?.values() ?? [])];
  }

  /** The subagent of this name. */
  subagent(childName: string): AgentNode | undefined {
    return this.#subagents?.get(childName);
  }

  /** Takes in a subagent, or the one that goes on in its place. */
  enlist(child: AgentNode): void {
    child.#parent = this;
    this.#subagents ??= new Map();
    this.#subagents.set(child.childName, child);
  }

  /** Takes out a subagent that could not be set up whole. */
  delist(child: AgentNode): void {
    this.#subagents?.delete(child.childName);
  }

  /** Its subagents that live beside it. */
  get background(): BackgroundChildren {
    this.#background ??= new BackgroundChildren();
    return this.#background;
  }

  /** A call of the step has told the agent how this subagent ended. */
  noteTold(childId: AgentId, stepId: StepId | undefined): void {
    this.#told ??= new Map();
    this.#told.set(childId, stepId);
  }

  /** True if a call of the step has told it of the subagent's end, also before a pause. */
  wasTold(childId: AgentId, stepId: StepId): boolean {
    if (this.#told?.get(childId) === stepId) return true;
    const step = this.#state.status === "paused" ? this.#state.step : undefined;
    return (
      step?.stepId === stepId &&
      step.executions.some(({ reportedIds = [] }) => reportedIds.includes(childId))
    );
  }

  /** What it had begun when its process died, until it is done once more. */
  get unfinished(): Unfinished | undefined {
    return this.#unfinished;
  }

  /** The phase in which its process died is over. */
  finish(): void {
    this.#unfinished = undefined;
  }

  /** Somebody leads it until this settles. */
  livesUntil(rested: Promise<unknown>): void {
    this.#living = rested;
  }

  /** Resolves once it rests and, if it works beside its parent, the parent has been told. */
  async atRest(): Promise<void> {
    await Promise.allSettled([this.#living]);
    await this.parent?.background.allAtRest([this.identity.agentId]);
  }

  /** What its parent, and its parent's model, call it: the end of its path. */
  get childName(): string {
    return childNameOf(this.identity.agentPath);
  }

  /** The run keeps it alive, not its parent. */
  get isDetached(): boolean {
    return this.#isDetached;
  }

  /** Leaves it to the run: its parent may end. Whoever cancels the root still cancels it. */
  detach(): void {
    this.#isDetached = true;
    this.#unfollow(this.parent);
    this.#follow(this.root);
    this.#time.standAlone();
  }

  /** All that follow it and have not ended, at any depth. */
  *livingBelow(): Generator<AgentNode, void, undefined> {
    for (const node of this.#followers ?? []) {
      yield node;
      yield* node.livingBelow();
    }
  }

  /** Is told when `above` is. */
  #follow(above: AgentNode | undefined): void {
    if (above === undefined || above === this) return;
    if (above.signal.aborted) this.#abort(above.signal.reason);
    else (above.#followers ??= new Set()).add(this);
  }

  #unfollow(above: AgentNode | undefined): void {
    if (above !== undefined) above.#followers?.delete(this);
  }

  /** Told to end: what it would start, what it has under way, and all that follow it, in this order. */
  #abort(reason: unknown): void {
    if (this.signal.aborted) return;
    this.#start.abort(reason);
    this.#controller.abort(reason);
    for (const node of this.#followers ?? []) node.#abort(reason);
  }

  /** The agent that started it, as it lives now. */
  get parent(): AgentNode | undefined {
    return this.#parent;
  }

  get root(): AgentNode {
    return this.parent === undefined ? this : this.parent.root;
  }

  /** The subagents that a step of it starts (X11). `size`: how many delegations the reply has, where that is known. */
  groupOf(stepId: StepId, size = Infinity): SpawnGroup {
    this.#groups ??= new Map();
    const known = this.#groups.get(stepId);
    if (known !== undefined) return known;
    const group = new SpawnGroup(this.role.delegation.onFailure, size);
    this.#groups.set(stepId, group);
    return group;
  }

  /** How many subagents of each role were numbered. */
  get ordinals(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#ordinals ?? []);
  }

  /** Counts one more child and gives its place in the tree: `lead/researcher#2`. */
  adopt(roleName: string): string {
    this.#children += 1;
    this.countBelow(1);
    this.#ordinals ??= new Map();
    const ordinal = (this.#ordinals.get(roleName) ?? 0) + 1;
    this.#ordinals.set(roleName, ordinal);
    return `${this.identity.agentPath}/${roleName}#${ordinal}`;
  }

  /** Undoes `adopt` for a child that was never set up. Its ordinal stays taken, so that no two agents share a path. */
  disown(): void {
    this.#children -= 1;
    this.countBelow(-1);
  }

  /** So many more subagents were started below it. */
  countBelow(by: number): void {
    this.#subagentsBelow += by;
    this.parent?.countBelow(by);
  }

  /** An effect of the agent is under way until the result is called. Begin before the ledger is asked. */
  working(): () => void {
    return this.#time.working();
  }

  /** Looks at its deadline again, after its limit in time was raised. */
  heedDeadline(): void {
    this.#time.rearm();
  }

  /** A question of the agent waits for an answer until the result is called. */
  asking(): () => void {
    return this.#time.asking();
  }

  /** Cancels the agent and all below it. */
  cancel(message: string): void {
    const { agentId } = this.identity;
    const reason: CancelReason = { type: "cancelled", message, agentId };
    this.#abort(reason);
  }

  /** Raises a stop signal, which takes effect before the next phase. */
  raise(signal: StopSignal): void {
    this.inbox.raise(signal);
    this.#start.abort(signal);
  }

  /** The agent lives from now on, from the state that this gives: its first, or the one in which it was paused. */
  rise(): PendingState | PausedState {
    const state = this.#state;
    invariant(
      !this.#isLive && (state.status === "pending" || state.status === "paused"),
      `${this.identity.agentPath} is not alive and has not ended`,
    );
    this.#isLive = true;
    this.#endRest();
    this.inbox.reopen();
    return state;
  }

  /** Notes the state in which it rests. One that has ended lets go of timers and of its parent's signal; a paused one still heeds them. */
  rest(state: RestingState): void {
    this.#isLive = false;
    this.#state = state;
    this.inbox.close(state.status);
    if (state.status === "paused") this.#endRest = this.#time.asking();
    else this.close();
  }

  close(): void {
    if (this.rested !== undefined) this.inbox.close(this.rested.status);
    this.#time.close();
    this.#unfollow(this.parent);
    this.#unfollow(this.root);
  }

  /** Ends the agent and all below it, since its time is over. */
  endAt(deadlineAtMs: number): void {
    const { agentId, agentPath } = this.identity;
    const message = `The time limit of ${agentPath} is over.`;
    const reason: CancelReason = { type: "deadline", message, deadlineAtMs, agentId };
    this.#abort(reason);
  }
}
