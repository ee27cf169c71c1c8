// Goal: every finish reason that a model may return has a defined effect, and a useless reply is
// retried once.
// Method: the seven reasons with and without calls; scripts of useless replies around their bound.

import { expect, test } from "vitest";
import { z } from "zod";

import { FinishReasonSchema, type FinishReason } from "../../../src/protocol/finish-reason.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { asks, says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { toolFilter } from "../../../src/tools/tool-filter.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { texts } from "../../support/texts.ts";

interface Effect {
  readonly ending: readonly [status: string, code: string];
  readonly data: object;
  readonly text: string;
  readonly requests: number;
}

const COMPLETED: Effect = {
  ending: ["completed", "completed"],
  data: {},
  text: "half a",
  requests: 1,
};

function cutOff(finishReason: FinishReason, more: object = {}): Effect {
  return { ...COMPLETED, ending: ["stopped", "finish_reason"], data: { finishReason, ...more } };
}

/** The reasons after which a text is the end; a paused reply continues and has its own tests. */
type EndReason = Exclude<FinishReason, "paused">;
const END_REASONS: readonly EndReason[] = FinishReasonSchema().exclude(["paused"]).options;

const WITHOUT_CALLS: Readonly<Record<EndReason, Effect>> = {
  stop: COMPLETED,
  tool_calls: COMPLETED,
  other: COMPLETED,
  length: cutOff("length", { maxOutputTokens: 8_192, limitedBy: "maxOutputTokens" }),
  content_filter: cutOff("content_filter"),
  unknown: COMPLETED,
  error: { ...COMPLETED, ending: ["failed", "error"], data: { error: "model_invalid_reply" } },
};

function effectOf(result: RunResult, requests: number): Effect {
  const { status, reason, text } = result;
  return { ending: [status, reason.code], data: reason.data, text, requests };
}

for (const finishReason of END_REASONS) {
  proves(["R10"], `a text that ends with ${finishReason} has its defined effect`, async () => {
    const reply = says("half a", { finishReason });
    const { role, model } = soloist([reply, reply]);
    const result = await newFixture().run(role);
    expect(effectOf(result, model.requests.length)).toEqual(WITHOUT_CALLS[finishReason]);
    expect(result.steps.map(({ io }) => [io.text, io.finishReason])).toEqual(
      model.requests.map(() => ["half a", finishReason]),
    );
  });
}

for (const finishReason of FinishReasonSchema().options) {
  proves(
    ["R10"],
    `calls in a reply that ends with ${finishReason} run, and the model is called again`,
    async () => {
      const work = spyTool("work");
      const { role, model } = soloist(
        [asks("work", {}, { finishReason, text: "Let me see." }), says("done")],
        { tools: [work] },
      );
      const result = await newFixture().run(role);
      expect(effectOf(result, model.requests.length)).toEqual({
        ...COMPLETED,
        text: "done",
        requests: 2,
      });
      expect([work.calls.length, result.steps.map(({ io }) => io.finishReason)]).toEqual([
        1,
        [finishReason, "stop"],
      ]);
    },
  );
}

/** Runs a reply whose last call may be cut off, and returns its effects. */
async function cutCall(reply: ScriptedReply): Promise<{
  readonly runs: number;
  readonly texts: readonly string[] | undefined;
  readonly codes: readonly unknown[] | undefined;
}> {
  const work = spyTool("work");
  const { role, model } = soloist([reply, says("done")], { tools: [work] });
  const { steps } = await newFixture().run(role);
  const results = model.requests[1]?.messages.filter((message) => message.role === "tool");
  return {
    runs: work.calls.length,
    texts: results?.map(({ text }) => text),
    codes: steps[0]?.tools.executions.map(({ errorCode }) => errorCode),
  };
}

const CUT =
  "Your reply was cut off at its limit of 8192 output tokens, in the middle of this call.";

proves(
  ["S7.13"],
  "a call that was cut off does not run, and the model is asked to write less",
  async () => {
    expect(await cutCall(asks("work", '{"path": "/tm', { finishReason: "length" }))).toEqual({
      runs: 0,
      texts: [
        `${CUT} Write less.\nThe arguments of work are not valid JSON (Unterminated string in JSON at position 13 (line 1 column 14)). Call it again with one JSON object.`,
      ],
      codes: ["invalid_json"],
    });
  },
);

