// Which names of OpenTelemetry we follow, and where they are written down. Two sources: the
// constants of `@opentelemetry/semantic-conventions`, which are those of version 1.41 of the GenAI
// conventions, the last before they moved; and what has been merged in their own place since
// (`open-telemetry/semantic-conventions-genai`, as of October 2026, not released yet).

/** The package whose constants are compared, and its version. */
export const CONSTANTS = {
  package: "@opentelemetry/semantic-conventions",
  version: "1.45.0",
} as const;

/** What those constants lack, each with the change that made it. */
export const NEWER_NAMES: Readonly<Record<string, string>> = {
  "gen_ai.client.inference.duration": "#521: for inference, in place of client.operation.duration",
  "gen_ai.client.inference.usage.input_tokens": "#374: in place of client.token.usage",
  "gen_ai.client.inference.usage.output_tokens": "#374: in place of client.token.usage",
  "gen_ai.client.inference.usage.cache_read.input_tokens": "#374",
  "gen_ai.client.inference.usage.reasoning.output_tokens": "#374",
  "gen_ai.client.inference.operation.input_tokens": "#374: in place of client.token.usage",
  "gen_ai.client.inference.operation.output_tokens": "#374: in place of client.token.usage",
  "gen_ai.token.modality": "#374: required on the counters of tokens",
  "gen_ai.usage.cache_write.input_tokens": "#440: in place of usage.cache_creation.input_tokens",
  "gen_ai.invoke_agent.duration": "#201",
  "gen_ai.invoke_agent.inference_calls": "#336",
  "gen_ai.invoke_agent.tool_calls": "#336",
  "gen_ai.execute_tool.duration": "#201",
  "gen_ai.invoke_workflow.duration": "#126, #341",
};

/** Names of metrics that were given up for newer ones: only on request. */
export const OLD_METRICS: readonly string[] = [
  "gen_ai.client.operation.duration",
  "gen_ai.client.token.usage",
];
