// Goal: every finish reason that a model may give has a defined effect, and a reply of no use is forgiven once.
// Method: the seven reasons with and without calls; scripts of useless replies around their bound.

import { expect, test } from "vitest";
import { z } from "zod";

import { FinishReasonSchema, type FinishReason } from "../../src/model/model.ts";
import type { RunResult } from "../../src/orchestrator/run-result.ts";
import { asks, says, type ScriptedReply } from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { scene } from "../harness/run-scripted.ts";
import { soloist } from "../harness/soloist.ts";
import { spyTool } from "../harness/tools.ts";

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

function cutOff(finishReason: FinishReason): Effect {
  return { ...COMPLETED, ending: ["stopped", "finish_reason"], data: { finishReason } };
}

const WITHOUT_CALLS: Readonly<Record<FinishReason, Effect>> = {
  stop: COMPLETED,
  tool_calls: COMPLETED,
  other: COMPLETED,
  length: cutOff("length"),
  content_filter: cutOff("content_filter"),
  unknown: { ...COMPLETED, requests: 2 },
  error: { ...COMPLETED, ending: ["failed", "error"], data: { error: "model_misbehaved" } },
};

function effectOf(result: RunResult, requests: number): Effect {
  const { status, reason, text } = result;
  return { ending: [status, reason.code], data: reason.data, text, requests };
}

for (const finishReason of FinishReasonSchema.options) {
  proves(["R10"], `a text that ends with ${finishReason} has its defined effect`, async () => {
    const reply = says("half a", { finishReason });
    const { role, model } = soloist([reply, reply]);
    const result = await scene().run(role);
    expect(effectOf(result, model.requests.length)).toEqual(WITHOUT_CALLS[finishReason]);
    expect(result.steps.map(({ io }) => [io.text, io.finishReason])).toEqual(
      model.requests.map(() => ["half a", finishReason]),
    );
  });

  proves(
    ["R10"],
    `calls in a reply that ends with ${finishReason} run, and the model is asked again`,
    async () => {
      const work = spyTool("work");
      const { role, model } = soloist(
        [asks("work", {}, { finishReason, text: "Let me see." }), says("done")],
        { tools: [work] },
      );
      const result = await scene().run(role);
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

test("calls whose arguments were cut off come back to the model, and do not run", async () => {
  const work = spyTool("work");
  const { role, model } = soloist(
    [asks("work", '{"path": "/tm', { finishReason: "length" }), says("done")],
    { tools: [work] },
  );
  const result = await scene().run(role);
  expect([
    result.status,
    work.calls.length,
    result.steps[0]?.tools.executions[0]?.errorCode,
  ]).toEqual(["completed", 0, "invalid_json"]);
  expect(model.requests[1]?.messages.at(-1)?.role).toBe("tool");
});

test("an answer that the model declined is a finish reason of its own", async () => {
  const result = await scene().run(
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
  ["R11"],
  "three empty replies are asked for twice, and then the model misbehaved",
  async () => {
    const stage = scene();
    const { role, model } = soloist([EMPTY, EMPTY, EMPTY]);
    const result = await stage.run(role);
    expect(model.requests).toHaveLength(2);
    expect([result.status, result.agents[0]?.errors, result.steps.length]).toEqual([
      "failed",
      [
        {
          code: "model_misbehaved",
          message:
            "Expected scripted to reply with text or tool calls, but 2 replies in a row were of no use.",
          data: { role: "solo", uselessReplies: 2 },
        },
      ],
      2,
    ]);
    expect(
      stage.sink.of("continuation.evaluated").map(({ decision, work }) => [decision, work]),
    ).toEqual([
      ["retry", ["missing_reply"]],
      ["stop", []],
    ]);
  },
);

/** Replies, how it ends, and how many of the replies are asked for. */
const AROUND_THE_BOUND: Readonly<
  Record<string, readonly [replies: readonly ScriptedReply[], ending: string, requests: number]>
> = {
  "an empty reply and an answer": [[EMPTY, says("ok")], "completed", 2],
  "an empty reply after each tool": [
    [EMPTY, asks("work", {}), EMPTY, asks("work", {}), EMPTY, says("ok")],
    "completed",
    6,
  ],
  "an unknown ending, and then nothing": [[UNKNOWN, EMPTY, says("late")], "failed", 2],
  "nothing, and then an unknown ending": [[EMPTY, UNKNOWN, says("late")], "completed", 2],
  "nothing, of which nobody knows why": [
    [{ finishReason: "unknown" }, { finishReason: "unknown" }, says("late")],
    "failed",
    2,
  ],
  "nothing, because of the length": [[{ finishReason: "length" }, says("late")], "stopped", 1],
};

for (const [what, [replies, ending, requests]] of Object.entries(AROUND_THE_BOUND)) {
  proves(["R11"], `${what}: ${requests} requests, ${ending}`, async () => {
    const { role, model } = soloist(replies, { tools: [spyTool("work")] });
    expect([(await scene().run(role)).status, model.requests.length]).toEqual([ending, requests]);
  });
}

proves(["R11"], "a useless reply is paid for, and not shown to the model again", async () => {
  const { role, model } = soloist([UNKNOWN, says("done")]);
  const result = await scene().run(role);
  expect(model.requests[1]).toEqual(model.requests[0]);
  expect([result.usage.total.modelCalls, result.usage.total.totalTokens]).toEqual([2, 30]);
});

test("a retry is a step like any other: the budget bounds it", async () => {
  const { role, model } = soloist([UNKNOWN, says("never")]);
  const result = await scene().run(role, { budget: { steps: 1 } });
  expect(effectOf(result, model.requests.length)).toEqual({
    ending: ["stopped", "steps_limit"],
    data: { axis: "steps", accountPath: "solo", maximum: 1, current: 1, asked: 1 },
    text: "so so",
    requests: 1,
  });
});

test("an agent that owes a typed result has its useless replies forgiven, too", async () => {
  const { role, model } = soloist([EMPTY, asks("Finish", { count: 3 })], {
    output: z.object({ count: z.int() }),
  });
  const result = await scene().run(role);
  expect([result.status, result.output, model.requests[1]]).toEqual([
    "completed",
    { count: 3 },
    model.requests[0],
  ]);
});