proves(
  ["S7.13"],
  "the cut-off note is added only to the last call of a reply, and only if it is incomplete",
  async () => {
    const first = asks("work", "{broken", { finishReason: "length" });
    const both = [...(first.calls ?? []), ...(asks("work", {}).calls ?? [])];
    const { runs, texts } = await cutCall({ ...first, calls: both });
    expect([runs, texts?.filter((text) => text.includes("cut off"))]).toEqual([1, []]);
    const whole = await cutCall(asks("work", "{broken"));
    expect(whole.texts?.filter((text) => text.includes("cut off"))).toEqual([]);
  },
);

proves(
  ["S7.13"],
  "the cut-off note is added to a skipped or hidden call unless the call is complete",
  async () => {
    const skip = "Not executed: Not today.";
    const hide =
      "Not executed: work is not available in this step. You have no tools in this step; answer in text.";
    for (const [argumentsText, before] of [
      ['{"path": "/tm', `${CUT} Write less.\n`],
      ["{}", ""],
    ] as const) {
      const cut = asks("work", argumentsText, { finishReason: "length" });
      const tools = [spyTool("work")];
      const fixture = newFixture();
      const run = fixture.start(soloist([cut, says("done")], { tools }).role);
      run.skipToolCalls("Not today.");
      const skipped = await fixture.outcome(run);
      const toolFilters = [toolFilter(() => false)];
      const { role } = soloist([cut, says("done")], { tools, toolFilters });
      const hidden = await newFixture().run(role);
      const told = [skipped, hidden].map(({ steps }) =>
        steps[0]?.tools.executions.map(({ text }) => text),
      );
      expect(told).toEqual([[before + skip], [before + hide]]);
    }
  },
);

proves(["S7.13"], "a typed result that was cut off is requested again, shorter", async () => {
  const { role, model } = soloist(
    [
      asks("Finish", '{"story": "Once up', { finishReason: "length" }),
      asks("Finish", { story: "Once." }),
    ],
    { output: z.object({ story: z.string() }), maxOutputTokens: 20 },
  );
  const { output } = await newFixture().run(role);
  const told = model.requests[1]?.messages.at(-1)?.text ?? "";
  expect([output, told.split("\n")[0]]).toEqual([
    { story: "Once." },
    "Your reply was cut off at its limit of 20 output tokens, in the middle of this call. Write less.",
  ]);
});

proves(
  ["S7.13"],
  "a typed result that is cut off each time ends the run with the cap as the reason",
  async () => {
    const cut = asks("Finish", '{"story": "Once up', { finishReason: "length" });
    const { role, model } = soloist([cut, cut, cut], {
      output: z.object({ story: z.string() }),
      maxOutputTokens: 20,
    });
    const { status, reason } = await newFixture().run(role);
    expect([model.requests.length, status, reason.code, reason.message]).toEqual([
      3,
      "stopped",
      "finish_reason",
      "The model's reply was cut off at 20 output tokens: maxOutputTokens of solo.",
    ]);
  },
);

proves(["S7.13"], "the reason names the budget if it lowered the output cap", async () => {
  const { role } = soloist([says("Once", { finishReason: "length" })]);
  const { reason } = await newFixture().run(role, { budget: { totalTokens: 120 } });
  const { maxOutputTokens = 0, ...data } = reason.data;
  const cause = "the budget had no more left to reserve (maxOutputTokens of solo is 8192)";
  expect([reason.message, data]).toEqual([
    `The model's reply was cut off at ${Number(maxOutputTokens)} output tokens: ${cause}.`,
    { finishReason: "length", limitedBy: "lease" },
  ]);
  expect(Number(maxOutputTokens)).toBeLessThan(120);
});

test("a refusal of the model ends the run with its own finish reason", async () => {
  const result = await newFixture().run(
    soloist([{ refusal: "I must not.", finishReason: "unknown" }]).role,
  );
  expect([result.status, result.reason]).toEqual([
    "stopped",
    {
      code: "finish_reason",
      message: "The model declined to answer.",
      data: { finishReason: "refusal", refusal: "I must not." },
    },
  ]);
});

