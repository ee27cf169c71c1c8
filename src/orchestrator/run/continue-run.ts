// How a run that stands still continues: one that was paused, that a limit had stopped, or whose process died.

import { instructionsFor } from "../../agent/agent-role.ts";
import { SteadyClock } from "../../kernel/clock.ts";
import type { ResumeOptions } from "./run-options.ts";
import type { EventBody } from "../../protocol/event.ts";
import type { Answer } from "../../protocol/question.ts";
import { continueAgent } from "../tree/create-agent.ts";
import { checkAnswers } from "./check-answers.ts";
import type { FoldedRun } from "../durability/fold-journal.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import { AS_ROOT, runStartFacts, type LedRun } from "./start.ts";
import { registryOf, type Settings } from "../tree/settings.ts";
import { restore, rolesOf } from "./pause-run.ts";
import { chargeLost, reapply } from "./lost-work.ts";
import { assertReady, grantsFor, rootRole, stoppedNotice } from "./check-continuation.ts";
import { LiveRun } from "./live-run.ts";
import { Supervisor } from "../tree/supervisor.ts";
import { resumedSession } from "../sessions/sessions.ts";
import type { RestoredRun } from "../durability/restored-run.ts";
import { grantBudget } from "../tree/budget-events.ts";

/** What a run that stands still continues with. */
export type Continuation = ReturnType<typeof readyToContinue>;

/** Answers to questions that are open. `areAllNeeded`: none may stay so. */
export interface GivenAnswers {
  readonly answers: readonly Answer[];
  readonly areAllNeeded: boolean;
}

/** What a run that stands still needs to continue. Throws before anything has happened. */
export function readyToContinue(
  settings: Settings,
  run: RestoredRun,
  options: ResumeOptions,
  { answers, areAllNeeded }: GivenAnswers,
) {
  const { onPiece, context, role, grants: asked = [] } = options;
  const cutOffId = areAllNeeded ? undefined : run.agents[0]?.executionId;
  const session = resumedSession({ ...run, cutOffId }, options.session, settings);
  const registry = registryOf(settings, rootRole(run, role, settings.roles));
  const roles = rolesOf(run, registry);
  const nowMs = new SteadyClock(settings.clock, run.pausedAtMs).nowMs();
  const given = checkAnswers(run, answers, {
    areAllNeeded,
    isOverdue: ({ deadlineAtMs }) => deadlineAtMs !== null && nowMs >= deadlineAtMs,
    toolsOf: ({ agentId }) => registry.partsOf(roles.get(agentId) ?? registry.root).tools,
  });
  assertReady(run, registry);
  const grants = grantsFor(run, asked, { hasToEnd: !areAllNeeded });
  const status = run.agents[0]?.state.status;
  // Its root has ended and begins a further execution, with these instructions; else it continues the one that it had begun.
  const isOver = areAllNeeded && status !== "paused" && status !== "pending";
  const instructions = isOver ? instructionsFor(registry.root, context) : undefined;
  return { registry, roles, onPiece, context, instructions, session, answers: given, grants };
}

/** Where the run is kept, and what its journal has of it if its process died. */
export interface Kept {
  readonly journal: RunJournal | undefined;
  readonly folded?: FoldedRun | undefined;
}

/** Puts the run back and leads it on. */
export function continueRun(
  settings: Settings,
  run: RestoredRun,
  { registry, roles, onPiece, context, instructions, session, answers, grants }: Continuation,
  { journal, folded }: Kept,
): LedRun {
  const supervisor = new Supervisor(settings, {
    registry,
    onPiece,
    context,
    restored: run,
    session,
    answers,
    journal: () => journal,
  });
  const { run: runtime } = supervisor;
  const pausedMs = runtime.clock.nowMs() - run.pausedAtMs;
  const rested = restore(runtime, run, roles);
  if (answers.size > 0) journal?.append({ type: "answers", answers: [...answers.values()] });
  const recordGrants = grants.map(({ agentId, field, ...grant }) => {
    const node = runtime.tree.find(agentId) ?? rested;
    return grantBudget(runtime, node, grant, field);
  });
  let root = rested;
  if (instructions !== undefined) {
    const next = {
      ...AS_ROOT,
      task: rested.taskContent,
      instructions,
      message: stoppedNotice(run),
    };
    root = continueAgent(runtime, rested, next);
    journal?.continued(root, false);
  }
  session?.begin(run.runId);
  const answered = [...run.answered, ...answers.keys()];
  const event = (): EventBody<"run.resumed"> => ({
    type: "run.resumed",
    ...runStartFacts(runtime, root),
    pauses: run.pauses,
    pausedMs,
    previousTraceId: run.traceId,
    ...(run.spanId === undefined ? {} : { previousSpanId: run.spanId }),
    ...(run.isSampled === undefined ? {} : { wasSampled: run.isSampled }),
    answers: answers.size,
    ...(folded?.status === "open" ? { recovery: recoveryOf(folded) } : {}),
  });
  const before = (): void => {
    if (folded?.status === "open") runtime.recorder.endLost(folded.lostSpans, folded.lastSpanUs);
  };
  const afterwards = (): void => {
    for (const record of recordGrants) record();
    if (folded !== undefined) {
      chargeLost(runtime, folded);
      reapply(runtime, folded);
    }
    supervisor.reactivateDetached();
  };
  // Another process may have continued it from the same store.
  const allowed = (): Promise<void> | undefined => journal?.writer.claimed();
  const beginning = { pauses: run.pauses, answered, event, allowed, before, afterwards };
  return { run: new LiveRun(supervisor, root, beginning), runtime };
}

function recoveryOf({ lost, isSpanOpen }: FoldedRun): EventBody<"run.resumed">["recovery"] {
  return { lostCalls: lost.length, isSpanOpen };
}
