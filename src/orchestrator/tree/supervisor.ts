// Supervisor: runs the agents of a run until they settle, and serves their delegations. Stateless:
// tree, ledger and recorder own the state.
//
// Delegations arrive from agent/tool-calls/delegate.ts. spawn-checks.ts decides whether a subagent
// may start, and run-tree.ts counts it. set-up-child.ts creates it, with the context that
// child-context.ts builds. agent-report.ts describes its outcome for its parent.
//
// T1. Every spawn ends exactly once: with a refusal, or with the result of a child that has ended.
// A paused child ends once it continues.
// T2. A parent's call waits for its child, and a parent settles after its background children, so
// no agent ends while a child runs, unless the child was detached. A paused child is ended before
// its parent.

import { getErrorMessage } from "../../kernel/error.ts";
import { omitUndefined, isRecord, type JsonValue } from "../../kernel/json.ts";
import type { EventPosition } from "../../agent/agent-identity.ts";
import { AgentRuntime } from "../../agent/agent-runtime.ts";
import { type SettledState } from "../../agent/agent-state.ts";
import { runAgent } from "../../agent/run-agent.ts";
import type { DelegatedCall, AgentSupervisor } from "../../agent/run-ports.ts";
import type { RefusedSpawn } from "../../agent/tool-calls/call-outcome.ts";
import type { SpawnGroup } from "../../agent/spawn-group.ts";
import { runInScope } from "../../protocol/correlation.ts";
import type { EventScope } from "../../protocol/event.ts";
import type { AgentId, StepId } from "../../protocol/ids.ts";
import type { SpawnOutcome, SpawnRefusal, SpawnRequest } from "../../protocol/subagent.ts";
import { describeDelegation } from "../../tools/delegation-text.ts";
import type { ContinueRequest, SubagentService } from "../../tools/tool-context.ts";
import { continueChild } from "./continue-child.ts";
import { findStartableRole, recordRefusal, refuse, findChildRole } from "./spawn-checks.ts";
import type { RunRuntime } from "./run-runtime.ts";
import { toChildFields, setUpChild } from "./set-up-child.ts";
import { createSubagentService } from "./subagent-service.ts";
import { isSubagentName } from "./subagent-tools.ts";
import { createSubagentResult } from "./agent-report.ts";

export class Supervisor implements AgentSupervisor<AgentRuntime> {
  readonly run: RunRuntime;

  constructor(run: RunRuntime) {
    this.run = run;
  }

