// Goal: a model that writes its typed result as text is not asked to call a tool for it; what is no result, or does not fit, is not taken.
// Method: scripts whose answer is a text; the result of the run, what the step says, and what the model reads where it is asked again.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import { transform } from "../../src/hooks/hook.ts";
import { asks, says, type ScriptedReply } from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { soloist } from "../harness/soloist.ts";

const output = z.object({ count: z.int(), unit: z.string().default("trees") });
const RESULT = { count: 3, unit: "trees" };
const FINISH = asks("Finish", { count: 4 });

const TAKEN = {
  "the whole text": '{"count": 3}',
  "with white space around it": '\n  {"count": 3}\n',
  "one block that says json": 'Here it is.\n```json\n{"count": 3}\n```\nI hope it helps.',
  "one block that says nothing": '```\n{"count": 3}\n```',
  "what is coerced as arguments are": '{"count": "3"}',
};

for (const [name, text] of Object.entries(TAKEN))
  proves(["M52"], `a text is the typed result: ${name}`, async () => {
    const { role, model } = soloist([says(text)], { output });
    const result = await newFixture().run(role);
    expect([result.status, result.output, result.text, model.requests.length]).toEqual([
      "completed",
      RESULT,
      text,
      1,
    ]);
    expect(result.steps.map(({ io }) => io.isResult)).toEqual([true]);
  });

proves(["M52"], "a block within a text of the result is a part of it", async () => {
  const wanted = { code: "Count so:\n```json\n{}\n```" };
  const { role, model } = soloist([says(JSON.stringify(wanted))], {
    output: z.object({ code: z.string() }),
  });
  expect((await newFixture().run(role)).output).toEqual(wanted);
  expect(model.requests).toHaveLength(1);
});

describe("is asked for its result", () => {
  const cases: Readonly<Record<string, ScriptedReply>> = {
    "who writes words": says("It is three."),
    "who writes JSON between words": says('It is {"count": 3}, I think.'),
    "who writes two blocks": says('```json\n{"count": 3}\n```\nor\n```json\n{"count": 5}\n```'),
    "who writes JSON with a slip, as nobody says how it was meant": says("{'count': 3}"),
  };
  for (const [name, reply] of Object.entries(cases))
    proves(["M52", "D734"], name, async () => {
      const { role, model } = soloist([reply, FINISH], { output });
      const result = await newFixture().run(role);
      expect([result.output, result.steps.map(({ io }) => "isResult" in io)]).toEqual([
        { count: 4, unit: "trees" },
        [false, false],
      ]);
      expect(model.requests[1]?.messages.at(-1)?.text).toBe(
        "You have not given your result yet: your text is not the result as JSON. Call the Finish tool with the result.",
      );
    });

  proves(["M52"], "whose JSON does not fit, and reads why", async () => {
    const { role, model } = soloist([says('{"count": "many"}'), FINISH], { output });
    const result = await newFixture().run(role);
    expect(result.output).toEqual({ count: 4, unit: "trees" });
    expect(model.requests[1]?.messages.at(-1)?.text).toBe(
      'You have not given your result yet: the JSON in your text does not fit its schema:\n- count: expected an integer, got "many"\nCall the Finish tool with the corrected result.',
    );
  });

  proves(["M52"], "no more than twice: misses by text and by call count alike", async () => {
    const misfit = says('{"count": "many"}');
    const { role } = soloist([misfit, asks("Finish", {}), misfit], { output });
    const result = await newFixture().run(role);
    expect([result.status, result.output, result.reason.data]).toEqual([
      "failed",
      undefined,
      { error: "model_invalid_reply" },
    ]);
  });
});

test("a reply that its cap ended is no result, whatever it says", async () => {
  const reply: ScriptedReply = { ...says('{"count": 3}'), finishReason: "length" };
  const result = await newFixture().run(soloist([reply], { output }).role);
  expect([result.status, result.reason.code, result.output]).toEqual([
    "stopped",
    "finish_reason",
    undefined,
  ]);
});

test("without a typed result a text is a text", async () => {
  const result = await newFixture().run(soloist([says('{"count": 3}')]).role);
  expect([result.output, "isResult" in (result.steps[0]?.io ?? {})]).toEqual([undefined, false]);
});

proves(
  ["M52", "D734"],
  "a hook that watches Finish is not gone past: the model is to call it",
  async () => {
    const seen: unknown[] = [];
    const hook = transform(
      "beforeTool",
      ({ toolName, arguments: given }) => {
        seen.push([toolName, given]);
        return {};
      },
      { name: "watches", tools: ["Finish"] },
    );
    const { role, model } = soloist([says('{"count": 3}'), FINISH], { output, hooks: [hook] });
    const result = await newFixture().run(role);
    expect([result.output, seen]).toEqual([
      { count: 4, unit: "trees" },
      [["Finish", { count: 4 }]],
    ]);
    expect(model.requests[1]?.messages.at(-1)?.text).toBe(
      "You have not given your result yet. Call the Finish tool with the result; text is not accepted.",
    );
  },
);

proves(
  ["M52"],
  "a result that a stop hook sends back is no miss, and the next one counts",
  async () => {
    const again = transform("stop", ({ vetoes }) => (vetoes < 3 ? { continueWith: "More." } : {}), {
      name: "again",
    });
    const { role } = soloist(
      [...[1, 2, 3].map((count) => says(`{"count": ${count}}`)), says("It is four."), FINISH],
      { output, hooks: [again] },
    );
    const result = await newFixture().run(role);
    expect([result.status, result.output]).toEqual(["completed", { count: 4, unit: "trees" }]);
  },
);
