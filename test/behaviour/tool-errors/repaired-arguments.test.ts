// Goal: a small slip in the JSON of arguments costs no further model call, and missing parts are
// never invented.
// Method: calls with slips, as text; the inputs of tool, hooks and guards, the step and the events;
// and cases in which the call must not be repaired, and goes back to the model.

import { leaveOpen } from "../../support/pause-stories.ts";
import { describe, expect, test } from "vitest";
import { z } from "zod";

import { transform } from "../../../src/hooks/hook.ts";
import { asks, says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { watch } from "../../support/guard-stories.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { receivedTexts } from "../../harness/scripted-agents.ts";
import { ends, executions } from "../../support/tool-acts.ts";

const MEANT = { path: "a.txt", lines: [1, 2] };
const SLIPS = {
  "a comma at the end": '{"path":"a.txt","lines":[1,2],}',
  "a comma at the end of a list": '{"path":"a.txt","lines":[1,2,]}',
  "no comma between": '{"path":"a.txt" "lines":[1,2]}',
  "single quotes": "{'path':'a.txt','lines':[1,2]}",
  "a comment": '{"path":"a.txt", /* both */ "lines":[1,2]}',
  "a comment on its line": '{"path":"a.txt", // both\n"lines":[1,2]}',
};

interface More {
  readonly retryAfterCrash?: boolean;
  readonly needsApproval?: boolean;
}

function reader(more: More = {}) {
  const inputs: unknown[] = [];
  const tool = defineTool({
    name: "read",
    description: "Reads.",
    inputSchema: z.object({ path: z.string(), lines: z.array(z.int()).default([]) }),
    ...more,
    execute: (input) => {
      inputs.push(input);
      return "read";
    },
  });
  return { tool, inputs };
}

/** Matches the message that asks for the call again as JSON. */
const TOLD =
  /^The arguments of read are not valid JSON \(.*\)\. Call it again with one JSON object\.$/s;

proves(
  ["M50"],
  "repairs a small slip and executes the call, and marks it in step and events",
  async () => {
    for (const [name, text] of Object.entries(SLIPS)) {
      const { tool, inputs } = reader();
      const { role, model } = soloist([asks("read", text), says("Done.")], { tools: [tool] });
      const fixture = newFixture();
      const result = await fixture.run(role);
      expect([ends(result), inputs, model.requests.length], name).toEqual([
        ["succeeded"],
        [MEANT],
        2,
      ]);
      expect(executions(result), name).toMatchObject([
        { call: { argumentsText: text }, arguments: MEANT, isRepaired: true, type: "succeeded" },
      ]);
      expect(
        fixture.sink.ofType("tool.started").map(({ isRepaired }) => isRepaired),
        name,
      ).toEqual([true]);
    }
  },
);

test("does not mark valid or coerced arguments as repaired", async () => {
  const { tool } = reader();
  const { role } = soloist([asks("read", { path: "a", lines: ["1"] }), says("Done.")], {
    tools: [tool],
  });
  const fixture = newFixture();
  const result = await fixture.run(role);
  expect(executions(result).map((one) => "isRepaired" in one)).toEqual([false]);
  expect(fixture.sink.ofType("tool.started").map((one) => "isRepaired" in one)).toEqual([false]);
});

proves(["M50"], "accepts a typed output with a slip", async () => {
  const output = z.object({ sum: z.int() });
  const { role } = soloist([asks("Finish", "{'sum': 3,}")], { output });
  const result = await newFixture().run(role);
  expect([result.status, result.output]).toEqual(["completed", { sum: 3 }]);
});

describe("a call that is not repaired", () => {
  const slip = SLIPS["a comma at the end"];
  const cases: Readonly<Record<string, readonly [reply: ScriptedReply, more?: More]>> = {
    "goes back to the model if it ends in the middle of a list": [
      asks("read", '{"path":"a.txt","lines":[1,'),
    ],
    "goes back to the model if it ends in the middle of a string": [asks("read", '{"path":"a.tx')],
    "goes back to the model if its last bracket is missing": [
      asks("read", '{"path":"a.txt","lines":[1,2]'),
    ],
    "goes back to the model if it is not an object": [asks("read", "'a.txt'")],
    "goes back to the model if it is a list": [asks("read", "['a.txt',]")],
    "goes back to the model if it does not fit the schema even when repaired": [
      asks("read", "{'path': 7, 'lines': 'x',}"),
    ],
    "goes back to the model if it has the key __proto__": [
      asks("read", "{'path':'a','__proto__':{},}"),
    ],
    "goes back to the model if it is too long to be repaired": [
      asks("read", `{'path':'${"a".repeat(100_000)}'}`),
    ],
    "goes back to the model if its tool must not be repeated": [
      asks("read", slip),
      { retryAfterCrash: false },
    ],
    "goes back to the model if it needs an approval": [asks("read", slip), { needsApproval: true }],
  };
  for (const [name, [reply, more]] of Object.entries(cases))
    proves(["M50"], name, async () => {
      const { tool, inputs } = reader(more);
      const guard = watch();
      const { role, model } = soloist([reply, says("Done.")], {
        tools: [tool],
        guards: [guard.guard],
        errorPolicy: { retryLimitPolicy: "continue" },
      });
      const fixture = newFixture();
      const result = await fixture.run(role);
      expect([ends(result), inputs]).toEqual([["retry invalid_json"], []]);
      expect(receivedTexts(model.requests[1])).toEqual([expect.stringMatching(TOLD)]);
      expect(executions(result).map((one) => "isRepaired" in one)).toEqual([false]);
      expect(fixture.sink.ofType("question.asked")).toEqual([]);
    });

  proves(["M50"], "is not executed if the token limit ended its reply", async () => {
    const { tool, inputs } = reader();
    const reply: ScriptedReply = { ...asks("read", slip), finishReason: "length" };
    const { role } = soloist([reply, says("Done.")], { tools: [tool] });
    const result = await newFixture().run(role);
    expect([inputs, executions(result)[0]?.causeCode ?? executions(result)[0]?.errorCode]).toEqual([
      [],
      "invalid_json",
    ]);
  });

  proves(
    ["M50"],
    "goes back to the model if a guard asks for approval, without asking the approver",
    async () => {
      const { tool, inputs } = reader();
      const seen: unknown[] = [];
      const guard = toolGuard(
        ({ arguments: given }) => {
          seen.push(given);
          return { type: "ask", reason: "Look at it." };
        },
        { name: "careful" },
      );
      const { role, model } = soloist([asks("read", slip), says("Done.")], {
        tools: [tool],
        guards: [guard],
      });
      const fixture = newFixture();
      const result = await fixture.run(role);
      expect([ends(result), inputs, seen]).toEqual([["retry invalid_json"], [], [MEANT]]);
      expect(fixture.sink.ofType("question.asked")).toEqual([]);
      expect(receivedTexts(model.requests[1])).toEqual([expect.stringMatching(TOLD)]);
    },
  );
});

proves(
  ["M50"],
  "passes the repaired arguments to guards and hooks, which may deny or change them",
  async () => {
    const slip = SLIPS["single quotes"];
    const denied = reader();
    const guard = toolGuard(() => ({ type: "deny", reason: "Not there." }), { name: "deny" });
    const { role } = soloist([asks("read", slip), says("Done.")], {
      tools: [denied.tool],
      guards: [guard],
    });
    const refused = await newFixture().run(role);
    expect([ends(refused), denied.inputs]).toEqual([["refused blocked"], []]);
    const changed = reader();
    const seen: unknown[] = [];
    const hook = transform(
      "beforeTool",
      ({ arguments: given }) => {
        seen.push(given);
        return { arguments: { path: "b.txt" } };
      },
      { name: "elsewhere" },
    );
    const hooked = soloist([asks("read", slip), says("Done.")], {
      tools: [changed.tool],
      hooks: [hook],
    });
    const fixture = newFixture();
    const result = await fixture.run(hooked.role);
    expect([ends(result), seen, changed.inputs]).toEqual([
      ["succeeded"],
      [MEANT],
      [{ path: "b.txt", lines: [] }],
    ]);
    expect([
      executions(result).map(({ isRepaired }) => isRepaired),
      fixture.sink.ofType("tool.started").map(({ isRepaired }) => isRepaired),
    ]).toEqual([[true], [true]]);
  },
);

proves(["M50"], "asks no approver about a repaired call that a hook changed", async () => {
  const { tool, inputs } = reader();
  const hook = transform("beforeTool", () => ({ arguments: { ...MEANT, lines: [3] } }), {
    name: "adds",
  });
  const guard = toolGuard(() => ({ type: "ask", reason: "Look at it." }), { name: "careful" });
  const { role } = soloist([asks("read", SLIPS["single quotes"]), says("Done.")], {
    tools: [tool],
    hooks: [hook],
    guards: [guard],
  });
  const fixture = newFixture();
  const result = await fixture.run(role);
  expect([ends(result), inputs]).toEqual([["retry invalid_json"], []]);
  expect(fixture.sink.ofType("question.asked")).toEqual([]);
});

proves(["M50", "R74"], "counts calls that differ only in their slips as identical", async () => {
  const { tool, inputs } = reader();
  const slips = Object.values(SLIPS);
  const { role } = soloist([...slips.map((text) => asks("read", text)), says("Done.")], {
    tools: [tool],
    toolDefaults: { maxIdenticalCalls: 2 },
    errorPolicy: { retryLimitPolicy: "continue" },
  });
  const result = await newFixture({ approver: leaveOpen }).run(role);
  expect(inputs).toEqual([MEANT, MEANT]);
  expect(ends(result)[2]).toBe("retry invalid_json");
});
