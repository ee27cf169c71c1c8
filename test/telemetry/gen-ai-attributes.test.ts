// Goal: each name follows one of two sources of conventions, which the documents state.
// Method: all names in the code are compared with the constants of the conventions' package and
// with the list of newer names, which must contain none of the constants; the table of metrics in
// docs/metrics.md is compared with the code.

import { readFileSync } from "node:fs";

import * as constants from "@opentelemetry/semantic-conventions/incubating";
import { expect, test } from "vitest";

import manifest from "../../node_modules/@opentelemetry/semantic-conventions/package.json" with { type: "json" };
import { findProviderName } from "../../src/model/ai-sdk/ai-sdk-providers.ts";
import { findProvider } from "../../src/model/openai/openai-model.ts";
import type { EventBodies } from "../../src/protocol/event-bodies.ts";
import * as names from "../../src/telemetry/gen-ai-attributes.ts";
import {
  METRICS,
  OTHER,
  TOKEN_TYPE,
  type MetricDefinition,
} from "../../src/telemetry/metrics/metric-names.ts";
import { CONSTANTS, NEWER_NAMES, OLD_METRICS } from "../support/telemetry/semantic-conventions.ts";

const KNOWN = new Set<unknown>(Object.values(constants));
const DEFINITIONS: readonly MetricDefinition[] = Object.values(METRICS);
const DOCUMENT = readFileSync("docs/metrics.md", "utf8");

/** Returns every text that the module of names exports, at any depth. */
function textsIn(value: unknown): readonly string[] {
  if (typeof value === "string") return [value];
  if (typeof value !== "object" || value === null) return [];
  return Object.values(value).flatMap(textsIn);
}

/** True for names of the conventions: not for our own names, and not for values. */
function isForeign(text: string): boolean {
  return /^[a-z_]+(\.[a-z_]+)+$/.test(text) && !text.startsWith("espalier.");
}

test("uses the constants of the documented version", () => {
  expect({ package: manifest.name, version: manifest.version }).toEqual(CONSTANTS);
});

test("takes every name that is not its own from the conventions", () => {
  const used = [...textsIn(names), ...DEFINITIONS.map(({ name }) => name)].filter(isForeign);
  expect(used.length).toBeGreaterThan(40);
  expect(used.filter((name) => !KNOWN.has(name) && !Object.hasOwn(NEWER_NAMES, name))).toEqual([]);
  expect(used.filter((name) => name.startsWith("gen_ai.")).length).toBeGreaterThan(35);
});

test("lists no newer name that the constants contain", () => {
  expect(Object.keys(NEWER_NAMES).filter((name) => KNOWN.has(name))).toEqual([]);
});

test("uses the operations and values of the conventions", () => {
  const { OPERATION } = names;
  expect(OPERATION).toEqual({
    workflow: constants.GEN_AI_OPERATION_NAME_VALUE_INVOKE_WORKFLOW,
    agent: constants.GEN_AI_OPERATION_NAME_VALUE_INVOKE_AGENT,
    model: constants.GEN_AI_OPERATION_NAME_VALUE_CHAT,
    tool: constants.GEN_AI_OPERATION_NAME_VALUE_EXECUTE_TOOL,
  });
  expect(TOKEN_TYPE).toEqual({
    input: constants.GEN_AI_TOKEN_TYPE_VALUE_INPUT,
    output: constants.GEN_AI_TOKEN_TYPE_VALUE_OUTPUT,
  });
  expect(["chat_completions", "responses", "json"] satisfies RequestValues).toEqual([
    constants.OPENAI_API_TYPE_VALUE_CHAT_COMPLETIONS,
    constants.OPENAI_API_TYPE_VALUE_RESPONSES,
    constants.GEN_AI_OUTPUT_TYPE_VALUE_JSON,
  ]);
  expect(OTHER).toBe(constants.ERROR_TYPE_VALUE_OTHER);
});

type Requested = EventBodies["model.requested"];
/** Values of `model.requested` that the conventions define. */
type RequestValues = readonly (Requested["apiType"] | Requested["outputType"])[];

