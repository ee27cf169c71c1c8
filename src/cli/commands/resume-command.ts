// `espalier resume <run>`: continues a paused or interrupted run, or, with `--grant`, a run that a
// limit stopped. First prints which tool calls were interrupted, and which ones run again. Asks a
// person at the terminal for open answers.

import {
  EspalierError,
  type Approver,
  type Orchestrator,
  type StoredResumeOptions,
  type Run,
  type AgentRole,
} from "espalier";
import type { Store, StoredRun } from "espalier/extend";
import { stripControlCharacters } from "espalier/terminal";
import type { RunFold } from "espalier/view";

import { parseGrantOption, suggestGrantCommand } from "../amount-options.ts";
import { type CommandBody, resolveReadableFolder } from "../command-call.ts";
import { EXIT_CODES, UsageError } from "../exit-codes.ts";
import { formatJsonLine } from "../json-text.ts";
import {
  resolveRunName,
  readRootRole,
  readOpenQuestions,
  StoredRunReader,
} from "../stored-run-reader.ts";
import { openProjectStore } from "../project.ts";
import { loadNamedRole, resolveRolesOption } from "../available-roles.ts";
import { createRunContext, readAnswerMode, prepareRun, readOutputChoice } from "../run-settings.ts";
import { printNotice, printLine } from "../shell.ts";
import { openToolCalls } from "../../read-model/agent-row.ts";
import { formatQuantity } from "../../read-model/amounts.ts";

/** Recorded name of the granter. */
const GRANTED_BY = "espalier resume";

export const body: CommandBody = async (call) => {
  const { shell, args, text, has } = call;
  readOutputChoice(call);
  readAnswerMode(call);
  const granted = text("grant");
  const grants =
    granted === undefined ? [] : [{ budget: parseGrantOption(granted), by: GRANTED_BY }];
  const readFolder = resolveReadableFolder(shell, text("allowRead"));
  const place = resolveRolesOption(call);
  await using chosenStore = await openProjectStore(call, "write");
  const run = await resolveRunName(chosenStore, args[0] ?? "");
  const reading = new StoredRunReader(chosenStore.store, run);
  await reading.advance();
  const hasEnded = run.status === "ended";
  // A grant continues a run that a limit stopped, but no other ended run.
  const isContinuable = granted !== undefined && reading.fold.end?.status === "stopped";
  if (hasEnded && !isContinuable) throw new UsageError(describeEndedRun(reading));
  const search = { shell, project: chosenStore.project, model: text("model"), readFolder };
  await using hand = await loadNamedRole(readRootRole(run), search, place);
  const { orchestrator, follower, person } = prepareRun(call, { hand, chosenStore });
  const context = await createRunContext(hand);
  const interrupted = hasEnded ? [] : describeInterrupted(reading.fold, hand.roles);
  if (!hasEnded && person !== undefined)
    await answerExternalCalls(orchestrator, chosenStore.store, run, person);
  const known = new Set(reading.record.handledMail);
  const options = { takeOver: has("takeOver"), grants, context };
  const resumed = await tryResume(orchestrator, run, options).catch((cause: unknown) => {
    throw EspalierError.is(cause) && cause.code === "run_active"
      ? createOwnedElsewhereError(reading.stored, call.command, cause)
      : cause;
  });
  if (resumed !== undefined) {
    for (const line of interrupted) printNotice(shell, line);
    const exitCode = await follower.follow(resumed);
    await reading.advance();
    for (const [number, problem] of reading.record.rejectedAnswers)
      if (!known.has(number))
        printNotice(shell, stripControlCharacters(`An answer or request was rejected: ${problem}`));
    return exitCode;
  }
  const open = await readOpenQuestions(chosenStore.store, run.runId);
  if (has("json"))
    printLine(shell, formatJsonLine({ runId: run.runId, status: "paused", questions: open }));
  const questions = `${call.command} questions`;
  printNotice(
    shell,
    `${run.runId} waits for ${formatQuantity(open.length, "answer")}. See them: ${questions}`,
  );
  return EXIT_CODES.paused;
};

/** Returns the message that the run has ended, with a suggestion. */
function describeEndedRun({ stored: { runId }, fold: { end } }: StoredRunReader): string {
  const { status = "ended", reason } = end ?? {};
  const code = reason?.code ?? "";
  const more =
    status === "stopped" ? suggestGrantCommand(code, `espalier resume ${runId}`) : undefined;
  const advice =
    more === undefined ? `See it: espalier show ${runId}` : `Raise its limits: ${more}`;
  return `Cannot resume ${runId}: it has ended: ${status} (${code}). ${advice}`;
}

/** Returns the error that names the owner of the run, with a suggestion. */
function createOwnedElsewhereError(
  { runId, owner }: StoredRun,
  command: string,
  cause: EspalierError,
): EspalierError {
  const leader = owner === null ? "a process" : `process ${owner.processId} on ${owner.hostname}`;
  return new EspalierError({
    code: cause.code,
    message: `Cannot resume ${runId}: ${leader} owns it. Follow it: ${command} tail ${runId}. If that process no longer works, take the run over: ${command} resume ${runId} --take-over`,
    data: cause.data,
    cause,
  });
}

/**
 * Returns lines about the interrupted tool calls of a run. Calls that must not be repeated come
 * first. `roles` have their tools.
 */
function describeInterrupted(fold: RunFold, roles: readonly AgentRole[]): readonly string[] {
  const tools = new Map(roles.flatMap((role) => role.tools.map((tool) => [tool.name, tool])));
  const calls = openToolCalls(fold).map(({ agentPath, toolName }) => {
    const tool = tools.get(toolName);
    const isRepeated = tool?.kind !== "function" || tool.retryAfterCrash;
    const consequence = isRepeated
      ? "runs again"
      : "must not be repeated: the model reads that it was interrupted";
    return {
      isRepeated,
      line: stripControlCharacters(`  ${agentPath} · ${toolName}: ${consequence}`),
    };
  });
  if (calls.length === 0) return [];
  const sorted = calls.toSorted((a, b) => Number(a.isRepeated) - Number(b.isRepeated));
  return ["Interrupted during a call:", ...sorted.map(({ line }) => line)];
}

/**
 * Asks the person for the results of external calls. Approvals are requested while the run
 * continues. A question without an answer stays open.
 */
async function answerExternalCalls(
  orchestrator: Orchestrator,
  store: Store,
  { runId }: StoredRun,
  person: Approver,
): Promise<void> {
  const { signal } = new AbortController();
  for (const question of await readOpenQuestions(store, runId)) {
    if (question.kind !== "external") continue;
    const answer = await person(question, { signal });
    if (answer !== undefined) await orchestrator.answer(runId, [answer]);
  }
}

/** Returns the continued run. `undefined` if it needs answers first. */
async function tryResume(
  orchestrator: Orchestrator,
  { runId }: StoredRun,
  options: Pick<StoredResumeOptions, "takeOver" | "grants" | "context">,
): Promise<Run | undefined> {
  try {
    return await orchestrator.resume(runId, options);
  } catch (cause) {
    if (EspalierError.is(cause) && cause.data["problem"] === "missing") return undefined;
    throw cause;
  }
}
