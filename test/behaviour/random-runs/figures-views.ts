// Compares every view of a played run with the figures of the oracle.

import { expect } from "vitest";

import { formatAgentReport } from "../../../src/cli/agent-text.ts";
import { StoredRunReader } from "../../../src/cli/stored-run-reader.ts";
import { formatRunOverview, formatRunList } from "../../../src/cli/run-text.ts";
import { sumUsage } from "../../../src/protocol/event.ts";
import { formatEventLine } from "../../../src/terminal/plain-view.ts";
import { renderTree } from "../../../src/terminal/render-tree.ts";
import { formatRunReport } from "../../../src/terminal/report.ts";
import type { AgentFold } from "../../../src/read-model/agent-fold.ts";
import { createAgentDetail, createAgentRow } from "../../../src/read-model/agent-row.ts";
import {
  formatCost,
  describeCost,
  formatQuantity,
  formatShortCount,
} from "../../../src/read-model/amounts.ts";
import type { RunFold } from "../../../src/read-model/run-fold.ts";
import { pointsOf, type Readings } from "../../support/telemetry/recorded-metrics.ts";
import type { RecordedSpan } from "../../support/telemetry/recorded-spans.ts";
import { foldOf } from "../../support/read-model/fold-of.ts";
import {
  failedRequests,
  figuresOfAgent,
  figuresOfStep,
  figuresOfTree,
  pickFigures,
  sumFigures,
  type Figures,
  type LoggedAgent,
} from "./figures-log.ts";
import type { Played } from "./figures-play.ts";

/** The figures that every view must show for an agent. */
interface Expected {
  readonly log: LoggedAgent;
  readonly agentId: string;
  readonly path: string;
  readonly status: string;
  readonly own: Figures;
  readonly tree: Figures;
  readonly steps: readonly Figures[];
  readonly failed: readonly number[];
}

export async function checkFigures(played: Played): Promise<void> {
  const all = expectedOf(played);
  checkResult(played, all);
  const fold = foldOf(played.events);
  checkFold(played, all, fold);
  checkTexts(played, all, fold);
  checkSpans(played, all);
  checkMetrics(played, all);
  await checkStored(played, all, fold);
}

/** The oracle does not know which tools ran for a reply that was not executed. */
function expectedOf({ agents, result, isUndisturbed }: Played): readonly Expected[] {
  const own = new Map(agents.map((log) => [log, figuresOfAgent(log)]));
  const reports = new Map(result.agents.map((report) => [report.role, report]));
  const toolCalls = (role: string, part: "own" | "total"): number =>
    reports.get(role)?.usage[part].toolCalls ?? 0;
  return agents.map((log) => {
    const report = reports.get(log.role);
    if (report === undefined) throw new Error(`${log.role} has no report.`);
    const ownFigures = own.get(log) ?? figuresOfAgent(log);
    const treeFigures = figuresOfTree(log, agents);
    const steps = log.steps.map(figuresOfStep);
    return {
      log,
      agentId: report.agentId,
      path: report.agentPath,
      status: report.status,
      own: isUndisturbed ? ownFigures : { ...ownFigures, toolCalls: toolCalls(log.role, "own") },
      tree: isUndisturbed
        ? treeFigures
        : { ...treeFigures, toolCalls: toolCalls(log.role, "total") },
      steps,
      failed: log.steps.map(failedRequests),
    };
  });
}

