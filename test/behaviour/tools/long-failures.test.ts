// Goal: the message of a failed tool or subagent is truncated like a result; the text that espalier
// adds is kept complete.
// Method: tools that throw texts of a known size, subagents with long results; requests, records
// and events compared.

import { expect, test } from "vitest";

import { transform } from "../../../src/hooks/hook.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { provideError } from "../../../src/protocol/question.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { ToolError, ToolRetryError } from "../../../src/tools/tool-error.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { externalTool, questionOf } from "../../support/pause-stories.ts";
import { calls, part, spawn, receivedTexts, use } from "../../harness/scripted-agents.ts";
import { plain } from "../../support/custom-delegations.ts";
import { outcomes } from "../../support/call-outcomes.ts";

const LONG = "abcdefghijklmnopqrstuvwxy";
const CUT = "abcdefghij\n[Shortened: 10 of 25 characters are shown. Ask for a smaller part.]";
const BOUND = { maxResultCharacters: 10 } as const;

const failing = (thrown: unknown, more: Parameters<typeof spyTool>[2] = {}) =>
  spyTool(
    "look",
    () => {
      throw thrown;
    },
    { ...BOUND, ...more },
  );

class QuotaError extends Error {}

const FAILURES: readonly (readonly [string, unknown, string, string])[] = [
  ["an error", new Error(LONG), `look failed: ${CUT}`, `look failed: ${LONG}`],
  [
    "a typed error",
    new QuotaError(LONG),
    `look failed (QuotaError): ${CUT}`,
    `look failed (QuotaError): ${LONG}`,
  ],
  [
    "an error that is final",
    new ToolError(LONG, { severity: "fatal" }),
    "look failed permanently: abcdefghij\n[Shortened: 10 of 26 characters are shown. Ask for a smaller part.] Do not make this call again.",
    `look failed permanently: ${LONG}. Do not make this call again.`,
  ],
  [
    "an error with a hint",
    new ToolError("abcdef.", { hint: "Look there." }),
    "look failed: abcdef. Lo\n[Shortened: 10 of 19 characters are shown. Ask for a smaller part.]",
    "look failed: abcdef. Look there.",
  ],
  [
    "an emoji at the cut",
    new Error("abcdefghi\u{1F600}tail"),
    "look failed: abcdefghi\n[Shortened: 9 of 15 characters are shown. Ask for a smaller part.]",
    "look failed: abcdefghi\u{1F600}tail",
  ],
  ["something that is no error", LONG, `look failed: ${CUT}`, `look failed: ${LONG}`],
];

for (const [what, thrown, shown, whole] of FAILURES) {
  proves(
    ["S7.23", "R111"],
    `truncates the message of ${what}, keeps the text around it, and records the complete text`,
    async () => {
      const { role, model } = soloist([calls(use("look")), says("ok")], {
        tools: [failing(thrown)],
      });
      const fixture = newFixture();
      const result = await fixture.run(role);
      expect(receivedTexts(model.requests[1])).toEqual([shown]);
      expect(result.steps[0]?.tools.executions[0]).toMatchObject({ text: shown, fullText: whole });
      expect(result.agents[0]?.toolErrors.map(({ message }) => message)).toEqual([shown]);
      const notice = /\n\[Shortened: [^\]]*\]/.exec(shown)?.[0].length ?? 0;
      expect(
        fixture.sink
          .ofType("tool.ended")
          .map(({ resultCharacters, shownCharacters }) => [resultCharacters, shownCharacters]),
      ).toEqual([[whole.length, shown.length - notice]]);
    },
  );
}

proves(["S7.23"], "keeps an error that is as long as the limit", async () => {
  const { role } = soloist([calls(use("look")), says("ok")], {
    tools: [failing(new Error("abcdefghij"))],
  });
  const result = await newFixture().run(role);
  expect(result.steps[0]?.tools.executions[0]).toMatchObject({ text: "look failed: abcdefghij" });
  expect(result.steps[0]?.tools.executions[0]).not.toHaveProperty("fullText");
});

proves(
  ["S7.23"],
  "truncates the tool's message in a refused correction, and keeps the instruction",
  async () => {
    const { role, model } = soloist([calls(use("look")), says("ok")], {
      tools: [failing(new ToolRetryError(LONG), { maxRetries: 0 })],
      errorPolicy: { retryLimitPolicy: "continue" },
    });
    await newFixture().run(role);
    expect(receivedTexts(model.requests[1])).toEqual([
      `look asks for a corrected call: ${CUT}\nDo not call look again: do without it, or answer with what you have.`,
    ]);
  },
);

proves(
  ["S7.23"],
  "keeps the instruction although the tool's message ends with espalier's own request",
  async () => {
    const thrown = new ToolRetryError(`${LONG}\nCorrect them and call look again.`);
    const { role, model } = soloist([calls(use("look")), says("ok")], {
      tools: [failing(thrown, { maxRetries: 0 })],
      errorPolicy: { retryLimitPolicy: "continue" },
    });
    await newFixture().run(role);
    expect(receivedTexts(model.requests[1])).toEqual([
      `look asks for a corrected call: ${CUT}\nDo not call look again: do without it, or answer with what you have.`,
    ]);
  },
);

