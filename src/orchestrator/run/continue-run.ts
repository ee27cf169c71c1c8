// How a run that stands still continues: one that was paused, that a limit had stopped, or whose process died.

import { instructionsFor } from "../../agent/agent-role.ts";
import { SteadyClock } from "../../kernel/clock.ts";
import { EspalierError } from "../../kernel/error.ts";
import { defined } from "../../kernel/json.ts";
import type { ResumeOptions } from "./run-options.ts";
import type { EventBody } from "../../protocol/event.ts";
import { questionIdOf, type QuestionId } from "../../protocol/ids.ts";
import type { Answer } from "../../protocol/question.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import { continueAgent } from "../tree/create-agent.ts";
import { checkAnswers, type AnswerChecks } from "./check-answers.ts";
import { checkOutputs } from "./check-outputs.ts";
import { isCall, type ReceivedMail } from "./run-mail.ts";
import type { FoldedRun } from "../durability/fold-journal.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import { AS_ROOT, runStartFacts } from "./start.ts";
import { registryOf, type Settings } from "../tree/settings.ts";
import { restore, rolesOf } from "./pause-run.ts";
import { chargeLost, failRoot, reapply } from "./lost-work.ts";
import { assertReady, grantsFor, rootRole, stoppedNotice } from "./check-continuation.ts";
import type { RunBeginning, LedParts } from "./live-run.ts";
import { Supervisor } from "../tree/supervisor.ts";
import { resumedSession } from "../sessions/sessions.ts";
import type { RestoredRun } from "../durability/restored-run.ts";
import { grantBudget } from "../tree/budget-events.ts";

/** What a run that stands still continues with. */
export type Continuation = ReturnType<typeof readyToContinue>;

/** What a run that stands still was left with, and what has come since. */
export interface Arrival {
  /** Its process died, or gave it up: it had not settled. */
  readonly wasCutOff: boolean;
  readonly answers: readonly Answer[];
  readonly mail?: readonly ReceivedMail[];
  /** No question may stay open. Default: of a run that had settled, unless something is asked by mail: that is done whatever is open. */
  readonly areAllNeeded?: boolean;
}

/** What a run that stands still needs to continue. Throws before anything has happened. */
export function readyToContinue(
  settings: Settings,
  run: RestoredRun,
  options: ResumeOptions,
  { wasCutOff, answers, mail = [], areAllNeeded = !wasCutOff && !mail.some(isCall) }: Arrival,
) {
  const { onPiece, context, role, grants: asked = [] } = options;
  const cutOffId = wasCutOff ? run.agents[0]?.executionId : undefined;
  const session = resumedSession({ ...run, cutOffId }, options.session, settings);
  const registry = registryOf(settings, rootRole(run, role, settings.roles));
  const roles = rolesOf(run, registry);
  checkOutputs(run, roles);
  const nowMs = new SteadyClock(settings.clock, run.pausedAtMs).nowMs();
  const checks: AnswerChecks = {
    isOverdue: ({ deadlineAtMs }) => deadlineAtMs !== null && nowMs >= deadlineAtMs,
    toolsOf: ({ agentId }) => registry.partsOf(roles.get(agentId) ?? registry.root).tools,
  };
  const before = checkAnswers(run, answers, { ...checks, areAllNeeded: false });
  const mailed = mailedAnswers(run, mail, { given: before, checks, wasCutOff });
  const given = checkAnswers(run, [...before.values(), ...mailed.answers], {
    ...checks,
    areAllNeeded,
  });
  assertReady(run, registry);
  const grants = grantsFor(run, asked, { hasToEnd: wasCutOff });
  const status = run.agents[0]?.state.status;
  // Its root has ended and begins a further execution, with these instructions; else it continues the one that it had begun.
  const isOver = !wasCutOff && status !== "paused" && status !== "pending";
  const instructions = isOver ? instructionsFor(registry.root, context) : undefined;
  return {
    registry,
    roles,
    onPiece,
    context,
    instructions,
    session,
    answers: given,
    grants,
    mail,
    settledMail: mailed.settled,
  };
}

interface MailChecks extends Pick<Arrival, "wasCutOff"> {
  readonly given: ReadonlyMap<QuestionId, Answer>;
  readonly checks: AnswerChecks;
}

