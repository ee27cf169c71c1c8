// The names of OpenTelemetry that we follow, and their two sources. The constants of
// `@opentelemetry/semantic-conventions` are those of version 1.41 of the GenAI conventions, the
// last one before they moved. Later changes were merged in their new place
// (`open-telemetry/semantic-conventions-genai`, as of October 2026, not released yet).

/** The package whose constants are compared, and its version. */
export const CONSTANTS = {
  package: "@opentelemetry/semantic-conventions",
  version: "1.45.0",
} as const;

/** Names that the constants lack, each with the change that added it. */
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

/** Metrics that were replaced by newer ones, recorded only on request. */
export const OLD_METRICS: readonly string[] = [
  "gen_ai.client.operation.duration",
  "gen_ai.client.token.usage",
];
