// Goal: the text of a reply is dropped if it only repeats the arguments of one of its calls; any
// other text is kept.
// Method: texts that equal the arguments and texts that nearly do, in complete runs: history,
// steps, result and events.

import { expect, test } from "vitest";

import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

interface Said {
  /** The text in the next request's history, and in the step. */
  readonly kept: readonly (string | undefined)[];
  readonly events: readonly unknown[];
}

async function said(text: string, input: object | string): Promise<Said> {
  const work = spyTool("work");
  const { role, model } = soloist([asks("work", input, { text }), says("Done.")], {
    tools: [work],
  });
  const fixture: Fixture = newFixture();
  const result = await fixture.run(role);
  expect([result.status, work.calls.length]).toEqual(["completed", 1]);
  const spoken = model.requests[1]?.messages.find((message) => message.role === "assistant");
  const events = fixture.sink
    .ofType("reply.filtered")
    .map(({ toolName, callId, stepId, characters }) => [toolName, callId, stepId, characters]);
  return { kept: [spoken?.text, result.steps[0]?.io.text], events };
}

proves(["R113"], "keeps a text with 0 for the argument false, without an event", async () => {
  const text = '{"x":0}';
  expect(await said(text, { x: false })).toEqual({ kept: [text, text], events: [] });
});

proves(["R113"], "drops a text that equals the arguments, and emits one event", async () => {
  const text = '{"x":false}';
  expect(await said(text, { x: false })).toEqual({
    kept: ["", ""],
    events: [["work", "call_1", "execution_1.1", text.length]],
  });
});

const FILTERED = {
  "with other spaces and another order of keys": ['{ "b": 1,\n "a": [2] }', { a: [2], b: 1 }],
  "in a fence": ['```json\n{"a":1}\n```', { a: 1 }],
  "with the name of the tool": ['{"name":"work","arguments":{"a":1}}', { a: 1 }],
  "with space around it": ['\n {"a":1} \n', '{"a": 1}'],
} as const;

for (const [what, [text, input]] of Object.entries(FILTERED)) {
  proves(["R113"], `drops arguments ${what}`, async () => {
    const { kept, events } = await said(text, input);
    expect([kept, events.length]).toEqual([["", ""], 1]);
  });
}

const KEPT = {
  "with words beside it": ['Now: {"a":1}', { a: 1 }],
  "with one key more": ['{"a":1,"b":2}', { a: 1 }],
  "with one key less": ['{"a":1}', { a: 1, b: 2 }],
  "with a text for a number": ['{"a":"1"}', { a: 1 }],
  "with null for what is missing": ['{"a":1,"b":null}', { a: 1 }],
  "with a list in another order": ['{"a":[2,1]}', { a: [1, 2] }],
  "with the name of another tool": ['{"name":"other","arguments":{"a":1}}', { a: 1 }],
  "that is empty": ["", { a: 1 }],
} as const;

for (const [what, [text, input]] of Object.entries(KEPT)) {
  proves(["R113"], `keeps a text ${what}`, async () => {
    expect(await said(text, input)).toEqual({ kept: [text, text], events: [] });
  });
}

test("drops the text of a reply with several calls once if it repeats any of them", async () => {
  const { role } = soloist(
    [
      {
        text: '{"b":2}',
        calls: [
          { toolName: "work", arguments: { a: 1 } },
          { toolName: "work", arguments: { b: 2 } },
          { toolName: "work", arguments: { b: 2 } },
        ],
      },
      says("Done."),
    ],
    { tools: [spyTool("work")] },
  );
  const fixture = newFixture();
  const result = await fixture.run(role);
  expect(fixture.sink.ofType("reply.filtered").map(({ callId }) => callId)).toEqual(["call_2"]);
  expect(result.steps[0]?.tools.executions).toHaveLength(3);
});

test("accepts JSON in a reply without calls as the answer", async () => {
  const fixture = newFixture();
  const result = await fixture.run(soloist([says('{"a":1}')]).role);
  expect([result.status, result.text, fixture.sink.ofType("reply.filtered")]).toEqual([
    "completed",
    '{"a":1}',
    [],
  ]);
});

test("returns no dropped text as the last text of a stopped agent", async () => {
  const { role } = soloist([asks("work", { a: 1 }, { text: '{"a":1}' })], {
    tools: [spyTool("work")],
  });
  const result = await newFixture().run(role, { budget: { steps: 1 } });
  expect([result.status, result.text]).toEqual(["stopped", ""]);
});

test("drops the text of a child's reply, and executes its calls", async () => {
  const child = part("child", [asks("work", { a: 1 }, { text: '{"a":1}' }), says("Child.")], {
    tools: [spyTool("work")],
  });
  const root = part("root", [calls(spawn("child")), says("Root.")], { subagents: [child.role] });
  const fixture = newFixture();
  const result = await fixture.run(root.role);
  expect(fixture.sink.ofType("reply.filtered").map(({ agentPath }) => agentPath)).toEqual([
    "root/child#1",
  ]);
  expect(result.agents[1]?.steps[0]?.tools.executions.map(({ type }) => type)).toEqual([
    "succeeded",
  ]);
});
