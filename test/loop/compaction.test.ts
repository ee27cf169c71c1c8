// Goal: a history that grew too long is made shorter and the agent goes on; that is neither an error nor a step.
// Method: a model whose count is the number of messages, and one that refuses; requests, events and steps compared whole.

import { expect, test } from "vitest";

import type { AgentDefinition } from "../../src/agent/agent-role.ts";
import { transform } from "../../src/hooks/hook.ts";
import type { BeforeCompactionInput } from "../../src/hooks/hook-points.ts";
import type { ModelRequest } from "../../src/model/model.ts";
import { ModelError } from "../../src/model/model-error.ts";
import { asks, says, type ScriptedReply } from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { scene } from "../harness/run-scripted.ts";
import { soloist, type Soloist } from "../harness/soloist.ts";
import { spyTool } from "../harness/tools.ts";
import { calls, part, spawn } from "../tree/cast.ts";

const NUMBER_OF_MESSAGES = {
  countTokens: ({ messages }: ModelRequest): number => messages.length * 10,
};

/** A worker whose requests count ten tokens for each message. */
function worker(
  script: readonly ScriptedReply[],
  more: Partial<Omit<AgentDefinition, "model">> = {},
): Soloist {
  return soloist(script, { tools: [spyTool("work")], ...more }, NUMBER_OF_MESSAGES);
}

const OVERFLOW: ScriptedReply = {
  error: new ModelError({ code: "model_context_overflow", message: "Too long." }),
};
const work = asks("work", {});

function rolesOf(request: ModelRequest | undefined): string {
  return (request?.messages ?? [])
    .map((message) => ("origin" in message ? message.origin : message.role))
    .join(" ");
}

const NOTICE =
  "Earlier messages were left out here to save room: 2. Ask again for what you need of them.";

proves(
  ["R14"],
  "a history over the window is compacted once, before a normal inference, and no step is counted for it",
  async () => {
    const stage = scene();
    const compaction = { maxInputTokens: 50, keepMessages: 2 };
    const { role, model } = worker([work, work, says("done")], { compaction });
    const result = await stage.run(role);
    expect(model.requests.map(rolesOf)).toEqual([
      "instructions task",
      "instructions task assistant tool",
      "instructions task notice assistant tool",
    ]);
    expect(model.requests[2]?.messages.slice(0, 3).map(({ text }) => text)).toEqual([
      "Work.",
      "Do it.",
      NOTICE,
    ]);
    expect(
      stage.sink
        .of("conversation.compacted")
        .map(({ messagesBefore, messagesAfter, tokensBefore, tokensAfter }) => ({
          messagesBefore,
          messagesAfter,
          tokensBefore,
          tokensAfter,
        })),
    ).toEqual([{ messagesBefore: 6, messagesAfter: 5, tokensBefore: 60, tokensAfter: 50 }]);
    expect([
      result.status,
      result.steps.map(({ number }) => number),
      result.usage.total.steps,
      result.agents[0]?.errors,
    ]).toEqual(["completed", [1, 2, 3], 3, []]);
  },
);

proves(["R14"], "a history exactly as long as the window stays whole", async () => {
  const stage = scene();
  const { role } = worker([work, says("done")], { compaction: { maxInputTokens: 40 } });
  await stage.run(role);
  expect(stage.sink.of("conversation.compacted")).toEqual([]);
});

proves(
  ["R14"],
  "a request that the model refuses as too long is compacted and asked again; the run completes without an error",
  async () => {
    const stage = scene();
    const { role, model } = worker([work, work, OVERFLOW, says("done")], {
      compaction: { keepMessages: 2 },
    });
    const result = await stage.run(role);
    expect(model.requests.map(rolesOf)).toEqual([
      "instructions task",
      "instructions task assistant tool",
      "instructions task assistant tool assistant tool",
      "instructions task notice assistant tool",
    ]);
    expect([result.status, result.text, result.agents[0]?.errors]).toEqual([
      "completed",
      "done",
      [],
    ]);
    expect(stage.sink.of("conversation.compacted")).toHaveLength(1);
    expect(stage.sink.of("signal.raised").map(({ signal }) => signal.reason.code)).toEqual([
      "completed",
    ]);
    expect(
      stage.sink.of("continuation.evaluated").map(({ decision, work }) => [decision, work]),
    ).toEqual([
      ["continue", ["tool_calls"]],
      ["continue", ["tool_calls"]],
      ["compact", ["overflow"]],
      ["stop", []],
    ]);
  },
);

