// Defines every metric of espalier. No other file contains such names. `gen_ai.*` follows the GenAI
// semantic conventions as of October 2026, all "Development" there; `espalier.*` is for metrics
// that the conventions lack. docs/metrics.md shows this table, and a test compares both.

import { ERROR_TYPE, ESPALIER, GEN_AI } from "../gen-ai-attributes.ts";

/** Definition of a metric and its attributes. */
export interface MetricDefinition {
  readonly name: string;
  readonly kind: "counter" | "histogram" | "upDownCounter";
  readonly unit: string;
  readonly description: string;
  /** Names of its only attributes. Each has few values, and no ids or texts. */
  readonly attributes: readonly string[];
  /** Recommended upper bounds of histogram buckets. */
  readonly boundaries?: readonly number[];
  /** True for metrics of version 1.41 of the conventions, which need `legacyMetrics`. */
  readonly isLegacy?: true;
}

/** Seconds of a call. */
const OF_CALL = {
  kind: "histogram",
  unit: "s",
  boundaries: computeDoublingBounds(0.01, 14),
} as const;
/** Seconds of an agent, which makes many calls. */
const OF_AGENT = {
  kind: "histogram",
  unit: "s",
  boundaries: computeDoublingBounds(0.1, 13),
} as const;
/** Seconds of a whole run, or of a wait for a person. */
const OF_RUN = {
  kind: "histogram",
  unit: "s",
  boundaries: [1, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200],
} as const;
const TOKENS = {
  kind: "histogram",
  unit: "{token}",
  boundaries: Array.from({ length: 14 }, (_none, power) => 4 ** power),
} as const;
const CALLS = {
  kind: "histogram",
  attributes: [GEN_AI.agentName],
  boundaries: computeDoublingBounds(1, 8),
} as const;
const AGENTS = { unit: "{agent}", attributes: [GEN_AI.agentName] } as const;
/** Shares of a limit. */
const PARTS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1, 1.5, 2];

const MODEL_CALL = [GEN_AI.operation, GEN_AI.provider, GEN_AI.requestModel, GEN_AI.agentName];
const MODEL_CALL_END = [...MODEL_CALL, ESPALIER.outcome, ERROR_TYPE];
const TOKEN_COUNT = {
  kind: "counter",
  unit: "{token}",
  attributes: [...MODEL_CALL, GEN_AI.tokenModality],
} as const;

