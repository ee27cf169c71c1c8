// Goal: invalid calls of the model are returned to it with a correctable message, and no tool runs
// meanwhile.
// Method: scripts with an invalid and a valid call; the next messages to the model, the log, and
// the inputs of the tool compared.

import { expect, test } from "vitest";
import { z } from "zod";

import { transform } from "../../../src/hooks/hook.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import type { FunctionTool } from "../../../src/tools/tool.ts";
import { ToolError, ToolRetryError } from "../../../src/tools/tool-error.ts";
import { asks, says, type ScriptedCall } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, receivedTexts, use } from "../../harness/scripted-agents.ts";
import {
  acting,
  ends,
  executions,
  fails,
  retries,
  succeeds,
  texts,
  throws,
} from "../../support/tool-acts.ts";

interface Taking {
  readonly tool: FunctionTool;
  /** The inputs of the tool's executions. */
  readonly inputs: readonly unknown[];
}

function taking(shape: z.ZodRawShape, more: { readonly coerceArguments?: boolean } = {}): Taking {
  const inputs: unknown[] = [];
  const tool = defineTool({
    name: "order",
    description: "Orders.",
    inputSchema: z.object(shape),
    ...more,
    execute: (input) => {
      inputs.push(input);
      return "ordered";
    },
  });
  return { tool, inputs };
}

/**
 * Runs an invalid and a valid call; returns the messages to the model and the outcomes of the
 * calls.
 */
async function corrected(
  taken: Taking,
  wrong: object | string,
  right: object,
): Promise<{ readonly told: readonly string[]; readonly ends: readonly string[] }> {
  const { role, model } = soloist([asks("order", wrong), asks("order", right), says("Done.")], {
    tools: [taken.tool],
  });
  const result = await newFixture().run(role);
  expect(result.status).toBe("completed");
  return { told: receivedTexts(model.requests[1]), ends: ends(result) };
}

const byText = (left: unknown, right: unknown): number => String(left).localeCompare(String(right));

const RETRIED = ["retry invalid_arguments", "succeeded"];

proves(
  ["R103"],
  "does not execute a tool with text for an integer, and asks the model for a corrected call",
  async () => {
    const taken = taking({ count: z.int() });
    const outcome = await corrected(taken, { count: "x" }, { count: 3 });
    expect(outcome.ends).toEqual(RETRIED);
    expect(outcome.told).toEqual([
      'The arguments of order do not fit its schema:\n- count: expected an integer, got "x"\nCorrect them and call order again.',
    ]);
    expect(taken.inputs).toEqual([{ count: 3 }]);
  },
);

proves(["R103"], "checks types in nested objects and lists", async () => {
  const taken = taking({ filter: z.object({ tags: z.array(z.object({ id: z.int() })) }) });
  const wrong = { filter: { tags: [{ id: 1 }, { id: true }] } };
  const outcome = await corrected(taken, wrong, { filter: { tags: [{ id: 1 }] } });
  expect(outcome.ends).toEqual(RETRIED);
  expect(outcome.told[0]).toContain("- filter.tags[1].id: expected an integer, got true");
  expect(taken.inputs).toEqual([{ filter: { tags: [{ id: 1 }] } }]);
});

proves(["R104"], "lists the allowed values for a value outside an enum", async () => {
  const taken = taking({ size: z.enum(["small", "large"]) });
  const outcome = await corrected(taken, { size: "huge" }, { size: "large" });
  expect(outcome.ends).toEqual(RETRIED);
  expect(outcome.told[0]).toContain('- size: expected one of "small", "large", got "huge"');
  expect(taken.inputs).toEqual([{ size: "large" }]);
});

proves(["R105"], "names a missing field, and drops an unknown one for a plain schema", async () => {
  const taken = taking({ count: z.int(), note: z.string().optional() });
  const outcome = await corrected(taken, { note: "a" }, { count: 1, colour: "red" });
  expect(outcome.ends).toEqual(RETRIED);
  expect(outcome.told[0]).toContain("- count: expected an integer, but it is missing");
  expect(taken.inputs).toEqual([{ count: 1 }]);
});

proves(
  ["R106"],
  "coerces text that is a number without loss, and logs the original arguments",
  async () => {
    const taken = taking({ count: z.int(), fast: z.boolean() });
    const { role, model } = soloist(
      [asks("order", { count: "123", fast: "true" }), says("Done.")],
      {
        tools: [taken.tool],
      },
    );
    const fixture = newFixture();
    const result = await fixture.run(role);
    const written = '{"count":"123","fast":"true"}';
    expect(taken.inputs).toEqual([{ count: 123, fast: true }]);
    expect(result.steps[0]?.tools.calls.map((call) => call.argumentsText)).toEqual([written]);
    expect(executions(result).map(({ call }) => call.argumentsText)).toEqual([written]);
    const spoken = model.requests[1]?.messages.find((message) => message.role === "assistant");
    expect(spoken?.toolCalls.map((call) => call.argumentsText)).toEqual([written]);
  },
);