  spawn(parent: AgentRuntime, request: SpawnRequest, call: DelegatedCall): Promise<SpawnOutcome> {
    const { role, background: isBackground = false } = request;
    return this.#start(parent, { role, isBackground, call }, (group) =>
      setUpChild(this.run, parent, request, { call, group }),
    );
  }

  /** Continues a subagent that has ended. */
  continue(
    parent: AgentRuntime,
    request: ContinueRequest,
    call: DelegatedCall,
  ): Promise<SpawnOutcome> {
    const { subagent, background: isBackground = false } = request;
    const role = findChildRole(parent, subagent);
    return this.#start(parent, { role, isBackground, call }, (group) =>
      continueChild(this.run, parent, request, { call, group }),
    );
  }

  /**
   * Runs the child that `setUp` returns, or records the refusal. If the call had started a child
   * before a crash, runs that child instead.
   */
  async #start(
    parent: AgentRuntime,
    input: { readonly role: string; readonly isBackground: boolean; readonly call: DelegatedCall },
    setUp: (group: SpawnGroup | undefined) => AgentRuntime | SpawnRefusal,
  ): Promise<SpawnOutcome> {
    const { role, isBackground, call } = input;
    if (parent.persistence?.inFlight !== undefined) {
      const adopted = this.#adopt(parent, call, isBackground);
      if (adopted !== undefined) return await adopted;
    }
    const group = openGroup(parent, call);
    if (call.callId !== undefined) group?.givePlaceBack(call.callId);
    const child = setUp(group);
    if (!(child instanceof AgentRuntime)) {
      group?.countMissing();
      return refuse(this.run, parent, { role, refusal: child }, call);
    }
    group?.join(child);
    const scope = parent.getScope(call);
    return isBackground ? this.#runInBackground(child, scope) : await this.#runChild(child, scope);
  }

  /**
   * Returns the outcome of a subagent that the call had started or continued before its process
   * crashed: it is not started again (D2).
   */
  #adopt(
    parent: AgentRuntime,
    call: DelegatedCall,
    isBackground: boolean,
  ): SpawnOutcome | Promise<SpawnOutcome> | undefined {
    const childId = parent.persistence?.inFlight?.takeChild(call.callId ?? null, call.nth ?? 0);
    const child = childId === undefined ? undefined : this.run.tree.find(childId);
    if (child === undefined) return undefined;
    const scope = parent.getScope(call);
    if (!child.hasEnded)
      return isBackground ? this.#runInBackground(child, scope) : this.#runChild(child, scope);
    const ended = createEndedOutcome(child);
    if (!isBackground) return ended;
    parent.openMailbox().report(child.identity.agentId, describeReport(ended));
    return createReceipt(child);
  }

  /**
   * Runs a child until it ends or pauses, records its end, and returns how it settled. `scope` is
   * the scope of the call that waits.
   */
  #runChild(child: AgentRuntime, scope: EventScope): Promise<SpawnOutcome> {
    const settling = runUntilSettled(child).then(() => this.#recordChildEnd(child, scope));
    child.settling = settling;
    return settling;
  }

  #recordChildEnd(child: AgentRuntime, scope: EventScope): SpawnOutcome {
    if (!child.hasEnded) return { type: "paused", childId: child.identity.agentId };
    const { parent } = child;
    const { spawnStepId } = child.facts;
    const ended = createEndedOutcome(child);
    if (!this.run.recorder.countUnread("subagent.ended")) this.#recordEndEvent(child, ended, scope);
    const group = spawnStepId === undefined ? undefined : parent?.findGroup(spawnStepId);
    group?.noteEnd(child, ended.result.outcome === "completed");
    return ended;
  }

  #recordEndEvent(child: AgentRuntime, { result }: EndedSpawn, scope: EventScope): void {
    const { outcome, status, reason, usage } = result;
    // The end of a detached child does not belong to an execution, since that of its parent is over
    // (L2).
    const at = child.isDetached ? { ...scope, ...NO_EXECUTION } : scope;
    const ending = { outcome, status, reason, usage };
    this.run.recorder.record(at, { type: "subagent.ended", ...toChildFields(child), ...ending });
  }

  /**
   * Runs a child beside its parent, which reads the result in a message. Returns the receipt for
   * the call of `scope`.
   */
  #runInBackground(child: AgentRuntime, scope: EventScope): SpawnOutcome {
    child.reporting = this.#reportChildEnd(child, scope);
    return createReceipt(child);
  }

  async #reportChildEnd(child: AgentRuntime, scope: EventScope): Promise<void> {
    const { parent, identity } = child;
    try {
      const outcome = await this.#runChild(child, scope);
      if (outcome.type === "ended")
        parent?.openMailbox().report(identity.agentId, describeReport(outcome));
    } catch (cause) {
      const message = `${identity.agentPath} could not be run to its end: ${getErrorMessage(cause)}`;
      parent?.requestStop({ source: "loop", reason: { code: "error", message, data: {} } });
    }
    child.reporting = undefined;
  }

  noteDeniedSpawn(parent: AgentRuntime, call: DelegatedCall): void {
    const group = openGroup(parent, call);
    if (call.callId !== undefined) group?.givePlaceBack(call.callId);
    group?.countMissing();
  }

  reserveSpawn(
    parent: AgentRuntime,
    request: SpawnRequest,
    call: DelegatedCall,
    isReviewed: boolean,
  ): RefusedSpawn | undefined {
    const group = openGroup(parent, call);
    const ahead = isReviewed ? (group?.takenPlaces ?? 0) : 0;
    let refusal: SpawnRefusal | undefined;
    try {
      ({ refusal } = findStartableRole(this.run, parent, request, ahead));
    } catch {
      return undefined; // The error occurs again when the subagent is started, and is reported then.
    }
    if (refusal !== undefined) {
      group?.countMissing();
      return recordRefusal(this.run, parent, { role: request.role, refusal }, call);
    }
    if (call.callId !== undefined) group?.takePlace(call.callId);
    return undefined;
  }

  recordForbiddenSpawn(
    parent: AgentRuntime,
    input: JsonValue,
    refusal: SpawnRefusal,
    call: DelegatedCall,
  ): RefusedSpawn | undefined {
    if (!isRecord(input)) return undefined;
    const { role: named, continue: childName } = input;
    const role = isSubagentName(childName) ? findChildRole(parent, childName) : named;
    if (typeof role !== "string") return undefined;
    return recordRefusal(this.run, parent, { role, refusal }, call);
  }

  createService(parent: AgentRuntime, call: DelegatedCall): Omit<SubagentService, "continue"> {
    return createSubagentService(this.run, parent, call);
  }

  /**
   * Continues the background children that a parent had when it was paused, or reports their
   * results.
   */
  reactivate(parent: AgentRuntime, childIds: readonly AgentId[]): void {
    for (const childId of childIds) {
      const child = this.run.tree.find(childId);
      if (child === undefined) continue;
      if (!child.hasEnded) this.#runInBackground(child, parent.getScope(spawnPosition(child)));
      // A call whose end is persisted has reported the result to the agent.
      else if (parent.persistence?.inFlight?.reportedAgentIds.has(childId) === true)
        parent.noteReported(childId, parent.currentState.step?.stepId);
      else parent.openMailbox().report(childId, describeReport(createEndedOutcome(child)));
    }
  }

  async resume(parent: AgentRuntime, childId: AgentId, at: EventPosition): Promise<SpawnOutcome> {
    const child = this.run.tree.find(childId);
    if (child === undefined) {
      const message =
        "Not resumed: the subagent no longer exists. Start another one, or do its part yourself.";
      return { type: "refused", refusal: { code: "setup_failed", message } };
    }
    // Another call of its parent may have ended it.
    if (child.hasEnded) return createEndedOutcome(child);
    return await this.#runChild(child, parent.getScope(at));
  }

  async dismiss(parent: AgentRuntime, childId: AgentId): Promise<void> {
    const child = this.run.tree.find(childId);
    if (child === undefined) return;
    if (!child.hasEnded) child.cancel(describeStoppedParent(parent));
    await child.whenSettled(); // Also for an ended subagent, whose end is recorded with its parent.
    if (child.settled?.status === "paused") await this.resume(parent, childId, {});
    // Another call runs it to its end.
    else if (!child.hasEnded) await child.whenSettled();
  }

  cancelStartedBy(parent: AgentRuntime, stepId: StepId): void {
    for (const child of parent.children)
      if (child.facts.spawnStepId === stepId && !child.hasEnded && !child.isDetached)
        child.cancel(describeStoppedParent(parent));
  }

  detach(parent: AgentRuntime, childId: AgentId): Promise<void> {
    const child = this.run.tree.find(childId);
    if (child === undefined) return Promise.resolve();
    if (child.hasEnded) return child.whenSettled();
    child.detach();
    const { childDepth: _known, ...named } = toChildFields(child);
    this.run.recorder.record(parent.getScope(), { type: "subagent.detached", ...named });
    this.run.tree.trackDetached(child.reporting);
    return Promise.resolve();
  }
}

