// Supervisor: leads agents of one run to rest and to their end. Owns no state of its own: tree, ledger and recorder do.
//
// T1. Every spawn settles exactly once: as a refusal, or with the result of a child that has ended; a paused one settles when it goes on.
// T2. A parent's call waits for its child, and a parent rests after its children in the background, so no agent ends while a child
//     lives, unless the child was detached; a paused child is ended before its parent.

import type { AgentContext } from "../../agent/agent-context.ts";
import { onAbort } from "../../kernel/cancel.ts";
import { messageOf } from "../../kernel/error.ts";
import { stepOf, type RestingState } from "../../agent/agent-state.ts";
import type { DelegatedCall } from "../../agent/local-options.ts";
import { runAgent, type PhaseReport } from "../../agent/run-agent.ts";
import type { ContextManifest } from "../../protocol/context-manifest.ts";
import type { Correlation } from "../../protocol/event.ts";
import type { AgentId, StepId } from "../../protocol/ids.ts";
import type { SpawnOutcome, SpawnRequest } from "../../protocol/subagent.ts";
import { delegationText } from "../../tools/delegation-text.ts";
import type { ContinueRequest } from "../../tools/tool-context.ts";
import { setupFailed } from "./admission.ts";
import { agentContext, type Delegations } from "./agent-assembly.ts";
import type { AgentNode } from "./agent-node.ts";
import { placeIn, whoIs } from "./child-place.ts";
import { continued } from "./continuation.ts";
import type { EventRecorder } from "./event-recorder.ts";
import { resultOfEnded } from "../run/run-result.ts";
import { forbidSpawn, refuse, refuseSpawn, roleOf } from "./refusals.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import type { RunShared } from "./run-shared.ts";
import { setUp } from "./set-up.ts";
import type { SpawnGroup } from "./spawn-group.ts";
import { subagentService } from "./subagent-service.ts";

/** Runs an agent, phase by phase, from its beginning or from where it was paused. `agent`: left out, it is put together here. */
export async function* live(
  scope: RunShared,
  node: AgentNode,
  agent?: AgentContext,
): AsyncGenerator<PhaseReport, RestingState, undefined> {
  try {
    const context = agent ?? agentContext(scope, node, delegations(scope, node));
    const phases = runAgent(context, node.rise());
    const rested = yield* inItsPlace(
      scope.recorder,
      placeIn(node, {}),
      scope.journal === undefined ? phases : journaled(scope.journal, node, phases),
    );
    node.rest(rested);
    return rested;
  } finally {
    scope.ledger.releaseOpen(node.identity.agentId);
    if (node.rested === undefined) node.close();
  }
}

type Phases = ReturnType<typeof runAgent>;

/** The same phases, at the place of their agent: whoever asks for the next one stands elsewhere. */
function inItsPlace(
  recorder: EventRecorder,
  place: Correlation,
  phases: Phases,
): AsyncIterable<PhaseReport, RestingState, undefined> {
  const next = (): ReturnType<Phases["next"]> => recorder.at(place, () => phases.next());
  const end = (state: RestingState): ReturnType<Phases["return"]> =>
    recorder.at(place, () => phases.return(state));
  return { [Symbol.asyncIterator]: () => ({ next, return: end }) };
}

/** The same phases; what each left is in the journal before anybody else sees it. */
async function* journaled(journal: RunJournal, node: AgentNode, phases: Phases): Phases {
  for (;;) {
    const next = await phases.next();
    if (next.done === true) return next.value;
    journal.phaseOver(node, next.value.phase, next.value.state);
    yield next.value;
  }
}