test("the call that the model refused is a step of its own, with the error that it ended by", async () => {
  const { role } = worker([work, work, OVERFLOW, says("done")], {
    compaction: { keepMessages: 1 },
  });
  const { steps } = await scene().run(role);
  expect(steps.map(({ number, error }) => [number, error?.code])).toEqual([
    [1, undefined],
    [2, undefined],
    [3, "model_context_overflow"],
    [4, undefined],
  ]);
});

test("too long with nothing to leave out: the same request is not sent again", async () => {
  const { role, model } = worker([work, OVERFLOW], { compaction: { keepMessages: 1 } });
  const { status, agents } = await scene().run(role);
  expect([status, agents[0]?.errors.map(({ code }) => code), model.requests.length]).toEqual([
    "failed",
    ["model_context_overflow"],
    2,
  ]);
});

proves(
  ["R14"],
  "too long again right after: the run fails with the model's own error",
  async () => {
    const stage = scene();
    const { role, model } = worker([work, work, OVERFLOW, OVERFLOW, says("never")], {
      compaction: { keepMessages: 2 },
    });
    const result = await stage.run(role);
    expect([result.status, result.agents[0]?.errors, model.requests.length]).toEqual([
      "failed",
      [{ code: "model_context_overflow", message: "Too long.", data: {} }],
      4,
    ]);
    expect(stage.sink.of("conversation.compacted")).toHaveLength(1);
  },
);

test("each overflow that was followed by a reply is forgiven anew", async () => {
  const { role, model } = worker([work, work, OVERFLOW, work, OVERFLOW, says("done")], {
    compaction: { keepMessages: 2 },
  });
  expect([(await scene().run(role)).status, model.requests.length]).toEqual(["completed", 6]);
});

test("without compaction a request that is too long fails the run at once", async () => {
  const { role, model } = worker([work, OVERFLOW, says("never")]);
  const result = await scene().run(role);
  expect([result.status, result.reason.data, model.requests.length]).toEqual([
    "failed",
    { error: "model_context_overflow" },
    2,
  ]);
});

test("a task that is too long by itself fails the run; there is nothing to leave out", async () => {
  const stage = scene();
  const { role } = worker([OVERFLOW, OVERFLOW, says("never")], { compaction: {} });
  const result = await stage.run(role);
  expect([
    result.status,
    result.reason.data,
    stage.sink.of("conversation.compacted").length,
  ]).toEqual(["failed", { error: "model_context_overflow" }, 0]);
});

test("over the window with nothing to leave out: the request is sent as it is, and nothing is told", async () => {
  const stage = scene();
  const compaction = { maxInputTokens: 1, keepMessages: 9 };
  const { role, model } = worker([work, says("done")], { compaction });
  const result = await stage.run(role);
  expect([result.status, stage.sink.of("conversation.compacted").length]).toEqual(["completed", 0]);
  expect(rolesOf(model.requests[1])).toBe("instructions task assistant tool");
});

proves(
  ["R14"],
  "instructions and task stay, however often a history is compacted, and calls keep their results",
  async () => {
    const stage = scene();
    const many: ScriptedReply = calls(
      { name: "work", arguments: {} },
      { name: "work", arguments: {} },
      { name: "work", arguments: {} },
    );
    const compaction = { maxInputTokens: 50, keepMessages: 1 };
    const { role, model } = worker([many, many, many, many, says("done")], { compaction });
    const result = await stage.run(role);
    expect(result.status).toBe("completed");
    expect(model.requests.slice(2).map(rolesOf)).toEqual(
      Array.from({ length: 3 }, () => "instructions task notice assistant tool tool tool"),
    );
    expect(model.requests[4]?.messages[2]?.text).toBe(NOTICE.replace("2.", "12."));
  },
);