/** Runs an agent, from its beginning or from its pause, until it settles. */
export function runUntilSettled(agent: AgentRuntime): Promise<SettledState> {
  const running = runInScope(agent.getScope(), agent.run.recorder, () => runAgent(agent));
  return running.catch((cause: unknown) => {
    // The agent could not settle, so its resources are released. Nothing is recorded, because
    // recording may be what failed.
    agent.account.releaseOpen();
    if (agent.settled === undefined) agent.close();
    throw cause;
  });
}

/**
 * Continues detached agents that were paused with the run. With `unblocked`, only those among or
 * above these agents.
 */
export function resumeDetachedAgents(run: RunRuntime, unblocked?: readonly AgentRuntime[]): void {
  for (const agent of run.tree.nodes) {
    const { parent, isDetached, settled, identity } = agent;
    if (!isDetached || parent === undefined || settled?.status !== "paused") continue;
    if (unblocked?.some((candidate) => [...candidate.walkUp()].includes(agent)) === false) continue;
    run.supervisor.reactivate(parent, [identity.agentId]);
    run.tree.trackDetached(agent.reporting);
  }
}

/** Waits for detached agents, and ends paused ones, since nothing would ever continue them. */
export async function settleDetached({ tree, supervisor }: RunRuntime): Promise<void> {
  await tree.whenDetachedSettled();
  for (const agent of tree.nodes) {
    const { parent, isDetached, settled } = agent;
    if (!isDetached || settled?.status !== "paused" || parent === undefined) continue;
    agent.cancel("The run has ended, so this paused agent cannot continue.");
    await supervisor.resume(parent, agent.identity.agentId, {});
  }
}

/**
 * Returns the group of the delegations of a reply: it decides when they end together and fixes the
 * amount that they share. With `isolate` it only fixes the amount. Subtasks and single isolated
 * calls have no group.
 */
function openGroup(
  parent: AgentRuntime,
  { stepId, callId, delegatedRoles, isAlone = false }: DelegatedCall,
): SpawnGroup | undefined {
  if (stepId === undefined || callId === undefined) return undefined;
  if (isAlone && parent.role.delegation.failurePolicy === "isolate") return undefined;
  return parent.ensureGroup(stepId, delegatedRoles.length);
}

const NO_EXECUTION = { executionId: null, stepId: null, callId: null } as const;

type EndedSpawn = Extract<SpawnOutcome, { readonly type: "ended" }>;

function createEndedOutcome(child: AgentRuntime): EndedSpawn {
  return { type: "ended", result: createSubagentResult(child) };
}

function createReceipt({ identity, childName, role }: AgentRuntime): SpawnOutcome {
  return { type: "started", childId: identity.agentId, subagent: childName, role: role.name };
}

function describeReport(outcome: EndedSpawn): string {
  const { subagent } = outcome.result;
  return `${subagent}, which ran in the background, has ended. Its result: ${describeDelegation(outcome)}`;
}

function describeStoppedParent({ identity }: AgentRuntime): string {
  return `${identity.agentPath}, its parent, stopped.`;
}

/** Returns the position of the call that started a subagent. */
function spawnPosition({ facts }: AgentRuntime): EventPosition {
  const { spawnStepId: stepId, spawnCallId: callId } = facts;
  return omitUndefined({ stepId, callId });
}
