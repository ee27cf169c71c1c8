// `espalier show <run> [agent] [step]`: shows a run, one of its agents, or one step.

import type { EspalierEvent, RunResult } from "espalier";
import { stripControlCharacters } from "espalier/terminal";
import type { AgentFold, StepFold } from "espalier/view";

import {
  formatAgentReport,
  formatStepReport,
  type KeptStep,
  type StepAttempts,
} from "../agent-text.ts";
import type { CommandBody, CommandCall } from "../command-call.ts";
import { describeResult } from "../follow-run.ts";
import { formatJsonLine } from "../json-text.ts";
import {
  describeUnownedRun,
  findStoredResult,
  StoredRunReader,
  LAST_RUN,
  joinAgentPaths,
  resolveRunName,
} from "../stored-run-reader.ts";
import { getTimeMs } from "../machine-time.ts";
import { detectOutputStyle, describeRunErrors, formatRunOverview } from "../run-text.ts";
import { adviseWithoutRuns, openProjectStore } from "../project.ts";
import { printNotice, printLine } from "../shell.ts";
import { UsageError } from "../exit-codes.ts";
import { createAgentDetail } from "../../read-model/agent-row.ts";

export const body: CommandBody = async (call) => {
  const { shell, args } = call;
  const [name = LAST_RUN, path, step] = args;
  await using chosenStore = await openProjectStore(call, "list");
  if (name === LAST_RUN && (await chosenStore.store.list({ limit: 1 })).length === 0) {
    if (call.has("json")) printLine(shell, formatJsonLine({ runs: [] }));
    printNotice(
      shell,
      `No runs in ${chosenStore.name}. ${adviseWithoutRuns(chosenStore, call.command)}`,
    );
    return 0;
  }
  const run = new StoredRunReader(chosenStore.store, await resolveRunName(chosenStore, name));
  const answers: EspalierEvent<"question.answered">[] = [];
  await run.advance((event) => {
    if (event.type === "question.answered") answers.push(event);
  });
  if (run.fold.startedAtMs === undefined) {
    const { stored, refusal } = run;
    const text = `Run ${stored.runId} has not started: nothing is recorded yet.`;
    if (refusal === undefined) throw new UsageError(text);
    const why = `No process could run it (${refusal.code}): ${refusal.message}`;
    throw new UsageError(stripControlCharacters(`${text} ${why}`));
  }
  if (path === undefined) showRun(call, run, await findStoredResult(chosenStore.store, run.stored));
  else if (step === undefined) {
    const detail = createAgentDetail(findNamedAgent(run, path), run.fold.refusals);
    printJsonOr(call, detail, () => formatAgentReport(detail, run.fold, detectOutputStyle(shell)));
  } else await showStep(call, run, { agent: findNamedAgent(run, path), step, answers });
  return 0;
};

function showRun(
  { shell, command, has }: CommandCall,
  run: StoredRunReader,
  result: RunResult | undefined,
): void {
  const { fold, questions } = run;
  const nowMs = getTimeMs();
  const parts = { fold, head: run.getHead(nowMs), questions, nowMs };
  if (has("json")) {
    const { causes, refusals } = fold.snapshot();
    const agents = fold.agents.map((agent) => createAgentDetail(agent, fold.refusals));
    const { text, output } = result ?? {};
    const shown = { run: parts.head, causes, questions, refusals, agents, text, output };
    printLine(shell, formatJsonLine(shown));
    return;
  }
  const style = detectOutputStyle(shell);
  printLine(
    shell,
    has("errors") ? describeRunErrors(parts, style) : formatRunOverview(parts, style),
  );
  const text = result === undefined ? "" : describeResult(result);
  if (text !== "" && !has("errors")) printLine(shell, `\nResult\n${text}`);
  const alone = describeUnownedRun(parts.head, command);
  if (alone !== undefined) printNotice(shell, alone);
}

interface SelectedStep {
  readonly agent: AgentFold;
  readonly step: string;
  /** All answers of the run. */
  readonly answers: readonly EspalierEvent<"question.answered">[];
}

async function showStep(
  call: CommandCall,
  { fold, record }: StoredRunReader,
  { agent, step: stepText, answers: all }: SelectedStep,
): Promise<void> {
  const { agentId, agentPath } = agent;
  const executions = await record.steps(agentId);
  const { execution, number } = parseStepNumber(stepText, executions.at(-1)?.execution ?? 1);
  const recorded = executions.find((other) => other.execution === execution);
  const steps: readonly KeptStep[] = [
    ...(recorded?.steps ?? []),
    ...(recorded?.open === undefined ? [] : [recorded.open]),
  ];
  const step = steps.find((other) => other.number === number);
  if (step === undefined)
    throw new UsageError(
      `Expected a step of ${agentPath} in execution ${execution} (${formatStepRange(steps)}), got ${JSON.stringify(stepText)}.`,
    );
  const ref = { agentId, stepNumber: number, execution };
  const request = call.has("request") ? await record.request(ref) : undefined;
  const parts = { agentPath, execution, stepCount: steps.length, step, request };
  const row = agent.steps.find((other) => other.number === number && other.execution === execution);
  const repliedBy = row?.repliedBy;
  const answers = new Map(
    all.flatMap((event) =>
      event.stepId === step.stepId && event.callId !== null ? [[event.callId, event]] : [],
    ),
  );
  const findPath = (id: string): string =>
    fold.agents.find((other) => other.agentId === id)?.agentPath ?? id;
  const attempts = collectStepAttempts(row);
  printJsonOr(call, { ...parts, repliedBy, attempts: row?.attempts, calls: row?.calls }, () =>
    formatStepReport({ ...parts, repliedBy, attempts, answers, findPath }),
  );
}

/** Prints a value with `--json`, and otherwise its text. */
function printJsonOr({ shell, has }: CommandCall, value: object, format: () => string): void {
  printLine(shell, has("json") ? formatJsonLine(value) : format());
}

function collectStepAttempts(row: StepFold | undefined): StepAttempts {
  const byCall = new Map(row?.calls.map(({ callId, attempts }) => [callId, attempts]));
  return { model: row?.attempts, byCall };
}

const PLACE = /^(?:(\d+)\.)?(\d+)$/;

/** Parses a step number: `2` belongs to the last execution, `1.2` to the first. */
function parseStepNumber(text: string, last: number) {
  const [, execution = String(last), number] = PLACE.exec(text) ?? [];
  if (number === undefined)
    throw new UsageError(
      `Expected a step number, for example 2 or 1.2, got ${JSON.stringify(text)}.`,
    );
  return { execution: Number(execution), number: Number(number) };
}

function formatStepRange(steps: readonly KeptStep[]): string {
  const [first, last] = [steps[0], steps.at(-1)];
  return first === undefined ? "none" : `${first.number} to ${last?.number}`;
}

/** Finds an agent by its path, by a unique end of its path, or by its id. */
function findNamedAgent({ fold }: StoredRunReader, name: string): AgentFold {
  const { agents } = fold;
  const exact = agents.find(({ agentPath, agentId }) => agentPath === name || agentId === name);
  if (exact !== undefined) return exact;
  const alike = agents.filter(({ agentPath }) => agentPath.endsWith(`/${name}`));
  const [only] = alike;
  if (only !== undefined && alike.length === 1) return only;
  const named = joinAgentPaths(alike.length > 0 ? alike : agents);
  throw new UsageError(`Expected the path of an agent (${named}), got ${JSON.stringify(name)}.`);
}
