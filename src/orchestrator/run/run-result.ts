// What a run leaves behind: plain values about every agent and about the whole (R36, R135, X18).

import type { JsonValue } from "../../kernel/json.ts";
import { addedMessages, storedMessages } from "../../agent/message-tags.ts";
import type { Account } from "../../protocol/account.ts";
import type { Definitions } from "../../protocol/definition.ts";
import type { AgentId, RunId } from "../../protocol/ids.ts";
import type { StoredMessage } from "../../protocol/message.ts";
import type { Question } from "../../protocol/question.ts";
import type { StepRecord } from "../../protocol/step-record.ts";
import type { ErrorRecord, RestStatus, StopReason, StopSignal } from "../../protocol/stop.ts";
import { addUsage, NO_USAGE, type Usage, type UsageReport } from "../../protocol/usage.ts";
import type { BudgetLedger } from "../budget/ledger.ts";
import { pricesUsed, type PriceUsed } from "../budget/prices-used.ts";
import type { PausedRun } from "../durability/paused-run.ts";
import type { SessionOutcome } from "../sessions/session-outcome.ts";
import {
  agentReport,
  restedAgent,
  type AgentReport,
  type RestedAgent,
} from "../tree/agent-report.ts";
import type { RunTree } from "../tree/run-tree.ts";

/** The usage of a run, by every cut that is asked for; all of them add up to `total`. */
export interface RunUsage extends UsageReport {
  readonly byRole: Readonly<Record<string, Usage>>;
  readonly byModel: Readonly<Record<string, Usage>>;
}

/** An error that ended an agent, and which agent that was. */
export interface AgentError extends ErrorRecord {
  readonly agentId: AgentId;
  readonly agentPath: string;
}

/** How a run ended, or that it is paused. Holds no live object; survives JSON. `Output`: the typed result that the root's role declares. */
export interface RunResult<out Output = unknown> {
  readonly runId: RunId;
  /** The trace that shows the run. */
  readonly traceId: string;
  /** `paused`: it has not ended; hand `pausedRun` to `orchestrator.resume`, with the answers to its `questions`. */
  readonly status: RestStatus;
  readonly reason: StopReason;
  /** The root's stop signals, in order of arrival; `reason` is that of the highest. Those of every other agent are in `agents`. */
  readonly signals: readonly StopSignal[];
  /**
   * The errors of the whole tree, agent by agent in the order in which they failed: the first cause first. Not empty in a run that
   * completed although a subagent failed. Of an agent that was continued, those of its last execution.
   */
  readonly errors: readonly AgentError[];
  /** The calls that wait for somebody outside, over the whole tree; empty unless paused (R27). */
  readonly questions: readonly Question[];
  /** Everything that is needed to go on, as JSON; undefined unless paused. */
  readonly pausedRun: PausedRun | undefined;
  /** The root's history, its instructions and what came from a session included, each message with where it came from (R98). */
  readonly messages: readonly StoredMessage[];
  /** What this run has added to it, its task first; also what is not in the history any more (R102). */
  readonly newMessages: readonly StoredMessage[];
  /** What became of the session of the run; undefined: it has none. */
  readonly session: SessionOutcome | undefined;
  /** The root's last text. */
  readonly text: string;
  /** The root's typed result; undefined if its role declares none, and as long as it has given none. */
  readonly output: Output | undefined;
  /** The root's steps. */
  readonly steps: readonly StepRecord[];
  readonly usage: RunUsage;
  /**
   * The price of every model of the tree, in the order in which their agents were started, with the date of the table that it is from.
   * A model that is there at two prices is listed with each.
   */
  readonly prices: readonly PriceUsed[];
  /** Agents that live on after the root (X9). They are not in `agents` yet; the result of `run.settled` has them. */
  readonly detached: readonly AgentId[];
  /** Every agent of the tree, in the order of their start; the root first. */
  readonly agents: readonly AgentReport[];
  /** The texts that the steps of all agents speak of, by their hash: prompts, tool definitions (C28). */
  readonly definitions: Definitions;
  readonly subagentsByDepth: Readonly<Record<string, number>>;
  readonly refusalsByCode: Readonly<Record<string, number>>;
  /** The ledger's accounts as they stand at the end. */
  readonly accounts: readonly Account[];
  readonly durationMs: number;
}