function delegations(scope: RunShared, node: AgentNode): Delegations {
  const { tree } = scope;
  return {
    spawn: (request, call) => spawn(scope, node, request, call),
    forgo: (call) => {
      const group = groupOf(node, call);
      if (call.callId !== undefined) group?.forget(call.callId);
      group?.miss();
    },
    resumeChild: (childId, at) => resumeChild(scope, childId, placeIn(node, at)),
    dismissChild: (childId) => dismissChild(scope, node, childId),
    cancelChildrenOf: (stepId) => cancelChildrenOf(node, stepId),
    awaitChildren: (childIds, until) => awaitChildren(node, childIds, until),
    detachChild: (childId) => detachChild(scope, node, childId),
    refuseSpawn: (input, call, isAsked) =>
      refuseSpawn(scope, node, { input, group: groupOf(node, call), isAsked }, call),
    forbidSpawn: (input, refusal, call) =>
      forbidSpawn(scope, node, { input, refusal }, placeIn(node, call)),
    delegationsBefore: (request, stepId) => tree.delegationsBefore(request, stepId),
    subagentsOf: (call) =>
      subagentService(scope, node, {
        callId: call.callId,
        refuse: (role, refusal) => refuse(scope, placeIn(node, call), role, refusal),
        continue: (request) => continueChild(scope, node, request, call),
        dismiss: (childId) => dismissChild(scope, node, childId),
        noteTold: (childId) => node.noteTold(childId, call.stepId),
      }),
    reviveChildren: (childIds) => {
      for (const childId of childIds) revive(scope, node, childId);
    },
  };
}

async function spawn(
  scope: RunShared,
  parent: AgentNode,
  request: SpawnRequest,
  call: DelegatedCall,
): Promise<SpawnOutcome> {
  const place = placeIn(parent, call);
  const isBackground = request.background === true;
  const before = takenIn(scope, parent, call);
  if (before !== undefined) return await leadAgain(scope, before, place, isBackground);
  const group = groupOf(parent, call);
  if (call.callId !== undefined) group?.forget(call.callId);
  let agent: AgentContext | undefined;
  const announce = (born: AgentNode, context: ContextManifest): void => {
    agent = agentContext(scope, born, delegations(scope, born));
    const account = scope.ledger.account(born.identity.agentId);
    const event = {
      type: "subagent.spawned",
      ...whoIs(born),
      task: born.task,
      isBackground,
      context,
      subagentsByDepth: scope.tree.subagentsByDepth,
    } as const;
    scope.journal?.born(born, { account, isBackground, nth: call.nth ?? 0 });
    scope.recorder.record(place, event);
  };
  const child = setUp(scope, parent, request, { call, group, announce });
  if ("code" in child) {
    group?.miss();
    return refuse(scope, place, request.role, child);
  }
  group?.join(child);
  return isBackground
    ? leadBeside(scope, child, place, agent)
    : await lead(scope, child, place, agent);
}

/** A subagent that the call had started, or continued, before its process died: it is not started twice (D2). */
function takenIn(
  scope: RunShared,
  parent: AgentNode,
  { callId, nth = 0 }: DelegatedCall,
): AgentNode | undefined {
  const childId = parent.unfinished?.takeChild(callId ?? null, nth);
  return childId === undefined ? undefined : scope.tree.find(childId);
}

/** Goes on with one that was taken in again, or gives what it came to. */
async function leadAgain(
  scope: RunShared,
  child: AgentNode,
  place: Correlation,
  isBackground: boolean,
): Promise<SpawnOutcome> {
  if (!child.hasEnded)
    return isBackground ? leadBeside(scope, child, place) : await lead(scope, child, place);
  const settled = settledOutcome(scope, child);
  if (!isBackground) return settled;
  child.parent?.inbox.report(child.identity.agentId, reportText(settled));
  return receiptOf(child);
}

/** Those that one reply starts know of each other's end (X11); a subtask stands for itself. */
function groupOf(
  parent: AgentNode,
  { stepId, callId, group }: DelegatedCall,
): SpawnGroup | undefined {
  if (stepId === undefined || callId === undefined) return undefined;
  return parent.groupOf(stepId, group.length);
}

/** The group that a child belongs to. */
function memberGroup({ parent, spawnStepId, spawnCallId }: AgentNode): SpawnGroup | undefined {
  return spawnStepId === undefined || spawnCallId === undefined
    ? undefined
    : parent?.groupOf(spawnStepId);
}