function checkResult({ result, events, isUndisturbed }: Played, all: readonly Expected[]): void {
  const byRole = new Map(all.map((one) => [one.log.role, one]));
  for (const { role, usage, steps } of result.agents) {
    const one = byRole.get(role);
    if (one === undefined) throw new Error(`Nothing is expected of ${role}.`);
    expect(pickFigures(usage.own), `own usage of ${role} in the result`).toEqual(one.own);
    expect(pickFigures(usage.total), `tree usage of ${role} in the result`).toEqual(one.tree);
    if (isUndisturbed)
      expect(
        steps.map(({ telemetry }) => pickFigures(telemetry.usage)),
        `steps of ${role} in the result`,
      ).toEqual(one.steps);
    const account = result.accounts.find(({ agentId }) => agentId === one.agentId);
    expect(account && pickFigures(account.own), `account of ${role}`).toEqual(one.own);
    expect(account && pickFigures(account.total), `account of ${role}`).toEqual(one.tree);
    const own = sumUsage(events.filter(({ agentId }) => agentId === one.agentId));
    expect(pickFigures(own), `events of ${role}`).toEqual(one.own);
    const named = result.usage.byRole[role];
    expect(named && pickFigures(named), `byRole of ${role}`).toEqual(one.own);
  }
  const total = sumFigures(all.map(({ own }) => own));
  expect(pickFigures(result.usage.total), "total of the result").toEqual(total);
  const models = sumFigures(Object.values(result.usage.byModel));
  expect(models, "byModel of the result").toEqual(total);
  for (const [model, usage] of Object.entries(result.usage.byModel)) {
    const paid = all.flatMap(({ log }) =>
      log.steps
        .flatMap(({ calls }) => calls)
        .flatMap(({ requests }) => requests)
        .filter((request) => request.model.id === model),
    );
    const tokens = paid.reduce(
      (sum, { consumed }) => sum + (consumed?.inputTokens ?? 0) + (consumed?.outputTokens ?? 0),
      0,
    );
    expect(usage.totalTokens, `byModel of ${model}`).toBe(tokens);
  }
}

const SPENT = ["totalTokens", "costUsd", "unpricedCalls"] as const;

function spentOf(usage: Readonly<Record<(typeof SPENT)[number], number | null>>) {
  return Object.fromEntries(SPENT.map((field) => [field, usage[field]]));
}

function checkFold(
  { result, budget, isUndisturbed }: Played,
  all: readonly Expected[],
  fold: RunFold,
): void {
  const { run } = fold.snapshot();
  const [root] = all;
  if (root === undefined) throw new Error("There is a root.");
  expect(run.status, "status of the run").toBe(result.status);
  expect(run.spent, "spent of the run").toEqual(spentOf(root.tree));
  for (const one of all) {
    const agent = fold.agents.find(({ agentId }) => agentId === one.agentId);
    if (agent === undefined) throw new Error(`${one.path} is not folded.`);
    const detail = createAgentDetail(agent, []);
    expect(detail.status, `status of ${one.path}`).toBe(one.status);
    expect(detail.own, `own of ${one.path}`).toEqual(spentOf(one.own));
    expect(detail.subtree, `subtree of ${one.path}`).toEqual(spentOf(one.tree));
    for (const [axis, used] of Object.entries(detail.used))
      if (axis in one.own)
        expect([axis, used], `used by ${one.path}`).toEqual([axis, amountOf(one.own, axis)]);
    const row = createAgentRow(agent);
    expect(row.slice(11, 17), `row of ${one.path}`).toEqual([
      ...Object.values(spentOf(one.own)),
      ...Object.values(spentOf(one.tree)),
    ]);
    const report = result.agents.find(({ agentId }) => agentId === one.agentId);
    expect(
      detail.steps.map(({ usage }) => usage),
      `steps of ${one.path}`,
    ).toEqual(report?.steps.map(({ telemetry }) => telemetry.usage));
    if (isUndisturbed)
      expect(failedOf(agent), `failed attempts of ${one.path}`).toEqual(one.failed);
    checkLeft(result.accounts, one, agent);
  }
  for (const [axis, limit] of Object.entries(budget)) {
    const left = subtract(axis, limit, amountOf(result.usage.total, axis));
    expect([axis, run.remaining[axis]], "left of the run").toEqual([axis, Math.max(0, left)]);
  }
}

/** Subtracts money in whole micro-dollars. */
function subtract(axis: string, limit: number, spent: number): number {
  if (axis !== "costUsd") return limit - spent;
  return (Math.round(limit * 1_000_000) - Math.round(spent * 1_000_000)) / 1_000_000;
}

function amountOf(usage: object, axis: string): number {
  const amounts: Readonly<Record<string, unknown>> = { ...usage };
  return Number(amounts[axis] ?? 0);
}