test("uses the provider names of the conventions where they exist", () => {
  const sdk = {
    "anthropic.messages": constants.GEN_AI_PROVIDER_NAME_VALUE_ANTHROPIC,
    "google.generative-ai": constants.GEN_AI_PROVIDER_NAME_VALUE_GCP_GEMINI,
    "google.vertex.chat": constants.GEN_AI_PROVIDER_NAME_VALUE_GCP_VERTEX_AI,
    "amazon-bedrock": constants.GEN_AI_PROVIDER_NAME_VALUE_AWS_BEDROCK,
    "azure.responses": constants.GEN_AI_PROVIDER_NAME_VALUE_AZURE_AI_OPENAI,
    "openai.responses": constants.GEN_AI_PROVIDER_NAME_VALUE_OPENAI,
    "xai.chat": constants.GEN_AI_PROVIDER_NAME_VALUE_X_AI,
    "mistral.chat": constants.GEN_AI_PROVIDER_NAME_VALUE_MISTRAL_AI,
    "groq.chat": constants.GEN_AI_PROVIDER_NAME_VALUE_GROQ,
    "deepseek.chat": constants.GEN_AI_PROVIDER_NAME_VALUE_DEEPSEEK,
    "cohere.chat": constants.GEN_AI_PROVIDER_NAME_VALUE_COHERE,
    perplexity: constants.GEN_AI_PROVIDER_NAME_VALUE_PERPLEXITY,
    openrouter: "openrouter",
    "ollama.responses": "ollama",
  };
  const hosts = {
    "api.openai.com": constants.GEN_AI_PROVIDER_NAME_VALUE_OPENAI,
    "mine.openai.azure.com": constants.GEN_AI_PROVIDER_NAME_VALUE_AZURE_AI_OPENAI,
    "api.deepseek.com": constants.GEN_AI_PROVIDER_NAME_VALUE_DEEPSEEK,
    "api.groq.com": constants.GEN_AI_PROVIDER_NAME_VALUE_GROQ,
    "api.mistral.ai": constants.GEN_AI_PROVIDER_NAME_VALUE_MISTRAL_AI,
    "api.x.ai": constants.GEN_AI_PROVIDER_NAME_VALUE_X_AI,
    "api.perplexity.ai": constants.GEN_AI_PROVIDER_NAME_VALUE_PERPLEXITY,
    "generativelanguage.googleapis.com": constants.GEN_AI_PROVIDER_NAME_VALUE_GCP_GEMINI,
  };
  const named = (names: object, nameOf: (key: string) => string): object =>
    Object.fromEntries(Object.keys(names).map((key) => [key, nameOf(key)]));
  expect([named(sdk, findProviderName), named(hosts, findProvider)]).toEqual([sdk, hosts]);
});

test("marks exactly the old metrics as legacy", () => {
  const legacy = DEFINITIONS.filter(({ isLegacy }) => isLegacy === true);
  expect(legacy.map(({ name }) => name)).toEqual(OLD_METRICS);
});

test("documents every metric as the code defines it", () => {
  const fullNames = new Map(
    [...DOCUMENT.matchAll(/^\| ([a-z ]+?) +\| `([a-z_.]+)` +\|[^|]+\|$/gm)].map(
      ([, short = "", name = ""]) => [short, name],
    ),
  );
  const rows = [...DOCUMENT.matchAll(/^\| `([a-z_.]+)`<br>([^|]+)\|([^|]+)\|([^|]+)\|$/gm)];
  const shown = rows.map(([, name, kind, attributes = "", when]) => [
    name,
    kind?.trim(),
    attributes
      .split(",")
      .map((short) => fullNames.get(short.trim()) ?? short.trim())
      .join(", "),
    when?.trim(),
  ]);
  const expected = DEFINITIONS.map(({ name, kind, unit, attributes, description }) => [
    name,
    `${{ counter: "counter", histogram: "histogram", upDownCounter: "up-down" }[kind]}, \`${unit}\``,
    attributes.join(", ") || "none",
    description,
  ]);
  expect(shown).toEqual(expected);
});

test("documents the boundaries of histograms and the versions of the conventions", () => {
  for (const { boundaries = [] } of DEFINITIONS)
    expect(DOCUMENT, boundaries.join(", ")).toContain(boundaries.join(", "));
  expect(DOCUMENT).toContain("October 2026");
  expect(DOCUMENT).toContain("1.41");
});
