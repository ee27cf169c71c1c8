// Goal: whatever a tool returns, throws or does, its call has one readable result, and the run
// continues.
// Method: odd values and odd behaviour in real runs, beside a call that works; late results are
// searched for everywhere.

import { expect, test } from "vitest";
import { z } from "zod";

import { parseJson } from "../../../src/kernel/json.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { jsonSchema } from "../../../src/tools/json-schema.ts";
import { toolResult } from "../../../src/tools/tool-result.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { ending } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, part, quiet, spawn, receivedTexts, use } from "../../harness/scripted-agents.ts";
import { mentions, outcomes, pass } from "../../support/call-outcomes.ts";

function cycle(): unknown {
  const list: unknown[] = [];
  list.push({ list });
  return list;
}

function throwing(value: unknown): () => never {
  return () => {
    throw value;
  };
}

class Locked {
  get secret(): never {
    throw new Error("hands off");
  }
  toJSON(): unknown {
    return { secret: this.secret };
  }
}

const hostile = new Proxy(
  {},
  {
    get: throwing(new Error("trap")),
    has: throwing(new Error("trap")),
    ownKeys: throwing(new Error("trap")),
    getPrototypeOf: throwing(new Error("trap")),
  },
);

const odd: readonly (readonly [string, () => unknown, string, RegExp])[] = [
  ["a value that contains itself", cycle, "failed", /circular/],
  ["a function", () => () => 1, "failed", /function/],
  ["a symbol", () => Symbol("x"), "failed", /symbol/],
  ["a proxy that throws", () => hostile, "failed", /\S/],
  ["an object whose toJSON throws", () => new Locked(), "failed", /hands off/],
  ["a promise within a value", () => ({ late: Promise.resolve(1) }), "failed", /promise/],
  ["a thrown text", throwing("just text"), "failed", /just text/],
  ["a thrown nothing", throwing(undefined), "failed", /\S/],
  ["a thrown null", throwing(null), "failed", /\S/],
  ["a thrown cycle", throwing(cycle()), "failed", /\S/],
  ["a thrown proxy", throwing(hostile), "failed", /\S/],
  ["a rejected promise of another kind", () => Promise.reject({ code: 7 }), "failed", /\S/],
  // oxlint-disable-next-line unicorn/no-thenable -- a promise of another library
  ["a thenable that throws", () => ({ then: throwing("not now") }), "failed", /not now/],
  ["binary", () => new Uint8Array(1_234), "succeeded", /^\[binary: 1234 bytes\]$/],
  ["nothing", () => undefined, "succeeded", /^$/],
  ["a lone surrogate", () => "\uD800", "succeeded", /\S/],
  ["a key __proto__", () => parseJson('{"__proto__":{"isAdmin":true}}'), "succeeded", /__proto__/],
  ["NaN", () => Number.NaN, "succeeded", /^NaN$/],
];

for (const [what, execute, type, text] of odd) {
  test(`converts ${what} to one readable result, and continues the other call and the run`, async () => {
    const { role, model } = soloist([calls(use("odd"), use("fine")), says("ok")], {
      tools: [spyTool("odd", execute), spyTool("fine")],
    });
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect([ending(result), outcomes(result).map(([name, kind]) => [name, kind])]).toEqual([
      ["completed", "completed"],
      [
        ["odd", type],
        ["fine", "succeeded"],
      ],
    ]);
    expect(receivedTexts(model.requests[1])[0]).toMatch(text);
    expect(JSON.parse(JSON.stringify(result.steps))).toEqual(result.steps);
  });
}

test("truncates a result of 20 million characters, keeps it complete in the step, and reports its size", async () => {
  const size = 20_000_000;
  const { role, model } = soloist([calls(use("dump")), says("ok")], {
    tools: [spyTool("dump", () => "x".repeat(size))],
  });
  const fixture = newFixture();
  const result = await fixture.run(role);
  expect([
    receivedTexts(model.requests[1])[0]?.slice(50_000),
    result.steps[0]?.tools.executions[0]?.fullText?.length,
    fixture.sink.ofType("tool.ended")[0]?.resultCharacters,
  ]).toEqual([
    `\n[Shortened: 50000 of ${size} characters are shown. Ask for a smaller part.]`,
    size,
    size,
  ]);
  expect(
    Math.max(...fixture.sink.events.map((event) => JSON.stringify(event).length)),
  ).toBeLessThan(5_000);
});

test("refuses results of more than a million parts", async () => {
  const { role } = soloist([calls(use("dump"), use("endless")), says("ok")], {
    tools: [
      spyTool("dump", () => Array.from({ length: 1_000_001 }, () => 0)),
      spyTool("endless", () => new Set(Array.from({ length: 1_000_001 }, (_, index) => index))),
    ],
  });
  const result = await newFixture().run(role);
  expect(outcomes(result).map(([, type, code]) => [type, code])).toEqual([
    ["failed", "tool_error"],
    ["failed", "tool_error"],
  ]);
});

