// Goal: the context of a tool call has read-only facts of its own for each call.
// Method: tools that keep their contexts and try to change them; parallel calls that read before
// and after an await.

import { expect, test } from "vitest";

import type { ToolContext } from "../../../src/tools/tool-context.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { ToolRetryError } from "../../../src/tools/tool-error.ts";
import { withApproval } from "../../../src/tools/wrappers/with-approval.ts";
import { withRetries } from "../../../src/tools/wrappers/with-retries.ts";
import { withTimeout } from "../../../src/tools/wrappers/with-timeout.ts";
import { withRateLimit } from "../../../src/tools/wrappers/rate-limit.ts";
import { approve } from "../../../src/protocol/question.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { unfrozenParts, vandalised } from "../../support/frozen.ts";
import { calls, part, quiet, spawn, use } from "../../harness/scripted-agents.ts";
import { ending } from "../../support/pause-stories.ts";
import { outcomes } from "../../support/call-outcomes.ts";

proves(
  ["R169"],
  "has agent, step, call, retries, metadata and messages, and throws if it is written",
  async () => {
    const contexts: ToolContext[] = [];
    const writes: string[] = [];
    const tool = spyTool(
      "work",
      (context) => {
        contexts.push(context);
        for (const key of Object.keys(context)) {
          try {
            // Assigning to a frozen object throws in strict code, as in modules.
            Object.assign(context, { [key]: "changed" });
            writes.push(key);
          } catch (error) {
            expect(error).toBeInstanceOf(TypeError);
          }
        }
        expect(vandalised({ messages: context.messages, metadata: context.metadata })).toEqual([
          "value",
        ]);
        if (contexts.length === 1) throw new ToolRetryError("Again.");
        return "done";
      },
      { maxRetries: 4 },
    );
    const { role, model } = soloist([calls(use("work")), calls(use("work")), says("ok")], {
      tools: [tool],
    });
    const fixture = newFixture();
    const run = fixture.start(role, "Do it.", { metadata: { user: { id: 7 } } });
    const result = await fixture.outcome(run);
    expect(writes).toEqual([]);
    expect(
      contexts.map((context) => [
        context.agentId,
        context.stepNumber,
        context.callId,
        context.retryCount,
        context.maxRetries,
        context.metadata,
        context.messages.map(({ role: who, text }) => [who, text]),
      ]),
    ).toEqual([
      [
        "agent_1",
        1,
        "call_1",
        0,
        4,
        { user: { id: 7 } },
        [
          ["system", "Work."],
          ["user", "Do it."],
          ["assistant", ""],
        ],
      ],
      [
        "agent_1",
        2,
        "call_2",
        1,
        4,
        { user: { id: 7 } },
        [
          ["system", "Work."],
          ["user", "Do it."],
          ["assistant", ""],
          ["tool", "work asks for a corrected call: Again."],
          ["assistant", ""],
        ],
      ],
    ]);
    expect(
      contexts
        .flatMap(({ signal: _alive, ...plain }) => unfrozenParts(plain, "context"))
        .filter((path) => path !== "context"),
    ).toEqual([]);
    expect(ending(result)).toEqual(["completed", "completed"]);
    expect(model.requests[2]?.messages.some(({ text }) => text === "changed")).toBe(false);
    expect(result.agents[0]?.metadata).toEqual({ user: { id: 7 } });
  },
);

proves(["R169"], "is the same within every wrapper, and in the approval check", async () => {
  const seen: (readonly unknown[])[] = [];
  const note = (context: ToolContext): void => {
    const { agentId, stepNumber, callId, retryCount, maxRetries, metadata, messages } = context;
    seen.push([
      Object.isFrozen(context),
      agentId,
      stepNumber,
      callId,
      retryCount,
      maxRetries,
      metadata,
      messages.length,
    ]);
  };
  const tool = spyTool("work", note, {
    needsApproval: (_input, context) => {
      note(context);
      return true;
    },
  });
  const wrapped = withApproval(
    withRateLimit(withRetries(withTimeout(tool, { timeoutMs: 10 })), {
      maxCalls: 9,
      windowMs: 9,
    }),
  );
  const { role } = soloist([calls(use("work")), says("ok")], { tools: [wrapped] });
  await newFixture({ approver: (question) => approve(question) }).run(role);
  const expected = [true, "agent_1", 1, "call_1", 0, 2, {}, 3];
  expect(seen).toEqual([expected, expected]);
});