/** The amount that remains for an agent is the minimum on its path. */
function checkLeft(accounts: Played["result"]["accounts"], one: Expected, agent: AgentFold): void {
  const detail = createAgentDetail(agent, []);
  if (detail.remaining === undefined) return;
  const least = new Map<string, number>();
  for (
    let at = accounts.find(({ agentId }) => agentId === one.agentId);
    at !== undefined;
    at = accounts.find(({ agentId }) => agentId === at?.parentAgentId)
  )
    for (const [axis, limit] of Object.entries(at.limits)) {
      const spent = amountOf(at.total, axis);
      const left = Math.max(0, subtract(axis, limit, spent));
      least.set(axis, Math.min(left, least.get(axis) ?? Infinity));
    }
  if (one.log.parent === undefined)
    expect(detail.remaining, `left of ${one.path}`).toEqual(Object.fromEntries(least));
}

/**
 * Failed attempts that a view shows for each step: earlier ones, and the one that ended the step.
 */
function failedOf(agent: AgentFold): readonly number[] {
  return createAgentDetail(agent, []).steps.map(
    ({ attempts, error }) => attempts.length + (error === undefined ? 0 : 1),
  );
}

function checkTexts({ result, events, nowMs }: Played, all: readonly Expected[], fold: RunFold) {
  const { root } = fold;
  if (root === undefined) throw new Error("There is a root.");
  const live = renderTree(root, { width: 400, nowMs, hasColor: false });
  const report = formatRunReport(result, { width: 400 }).split("\n");
  for (const one of all) {
    const name = one.path.slice(one.path.lastIndexOf("/") + 1);
    const cells = [
      formatShortCount(one.own.totalTokens),
      formatShortCount(one.tree.totalTokens),
      formatCost(one.own),
      formatCost(one.tree),
    ].join(" ");
    for (const [what, lines] of [
      ["live tree", live],
      ["report", report],
    ] as const) {
      const line = lines.find((text) => text.replace(/^[ │├└─]+/, "").startsWith(`${name} `));
      expect(line?.replaceAll(/ +/g, " "), `${name} in the ${what}`).toContain(` ${cells} `);
    }
    const detail = createAgentDetail(
      fold.agents.find(({ agentId }) => agentId === one.agentId) ?? root,
      [],
    );
    const shown = formatAgentReport(detail, fold, { width: 400, hasColor: false });
    const spent = (usage: Figures): string =>
      `${formatQuantity(usage.totalTokens, "token")}, ${describeCost(usage)}`;
    expect(shown, `show of ${name}`).toContain(
      `own ${spent(one.own)} · with subagents ${spent(one.tree)}`,
    );
    const ended = events.find(
      ({ type, agentId }) => type === "agent.ended" && agentId === one.agentId,
    );
    const line = ended && formatEventLine(ended);
    expect(line, `tail of ${name}`).toContain(`, ${spent(one.own)}, `);
    if (one.tree.totalTokens > one.own.totalTokens)
      expect(line, `tail of ${name}`).toContain(`, subtree ${spent(one.tree)}, `);
  }
}

function checkSpans({ spans, result }: Played, all: readonly Expected[]): void {
  for (const one of all) {
    const own = spans.filter(({ attributes }) => attributes["espalier.agent.path"] === one.path);
    const chats = own.filter(({ attributes }) => attributes["gen_ai.operation.name"] === "chat");
    const sum = (name: string): number =>
      chats.reduce((total, { attributes }) => total + Number(attributes[name] ?? 0), 0);
    expect(
      {
        calls: chats.length,
        inputTokens: sum("gen_ai.usage.input_tokens"),
        outputTokens: sum("gen_ai.usage.output_tokens"),
        cached: sum("gen_ai.usage.cache_read.input_tokens"),
        reasoning: sum("gen_ai.usage.reasoning.output_tokens"),
        microUsd: Math.round(sum("espalier.cost.usd") * 1_000_000),
      },
      `chat spans of ${one.path}`,
    ).toEqual({
      calls: one.own.modelCalls,
      inputTokens: one.own.inputTokens,
      outputTokens: one.own.outputTokens,
      cached: one.own.cachedInputTokens,
      reasoning: one.own.reasoningTokens,
      microUsd: Math.round((one.own.costUsd ?? 0) * 1_000_000),
    });
    checkAgentSpan(own, one);
  }
  const run = spans.filter(
    ({ attributes }) => attributes["gen_ai.operation.name"] === "invoke_workflow",
  );
  expect(run.at(-1)?.attributes["espalier.outcome"], "outcome of the run").toBe(result.status);
}

