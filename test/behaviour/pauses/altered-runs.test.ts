// Goal: no alteration of a paused run lets it do more than the original may do.
// Method: a story with budgets, a grant, denials, open questions and a background subagent pauses.
// A thousand random alterations of its paused run are resumed with models that use everything they
// get.

import { expect } from "vitest";

import { isRecord, type JsonObject } from "../../../src/kernel/json.ts";
import { computeArgumentsHash } from "../../../src/protocol/question.ts";
import { proves } from "../../harness/proves.ts";
import { alterations } from "../../support/alterations.ts";
import { findExcess, pauseStory, resumeStory } from "../../support/altered-run-story.ts";

const COUNT = 1_000;
const TIMEOUT_MS = 300_000;

/**
 * Returns the number of accepted alterations, the refusal codes, and each alteration that allowed
 * more than the original.
 */
async function tryAlterations(seed: number) {
  const { text, before } = await pauseStory();
  const codes = new Set<string>();
  const effects: string[] = [];
  let accepted = 0;
  for (const { operation, path, text: changed } of alterations(text, COUNT, seed)) {
    const deeds = await resumeStory(changed);
    if (typeof deeds === "string") {
      codes.add(deeds);
      continue;
    }
    accepted += 1;
    for (const excess of findExcess(deeds, before)) effects.push(`${operation} ${path}: ${excess}`);
  }
  return { accepted, effects, codes };
}

proves(
  ["D457"],
  "no altered run takes more steps, tokens, tools or subagents, or makes another call",
  async () => {
    for (const seed of [1, 2]) {
      const { accepted, effects, codes } = await tryAlterations(seed);
      expect([effects, accepted < COUNT / 5]).toEqual([[], true]);
      // A scripted model refuses a history that no provider would accept.
      const known = new Set(["invalid_paused_run", "unsupported_version", "script_mismatch"]);
      expect([...codes].filter((code) => !known.has(code))).toEqual([]);
    }
  },
  TIMEOUT_MS,
);

const LARGE = { amount: 1_000 };
/** Alterations in addition to the arguments and their hash. */
const REPLACEMENTS: readonly { readonly question: JsonObject; readonly deferral: JsonObject }[] = [
  { question: {}, deferral: {} },
  { question: { writtenArguments: LARGE }, deferral: {} },
  { question: {}, deferral: { schemaHash: "0".repeat(64) } },
  { question: {}, deferral: { schemaHash: "0".repeat(64), isUnverified: true } },
  { question: { unparsed: true }, deferral: {} },
  { question: { unparsed: true }, deferral: { fingerprint: "0".repeat(64) } },
];

/** Replaces the arguments of each waiting call of the tool everywhere except in messages. */
function withOtherArguments(
  text: string,
  toolName: string,
  { question: ofQuestion, deferral: ofDeferral }: (typeof REPLACEMENTS)[number],
): string {
  return JSON.stringify(JSON.parse(text), (_key, value: unknown) => {
    if (!isRecord(value)) return value;
    if ("questionId" in value && value["toolName"] === toolName)
      return {
        ...value,
        arguments: LARGE,
        argumentsHash: computeArgumentsHash(toolName, LARGE),
        ...ofQuestion,
      };
    const { question } = value;
    return isRecord(question) && question["toolName"] === toolName
      ? { ...value, argumentsText: JSON.stringify(LARGE), ...ofDeferral }
      : value;
  });
}

proves(["D454"], "arguments that were replaced with their hash never run", async () => {
  const { text, before } = await pauseStory();
  for (const toolName of ["pay", "sign", "mail"])
    for (const [index, replacement] of REPLACEMENTS.entries()) {
      const deeds = await resumeStory(withOtherArguments(text, toolName, replacement));
      const effects =
        typeof deeds === "string"
          ? deeds.replace("invalid_paused_run", "")
          : findExcess(deeds, before);
      expect(effects, `${toolName} ${index}`).toHaveLength(0);
    }
});
