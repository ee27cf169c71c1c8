// Goal: a setting of a tool call is the tool's own value, else the role's, else the default.
// Method: each setting on its own, in a run, with a value at each of the three places; invalid ones
// refused by name.

import { expect, test } from "vitest";

import { approve, provideResult } from "../../../src/protocol/question.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { ToolRetryError } from "../../../src/tools/tool-error.ts";
import type { ToolDefaults, ToolSettings } from "../../../src/tools/tool-settings.ts";
import { withApproval } from "../../../src/tools/wrappers/with-approval.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { ending, externalTool } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, part, spawn, receivedTexts, use } from "../../harness/scripted-agents.ts";
import { outcomes, pass } from "../../support/call-outcomes.ts";

/** The value of the role, that of the tool, and the resulting one. */
type Case<Value> = readonly [ToolDefaults, ToolSettings, Value];

const repeated = (count: number): readonly ScriptedReply[] =>
  Array.from({ length: count }, () => calls(use("work")));

const retryCases: readonly Case<number>[] = [
  [{}, {}, 2],
  [{ maxRetries: 1 }, {}, 1],
  [{ maxRetries: 1 }, { maxRetries: 3 }, 3],
  [{ maxRetries: 3 }, { maxRetries: 0 }, 0],
];

for (const [toolDefaults, own, maxRetries] of retryCases) {
  proves(
    ["R122"],
    `applies maxRetries of role ${String(toolDefaults.maxRetries)} and tool ${String(own.maxRetries)}`,
    async () => {
      const tool = spyTool(
        "work",
        () => {
          throw new ToolRetryError("Again.");
        },
        own,
      );
      const { role } = soloist([...repeated(maxRetries + 1), says("unused")], {
        tools: [tool],
        toolDefaults,
      });
      const result = await newFixture().run(role);
      expect([
        ending(result),
        tool.calls.map((call) => [call.retryCount, call.maxRetries]),
      ]).toEqual([
        ["stopped", "retry_limit"],
        Array.from({ length: maxRetries + 1 }, (_, index) => [index, maxRetries]),
      ]);
    },
  );
}

const timeCases: readonly Case<number | undefined>[] = [
  [{}, {}, undefined],
  [{ timeoutMs: 300 }, {}, 300],
  [{ timeoutMs: 300 }, { timeoutMs: 700 }, 700],
  [{ timeoutMs: 700 }, { timeoutMs: 300 }, 300],
];

for (const [toolDefaults, own, timeoutMs] of timeCases) {
  proves(
    ["R122"],
    `applies timeoutMs of role ${String(toolDefaults.timeoutMs)} and tool ${String(own.timeoutMs)}`,
    async () => {
      const tool = spyTool("work", () => new Promise(() => undefined), own);
      const { role } = soloist([calls(use("work")), says("ok")], { tools: [tool], toolDefaults });
      const fixture = newFixture({ graceMs: 500 });
      const run = fixture.start(role, "Do it.", { budget: { timeMs: 5_000 } });
      for (let round = 0; round < 65; round += 1) await pass(fixture, 100);
      const result = await fixture.outcome(run);
      expect(outcomes(result)[0]?.[2]).toBe(timeoutMs === undefined ? "cancelled" : "tool_timeout");
      expect(fixture.sink.ofType("tool.ended")[0]?.durationMs).toBe(timeoutMs ?? 5_500);
    },
  );
}

const approvalCases: readonly (readonly [boolean | undefined, boolean | undefined, boolean])[] = [
  [undefined, undefined, false],
  [true, undefined, true],
  [true, false, false],
  [false, true, true],
  [undefined, true, true],
  [false, undefined, false],
];

for (const [ofRole, ofTool, isAsked] of approvalCases) {
  proves(
    ["R122"],
    `applies needsApproval of role ${String(ofRole)} and tool ${String(ofTool)}`,
    async () => {
      const tool = spyTool(
        "work",
        () => "done",
        ofTool === undefined ? {} : { needsApproval: ofTool },
      );
      const { role } = soloist([calls(use("work")), says("ok")], {
        tools: [tool],
        toolDefaults: ofRole === undefined ? {} : { needsApproval: ofRole },
      });
      const result = await newFixture().run(role);
      expect([result.status, tool.calls.length]).toEqual(
        isAsked ? ["paused", 0] : ["completed", 1],
      );
    },
  );
}

test("prefers a tool's approval function to the role, and a wrapper to both", async () => {
  const never = spyTool("never", () => "done", { needsApproval: () => false });
  const wrapped = withApproval(spyTool("wrapped", () => "done", { needsApproval: false }));
  const { role } = soloist([calls(use("never"), use("wrapped")), says("ok")], {
    tools: [never, wrapped],
    toolDefaults: { needsApproval: true },
  });
  const asked: string[] = [];
  await newFixture({
    approver: (question) => {
      asked.push(question.toolName);
      return approve(question);
    },
  }).run(role);
  expect(asked).toEqual(["wrapped"]);
});

