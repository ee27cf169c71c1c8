// How a run that stands still goes on: one that was paused, that a limit had stopped, or whose process died.

import { steadyClock } from "../../kernel/clock.ts";
import type { ResumeOptions } from "./run-options.ts";
import { EVENT_SCHEMA_VERSION, type EventBody } from "../../protocol/event.ts";
import type { Answer } from "../../protocol/question.ts";
import { toolsOf } from "../tree/agent-assembly.ts";
import { bringBack } from "../tree/create-agent.ts";
import { checkAnswers } from "./check-answers.ts";
import type { FoldedRun } from "../durability/fold-journal.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import { AS_ROOT, leadRun, sessionOf } from "./start.ts";
import type { Settings } from "./orchestrator-options.ts";
import { restore, rolesOf } from "../durability/pause-run.ts";
import { chargeLost, reapply } from "./recovery.ts";
import { assertReady, grantsFor, rootRole, stoppedNotice } from "./resumption.ts";
import { RoleRegistry } from "../tree/role-registry.ts";
import type { Run } from "./run.ts";
import { runScope } from "../tree/run-scope.ts";
import type { RunShared } from "../tree/run-shared.ts";
import { resumedSession } from "../sessions/sessions.ts";
import type { StandingRun } from "../durability/restored-run.ts";
import { reviveDetached } from "../tree/supervisor.ts";
import { grantBudget } from "../tree/budget-events.ts";

/** What a run that stands still goes on with. */
export interface Going {
  readonly registry: RoleRegistry;
  readonly roles: ReturnType<typeof rolesOf>;
  readonly onText: ResumeOptions["onText"];
  readonly session: ReturnType<typeof resumedSession>;
  readonly answers: ReturnType<typeof checkAnswers>;
  readonly grants: ReturnType<typeof grantsFor>;
}

/** Answers to questions that are open. `areAllNeeded`: none may stay so. */
export interface GivenAnswers {
  readonly answers: readonly Answer[];
  readonly areAllNeeded: boolean;
}

/** What a run that stands still needs to go on. Throws before anything has happened. */
export function readyToGoOn(
  settings: Settings,
  run: StandingRun,
  options: ResumeOptions,
  { answers, areAllNeeded }: GivenAnswers,
): Going {
  const { onText, role, grants: asked = [] } = options;
  const cutOffId = areAllNeeded ? undefined : run.agents[0]?.executionId;
  const session = resumedSession({ ...run, cutOffId }, options.session, settings);
  const registry = new RoleRegistry(rootRole(run, role, settings.roles), settings.roles);
  const roles = rolesOf(run, registry);
  const nowMs = steadyClock(settings.clock, run.pausedAtMs).nowMs();
  const given = checkAnswers(run, answers, {
    areAllNeeded,
    isOverdue: ({ deadlineAtMs }) => deadlineAtMs !== null && nowMs >= deadlineAtMs,
    toolsOf: ({ agentId }) => toolsOf(roles.get(agentId) ?? registry.root, registry),
  });
  assertReady(run, registry);
  const grants = grantsFor(run, asked, { hasToEnd: !areAllNeeded });
  return { registry, roles, onText, session, answers: given, grants };
}

/** Where the run is kept, and how its journal tells of it if its process died. */
export interface Kept {
  readonly journal: RunJournal | undefined;
  readonly folded?: FoldedRun;
}

/** A run that goes on, and what its agents share. */
export interface Gone {
  readonly run: Run;
  readonly scope: RunShared;
}

/** Puts the run back and leads it on. */
export function goOn(
  settings: Settings,
  run: StandingRun,
  { registry, roles, onText, session, answers, grants }: Going,
  { journal, folded }: Kept,
): Gone {
  const scope = runScope(settings, {
    registry,
    onText,
    run,
    session,
    answers,
    journal: () => journal,
  });
  const pausedMs = scope.clock.nowMs() - run.pausedAtMs;
  const rested = restore(scope, run, roles);
  for (const { agentId, state, kept = state } of run.agents) journal?.knows(agentId, kept);
  if (answers.size > 0) journal?.append({ type: "answers", answers: [...answers.values()] });
  const tellGrants = grants.map(({ agentId, field, ...grant }) => {
    const node = scope.tree.find(agentId) ?? rested;
    return grantBudget(scope, node, grant, field);
  });
  const isOver = rested.hasEnded && folded?.status !== "open";
  const root = isOver
    ? bringBack(scope, rested, { ...AS_ROOT, task: rested.task, message: stoppedNotice(run) })
    : rested;
  if (isOver) journal?.wentOn(root, false);
  session?.begin(run.runId);
  const answered = [...run.answered, ...answers.keys()];
  const event = (): EventBody<"run.resumed"> => ({
    type: "run.resumed",
    schemaVersion: EVENT_SCHEMA_VERSION,
    role: root.role.name,
    task: root.task,
    limits: scope.tree.limits,
    budget: scope.ledger.remaining(root.identity.agentId),
    pauses: run.pauses,
    pausedMs,
    ...sessionOf(scope),
    previousTraceId: run.traceId,
    ...(run.spanId === undefined ? {} : { previousSpanId: run.spanId }),
    ...(run.isSampled === undefined ? {} : { wasSampled: run.isSampled }),
    answers: answers.size,
    ...(folded?.status === "open" ? { recovery: { lostCalls: folded.lost.length } } : {}),
  });
  const before = (): void => {
    if (folded?.status === "open") scope.recorder.endLost(folded.lostSpans, folded.lastSpanUs);
  };
  const afterwards = (): void => {
    for (const tell of tellGrants) tell();
    if (folded !== undefined) {
      chargeLost(scope, folded);
      reapply(scope, folded);
    }
    reviveDetached(scope);
  };
  const history = { pauses: run.pauses, answered };
  // Somebody else may have gone on with it from the same store.
  const allowed = (): Promise<void> | undefined => journal?.claimed();
  return { run: leadRun(scope, root, history, { event, allowed, before, afterwards }), scope };
}