/** What a result is made of besides the tree and the ledger. */
export interface ResultParts {
  readonly traceId: string;
  readonly definitions: Definitions;
  readonly atMs: number;
  readonly pausedRun: PausedRun | undefined;
  readonly session: SessionOutcome | undefined;
}

/** The result of a run all of whose agents rest. */
export function runResult(
  tree: RunTree,
  ledger: BudgetLedger,
  parts: ResultParts,
): RunResult<JsonValue> {
  const { nodes, subagentsByDepth, refusalsByCode, failedIds } = tree;
  const runId = nodes[0]?.identity.runId;
  if (runId === undefined) throw new Error("A run has a root.");
  return resultOfAgents({
    ...parts,
    runId,
    rested: nodes.flatMap((node) => restedAgent(node) ?? []),
    detached: nodes.flatMap(({ rested, identity }) =>
      rested === undefined ? [identity.agentId] : [],
    ),
    prices: pricesUsed(nodes, tree.pricesBefore),
    failedIds,
    subagentsByDepth,
    refusalsByCode,
    accounts: ledger.snapshot(),
  });
}

/** What a result is made of. */
export interface WholeResult
  extends
    ResultParts,
    Pick<
      RunResult,
      "runId" | "detached" | "prices" | "subagentsByDepth" | "refusalsByCode" | "accounts"
    > {
  /** The root first. */
  readonly rested: readonly RestedAgent[];
  /** Agents that failed, in the order in which they did. */
  readonly failedIds: readonly AgentId[];
}

export function resultOfAgents(parts: WholeResult): RunResult<JsonValue> {
  const agents = parts.rested.map((agent) => agentReport(agent, parts.atMs));
  const [root] = agents;
  const conversation = parts.rested[0]?.rested.conversation;
  if (root === undefined || conversation === undefined) throw new Error("A run has a root.");
  const { status, reason, text, output, steps, usage, durationMs, agentId } = root;
  return Object.freeze({
    runId: parts.runId,
    traceId: parts.traceId,
    status,
    reason,
    signals: root.signals,
    errors: errorsOf(agents, parts.failedIds),
    questions: parts.pausedRun?.questions ?? [],
    pausedRun: parts.pausedRun,
    messages: storedMessages(conversation, agentId),
    newMessages: addedMessages(conversation, agentId),
    session: parts.session,
    text,
    output,
    steps,
    usage: {
      ...usage,
      byRole: sumBy(agents, (agent) => agent.role),
      byModel: sumBy(agents, (agent) => agent.model),
    },
    prices: parts.prices,
    detached: parts.detached,
    agents,
    definitions: parts.definitions,
    subagentsByDepth: parts.subagentsByDepth,
    refusalsByCode: parts.refusalsByCode,
    accounts: parts.accounts,
    durationMs,
  });
}

function errorsOf(
  agents: readonly AgentReport[],
  failedIds: readonly AgentId[],
): readonly AgentError[] {
  const byId = new Map(agents.map((agent) => [agent.agentId, agent]));
  return failedIds.flatMap((agentId) => {
    const { agentPath, errors } = byId.get(agentId) ?? { agentPath: "", errors: [] };
    return errors.map((error) => ({ agentId, agentPath, ...error }));
  });
}

function sumBy(
  agents: readonly AgentReport[],
  keyOf: (agent: AgentReport) => string,
): Readonly<Record<string, Usage>> {
  const sums = new Map<string, Usage>();
  for (const agent of agents) {
    const key = keyOf(agent);
    sums.set(key, addUsage(sums.get(key) ?? NO_USAGE, agent.usage.own));
  }
  return Object.fromEntries(sums);
}