/** Lets a subagent go on that has ended (X10). */
async function continueChild(
  scope: RunShared,
  parent: AgentNode,
  request: ContinueRequest,
  call: DelegatedCall,
): Promise<SpawnOutcome> {
  const { childName, task, background: isBackground = false } = request;
  const place = placeIn(parent, call);
  const before = takenIn(scope, parent, call);
  if (before !== undefined) return await leadAgain(scope, before, place, isBackground);
  const group = groupOf(parent, call);
  const child = comeBack(scope, parent, request, { call, group });
  if ("code" in child) {
    group?.miss();
    return refuse(scope, place, roleOf(parent, childName), child);
  }
  const { execution } = child;
  scope.journal?.wentOn(child, isBackground, call.nth);
  scope.recorder.record(place, {
    type: "subagent.continued",
    ...whoIs(child),
    task,
    isBackground,
    execution,
  });
  group?.join(child);
  return isBackground ? leadBeside(scope, child, place) : await lead(scope, child, place);
}

function comeBack(...asked: Parameters<typeof continued>): ReturnType<typeof continued> {
  try {
    return continued(...asked);
  } catch (cause) {
    const [, , { childName }] = asked;
    return setupFailed(childName, cause);
  }
}

/** Lets a child live until it rests; gives its result if that is its end. */
function lead(
  scope: RunShared,
  child: AgentNode,
  place: Correlation,
  agent?: AgentContext,
): Promise<SpawnOutcome> {
  const outcome = leadToRest(scope, child, place, agent);
  child.livesUntil(outcome);
  return outcome;
}

async function leadToRest(
  scope: RunShared,
  child: AgentNode,
  place: Correlation,
  agent: AgentContext | undefined,
): Promise<SpawnOutcome> {
  const phases = live(scope, child, agent);
  while ((await phases.next()).done !== true);
  if (!child.hasEnded) return { type: "paused", childId: child.identity.agentId };
  const result = resultOfEnded(child, scope.ledger);
  const { outcome, status, reason, usage } = result;
  const said = { outcome, status, reason, usage };
  const at = child.isDetached ? { ...place, ...NOWHERE } : place;
  scope.recorder.record(at, { type: "subagent.ended", ...whoIs(child), ...said });
  memberGroup(child)?.settle(child, outcome === "completed");
  return { type: "settled", result };
}

/** The end of a detached child is an event of no execution: that of its parent is over (L2). */
const NOWHERE = { executionId: null, stepId: null, callId: null } as const;

/** Lets a child live beside its parent, which learns of its end by a message; gives the receipt. */
function leadBeside(
  scope: RunShared,
  child: AgentNode,
  place: Correlation,
  agent?: AgentContext,
): SpawnOutcome {
  const { parent, identity } = child;
  const { agentId: childId } = identity;
  parent?.background.start(
    childId,
    lead(scope, child, place, agent).then(
      (outcome) => {
        if (outcome.type === "settled") parent.inbox.report(childId, reportText(outcome));
      },
      (cause: unknown) => {
        const message = `${identity.agentPath} could not be led to its end: ${messageOf(cause)}`;
        parent.raise({ source: "loop", reason: { code: "error", message, data: {} } });
      },
    ),
  );
  return receiptOf(child);
}

function receiptOf({ identity, childName, role }: AgentNode): SpawnOutcome {
  return { type: "started", childId: identity.agentId, childName, role: role.name };
}

type Settled = Extract<SpawnOutcome, { readonly type: "settled" }>;

function reportText(outcome: Settled): string {
  const { childName } = outcome.result;
  return `${childName}, which worked in the background, has ended. Its result: ${delegationText(outcome)}`;
}

/** What worked in the background when its parent was paused goes on, or reports what it came to. */
export function revive(scope: RunShared, parent: AgentNode, childId: AgentId): void {
  const child = scope.tree.find(childId);
  if (child === undefined) return;
  const { spawnStepId: stepId, spawnCallId: callId } = child;
  const place = placeIn(parent, {
    ...(stepId === undefined ? {} : { stepId }),
    ...(callId === undefined ? {} : { callId }),
  });
  if (!child.hasEnded) {
    leadBeside(scope, child, place);
    return;
  }
  // A call whose end is kept has told the agent.
  if (parent.unfinished?.facts.reportedIds.has(childId) === true)
    parent.noteTold(childId, stepOf(parent.standingState)?.stepId);
  else parent.inbox.report(childId, reportText(settledOutcome(scope, child)));
}

