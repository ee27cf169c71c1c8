// Goal: a typed output that a model writes as text is accepted without a tool call; text that is
// not the output, or does not fit, is not.
// Method: scripts whose answer is a text; the result of the run, the step, and the message that
// asks again.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import { transform } from "../../../src/hooks/hook.ts";
import { asks, says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";

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
  proves(["M52"], `accepts a text as the typed output: ${name}`, async () => {
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

proves(["M52"], "treats a code block within the output as part of it", async () => {
  const wanted = { code: "Count so:\n```json\n{}\n```" };
  const { role, model } = soloist([says(JSON.stringify(wanted))], {
    output: z.object({ code: z.string() }),
  });
  expect((await newFixture().run(role)).output).toEqual(wanted);
  expect(model.requests).toHaveLength(1);
});

describe("a text that is not accepted as the typed output", () => {
  const cases: Readonly<Record<string, ScriptedReply>> = {
    "is returned to the model if it is prose": says("It is three."),
    "is returned to the model if it is JSON between words": says('It is {"count": 3}, I think.'),
    "is returned to the model if it has two code blocks": says(
      '```json\n{"count": 3}\n```\nor\n```json\n{"count": 5}\n```',
    ),
    "is returned to the model if its JSON has a slip": says("{'count': 3}"),
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

  proves(["M52"], "is returned to the model with the reason if its JSON does not fit", async () => {
    const { role, model } = soloist([says('{"count": "many"}'), FINISH], { output });
    const result = await newFixture().run(role);
    expect(result.output).toEqual({ count: 4, unit: "trees" });
    expect(model.requests[1]?.messages.at(-1)?.text).toBe(
      'You have not given your result yet: the JSON in your text does not fit its schema:\n- count: expected an integer, got "many"\nCall the Finish tool with the corrected result.',
    );
  });

  proves(["M52"], "counts together with failed calls of Finish, at most twice", async () => {
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

test("accepts no output from a reply that the token limit ended", async () => {
  const reply: ScriptedReply = { ...says('{"count": 3}'), finishReason: "length" };
  const result = await newFixture().run(soloist([reply], { output }).role);
  expect([result.status, result.reason.code, result.output]).toEqual([
    "stopped",
    "finish_reason",
    undefined,
  ]);
});

test("treats JSON as text without a typed output", async () => {
  const result = await newFixture().run(soloist([says('{"count": 3}')]).role);
  expect([result.output, "isResult" in (result.steps[0]?.io ?? {})]).toEqual([undefined, false]);
});

proves(["M52", "D734"], "asks for a call of Finish if a hook watches Finish", async () => {
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
  expect([result.output, seen]).toEqual([{ count: 4, unit: "trees" }, [["Finish", { count: 4 }]]]);
  expect(model.requests[1]?.messages.at(-1)?.text).toBe(
    "You have not given your result yet. Call the Finish tool with the result; text is not accepted.",
  );
});

proves(["M52"], "counts no miss for an output that a stop hook sends back", async () => {
  const again = transform("stop", ({ vetoes }) => (vetoes < 3 ? { continueWith: "More." } : {}), {
    name: "again",
  });
  const { role } = soloist(
    [...[1, 2, 3].map((count) => says(`{"count": ${count}}`)), says("It is four."), FINISH],
    { output, hooks: [again] },
  );
  const result = await newFixture().run(role);
  expect([result.status, result.output]).toEqual(["completed", { count: 4, unit: "trees" }]);
});
