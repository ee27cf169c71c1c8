// Goal: docs/tool-errors.md correctly lists every failure with its source, its meaning and the
// message to the model.
// Method: its tables compared with the one in the code, and each of its examples with a run in
// which the failure occurs.

import { readFileSync } from "node:fs";

import { expect, test } from "vitest";

import type { ModelErrorCode } from "../../../src/kernel/error.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { DEFAULT_ERROR_BUDGET } from "../../../src/policies/error-budget.ts";
import { TOOL_FAILURES, isToolFailureCode } from "../../../src/protocol/tool-failure.ts";
import type { ToolExecution } from "../../../src/protocol/tool-outcome.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { FAILURE_SCENES, type Played } from "./failure-stories.ts";
import { executions } from "../../support/tool-acts.ts";

/** Returns the text under a heading of the documents about errors. */
function chapter(heading: string): string {
  const text = ["docs/errors.md", "docs/tool-errors.md"].map((file) => readFileSync(file, "utf8"));
  const [, rest = ""] = text.join("\n").split(`\n## ${heading}\n`);
  return rest.split(/^## /m)[0] ?? "";
}

/** Returns the rows of the first table of a chapter, cell by cell, without code marks. */
function rowsOf(heading: string): readonly (readonly string[])[] {
  const lines = chapter(heading).split("\n");
  const start = lines.findIndex((line) => line.startsWith("|"));
  const table = lines.slice(start + 2);
  const end = table.findIndex((line) => !line.startsWith("|"));
  return table.slice(0, end < 0 ? undefined : end).map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.replaceAll("`", "").trim()),
  );
}

/** Returns the example of each code. A line break is written as `⏎`. */
function examples(): ReadonlyMap<string, string> {
  const found = chapter("Messages to the model").matchAll(/^- `([a-z_]+)`: `(.+)`$/gm);
  return new Map([...found].map(([, code = "", text = ""]) => [code, text.replaceAll("⏎", "\n")]));
}

/**
 * Codes of limits that never refuse a call: once a reply exceeds such a limit, its calls do not
 * start.
 */
const UNMET: ReadonlySet<string> = new Set(["step_limit", "token_limit", "cost_limit"]);

const CODES = Object.keys(TOOL_FAILURES).filter((code) => !UNMET.has(code));

const COUNTS = { error: "a tool error", retry: "a retry", nothing: "no" } as const;

const SOURCES = ["validation", "execution", "timeout", "blocked", "limit", "stop request"];

proves(["R160"], "documents the table of the code, row by row", () => {
  const documented = rowsOf("Codes").map(([code, , severity, outcome, counts]) => [
    code,
    severity,
    outcome,
    counts,
  ]);
  const known = Object.entries(TOOL_FAILURES)
    .filter(([code]) => !UNMET.has(code))
    .map(([code, { severity, outcome, counts }]) => [code, severity, outcome, COUNTS[counts]]);
  expect(documented).toEqual(known);
});

proves(
  ["R160"],
  "documents a known source for every failure, and a failure for every source",
  () => {
    const sources = rowsOf("Codes").map(([, source = ""]) => source);
    expect(sources.filter((source) => !SOURCES.includes(source))).toEqual([]);
    expect(SOURCES.filter((source) => !sources.includes(source))).toEqual([]);
  },
);

test("documents an example for every failure of a run, and no others", () => {
  expect(Object.keys(FAILURE_SCENES)).toEqual(CODES);
  expect([...examples().keys()]).toEqual(CODES);
});

/** Returns the last call with a code. */
function callOf({ result }: Played, code: string): ToolExecution {
  return executions(result).findLast(({ errorCode }) => errorCode === code) ?? expect.fail(code);
}

for (const [code, play] of Object.entries(FAILURE_SCENES)) {
  proves(
    ["R160"],
    `produces ${code} in a run as the table and the example document it`,
    async () => {
      if (!isToolFailureCode(code)) expect.fail(`${code} is in no table`);
      const { severity, outcome, counts } = TOOL_FAILURES[code];
      const played = await play();
      const execution = callOf(played, code);
      expect([execution.type, execution.severity]).toEqual([outcome, severity]);
      expect(execution.text).toBe(examples().get(code));
      const { callId } = execution.call;
      const { sink } = played.fixture;
      const told = [...sink.ofType("tool.ended"), ...sink.ofType("tool.rejected")].filter(
        (event) => event.callId === callId,
      );
      expect(
        told.map((event) => [event.outcome, event.error?.code, event.error?.severity]),
      ).toEqual([[outcome, code, severity]]);
      const listed = played.result.agents[0]?.toolErrors.filter((error) => error.callId === callId);
      expect(listed?.map((error) => [error.code, error.severity, error.message])).toEqual(
        counts === "nothing" ? [] : [[code, severity, execution.text]],
      );
    },
  );
}

/** All provider errors; the type ensures that none is missing. */
const MODEL_ERRORS = {
  model_rate_limited: 0,
  model_overloaded: 0,
  model_unavailable: 0,
  model_timeout: 0,
  model_invalid_request: 0,
  model_unauthorized: 0,
  model_protocol_error: 0,
  model_context_overflow: 0,
  model_invalid_reply: 0,
} satisfies Record<ModelErrorCode, 0>;

proves(["R160"], "documents every error of a model, and whether it is retried", async () => {
  const documented = modelErrorRows().map(([, code, isNot]) => [
    code,
    isNot === undefined ? "yes" : "no",
  ]);
  const real: (readonly [string, string])[] = [];
  for (const code of modelErrorCodes()) {
    const fixture = newFixture();
    const run = fixture.start(
      soloist([{ error: new ModelError({ code, message: "No." }) }, says("Done.")]).role,
    );
    await flushEventLoop();
    fixture.clock.advance(500);
    const result = await fixture.outcome(run);
    const isTriedAgain = fixture.sink.ofType("model.retried").length > 0;
    expect(result.status).toBe(isTriedAgain ? "completed" : "failed");
    real.push([code, isTriedAgain ? "yes" : "no"]);
  }
  expect(documented).toEqual(real);
});

/** Returns the rows of the reference: the code, and `not ` if it is not retried. */
function modelErrorRows(): readonly RegExpExecArray[] {
  const [, rest = ""] = readFileSync("docs/reference/errors.md", "utf8").split(
    "\n### ModelErrorCode\n",
  );
  const [table = ""] = rest.split("\n#");
  return [...table.matchAll(/^\| `(\w+)` \| [^|]+ \| The call is (not )?retried/gm)];
}

function modelErrorCodes(): readonly ModelErrorCode[] {
  const isKnown = (code: string): code is ModelErrorCode => code in MODEL_ERRORS;
  return Object.keys(MODEL_ERRORS).filter(isKnown);
}

proves(["R164", "R165", "R166"], "documents the default limits", () => {
  const documented = rowsOf("Error budget").map(([limit = "", value]) => [limit, Number(value)]);
  expect(documented).toEqual(Object.entries(DEFAULT_ERROR_BUDGET));
});
