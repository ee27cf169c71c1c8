// LiveRun: runs a tree in this process until it settles, from its start or from a restored state. A
// run that continues by itself after a pause has a LiveRun per continuation. Does not own the
// controls, which are in RunHandle.

import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { getPausedChildren } from "../../agent/agent-state.ts";
import { omitUndefined } from "../../kernel/json.ts";
import type { Release, Semaphore } from "../../kernel/semaphore.ts";
import { isInScope } from "../../protocol/correlation.ts";
import { EVENT_SCHEMA_VERSION } from "../../protocol/event-bodies.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { RunOrigin, StartFacts } from "../../run-services/run-ids.ts";
import { createScopeWithoutExecution, type RunRuntime } from "../tree/run-runtime.ts";
import type { RunTree } from "../tree/run-tree.ts";
import { resumeDetachedAgents, runUntilSettled } from "../tree/supervisor.ts";
import {
  type PausesBefore,
  recordRunEnd,
  recordRunPause,
  type JsonRunResult,
} from "./run-result.ts";
import { MailReader, type ReceivedMail } from "./run-mail.ts";
import type { Run } from "./run.ts";

/** A run that is ready to start or to continue. None of its agents has run yet. */
export interface PreparedRun extends PausesBefore {
  readonly run: RunRuntime;
  readonly root: AgentRuntime;
  /** Fields of its first event that differ between runs. */
  readonly origin: RunOrigin;
  /** True if the store may refuse the run. The run then waits until the store has accepted it. */
  readonly isRefusable?: boolean;
  readonly beforeFirstEvent?: () => void;
  /** Appends the records that follow the first event, before any agent continues. */
  readonly afterFirstEvent?: () => void;
  /** Mail that arrived earlier. */
  readonly mail?: readonly ReceivedMail[] | undefined;
  /** Numbers of mail that needs no further handling, with the problem of each. */
  readonly settledMail?: ReadonlyMap<number, string | undefined>;
}

const NONE: readonly never[] = Object.freeze([]);

export class LiveRun {
  readonly prepared: PreparedRun;
  readonly run: RunRuntime;
  readonly root: AgentRuntime;
  /** `undefined` if the run has no store. */
  readonly mail: MailReader | undefined;
  /** True once the run has settled or failed. */
  isOver = false;
  #hasBegun = false;
  /** Agents that `#reactivateUnblocked` has found, each once. */
  #reactivated: readonly AgentRuntime[] = NONE;
  /** Records that wait for the first event. */
  #early: readonly (() => void)[] = NONE;
  /** Milliseconds that the run waited for a slot. `undefined` without a slot. */
  #queuedMs: number | undefined;
  #releaseSlot: Release | undefined;

  /** `controls` carries out requests that arrive by mail. */
  constructor(prepared: PreparedRun, controls: Run) {
    const { run, root } = prepared;
    this.prepared = prepared;
    this.run = run;
    this.root = root;
    this.mail = run.journal && new MailReader(controls, run, run.journal);
  }