test("has the path, depth, inherited metadata and history of a child", async () => {
  const work = spyTool("work");
  const child = part("child", [calls(use("work")), says("ok")], { tools: [work] });
  const root = part("root", [calls(spawn("child", "Dig.")), says("ok")], {
    subagents: [child.role],
    contextPolicy: { inheritMetadata: true, metadataKeys: ["a"] },
  });
  const fixture = newFixture();
  const run = fixture.start(root.role, "Do it.", { metadata: { a: 1, b: 2 } });
  await fixture.outcome(run);
  expect(
    work.calls.map(({ agentId, agentPath, depth, executionId, stepNumber, metadata, messages }) => [
      agentId,
      agentPath,
      depth,
      executionId,
      stepNumber,
      metadata,
      messages.map(({ text }) => text),
    ]),
  ).toEqual([
    ["agent_2", "root/child#1", 1, "execution_2", 1, { a: 1 }, ["You are child.", "Dig.", ""]],
  ]);
});

proves(
  ["R170"],
  "has the own call and count of each of two parallel calls, before and after an await",
  async () => {
    const bothBegan = [latch(), latch()];
    const seen: (readonly unknown[])[] = [];
    const tool = spyTool("work", async (context) => {
      const before = [context.callId, context.retryCount, context.stepNumber];
      await bothBegan[context.stepNumber - 1]?.opened;
      seen.push([before, [context.callId, context.retryCount, context.stepNumber]]);
      if (context.stepNumber === 1) throw new ToolRetryError("Again.");
      return context.callId;
    });
    const { role } = soloist(
      [calls(use("work"), use("work")), calls(use("work"), use("work")), says("ok")],
      { tools: [tool] },
    );
    const fixture = newFixture();
    const run = fixture.start(role);
    for (const step of bothBegan) {
      await quiet();
      step.open();
    }
    const result = await fixture.outcome(run);
    expect(tool.calls.map(({ callId }) => callId)).toEqual([
      "call_1",
      "call_2",
      "call_3",
      "call_4",
    ]);
    expect(seen.map(([before, after]) => [before, after])).toEqual(
      [
        ["call_1", 0, 1],
        ["call_2", 0, 1],
        ["call_3", 1, 2],
        ["call_4", 1, 2],
      ].map((facts) => [facts, facts]),
    );
    expect(new Set(tool.calls).size).toBe(4);
    expect(
      outcomes(result)
        .slice(2)
        .map(([, , , text]) => text),
    ).toEqual(["call_3", "call_4"]);
  },
);

proves(
  ["R170"],
  "assigns queued subtasks and progress to the own call of two parallel ones",
  async () => {
    const held = latch();
    const tool = spyTool("plan", async ({ callId, queueSubtask, reportProgress }) => {
      await held.opened;
      queueSubtask({ role: "nobody", task: `of ${callId}` });
      reportProgress({ message: `of ${callId}` });
      return callId;
    });
    const { role } = soloist([calls(use("plan"), use("plan")), says("ok")], { tools: [tool] });
    const fixture = newFixture();
    const run = fixture.start(role);
    await quiet();
    held.open();
    const result = await fixture.outcome(run);
    expect(result.steps[0]?.tools.executions.map(({ subtasks }) => subtasks)).toEqual([
      [{ role: "nobody", task: "of call_1" }],
      [{ role: "nobody", task: "of call_2" }],
    ]);
    expect(
      fixture.sink.ofType("tool.progressed").map(({ callId, message }) => [callId, message]),
    ).toEqual([
      ["call_1", "of call_1"],
      ["call_2", "of call_2"],
    ]);
  },
);

test("ignores subtasks and progress after its call", async () => {
  const kept: ToolContext[] = [];
  const tool = spyTool("work", (context) => {
    for (const old of kept) {
      old.queueSubtask({ role: "nobody", task: "LATE" });
      old.reportProgress({ message: "LATE" });
    }
    kept.push(context);
    return "done";
  });
  const { role } = soloist([calls(use("work")), calls(use("work")), says("ok")], { tools: [tool] });
  const fixture = newFixture();
  const result = await fixture.run(role);
  kept[1]?.queueSubtask({ role: "nobody", task: "LATE" });
  kept[1]?.reportProgress({ message: "LATE" });
  await quiet();
  expect(JSON.stringify([result, fixture.sink.events])).not.toContain("LATE");
});

test("ignores subtasks and progress of an approval check", async () => {
  const tool = spyTool("work", () => "done", {
    needsApproval: (_input, { queueSubtask, reportProgress }) => {
      queueSubtask({ role: "nobody", task: "EARLY" });
      reportProgress({ message: "EARLY" });
      return false;
    },
  });
  const { role } = soloist([calls(use("work")), says("ok")], { tools: [tool] });
  const fixture = newFixture();
  const result = await fixture.run(role);
  expect(JSON.stringify([result, fixture.sink.events])).not.toContain("EARLY");
});