for (const count of ["1.5", "abc", "", " 1", "1e3", "0x10", "٣"]) {
  proves(["R106"], `refuses "${count}" as an integer without executing the tool`, async () => {
    const taken = taking({ count: z.int() });
    const outcome = await corrected(taken, { count }, { count: 1 });
    expect(outcome.ends).toEqual(RETRIED);
    expect(taken.inputs).toEqual([{ count: 1 }]);
  });
}

proves(["R106"], "does not coerce the arguments of a strict tool", async () => {
  const taken = taking({ count: z.int() }, { coerceArguments: false });
  const outcome = await corrected(taken, { count: "123" }, { count: 123 });
  expect(outcome.ends).toEqual(RETRIED);
  expect(taken.inputs).toEqual([{ count: 123 }]);
});

proves(
  ["R161"],
  "names parameter, expectation, value and remedy in the message, and no internals",
  async () => {
    const { told: messages } = await corrected(
      taking({ count: z.int() }),
      { count: "x" },
      { count: 1 },
    );
    const [text = ""] = messages;
    for (const part of ["count", "integer", '"x"', "Correct them and call order again."])
      expect(text).toContain(part);
    expect(text).not.toMatch(/Zod|invalid_type|\bat .+:\d+|espalier|\.ts\b/);
  },
);

for (const [what, wrong] of Object.entries({
  "no JSON": "{oops",
  "half of it": '{"count": 1',
  "something after it": '{"count": 1} and so on',
  "a change of the prototype": '{"__proto__": {"count": 1}}',
})) {
  test(`reports arguments that are ${what}, and logs the original text`, async () => {
    const taken = taking({ count: z.int() });
    const { role, model } = soloist(
      [asks("order", wrong), asks("order", { count: 1 }), says("Done.")],
      {
        tools: [taken.tool],
      },
    );
    const result = await newFixture().run(role);
    expect(ends(result)).toEqual(["retry invalid_json", "succeeded"]);
    expect(receivedTexts(model.requests[1])[0]).toMatch(
      /^The arguments of order are not valid JSON \(.+\)\. Call it again with one JSON object\.$/,
    );
    expect(result.steps[0]?.tools.calls[0]?.argumentsText).toBe(wrong);
    expect(taken.inputs).toEqual([{ count: 1 }]);
  });
}

for (const wrong of ["[]", "null", "3", '"text"']) {
  test(`refuses ${wrong} as arguments, although it is JSON`, async () => {
    const taken = taking({ count: z.int() });
    expect((await corrected(taken, wrong, { count: 1 })).ends).toEqual(RETRIED);
    expect(taken.inputs).toEqual([{ count: 1 }]);
  });
}

proves(["R107"], "lets a tool request a corrected call, whose reason the model reads", async () => {
  const tool = acting("book", [
    throws(new ToolRetryError("There is no room on Monday.", { hint: "Ask for another day." })),
    succeeds,
  ]);
  const first: ScriptedCall = {
    toolName: "book",
    arguments: { day: "Monday" },
    callId: "c-monday",
  };
  const second: ScriptedCall = {
    toolName: "book",
    arguments: { day: "Friday" },
    callId: "c-friday",
  };
  const { role, model } = soloist([calls(first), calls(second), says("Booked.")], {
    tools: [tool],
  });
  const result = await newFixture().run(role);
  const messages = model.requests[1]?.messages.slice(-2);
  expect(messages).toEqual([
    expect.objectContaining({
      role: "assistant",
      toolCalls: [{ callId: "c-monday", toolName: "book", argumentsText: '{"day":"Monday"}' }],
    }),
    {
      role: "tool",
      callId: "c-monday",
      toolName: "book",
      text: "book asks for a corrected call: There is no room on Monday. Ask for another day.",
    },
  ]);
  expect(ends(result)).toEqual(["retry tool_retry", "succeeded"]);
  expect([result.status, result.text]).toEqual(["completed", "Booked."]);
});

test("treats a ToolError of severity retryable like a ToolRetryError", async () => {
  const tool = acting("book", [
    throws(new ToolError("Full.", { severity: "retryable" })),
    succeeds,
  ]);
  const { role } = soloist([calls(use("book")), calls(use("book")), says("Booked.")], {
    tools: [tool],
  });
  const result = await newFixture().run(role);
  expect(ends(result)).toEqual(["retry tool_retry", "succeeded"]);
  expect(executions(result)[0]?.severity).toBe("retryable");
});