  /** Runs the root until it ends, or until it is paused and nothing lets it continue. */
  async runRoot(): Promise<void> {
    const { root, run, prepared } = this;
    const { runSlots, throttle } = run.settings;
    const admitted = runSlots && this.#waitForSlot(runSlots);
    await Promise.resolve(); // The caller may subscribe or call iterate() synchronously after start().
    const turn = throttle.turn();
    if (turn !== undefined) await turn;
    const { journal, tree, session } = run;
    const claiming = prepared.isRefusable ? journal?.writer.whenClaimed() : undefined;
    if (claiming !== undefined) await claiming; // A run that the store refuses records nothing.
    if (admitted !== undefined) await admitted;
    if (this.isOver) await journal?.writer.broken; // The run was released before it began.
    prepared.beforeFirstEvent?.();
    const createFacts = (): StartFacts => ({
      schemaVersion: EVENT_SCHEMA_VERSION,
      role: root.role.name,
      task: root.taskText,
      limits: tree.limits,
      budget: root.account.remaining(),
      ...omitUndefined({ sessionId: session?.ref.sessionId, queuedMs: this.#queuedMs }),
    });
    run.recorder.begin(createScopeWithoutExecution(root), prepared.origin, createFacts);
    prepared.afterFirstEvent?.();
    this.#hasBegun = true;
    this.mail?.start();
    for (const record of this.#early) record();
    if (prepared.mail !== undefined) this.mail?.handle(prepared.mail, prepared.settledMail);
    if ((this.#queuedMs ?? 0) > 0) await journal?.writer.whenPersisted(); // Now a crash counts.
    while (!root.hasEnded) {
      await root.stepper?.pass();
      await runUntilSettled(root);
      if (!root.hasEnded && !(await this.#continueUnblocked(tree))) break;
    }
    if (session === undefined) return;
    // Saves the root's messages once its end is persisted. A paused run releases the session.
    await journal?.writer.whenPersisted();
    await session.save(root, root.account.usage().total);
  }

  /**
   * Waits for a slot of the orchestrator (`maxConcurrentRuns`), or until the root is aborted.
   * Relative time limits do not advance meanwhile. A run that was started by code of another run
   * never waits, because the other run may wait for its result while it holds a slot.
   */
  async #waitForSlot(slots: Semaphore): Promise<void> {
    if (isInScope()) return;
    const { clock, tree } = this.run;
    const sinceMs = clock.nowMs();
    let release = slots.acquire(this.root.cancelSignal);
    if (release instanceof Promise) {
      const { writer } = this.run.journal ?? {};
      if (writer !== undefined) writer.isQueued = true;
      const agents = tree.nodes.filter(({ hasEnded }) => !hasEnded);
      for (const agent of agents) agent.holdClock();
      release = await release;
      if (writer !== undefined) writer.isQueued = false;
      for (const agent of agents) agent.releaseClock();
    }
    if (release === undefined) return;
    const releaseOnce = release;
    this.#queuedMs = clock.nowMs() - sinceMs;
    this.#releaseSlot = () => {
      this.#releaseSlot = undefined;
      releaseOnce();
    };
    if (this.isOver) this.#releaseSlot();
  }

  /** Calls `record` at once, or after the first event. */
  recordOnceBegun(record: () => void): void {
    if (this.#hasBegun) record();
    else this.#early = [...this.#early, record];
  }

  /**
   * Continues unblocked agents, and waits for detached agents, before a run with a paused root
   * settles. Returns true if the root has to run again.
   */
  async #continueUnblocked(tree: RunTree): Promise<boolean> {
    if (this.#reactivateUnblocked()) return true;
    if (!tree.hasDetached) return false;
    await tree.whenDetachedSettled();
    return this.#reactivateUnblocked();
  }

  /**
   * Finds unblocked agents, each once, and continues the detached agents among and above them.
   * Returns true if any was found.
   */
  #reactivateUnblocked(): boolean {
    const unblocked = findUnblocked(this.run.tree).filter(
      (agent) => !this.#reactivated.includes(agent),
    );
    if (unblocked.length === 0) return false;
    this.#reactivated = [...this.#reactivated, ...unblocked];
    resumeDetachedAgents(this.run, unblocked);
    return true;
  }

  /** Records the end or the pause. Returns the result once it is persisted. */
  async conclude(): Promise<JsonRunResult> {
    const { run, root, prepared } = this;
    this.isOver = true; // Set before the last event, so that nothing is granted after it.
    this.mail?.stop(); // Later mail leaves a paused run open.
    const result = root.hasEnded ? recordRunEnd(run, root) : recordRunPause(run, root, prepared);
    await run.journal?.writer.close(result.status === "paused" ? "paused" : "ended");
    this.#releaseSlot?.();
    return result;
  }

  /** Stops the run at once, as if its process had crashed. */
  abandon(): void {
    const { run, root } = this;
    this.isOver = true;
    this.mail?.stop();
    this.#releaseSlot?.();
    run.session?.release();
    if (run.journal === undefined) return;
    run.journal.writer.abandon();
    root.cancel("The run can no longer be persisted.");
    for (const node of run.tree.nodes) {
      node.close();
      node.openMailbox().close("cancelled"); // Rejects later messages, so that their senders know.
    }
    run.recorder.release(createScopeWithoutExecution(root));
  }
}

/**
 * Returns paused agents that can continue without an answer. They were asked to end, or a subagent
 * that they wait for has ended since they paused.
 */
function findUnblocked(tree: RunTree): readonly AgentRuntime[] {
  const hasEnded = (childId: AgentId): boolean => tree.find(childId)?.hasEnded === true;
  return tree.nodes.filter(({ settled, noStartSignal }) => {
    if (settled?.status !== "paused") return false;
    return noStartSignal.aborted || getPausedChildren(settled).some(hasEnded);
  });
}