const EMPTY: ScriptedReply = {};
const UNKNOWN = says("so so", { finishReason: "unknown" });

proves(
  ["R11", "S7.14"],
  "a text with an unknown finish reason is an answer, requested and streamed once",
  async () => {
    const fixture = newFixture();
    const { role, model } = soloist([UNKNOWN, says("again")]);
    const told: string[] = [];
    const result = await fixture.run(role, { onStreamPart: texts((text) => told.push(text)) });
    expect([result.status, result.text, model.requests.length, told.join("")]).toEqual([
      "completed",
      "so so",
      1,
      "so so",
    ]);
    expect(result.usage.total.modelCalls).toBe(1);
  },
);

proves(["R11"], "an empty reply is retried once, and a second one fails the run", async () => {
  const fixture = newFixture();
  const { role, model } = soloist([EMPTY, EMPTY, EMPTY]);
  const result = await fixture.run(role);
  expect(model.requests).toHaveLength(2);
  expect([result.status, result.agents[0]?.errors, result.steps.length]).toEqual([
    "failed",
    [
      {
        code: "model_invalid_reply",
        message:
          "Expected scripted to reply with text or tool calls, but 2 replies in a row were unusable. Use another model.",
        data: { role: "solo", uselessReplies: 2 },
      },
    ],
    2,
  ]);
  expect(
    fixture.sink.ofType("continuation.evaluated").map(({ decision, work }) => [decision, work]),
  ).toEqual([
    ["retry", ["missing_reply"]],
    ["stop", []],
  ]);
});

/** Replies, the status at the end, and the number of requested replies. */
const AROUND_THE_BOUND: Readonly<
  Record<string, readonly [replies: readonly ScriptedReply[], ending: string, requests: number]>
> = {
  "an empty reply and an answer": [[EMPTY, says("ok")], "completed", 2],
  "an empty reply after each tool": [
    [EMPTY, asks("work", {}), EMPTY, asks("work", {}), EMPTY, says("ok")],
    "completed",
    6,
  ],
  "an unknown ending of a text": [[UNKNOWN, says("late")], "completed", 1],
  "nothing, and then an unknown ending": [[EMPTY, UNKNOWN, says("late")], "completed", 2],
  "nothing, for an unknown reason": [
    [{ finishReason: "unknown" }, { finishReason: "unknown" }, says("late")],
    "failed",
    2,
  ],
  "nothing, because of the length": [[{ finishReason: "length" }, says("late")], "stopped", 1],
};

for (const [what, [replies, ending, requests]] of Object.entries(AROUND_THE_BOUND)) {
  proves(["R11"], `${what}: ${requests} requests, ${ending}`, async () => {
    const { role, model } = soloist(replies, { tools: [spyTool("work")] });
    expect([(await newFixture().run(role)).status, model.requests.length]).toEqual([
      ending,
      requests,
    ]);
  });
}

proves(["R11"], "a useless reply is charged, and not repeated in the next request", async () => {
  const { role, model } = soloist([EMPTY, says("done")]);
  const result = await newFixture().run(role);
  expect(model.requests[1]).toEqual(model.requests[0]);
  expect([result.usage.total.modelCalls, result.usage.total.totalTokens]).toEqual([2, 30]);
});

test("a retry counts as a step of the budget", async () => {
  const { role, model } = soloist([EMPTY, says("never")]);
  const result = await newFixture().run(role, { budget: { steps: 1 } });
  expect(effectOf(result, model.requests.length)).toEqual({
    ending: ["stopped", "step_limit"],
    data: { axis: "steps", accountPath: "solo", maximum: 1, current: 1, requested: 1 },
    text: "",
    requests: 1,
  });
});

test("an agent with a typed result has its useless reply retried as well", async () => {
  const { role, model } = soloist([EMPTY, asks("Finish", { count: 3 })], {
    output: z.object({ count: z.int() }),
  });
  const result = await newFixture().run(role);
  expect([result.status, result.output, model.requests[1]]).toEqual([
    "completed",
    { count: 3 },
    model.requests[0],
  ]);
});