test("times out a tool that blocks the thread beyond its limit, and continues the run", async () => {
  const fixture = newFixture();
  const busy = spyTool(
    "busy",
    () => {
      let sum = 0;
      for (let count = 0; count < 5_000_000; count += 1) sum += count % 7;
      fixture.clock.advance(1_000);
      return `sum ${sum > 0}`;
    },
    { timeoutMs: 500 },
  );
  const { role } = soloist([calls(use("busy"), use("fine")), says("ok")], {
    tools: [busy, spyTool("fine")],
  });
  const result = await fixture.run(role);
  expect([ending(result), outcomes(result).map(([name, , code]) => [name, code])]).toEqual([
    ["completed", "completed"],
    [
      ["busy", "tool_timeout"],
      ["fine", ""],
    ],
  ]);
  expect(mentions([result, fixture.sink.events], "sum true")).toBe(false);
});

test("drops results that arrive after a timeout, a cancellation or the end of the run", async () => {
  const held = latch();
  const late = (name: string, isFailing: boolean, timeoutMs?: number) =>
    spyTool(
      name,
      async ({ reportProgress, queueSubtask }) => {
        await held.opened;
        queueSubtask({ role: "solo", task: "LATE" });
        reportProgress({ message: "LATE" });
        if (isFailing) throw new Error("LATE");
        return toolResult({
          text: "LATE",
          attachments: [{ type: "file", mediaType: "text/plain", text: "LATE" }],
        });
      },
      timeoutMs === undefined ? {} : { timeoutMs },
    );
  const tools = [late("gives", false, 100), late("fails", true, 100), late("hangs", false)];
  const child = part("child", [calls(use("hangs"), use("gives"))], { tools });
  const root = part("root", [calls(use("gives"), use("fails"), use("hangs"), spawn("child"))], {
    tools,
    subagents: [child.role],
  });
  const fixture = newFixture({ graceMs: 50 });
  const run = fixture.start(root.role);
  await pass(fixture, 100);
  void run.cancel();
  await pass(fixture, 50);
  const result = await fixture.outcome(run);
  held.open();
  await quiet();
  expect(mentions([result, fixture.sink.events, root.model.requests], "LATE")).toBe(false);
  expect(outcomes(result).map(([name, type, code]) => [name, type, code])).toEqual([
    ["gives", "failed", "tool_timeout"],
    ["fails", "failed", "tool_timeout"],
    ["hangs", "cancelled", "cancelled"],
    ["SpawnSubagent", "cancelled", "subagent_cancelled"],
  ]);
});

test("drops a late result from the requests of a run that continues", async () => {
  const held = latch();
  const slow = spyTool("slow", () => held.opened.then(() => "LATE"), { timeoutMs: 100 });
  const fine = spyTool("fine", async () => {
    held.open();
    await quiet();
    return "fine";
  });
  const { role, model } = soloist(
    [calls(use("slow")), calls(use("fine")), calls(use("fine")), says("ok")],
    {
      tools: [slow, fine],
    },
  );
  const fixture = newFixture();
  const run = fixture.start(role);
  await pass(fixture, 100);
  const result = await fixture.outcome(run);
  expect([ending(result), mentions([result, model.requests, fixture.sink.events], "LATE")]).toEqual(
    [["completed", "completed"], false],
  );
});

test("refuses a schema that JSON Schema cannot express at definition, and names the field", () => {
  const inputs: readonly z.ZodType[] = [
    z.object({ when: z.date() }),
    z.object({ many: z.bigint() }),
    z.object({ by: z.map(z.string(), z.number()) }),
    z.object({ odd: z.symbol() }),
  ];
  for (const input of inputs) {
    const { code, message } = thrownBy(() =>
      defineTool({ name: "work", description: "Works.", inputSchema: input, execute: () => "" }),
    );
    expect([code, message.includes("work.inputSchema")]).toEqual(["invalid_argument", true]);
  }
  const foreign = { type: "object", properties: { a: { type: "nonsense" } } };
  expect(
    thrownBy(() =>
      defineTool({
        name: "work",
        description: "Works.",
        inputSchema: jsonSchema(foreign),
        execute: () => "",
      }),
    ).code,
  ).toBe("invalid_argument");
});

test("does not execute a tool whose schema check throws", async () => {
  const ran: unknown[] = [];
  const tool = defineTool({
    name: "work",
    description: "Works.",
    inputSchema: z.object({
      a: z.string().refine((value): boolean => {
        throw new Error(`no way with ${value}`);
      }),
    }),
    execute: (input) => void ran.push(input),
  });
  const { role } = soloist([calls({ toolName: "work", arguments: { a: "x" } }), says("ok")], {
    tools: [tool],
  });
  const result = await newFixture().run(role);
  expect([ran, ["completed", "failed"].includes(result.status), outcomes(result).length]).toEqual([
    [],
    true,
    1,
  ]);
});