/** The answers among the mail: those that fit, and which mail is settled, with what was wrong with it. */
function mailedAnswers(
  run: RestoredRun,
  mail: readonly ReceivedMail[],
  { given, checks, wasCutOff }: MailChecks,
) {
  const known = new Set(given.keys());
  const answers: Answer[] = [];
  const settled = new Map<number, string | undefined>();
  for (const { number, mail: one } of mail) {
    if (one.type !== "answer") continue;
    settled.set(number, undefined);
    if (known.has(one.answer.questionId)) continue;
    known.add(one.answer.questionId);
    try {
      checkAnswers(run, [one.answer], { ...checks, areAllNeeded: false });
      answers.push(one.answer);
    } catch (cause) {
      if (!EspalierError.is(cause) || cause.code !== "invalid_answer") throw cause;
      // Its approver was being asked when the process died: it will be asked again.
      const isAskedAgain = wasCutOff || isToBeAsked(run, one.answer.questionId);
      if (isAskedAgain && cause.data["problem"] === "unknown") settled.delete(number);
      else settled.set(number, cause.message);
    }
  }
  return { answers, settled };
}

/** Whether a question is about a call that has not begun: the run was asked to pause before the call could be asked about once more. */
function isToBeAsked({ agents }: RestoredRun, questionId: QuestionId): boolean {
  return agents.some(({ state }) => {
    if (state.status !== "paused" || state.step === undefined) return false;
    const { stepId, executions, deferrals, reply } = state.step;
    const begun = new Set([
      ...executions.map(({ call }) => call.callId),
      ...deferrals.map(({ callId }) => callId),
    ]);
    return (
      reply?.message.toolCalls.some(
        ({ callId }, index) => !begun.has(callId) && questionId === questionIdOf(stepId, index),
      ) === true
    );
  });
}

/** Where the run is kept, and what its journal has of it if its process died. */
export interface Kept {
  readonly journal: RunJournal | undefined;
  readonly folded?: FoldedRun | undefined;
  /** The run continues only to fail with this error. */
  readonly failure?: ErrorRecord | undefined;
}

/** Restores the run: gives what it continues with. */
export function continuedParts(
  settings: Settings,
  run: RestoredRun,
  ready: Continuation,
  { journal, folded, failure }: Kept,
): LedParts {
  const { registry, roles, onPiece, context, instructions, session, answers, grants } = ready;
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
  const restored = restore(runtime, run, roles);
  if (answers.size > 0) journal?.append({ type: "answers", answers: [...answers.values()] });
  const recordGrants = grants.map(({ agentId, field, ...grant }) => {
    const node = runtime.tree.find(agentId) ?? restored;
    return grantBudget(runtime, node, grant, field);
  });
  let root = restored;
  if (instructions !== undefined) {
    const next = {
      ...AS_ROOT,
      task: restored.taskContent,
      instructions,
      message: stoppedNotice(run),
    };
    root = continueAgent(runtime, restored, next);
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
    ...defined({ traceparent: folded?.traceparent }),
    ...(folded?.status === "open" ? { recovery: recoveryOf(folded) } : {}),
  });
  const beforeFirstEvent = (): void => {
    if (folded?.status === "open") runtime.recorder.endLost(folded.lostSpans, folded.lastSpanUs);
  };
  const afterFirstEvent = (): void => {
    for (const record of recordGrants) record();
    if (folded !== undefined) {
      chargeLost(runtime, folded);
      reapply(runtime, folded);
    }
    if (failure !== undefined) failRoot(root, failure);
    supervisor.reactivateDetached();
  };
  // Another process may have continued it from the same store.
  const allowed = (): Promise<void> | undefined => journal?.writer.claimed();
  const mail: RunBeginning["mail"] = [ready.mail, ready.settledMail];
  const callbacks = { allowed, beforeFirstEvent, afterFirstEvent };
  const beginning = { pauses: run.pauses, answered, event, mail, ...callbacks };
  return { supervisor, root, beginning };
}

function recoveryOf({ lost, isSpanOpen }: FoldedRun): EventBody<"run.resumed">["recovery"] {
  return { lostCalls: lost.length, isSpanOpen };
}