proves(["R14"], "a hook sees what is about to be left out, and may keep less or more", async () => {
  const seen: BeforeCompactionInput[] = [];
  const keepOne = transform(
    "beforeCompaction",
    (input) => {
      seen.push(input);
      return { keepMessages: 4 };
    },
    { name: "keeper" },
  );
  const stage = scene();
  const compaction = { maxInputTokens: 70, keepMessages: 2 };
  const { role, model } = worker([work, work, work, says("done")], {
    compaction,
    hooks: [keepOne],
  });
  await stage.run(role);
  expect(seen.map(({ messages, ...rest }) => ({ ...rest, messages: messages.length }))).toEqual([
    { messages: 8, inputTokens: 80, maxInputTokens: 70 },
  ]);
  expect(rolesOf(model.requests[3])).toBe("instructions task notice assistant tool assistant tool");
  expect(stage.sink.of("hook.applied").map(({ point, changedBy }) => [point, changedBy])).toEqual([
    ["beforeCompaction", [{ hook: "keeper", fields: ["keepMessages"] }]],
  ]);
});

test("a hook before a compaction that breaks fails the run, and the model is not asked", async () => {
  const broken = transform("beforeCompaction", () => {
    throw new Error("broken");
  });
  const { role, model } = worker([work, says("never")], {
    compaction: { maxInputTokens: 30, keepMessages: 1 },
    hooks: [broken],
  });
  const result = await scene().run(role);
  expect([result.status, result.reason.data, model.requests.length]).toEqual([
    "failed",
    { error: "hook_failed" },
    1,
  ]);
});

test("a stop that comes while a hook looks at a compaction takes effect before the model call", async () => {
  const stopping = transform("beforeCompaction", (_input, { requestStop }) => requestStop("No."));
  const { role, model } = worker([work, says("never")], {
    compaction: { maxInputTokens: 30, keepMessages: 1 },
    hooks: [stopping],
  });
  const result = await scene().run(role);
  expect([result.status, result.reason.message, model.requests.length]).toEqual([
    "stopped",
    "No.",
    1,
  ]);
});

test("a subagent keeps its own task, not one that it inherited", async () => {
  const child = part("child", [calls({ name: "work", arguments: {} }), says("Child.")], {
    tools: [spyTool("work")],
    compaction: { maxInputTokens: 40, keepMessages: 2 },
    scripted: NUMBER_OF_MESSAGES,
  });
  const root = part(
    "root",
    [calls({ name: "work", arguments: {} }), calls(spawn("child", "Part two.")), says("Root.")],
    { tools: [spyTool("work")], subagents: [child.role], context: { inheritMessages: true } },
  );
  const result = await scene().run(root.role);
  expect(result.status).toBe("completed");
  for (const { messages } of child.model.requests)
    expect(messages.map(({ text }) => text)).toContain("Part two.");
});

test("the window is judged by an estimate if the model cannot count", async () => {
  const stage = scene();
  const long = spyTool("work", () => "x".repeat(600));
  const { role, model } = soloist(
    [
      { ...work, usage: null },
      { ...work, usage: null },
      { text: "done", usage: null },
    ],
    { tools: [long], compaction: { maxInputTokens: 300, keepMessages: 2 } },
    { countTokens: null },
  );
  const result = await stage.run(role);
  expect([result.status, stage.sink.of("conversation.compacted").length]).toEqual(["completed", 1]);
  expect(rolesOf(model.requests[2])).toBe("instructions task notice assistant tool");
});

test("a window or a number of messages that leaves nothing is refused at definition", () => {
  for (const compaction of [
    { maxInputTokens: 0 },
    { keepMessages: 0 },
    { maxInputTokens: 1.5 },
    { keepMessages: -1 },
  ])
    expect(() => worker([], { compaction })).toThrow(/compaction\./);
});
