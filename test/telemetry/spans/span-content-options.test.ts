// Goal: content is exported only if an option or a variable enables it. Options have precedence
// over variables.
// Method: every value of the variables with its effect and its warnings; then invalid options.

import { afterEach, expect, test, vi } from "vitest";

import { resolveContentSettings } from "../../../src/telemetry/spans/span-content.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { proves } from "../../harness/proves.ts";
import { readTracingVariables } from "../../../src/telemetry/delivery/otel-variables.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { thrownBy } from "../../support/thrown.ts";

const CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
const EMIT = "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT";

afterEach(() => vi.unstubAllEnvs());

proves(["R178"], "exports no content unless an option or a variable enables it", () => {
  const words = ["", " ", "NO_CONTENT", "no_content", "false", "False", "SPAN_ONLY", "span_only"];
  words.push("SPAN_AND_EVENT", "true", "TRUE", " true ");
  expect(words.map((word) => [word, isOn({ [CAPTURE]: word })])).toEqual([
    ["", false],
    [" ", false],
    ["NO_CONTENT", false],
    ["no_content", false],
    ["false", false],
    ["False", false],
    ["SPAN_ONLY", true],
    ["span_only", true],
    ["SPAN_AND_EVENT", true],
    ["true", true],
    ["TRUE", true],
    [" true ", true],
  ]);
  expect(isOn({})).toBe(false);
  for (const [word, choice] of [
    ["SPAN_ONLY", false],
    ["NO_CONTENT", true],
  ] as const) {
    vi.stubEnv(CAPTURE, word);
    expect([
      openTelemetry().recordContent === undefined,
      openTelemetry({ content: choice }).recordContent === undefined,
    ]).toEqual([choice, !choice]);
  }
});

test("reads the variable when the tracing is created", () => {
  vi.stubEnv(CAPTURE, "SPAN_ONLY");
  const tracing = openTelemetry();
  vi.stubEnv(CAPTURE, "NO_CONTENT");
  expect([
    tracing.recordContent === undefined,
    openTelemetry().recordContent === undefined,
  ]).toEqual([false, true]);
});

test("exports no content and warns once if the variable asks for events only", async () => {
  expect([isOn({ [CAPTURE]: "event_only" }), isOn({ [CAPTURE]: "EVENT_ONLY" })]).toEqual([
    false,
    false,
  ]);
  expect(isOn({ [CAPTURE]: "EVENT_ONLY", [EMIT]: "false" })).toBe(false);
  expect(await warnings()).toEqual([
    `EspalierWarning: ${CAPTURE} is EVENT_ONLY, and espalier puts content on spans only. Traces contain no content. Set SPAN_ONLY to export it.`,
  ]);
});

test("treats an unknown value as off and warns once with the variable and its allowed values", async () => {
  const unknown = { [CAPTURE]: "yes", [EMIT]: "sometimes" };
  expect([isOn(unknown), isOn(unknown)]).toEqual([false, false]);
  expect(isOn({ [CAPTURE]: "x".repeat(2_000_000) })).toBe(false);
  expect(isOn({ [CAPTURE]: "SPAN_ONLY", [EMIT]: "true" })).toBe(true);
  const words = "NO_CONTENT, SPAN_ONLY, EVENT_ONLY, SPAN_AND_EVENT, true, false";
  expect(await warnings()).toEqual([
    `EspalierWarning: Expected ${EMIT} to be one of true, false, got "sometimes". Events of espalier contain no content in any case. Correct it.`,
    `EspalierWarning: Expected ${CAPTURE} to be one of ${words}, got "yes". Traces contain no content. Correct it.`,
    `EspalierWarning: Expected ${CAPTURE} to be one of ${words}, got "${"x".repeat(100)}". Traces contain no content. Correct it.`,
  ]);
});

test("ignores the variable if the option is set", async () => {
  for (const content of [true, false, {}])
    resolveContentSettings(content, { [CAPTURE]: "perhaps" });
  expect(await warnings()).toEqual([]);
});

test("shortens JSON to the attribute limit of the SDK if a variable lowers it", () => {
  const lengths = ["100", "1000", "16384", "20000", "-1", "many", ""].map(
    (limit) =>
      resolveContentSettings(true, { OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT: limit })?.maxCharacters,
  );
  expect(lengths).toEqual([240, 1_000, 16_384, 16_384, 16_384, 16_384, 16_384]);
  const both = { OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT: "500" };
  const own = { ...both, OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT: "800" };
  expect(resolveContentSettings(true, own)?.maxCharacters).toBe(800);
  for (const wrong of ["many", "-1", "1.5", " "]) {
    const env = { ...both, OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT: wrong };
    const said = resolveContentSettings(true, env)?.maxCharacters;
    expect([wrong, said, readTracingVariables(env).maxAttributeLength]).toEqual([wrong, 500, 500]);
  }
});

test("rejects an invalid option `content`", () => {
  const refused = ["SPAN_ONLY", 1, null, [], { redacted: true }, { redact: "secrets" }, new Map()];
  expect(
    refused.map((choice) => {
      const { code, message } = thrownBy(() => resolveContentSettings(foreign(choice), {}));
      return [code, message];
    }),
  ).toEqual([
    [
      "invalid_argument",
      'Expected content to be true, false or an object, got "SPAN_ONLY". Leave it out for no content.',
    ],
    [
      "invalid_argument",
      "Expected content to be true, false or an object, got 1. Leave it out for no content.",
    ],
    [
      "invalid_argument",
      "Expected content to be true, false or an object, got null. Leave it out for no content.",
    ],
    [
      "invalid_argument",
      "Expected content to be a plain object, got an array. Its fields are redact.",
    ],
    [
      "invalid_argument",
      'Expected content.redacted to be one of redact, got "redacted". Correct the name.',
    ],
    [
      "invalid_argument",
      'Expected content.redact to be a function, got "secrets". Leave it out to redact nothing.',
    ],
    [
      "invalid_argument",
      "Expected content to be a plain object, got an object. Its fields are redact.",
    ],
  ]);
});

/** Passes a value as a program without types would. */
function foreign(choice: unknown): Parameters<typeof resolveContentSettings>[0] {
  return isChoice(choice) ? choice : expect.fail("nothing");
}

function isChoice(choice: unknown): choice is Parameters<typeof resolveContentSettings>[0] {
  return choice !== undefined;
}

function isOn(env: Readonly<Record<string, string>>): boolean {
  return resolveContentSettings(undefined, env) !== undefined;
}

async function warnings(): Promise<readonly string[]> {
  await new Promise((resolve) => setImmediate(resolve));
  return takeWarnings();
}