/** What became of a child that has ended. */
function settledOutcome({ ledger }: RunShared, child: AgentNode): Settled {
  return { type: "settled", result: resultOfEnded(child, ledger) };
}

async function resumeChild(
  scope: RunShared,
  childId: AgentId,
  place: Correlation,
): Promise<SpawnOutcome> {
  const child = scope.tree.find(childId);
  if (child === undefined) {
    const message =
      "Not resumed: the subagent is gone. Start another one, or do its part yourself.";
    return { type: "refused", refusal: { code: "setup_failed", message } };
  }
  // Another call of its parent may have ended it.
  if (child.hasEnded) return settledOutcome(scope, child);
  return await lead(scope, child, place);
}

/** Ends a child, whether it works or is paused, and waits for its end. */
async function dismissChild(scope: RunShared, parent: AgentNode, childId: AgentId): Promise<void> {
  const child = scope.tree.find(childId);
  if (child === undefined || child.hasEnded) return;
  child.cancel(stoppedParent(parent));
  await child.atRest();
  if (child.rested?.status === "paused") await resumeChild(scope, childId, placeIn(parent, {}));
  // Somebody else leads it to its end.
  else if (!child.hasEnded) await child.atRest();
}

/** Cancels those that the calls of a step have started; whoever leads them waits for their end. */
function cancelChildrenOf(parent: AgentNode, stepId: StepId): void {
  for (const child of parent.subagents)
    if (child.spawnStepId === stepId && !child.hasEnded && !child.isDetached)
      child.cancel(stoppedParent(parent));
}

function stoppedParent({ identity }: AgentNode): string {
  return `${identity.agentPath}, its parent, stopped.`;
}

/** Waits until children rest; with `news`, no longer than until somebody writes to the agent, or it must end. */
async function awaitChildren(
  parent: AgentNode,
  childIds: readonly AgentId[],
  until: "news" | "rest",
): Promise<void> {
  const { inbox, startSignal, background } = parent;
  const atRest = background.allAtRest(childIds);
  if (until === "rest") return await atRest;
  if (startSignal.aborted) return;
  const news = Promise.withResolvers<void>();
  const hear = (): void => news.resolve();
  const unsubscribe = inbox.onMail((letter) => {
    if (letter.from === undefined) hear();
  });
  const forget = onAbort(startSignal, hear);
  await Promise.race([atRest, news.promise]);
  unsubscribe();
  forget();
}

function detachChild(scope: RunShared, parent: AgentNode, childId: AgentId): void {
  const child = scope.tree.find(childId);
  if (child === undefined || child.hasEnded) return;
  child.detach();
  const { childId: id, childPath, role } = whoIs(child);
  scope.recorder.record(placeIn(parent, {}), {
    type: "subagent.detached",
    childId: id,
    childPath,
    role,
  });
  scope.tree.keep(parent.background.allAtRest([childId]));
}

/** Lets detached agents go on that were paused with the run. `late`: only those among them, or above one of them. */
export function reviveDetached(scope: RunShared, late?: readonly AgentNode[]): void {
  for (const node of scope.tree.nodes) {
    const { parent, isDetached, rested } = node;
    if (!isDetached || parent === undefined || rested?.status !== "paused") continue;
    if (late !== undefined && !late.some((one) => isWithin(one, node))) continue;
    leadBeside(scope, node, placeIn(parent, {}));
    scope.tree.keep(parent.background.allAtRest([node.identity.agentId]));
  }
}

/** True for an agent itself, and for those below it. */
function isWithin(node: AgentNode | undefined, above: AgentNode): boolean {
  return node !== undefined && (node === above || isWithin(node.parent, above));
}

/** Waits for detached agents; ends those that are paused, since nobody would ever go on with them. */
export async function settleDetached(scope: RunShared): Promise<void> {
  await scope.tree.detachedAtRest();
  for (const node of scope.tree.nodes) {
    if (!node.isDetached || node.rested?.status !== "paused" || node.parent === undefined) continue;
    node.cancel("The run is over, and nobody can go on with it.");
    await resumeChild(scope, node.identity.agentId, placeIn(node.parent, {}));
  }
}