const sizeCases: readonly Case<number>[] = [
  [{}, {}, 50_000],
  [{ maxResultCharacters: 20 }, {}, 20],
  [{ maxResultCharacters: 20 }, { maxResultCharacters: 30 }, 30],
  [{ maxResultCharacters: 30 }, { maxResultCharacters: 0 }, 0],
];

for (const [toolDefaults, own, size] of sizeCases) {
  proves(
    ["R122"],
    `applies maxResultCharacters of role ${String(toolDefaults.maxResultCharacters)} and tool ${String(own.maxResultCharacters)}`,
    async () => {
      const exact = spyTool("exact", () => "x".repeat(size), own);
      const longer = spyTool("longer", () => "x".repeat(size + 1), own);
      const { role, model } = soloist([calls(use("exact"), use("longer")), says("ok")], {
        tools: [exact, longer],
        toolDefaults,
      });
      await newFixture().run(role);
      const notice = `[Shortened: ${size} of ${size + 1} characters are shown. Ask for a smaller part.]`;
      expect(receivedTexts(model.requests[1])).toEqual([
        "x".repeat(size),
        size === 0 ? notice : `${"x".repeat(size)}\n${notice}`,
      ]);
    },
  );
}

test("prefers the tool's longResultPolicy and maxIdenticalCalls to the role's", async () => {
  const tools = [
    spyTool("cut", () => "x".repeat(9), { longResultPolicy: "truncate", maxIdenticalCalls: 1 }),
    spyTool("short", () => "x".repeat(9)),
  ];
  const script = [
    calls(use("cut"), use("short")),
    says("nine x"),
    calls(use("cut")),
    calls(use("cut")),
    says("ok"),
  ];
  const { role, model } = soloist(script, {
    tools,
    toolDefaults: { longResultPolicy: "summarize", maxResultCharacters: 3, maxIdenticalCalls: 9 },
  });
  const result = await newFixture({ unansweredPolicy: "deny" }).run(role);
  expect(receivedTexts(model.requests[2]).map((text) => text.split("\n")[1])).toEqual([
    "[Shortened: 3 of 9 characters are shown. Ask for a smaller part.]",
    "nin",
  ]);
  expect(outcomes(result).map(([name, type]) => [name, type])).toEqual([
    ["cut", "succeeded"],
    ["short", "succeeded"],
    ["cut", "succeeded"],
    ["cut", "refused"],
  ]);
});

test("does not pass defaults of a role to its subagents", async () => {
  const work = spyTool("work", () => "x".repeat(9));
  const child = part("child", [calls(use("work")), says("ok")], { tools: [work] });
  const root = part("root", [calls(spawn("child")), says("ok")], {
    subagents: [child.role],
    toolDefaults: { maxResultCharacters: 1, needsApproval: true, maxRetries: 0 },
  });
  const result = await newFixture().run(root.role);
  expect([result.status, receivedTexts(child.model.requests[1])]).toEqual([
    "completed",
    ["xxxxxxxxx"],
  ]);
});

test("applies the role's result limit to an external tool", async () => {
  const { role } = soloist([calls(use("mail"))], {
    tools: [externalTool("mail")],
    toolDefaults: { maxResultCharacters: 4 },
  });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  const second = soloist([says("ok")], {
    tools: [externalTool("mail")],
    toolDefaults: { maxResultCharacters: 4 },
  });
  const answers = paused.questions.map((question) => provideResult(question, "sent to all"));
  const result = await fixture.outcome(fixture.resume(second.role, paused.pausedRun, answers));
  expect(outcomes(result)[0]?.[3]).toBe(
    "sent\n[Shortened: 4 of 11 characters are shown. Ask for a smaller part.]",
  );
  expect(result.steps[0]?.tools.executions[0]?.fullText).toBe("sent to all");
});

const bad: readonly (readonly [string, unknown])[] = [
  ["timeoutMs", 0],
  ["timeoutMs", -1],
  ["timeoutMs", Number.NaN],
  ["timeoutMs", Number.POSITIVE_INFINITY],
  ["timeoutMs", "5"],
  ["maxRetries", -1],
  ["maxRetries", 1.5],
  ["maxRetries", "unlimited"],
  ["maxRetries", null],
  ["maxResultCharacters", -1],
  ["maxResultCharacters", Number.NaN],
  ["longResultPolicy", "summarise"],
  ["maxIdenticalCalls", -1],
  ["maxIdenticalCalls", "none"],
  ["needsApproval", "yes"],
  ["needsApproval", null],
];

for (const [field, value] of bad) {
  test(`refuses ${String(value)} as ${field} of a tool or a role`, () => {
    const settings: ToolDefaults = { [field]: value };
    for (const work of [
      () => spyTool("work", undefined, settings),
      () => soloist([], { toolDefaults: settings }),
    ]) {
      const { code, message } = thrownBy(work);
      expect([code === "invalid_argument", message.includes(field)]).toEqual([true, true]);
    }
  });
}

test("refuses an unknown setting by name", () => {
  const odd: object = { maxRetrys: 3 };
  expect(thrownBy(() => soloist([], { toolDefaults: odd })).message).toMatch(/maxRetrys/);
  expect(thrownBy(() => spyTool("work", undefined, odd)).message).toMatch(/maxRetrys/);
});