proves(["S7.23"], "truncates the failure of an external call in the same way", async () => {
  const { role, model } = soloist([calls(use("look")), says("ok")], {
    tools: [externalTool("look")],
    toolDefaults: BOUND,
  });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  const answers = [provideError(questionOf(paused), LONG)];
  await fixture.outcome(fixture.resume(role, paused.pausedRun, answers));
  expect(receivedTexts(model.requests[1])).toEqual([`look failed: ${CUT}`]);
});

proves(["S7.23"], "limits an error of ten megabytes in messages, errors and events", async () => {
  const { role, model } = soloist([calls(use("look")), says("ok")], {
    tools: [failing(new Error('"\u{1F600}'.repeat(3_500_000)), { maxResultCharacters: 1_000 })],
  });
  const fixture = newFixture();
  const result = await fixture.run(role);
  const sizes = [
    JSON.stringify(model.requests[1]?.messages).length,
    JSON.stringify(result.agents[0]?.toolErrors).length,
    JSON.stringify(fixture.sink.events).length,
  ];
  for (const size of sizes) expect(size).toBeLessThan(20_000);
  expect(receivedTexts(model.requests[1])[0]).toMatch(
    /\[Shortened: \d+ of 10500000 characters are shown/,
  );
});

proves(
  ["S7.23"],
  "allows 2,000 characters for a failure that a hook changed, whatever the result limit",
  async () => {
    for (const [length, isCut] of [
      [2_000, false],
      [2_001, true],
    ] as const) {
      const hook = transform("afterTool", () => ({ text: "h".repeat(length) }));
      const { role, model } = soloist([calls(use("look")), says("ok")], {
        tools: [failing(new Error(LONG))],
        hooks: [hook],
      });
      await newFixture().run(role);
      const notice = `\n[Shortened: 2000 of ${length} characters are shown. Ask for a smaller part.]`;
      expect(receivedTexts(model.requests[1])).toEqual([
        `${"h".repeat(2_000)}${isCut ? notice : ""}`,
      ]);
    }
  },
);

const HOSTILE = `"}\\\u0000\n\u{1F600}`;
const BROKEN = new ModelError({
  code: "model_invalid_request",
  message: `No: ${HOSTILE.repeat(300)}`,
});

const ENDS: readonly (readonly [string, readonly ScriptedReply[], object])[] = [
  ["completed", [says(HOSTILE.repeat(300))], { outcome: "completed" }],
  [
    "partial",
    [says(HOSTILE.repeat(300), { finishReason: "length" })],
    { outcome: "partial", reason: "finish_reason" },
  ],
  [
    "failed",
    [{ error: BROKEN }],
    { outcome: "failed", reason: "error", error: "model_invalid_request" },
  ],
];

for (const [what, script, codes] of ENDS) {
  for (const [how, call, tools] of [
    ["SpawnSubagent", spawn("child"), []],
    ["a delegation of a user's", use("delegate"), [plain]],
  ] as const) {
    proves(
      ["S7.23", "R111"],
      `returns JSON with the outcome of a ${what} subagent to its parent at every limit, by ${how}`,
      async () => {
        for (const maxResultCharacters of [0, 60, 100, 200, 500, 1_000]) {
          const child = part("child", script);
          const root = part("root", [calls(call), says("ok")], {
            tools,
            subagents: [child.role],
            toolDefaults: { maxResultCharacters },
          });
          const result = await newFixture().run(root.role);
          const [text = ""] = receivedTexts(root.model.requests[1]);
          const read: unknown = JSON.parse(text);
          const known = maxResultCharacters < 200 ? { outcome: what } : codes;
          expect(read, `at ${maxResultCharacters}`).toMatchObject({
            ...known,
            subagent: "child#1",
          });
          expect(text.length).toBeLessThanOrEqual(Math.max(60, maxResultCharacters));
          const { fullText = "" } = result.steps[0]?.tools.executions[0] ?? {};
          expect(JSON.parse(fullText)).toMatchObject({ ...codes, subagent: "child#1", steps: 1 });
        }
      },
    );
  }
}

test("keeps the instruction of a refused delegation complete", async () => {
  const child = part("child", [says("ok")]);
  const root = part("root", [calls(spawn("nobody")), says("ok")], {
    subagents: [child.role],
    toolDefaults: BOUND,
  });
  const result = await newFixture().run(root.role);
  expect(outcomes(result).map(([, type, , text]) => [type, text])).toEqual([
    [
      "refused",
      'Not started: there is no subagent "nobody". You can start: child. Call again with one of these.',
    ],
  ]);
});

test("truncates a delegation's result that a hook changed as text, or as JSON if it is valid", async () => {
  for (const [made, expected] of [
    [LONG, CUT],
    [
      '{"outcome":"partial","subagent":"child#1","text":"Two."}',
      '{"outcome":"partial","subagent":"child#1"}',
    ],
  ] as const) {
    const child = part("child", [says("Done.")]);
    const root = part("root", [calls(spawn("child")), says("ok")], {
      subagents: [child.role],
      toolDefaults: BOUND,
      hooks: [transform("afterTool", () => ({ text: made }))],
    });
    await newFixture().run(root.role);
    expect(receivedTexts(root.model.requests[1])).toEqual([expected]);
  }
});