function checkAgentSpan(own: readonly RecordedSpan[], one: Expected): void {
  const span = own.findLast(
    ({ attributes }) => attributes["gen_ai.operation.name"] === "invoke_agent",
  );
  const { attributes = {} } = span ?? {};
  const { tree } = one;
  const isNothing = tree.totalTokens === 0 && (tree.costUsd ?? 0) === 0;
  const costUsd = tree.costUsd === null || isNothing ? undefined : tree.costUsd;
  expect(
    {
      outcome: attributes["espalier.outcome"],
      modelCalls: attributes["espalier.subtree.model_calls"],
      toolCalls: attributes["espalier.subtree.tool_calls"],
      input: attributes["espalier.subtree.input_tokens"],
      output: attributes["espalier.subtree.output_tokens"],
      total: attributes["espalier.subtree.total_tokens"],
      costUsd: attributes["espalier.subtree.cost.usd"],
      unpriced: attributes["espalier.subtree.unpriced_calls"],
    },
    `span of ${one.path}`,
  ).toEqual({
    outcome: one.status,
    modelCalls: tree.modelCalls,
    toolCalls: tree.toolCalls,
    input: tree.inputTokens,
    output: tree.outputTokens,
    total: tree.totalTokens,
    costUsd,
    unpriced: tree.unpricedCalls,
  });
}

function checkMetrics({ metrics }: Played, all: readonly Expected[]): void {
  const sumOf = (name: Parameters<typeof pointsOf>[1], role: string, readings: Readings): number =>
    pointsOf(readings, name)
      .filter(({ attributes }) => attributes["gen_ai.agent.name"] === role)
      .reduce((total, { sum }) => total + sum, 0);
  for (const { log, own } of all)
    expect(
      {
        input: sumOf("inputTokens", log.role, metrics),
        output: sumOf("outputTokens", log.role, metrics),
        cached: sumOf("cacheReadTokens", log.role, metrics),
        reasoning: sumOf("reasoningTokens", log.role, metrics),
        calls: sumOf("agentInferenceCalls", log.role, metrics),
        tools: sumOf("agentToolCalls", log.role, metrics),
      },
      `metrics of ${log.role}`,
    ).toEqual({
      input: own.inputTokens,
      output: own.outputTokens,
      cached: own.cachedInputTokens,
      reasoning: own.reasoningTokens,
      calls: own.modelCalls,
      tools: own.toolCalls,
    });
}

async function checkStored(
  { store, result, nowMs }: Played,
  all: readonly Expected[],
  live: RunFold,
) {
  const stored = await store.find(result.runId);
  if (stored === undefined) throw new Error("The run is stored.");
  const reading = new StoredRunReader(store, stored);
  await reading.advance();
  const { fold } = reading;
  const strip = ({ agents, run, spans }: ReturnType<RunFold["snapshot"]>) => ({
    agents,
    run,
    spans,
  });
  expect(strip(fold.snapshot()), "the fold of the journal").toEqual(strip(live.snapshot()));
  const head = reading.getHead(nowMs);
  const [root] = all;
  if (root === undefined) throw new Error("There is a root.");
  const spent = `${formatQuantity(root.tree.totalTokens, "token")} · cost ${formatCost(root.tree)}`;
  const text = formatRunOverview(
    { fold, head, questions: [], nowMs },
    { width: 400, hasColor: false },
  );
  expect(text, "the head of show").toContain(spent);
  const list = formatRunList([{ ...reading.getListing(nowMs), ...fold.snapshot().run, ...head }], {
    nowMs,
    width: 400,
    hasColor: false,
  });
  const cells = `${all.length} ${formatShortCount(root.tree.totalTokens)} ${formatCost(root.tree)}`;
  expect(list.replaceAll(/ +/g, " "), "the list of runs").toContain(cells);
  for (const one of all) {
    const [agent] = fold.agents.filter(({ agentId }) => agentId === one.agentId);
    if (agent === undefined) throw new Error(`${one.path} is stored.`);
    const steps = (await reading.record.steps(agent.agentId)).flatMap(
      (execution) => execution.steps,
    );
    expect(
      steps.map(({ telemetry }) => telemetry.usage),
      `stored steps of ${one.path}`,
    ).toEqual(agent.steps.map(({ usage }) => usage));
  }
}
