// Goal: a role written to a file is read back as the same role, and any file content results in a
// role or one error.
// Method: arbitrary definitions written as YAML and as JSON, and such files damaged at arbitrary
// places, from a fixed seed.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import type { AgentRole } from "../../src/agent/agent-role.ts";
import { defineAgent } from "../../src/agent/define-agent.ts";
import { proves } from "../harness/proves.ts";
import { thrownBy, type Thrown } from "../support/thrown.ts";
import { parsed, save, search, strong, written } from "./role-folder.ts";

const FIXED = { seed: 20_261_122, numRuns: 200 };

/** Texts that YAML might misread, and arbitrary texts. */
const text = fc
  .oneof(
    fc.constantFrom("yes", "null", "~", "5", "1e3", "0x10", "- a", "a: b", "#a", "---", "&a", "*a"),
    fc.constantFrom("!!str a", "a\n---\nb", "a\r\nb", "% b", "@a", "`a", "'", '"', "{", "[a]", "|"),
    fc.string({ unit: "binary", minLength: 1, maxLength: 200 }),
    fc.string({ unit: fc.constantFrom("a", " ", "\n", ":", "#", "-", "\t", "é"), minLength: 1 }),
  )
  .filter((value) => value.trim() !== "");
const instructions = text.map((value) => value.replaceAll("\r\n", "\n").trim());
const count = fc.nat();
const amount = fc.double({ min: 0, noNaN: true, noDefaultInfinity: true });
const flag = fc.boolean();
const optional = { requiredKeys: [] };
const roleName = fc.stringMatching(/^[A-Za-z][A-Za-z0-9_-]{0,20}$/);
const budget = fc.record(
  { totalTokens: count, costUsd: amount, steps: count, toolCalls: count, timeMs: amount },
  optional,
);

/** Every field that holds plain data. */
const data = fc.record(
  {
    description: text,
    subagents: fc.uniqueArray(roleName, { maxLength: 3 }),
    budget,
    limits: fc.record({ maxDepth: count, maxTotalSubagents: count }, optional),
    showBudget: flag,
    contextPolicy: fc.record(
      {
        inheritMessages: fc.constant(true),
        messageWindowSize: fc.constant(0),
        metadataKeys: fc.array(text, { maxLength: 3 }),
        injectedTexts: fc.array(text, { maxLength: 3 }),
        includeSiblingResults: flag,
      },
      optional,
    ),
    delegation: fc.record(
      {
        background: flag,
        parentEndPolicy: fc.constantFrom("await" as const, "cancel" as const, "detach" as const),
        failurePolicy: fc.oneof(
          fc.constant("fail_fast" as const),
          fc.record({ quorum: fc.integer({ min: 1, max: 9 }) }),
        ),
        maxIdenticalDelegations: fc.oneof(count, fc.constant("unlimited" as const)),
      },
      optional,
    ),
    toolDefaults: fc.record(
      { timeoutMs: amount.filter((value) => value > 0), maxRetries: count, needsApproval: flag },
      optional,
    ),
    errorBudget: fc.record({ maxToolErrors: count, maxRetryErrors: count }, optional),
    errorPolicy: fc.record({ blockedPolicy: fc.constantFrom("stop", "continue") }, optional),
    wrapUp: fc.oneof(flag, text),
    compaction: fc.record({ keepMessages: fc.integer({ min: 1 }) }, optional),
    maxOutputTokens: fc.integer({ min: 1, max: 1_000_000_000 }),
    temperature: fc.double({ min: 0, max: 2, noNaN: true }),
  },
  optional,
);
const tools = fc.subarray([search, save]);
const style = fc.constantFrom("yaml" as const, "json" as const);

proves(["X26"], "reads arbitrary roles back unchanged", () => {
  fc.assert(
    fc.property(
      roleName,
      data,
      instructions,
      fc.tuple(tools, style),
      (name, fields, body, [own, yaml]) => {
        const names = own.map((tool) => tool.name);
        const file = written({ name, ...fields, model: "strong", tools: names }, body, yaml);
        const code = defineAgent({
          name,
          ...fields,
          instructions: body,
          model: strong,
          tools: own,
        });
        expect(parsed(file)).toStrictEqual(code);
        expect(parsed(Buffer.from(file).toString("utf8"))).toStrictEqual(code);
      },
    ),
    FIXED,
  );
});

const MARKS = ["-", ":", "{", "}", "[", "]", "&a", "*a", "!", "%", "#", "|", ">", "'", '"', "@"];
const damage = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  removed: fc.nat({ max: 5 }),
  added: fc.constantFrom("", ...MARKS, "\n", "\r\n", "\n---\n", "\t", "  ", "? ", "...\n", "\0"),
});

test("parses a damaged file as a role or reports one error with an existing line", () => {
  fc.assert(
    fc.property(data, style, fc.array(damage, { maxLength: 4 }), (fields, yaml, damages) => {
      let file = written({ model: "strong", tools: ["search"], ...fields }, "Work.", yaml);
      for (const { at, removed, added } of damages) {
        const place = Math.floor(at * file.length);
        file = file.slice(0, place) + added + file.slice(place + removed);
      }
      const lines = file.split("\n").length;
      expect(isRoleOrError(file, lines), file).toBe(true);
    }),
    { ...FIXED, numRuns: 500 },
  );
});

/** True for a role and for a well-formed error. */
function isRoleOrError(file: string, lines: number): boolean {
  const outcome = thrownOr(() => parsed(file));
  if (!("code" in outcome)) return outcome.name !== "";
  const { code, message, data } = outcome;
  const line = Number(data["line"]);
  return (
    code === "invalid_role_file" &&
    message.startsWith(`roles/researcher.md:${line}: Expected `) &&
    line >= 1 &&
    line <= lines
  );
}

function thrownOr(work: () => AgentRole): AgentRole | Thrown {
  try {
    return work();
  } catch (cause) {
    return thrownBy(() => {
      throw cause;
    });
  }
}