export const METRICS = {
  inferenceDuration: {
    ...OF_CALL,
    name: "gen_ai.client.inference.duration",
    description: "Duration of a model call, from the request to the last byte, with retries.",
    attributes: MODEL_CALL_END,
  },
  inputTokens: {
    ...TOKEN_COUNT,
    name: "gen_ai.client.inference.usage.input_tokens",
    description: "Input tokens of model calls, including cached tokens and failed attempts.",
  },
  outputTokens: {
    ...TOKEN_COUNT,
    name: "gen_ai.client.inference.usage.output_tokens",
    description: "Output tokens of model calls, including reasoning and failed attempts.",
  },
  cacheReadTokens: {
    ...TOKEN_COUNT,
    name: "gen_ai.client.inference.usage.cache_read.input_tokens",
    description: "Input tokens that providers read from their caches.",
  },
  reasoningTokens: {
    ...TOKEN_COUNT,
    name: "gen_ai.client.inference.usage.reasoning.output_tokens",
    description: "Output tokens that were used for reasoning.",
  },
  operationInputTokens: {
    ...TOKENS,
    name: "gen_ai.client.inference.operation.input_tokens",
    description: "Input tokens per model call, for percentiles.",
    attributes: MODEL_CALL_END,
  },
  operationOutputTokens: {
    ...TOKENS,
    name: "gen_ai.client.inference.operation.output_tokens",
    description: "Output tokens per model call, for percentiles.",
    attributes: MODEL_CALL_END,
  },
  agentDuration: {
    ...OF_AGENT,
    name: "gen_ai.invoke_agent.duration",
    description: "Duration of an agent, from start or resume to end or pause.",
    attributes: [
      GEN_AI.operation,
      GEN_AI.agentName,
      GEN_AI.requestModel,
      ESPALIER.outcome,
      ERROR_TYPE,
    ],
  },
  agentInferenceCalls: {
    ...CALLS,
    name: "gen_ai.invoke_agent.inference_calls",
    unit: "{inference_call}",
    description: "Model calls per agent, without its subagents.",
  },
  agentToolCalls: {
    ...CALLS,
    name: "gen_ai.invoke_agent.tool_calls",
    unit: "{tool_call}",
    description: "Tool calls per agent, without its subagents.",
  },
  toolDuration: {
    ...OF_CALL,
    name: "gen_ai.execute_tool.duration",
    description: "Duration of a tool call. A delegation lasts as long as its subagent.",
    attributes: [GEN_AI.operation, GEN_AI.toolName, GEN_AI.agentName, ESPALIER.outcome, ERROR_TYPE],
  },
  workflowDuration: {
    ...OF_RUN,
    name: "gen_ai.invoke_workflow.duration",
    description: "Duration of a run, from start or resume to end or pause.",
    attributes: [GEN_AI.operation, GEN_AI.workflowName, ESPALIER.outcome, ERROR_TYPE],
  },
  activeAgents: {
    ...AGENTS,
    name: "espalier.agents.active",
    kind: "upDownCounter",
    description: "Agents that are active in this process, including roots.",
  },
  spawnedAgents: {
    ...AGENTS,
    name: "espalier.agents.spawned",
    kind: "counter",
    description:
      "Subagents that were started. Continued or resumed subagents are not counted again.",
  },
  pendingApprovals: {
    name: "espalier.approvals.pending",
    kind: "upDownCounter",
    unit: "{approval}",
    description: "Approvals that active agents wait for. Paused runs are not counted.",
    attributes: [GEN_AI.agentName, GEN_AI.toolName],
  },
  approvalWait: {
    ...OF_RUN,
    name: "espalier.approval.wait.duration",
    description: "Time from the question to the answer, including pauses of the run.",
    attributes: [GEN_AI.agentName, GEN_AI.toolName, ESPALIER.outcome],
  },
  queueWait: {
    ...OF_CALL,
    name: "espalier.queue.wait.duration",
    description: "Time that a call waited for a concurrency slot or a rate limit.",
    attributes: [GEN_AI.operation, GEN_AI.agentName],
  },
  budgetUtilization: {
    name: "espalier.budget.utilization",
    kind: "histogram",
    unit: "1",
    description:
      "Share of a limit used by an agent and its subagents at its end. Above 1 after a grant.",
    attributes: [GEN_AI.agentName, ESPALIER.budgetAxis, ESPALIER.outcome],
    boundaries: PARTS,
  },
  droppedSpans: {
    name: "espalier.telemetry.spans.dropped",
    kind: "counter",
    unit: "{span}",
    description: "Spans that were lost before they reached the backend.",
    attributes: [],
  },
  unconfirmedSpans: {
    name: "espalier.telemetry.spans.unconfirmed",
    kind: "counter",
    unit: "{span}",
    description: "Spans whose request timed out. The backend may have stored them.",
    attributes: [],
  },
  legacyDuration: {
    ...OF_CALL,
    name: "gen_ai.client.operation.duration",
    description: "Duration of a model call, under its name of version 1.41.",
    attributes: MODEL_CALL_END,
    isLegacy: true,
  },
  legacyTokens: {
    ...TOKENS,
    name: "gen_ai.client.token.usage",
    description: "Tokens per model call, under the name of version 1.41.",
    attributes: [...MODEL_CALL, GEN_AI.tokenType],
    isLegacy: true,
  },
} as const satisfies Readonly<Record<string, MetricDefinition>>;

export type Metric = keyof typeof METRICS;

/** Value of `gen_ai.token.modality`. No provider reports which tokens were images or sounds. */
export const UNKNOWN_MODALITY = "unknown";

/** Values of `gen_ai.token.type`. */
export const TOKEN_TYPE = { input: "input", output: "output" } as const;

/** Replaces values beyond the maximum number of values of an attribute. */
export const OTHER = "_OTHER";

/** Replaces the model of a call that was lost in a crash, if its agent never continues. */
export const UNKNOWN = "unknown";

function computeDoublingBounds(first: number, count: number): number[] {
  return Array.from({ length: count }, (_none, power) => (first * 100 * 2 ** power) / 100);
}