proves(
  ["R108"],
  "distinguishes retry, failure and success in messages, events and log",
  async () => {
    const tools = [
      acting("again", [retries]),
      acting("breaks", [fails]),
      acting("works", [succeeds]),
    ];
    const { role, model } = soloist(
      [calls(use("again"), use("breaks"), use("works")), says("Done.")],
      { tools },
    );
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect(receivedTexts(model.requests[1])).toEqual([
      "again asks for a corrected call: Say it otherwise.",
      "breaks failed: broken",
      "fine",
    ]);
    const ended = fixture.sink
      .ofType("tool.ended")
      .map(({ toolName, outcome, success, error }) => [toolName, outcome, success, error?.code]);
    expect(ended.toSorted(byText)).toEqual([
      ["again", "retry", false, "tool_retry"],
      ["breaks", "failed", false, "tool_error"],
      ["works", "succeeded", true, undefined],
    ]);
    expect(
      executions(result).map(({ type, errorCode, severity }) => [type, errorCode, severity]),
    ).toEqual([
      ["retry", "tool_retry", "retryable"],
      ["failed", "tool_error", "recoverable"],
      ["succeeded", undefined, undefined],
    ]);
  },
);

proves(
  ["R115"],
  "reports an unknown tool with the known names, and executes the other calls of the reply",
  async () => {
    const tool = spyTool("look");
    const { role, model } = soloist([calls(use("lokk"), use("look"), use("Look")), says("Done.")], {
      tools: [tool, spyTool("write")],
    });
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect(receivedTexts(model.requests[1])).toEqual([
      'There is no tool named "lokk". Your tools are: look, write.',
      "look done",
      'There is no tool named "Look". Your tools are: look, write.',
    ]);
    expect(ends(result)).toEqual(["failed unknown_tool", "succeeded", "failed unknown_tool"]);
    expect([result.status, tool.calls.length]).toEqual(["completed", 1]);
  },
);

test("reports an unknown tool of an agent without tools", async () => {
  const { role, model } = soloist([calls(use("look")), says("Done.")]);
  await newFixture().run(role);
  expect(receivedTexts(model.requests[1])).toEqual([
    'There is no tool named "look". You have no tools; answer in text.',
  ]);
});

for (const name of ["__proto__", "constructor", "toString", "hasOwnProperty"]) {
  test(`reports ${name} as an unknown tool like any other`, async () => {
    const { role, model } = soloist([calls(use(name)), says("Done.")], {
      tools: [spyTool("look")],
    });
    const result = await newFixture().run(role);
    expect(receivedTexts(model.requests[1])).toEqual([
      `There is no tool named "${name}". Your tools are: look.`,
    ]);
    expect(result.agents[0]?.toolsUsed).toEqual({});
  });
}

test("truncates an unknown tool name of a megabyte in the result", async () => {
  const { role } = soloist([calls(use("x".repeat(1_000_000))), says("Done.")]);
  const result = await newFixture().run(role);
  expect(ends(result)).toEqual(["failed unknown_tool"]);
  expect(texts(result)[0]?.length).toBeLessThan(51_000);
});

test("lets an afterTool hook see a retry and change its message", async () => {
  const seen: unknown[] = [];
  const hook = transform("afterTool", ({ outcome, text }) => {
    seen.push([outcome, text]);
    return { text: `${text} Mind the date.`, metadata: { seen: true } };
  });
  const { role, model } = soloist([calls(use("book")), calls(use("book")), says("Booked.")], {
    tools: [acting("book", [retries, succeeds])],
    hooks: [hook],
  });
  const result = await newFixture().run(role);
  expect(seen).toEqual([
    ["retry", "book asks for a corrected call: Say it otherwise."],
    ["succeeded", "fine"],
  ]);
  expect(receivedTexts(model.requests[1])).toEqual([
    "book asks for a corrected call: Say it otherwise. Mind the date.",
  ]);
  expect(
    executions(result).map(({ type, errorCode, metadata }) => [type, errorCode, metadata]),
  ).toEqual([
    ["retry", "tool_retry", { seen: true }],
    ["succeeded", undefined, { seen: true }],
  ]);
});

test("validates the arguments that a hook rewrote, and logs those of the model", async () => {
  const taken = taking({ count: z.int() });
  const { role, model } = soloist([asks("order", { count: 1 }), says("Done.")], {
    tools: [taken.tool],
    hooks: [transform("beforeTool", () => ({ arguments: { count: "many" } }))],
  });
  const result = await newFixture().run(role);
  expect(ends(result)).toEqual(["retry invalid_arguments"]);
  expect(receivedTexts(model.requests[1])[0]).toContain('got "many"');
  expect(result.steps[0]?.tools.calls[0]?.argumentsText).toBe('{"count":1}');
  expect(taken.inputs).toEqual([]);
});
