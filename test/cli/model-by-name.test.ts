// Goal: the demo uses the model that ESPALIER_MODEL names, or explains in one line why it cannot.
// Method: names and environments; test/cli/commands/demo-command-providers.test.ts runs the demo as a program.

import { expect, test } from "vitest";

import { findModelProblem, createNamedModel } from "../../src/cli/model-by-name.ts";
import { proves } from "../harness/proves.ts";
import { rejectionOf } from "../support/thrown.ts";

const SERVER = { OPENAI_BASE_URL: "http://localhost:11434/v1" };

proves(["M37"], "sends a name without the prefix to the server unchanged", async () => {
  for (const name of [
    "qwen3:8b",
    "anthropic/claude-sonnet-5",
    "ai-sdk/own",
    "hf.co/org/model:Q4_K_M",
  ]) {
    expect(findModelProblem(name, SERVER)).toBeUndefined();
    const { id, provider } = await createNamedModel(name);
    expect([id, provider]).toEqual([name, "openai"]);
  }
});

proves(
  ["M37"],
  "creates a name with the prefix as a model of that package, with everything after the first slash",
  async () => {
    const models = ["ai-sdk:anthropic/claude-sonnet-5", "ai-sdk:google/models/gemini-3:x"].map(
      createNamedModel,
    );
    expect(
      (await Promise.all(models)).map(({ provider, id, replayKey }) => [provider, id, replayKey]),
    ).toEqual([
      ["anthropic", "claude-sonnet-5", "ai-sdk:anthropic.messages/claude-sonnet-5"],
      ["gcp.gemini", "models/gemini-3:x", "ai-sdk:google.generative-ai/models/gemini-3:x"],
    ]);
  },
);

proves(
  ["M37"],
  "reports a package that is not installed or makes no models, with a remedy",
  async () => {
    const problems = ["ai-sdk:groq/llama", "ai-sdk:provider/m", "ai-sdk:openai-compatible/m"].map(
      (name) => rejectionOf(createNamedModel(name)),
    );
    expect((await Promise.all(problems)).map(({ code, message }) => [code, message])).toEqual([
      [
        "missing_package",
        "The model ai-sdk:groq/llama needs the package @ai-sdk/groq, which is not installed. Run: npm install @ai-sdk/groq",
      ],
      [
        "invalid_argument",
        "Expected @ai-sdk/provider to export a provider, got none. Create its model in your own program, with aiSdkModel().",
      ],
      [
        "invalid_argument",
        "Expected @ai-sdk/openai-compatible to export a provider, got none. Create its model in your own program, with aiSdkModel().",
      ],
    ]);
  },
);

test.each<[string, Readonly<Record<string, string>>, string | undefined]>([
  ["ai-sdk:anthropic/claude-sonnet-5", { ANTHROPIC_API_KEY: "k" }, undefined],
  [
    "ai-sdk:anthropic/claude-sonnet-5",
    { ...SERVER, ANTHROPIC_API_KEY: " " },
    "ESPALIER_MODEL needs ANTHROPIC_API_KEY, which is not set.",
  ],
  [
    "ai-sdk:google/gemini-3",
    { OPENAI_API_KEY: "k" },
    "ESPALIER_MODEL needs GOOGLE_GENERATIVE_AI_API_KEY",
  ],
  ["ai-sdk:amazon-bedrock/m", {}, undefined],
  [
    "ai-sdk:claude-sonnet-5",
    {},
    'Expected a model of the AI SDK to be named ai-sdk:<provider>/<model>, got "ai-sdk:claude-sonnet-5".',
  ],
  ["ai-sdk:../evil/m", {}, "Expected a model of the AI SDK to be named ai-sdk:<provider>/<model>"],
  ["ai-sdk:anthropic/", {}, "Expected a model of the AI SDK to be named ai-sdk:<provider>/<model>"],
  ["gpt-5-mini", {}, "ESPALIER_MODEL needs OPENAI_API_KEY or OPENAI_BASE_URL, but neither is set."],
  ["gpt-5-mini", { OPENAI_API_KEY: "k" }, undefined],
])("%s with %o: %s", (name, env, problem) => {
  const found = findModelProblem(name, env);
  if (problem === undefined) expect(found).toBeUndefined();
  else expect(found).toContain(problem);
});
