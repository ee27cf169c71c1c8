// Goal: a call that waits for an answer delays all later batches, nothing runs twice, and the order
// is kept across pauses.
// Method: approvals before, in and after sequential tools, across pauses and JSON; executions and
// charges compared.

import { expect, test } from "vitest";

import { transform } from "../../../src/hooks/hook.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { approve, deny } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import type { FunctionTool } from "../../../src/tools/tool.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import {
  approveAll,
  asked,
  ending,
  externalTool,
  questionOf,
} from "../../support/pause-stories.ts";
import { calls, part, quiet, spawn, receivedTexts, use } from "../../harness/scripted-agents.ts";
import { outcomes } from "../../support/call-outcomes.ts";

interface Flags {
  readonly sequential?: boolean;
  readonly needsApproval?: boolean;
}

/** Returns tools that log their executions. */
function loggers(log: string[]) {
  return (name: string, flags: Flags = {}): FunctionTool =>
    spyTool(
      name,
      () => {
        log.push(name);
        return `${name} done`;
      },
      flags,
    );
}

const spent = ({ usage }: RunResult): number => usage.total.toolCalls;

proves(
  ["R125"],
  "delays later calls behind a sequential tool that waits for approval, and keeps the order of results",
  async () => {
    const log: string[] = [];
    const tool = loggers(log);
    const tools = [tool("a"), tool("alone", { sequential: true, needsApproval: true }), tool("b")];
    const first = soloist([calls(use("a"), use("alone"), use("b"))], { tools });
    const fixture = newFixture();
    const paused = await fixture.run(first.role);
    expect([log, asked(paused), spent(paused)]).toEqual([["a"], [["solo", "alone"]], 2]);
    const second = soloist([says("ok")], { tools });
    const result = await fixture.outcome(
      fixture.resume(second.role, paused.pausedRun, approveAll(paused)),
    );
    expect([ending(result), log, spent(result)]).toEqual([
      ["completed", "completed"],
      ["a", "alone", "b"],
      3,
    ]);
    expect(receivedTexts(second.model.requests[0])).toEqual(["a done", "alone done", "b done"]);
  },
);

test("delays a sequential tool behind a question, and executes the other calls of the batch once", async () => {
  const log: string[] = [];
  const tool = loggers(log);
  const tools = [
    tool("a"),
    tool("pay", { needsApproval: true }),
    tool("alone", { sequential: true }),
    tool("b"),
  ];
  const names = ["a", "pay", "b", "alone", "b"];
  const first = soloist([calls(...names.map(use))], { tools });
  const fixture = newFixture();
  const paused = await fixture.run(first.role);
  expect([log, spent(paused)]).toEqual([["a", "b"], 3]);
  const second = soloist([says("ok")], { tools });
  const result = await fixture.outcome(
    fixture.resume(second.role, paused.pausedRun, approveAll(paused)),
  );
  expect([log, spent(result)]).toEqual([["a", "b", "pay", "alone", "b"], 5]);
  expect(receivedTexts(second.model.requests[0])).toEqual(names.map((name) => `${name} done`));
});

test("asks about a call after a sequential tool once that has run, in a separate pause", async () => {
  const log: string[] = [];
  const tool = loggers(log);
  const tools = [tool("pay", { needsApproval: true }), tool("alone", { sequential: true })];
  const names = ["pay", "alone", "pay"];
  const fixture = newFixture();
  const first = await fixture.run(soloist([calls(...names.map(use))], { tools }).role);
  expect([log, questionOf(first).questionId, first.questions.length]).toEqual([
    [],
    "execution_1.1.0",
    1,
  ]);
  const idle = soloist([], { tools });
  const second = await fixture.outcome(
    fixture.resume(idle.role, first.pausedRun, approveAll(first)),
  );
  expect([log, questionOf(second).questionId, second.questions.length, spent(second)]).toEqual([
    ["pay", "alone"],
    "execution_1.1.2",
    1,
    3,
  ]);
  const last = soloist([says("ok")], { tools });
  const result = await fixture.outcome(
    fixture.resume(last.role, second.pausedRun, approveAll(second)),
  );
  expect([ending(result), log, spent(result)]).toEqual([
    ["completed", "completed"],
    ["pay", "alone", "pay"],
    3,
  ]);
});

test("starts later batches after a denial", async () => {
  const log: string[] = [];
  const tool = loggers(log);
  const tools = [tool("alone", { sequential: true, needsApproval: true }), tool("b")];
  const fixture = newFixture();
  const paused = await fixture.run(soloist([calls(use("alone"), use("b"))], { tools }).role);
  const { role } = soloist([says("ok")], { tools });
  const answers = [deny(questionOf(paused), "No.")];
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, answers));
  expect([log, outcomes(result).map(([name, type]) => [name, type])]).toEqual([
    ["b"],
    [
      ["alone", "refused"],
      ["b", "succeeded"],
    ],
  ]);
});

test("does not pause if the approver answers at once, and delays the sequential tool until then", async () => {
  const log: string[] = [];
  const tool = loggers(log);
  const tools = [
    tool("pay", { needsApproval: true }),
    tool("alone", { sequential: true, needsApproval: true }),
    tool("b"),
  ];
  const fixture = newFixture({
    approver: (question) => {
      log.push(`asked about ${question.toolName}`);
      return approve(question);
    },
  });
  const { role } = soloist([calls(use("b"), use("pay"), use("alone"), use("b")), says("ok")], {
    tools,
  });
  await fixture.run(role);
  expect(log).toEqual(["b", "asked about pay", "pay", "asked about alone", "alone", "b"]);
});

test("delays a sequential tool behind an external call", async () => {
  const log: string[] = [];
  const tool = loggers(log);
  const tools = [externalTool("mail"), tool("alone", { sequential: true })];
  const fixture = newFixture();
  const paused = await fixture.run(soloist([calls(use("mail"), use("alone"))], { tools }).role);
  expect([log, asked(paused)]).toEqual([[], [["solo", "mail"]]]);
});

test("delays a sequential tool behind a paused subagent", async () => {
  const log: string[] = [];
  const tool = loggers(log);
  const build = (
    rootScript: Parameters<typeof part>[1],
    childScript: Parameters<typeof part>[1],
  ) => {
    const child = part("child", childScript, { tools: [tool("pay", { needsApproval: true })] });
    return part("root", rootScript, {
      subagents: [child.role],
      tools: [tool("alone", { sequential: true }), tool("b")],
    });
  };
  const fixture = newFixture();
  const paused = await fixture.run(
    build([calls(use("b"), spawn("child"), use("alone"), use("b"))], [calls(use("pay"))]).role,
  );
  expect([log, asked(paused), spent(paused)]).toEqual([["b"], [["root/child#1", "pay"]], 3]);
  const again = build([says("ok")], [says("paid")]);
  const result = await fixture.outcome(
    fixture.resume(again.role, paused.pausedRun, approveAll(paused)),
  );
  expect([ending(result), log, spent(result)]).toEqual([
    ["completed", "completed"],
    ["b", "pay", "alone", "b"],
    5,
  ]);
});

test("calls beforeTool hooks once per call, even across a pause between batches", async () => {
  const log: string[] = [];
  const seen: string[] = [];
  const tool = loggers(log);
  const tools = [
    tool("pay", { needsApproval: true }),
    tool("alone", { sequential: true }),
    tool("b"),
  ];
  const hooks = [
    transform("beforeTool", ({ toolName }) => {
      seen.push(toolName);
    }),
  ];
  const fixture = newFixture({ hooks });
  const paused = await fixture.run(
    soloist([calls(use("pay"), use("alone"), use("b"))], { tools }).role,
  );
  expect(seen).toEqual(["pay"]);
  const { role } = soloist([says("ok")], { tools });
  await fixture.outcome(fixture.resume(role, paused.pausedRun, approveAll(paused)));
  expect(seen).toEqual(["pay", "alone", "b"]);
});

test("gives every call one result if the run is cancelled when it resumes between batches", async () => {
  const log: string[] = [];
  const tool = loggers(log);
  const tools = [tool("a"), tool("alone", { sequential: true, needsApproval: true }), tool("b")];
  const fixture = newFixture();
  const paused = await fixture.run(
    soloist([calls(use("a"), use("alone"), use("b"))], { tools }).role,
  );
  const { role } = soloist([], { tools });
  const run = fixture.resume(role, paused.pausedRun, approveAll(paused));
  void run.cancel();
  const result = await fixture.outcome(run);
  expect([ending(result), log, outcomes(result).map(([, type]) => type)]).toEqual([
    ["cancelled", "cancelled"],
    ["a"],
    ["succeeded", "not_executed", "not_executed"],
  ]);
});

test("executes every call once if a pause is requested while a batch runs", async () => {
  const log: string[] = [];
  const held = latch();
  const tool = loggers(log);
  const tools = [
    spyTool("slow", () => held.opened.then(() => void log.push("slow"))),
    tool("alone", { sequential: true }),
    tool("b"),
  ];
  const fixture = newFixture();
  const run = fixture.start(soloist([calls(use("slow"), use("alone"), use("b"))], { tools }).role);
  await quiet();
  run.requestPause();
  held.open();
  const paused = await fixture.outcome(run);
  expect(ending(paused)).toEqual(["paused", "pause_requested"]);
  const { role, model } = soloist([says("ok")], { tools });
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun));
  expect([ending(result), log, spent(result), model.requests.length]).toEqual([
    ["completed", "completed"],
    ["slow", "alone", "b"],
    3,
    1,
  ]);
});

test("refuses the remaining calls if the tool call budget runs out after a pause", async () => {
  const log: string[] = [];
  const tool = loggers(log);
  const tools = [
    tool("pay", { needsApproval: true }),
    tool("alone", { sequential: true }),
    tool("b"),
  ];
  const more = { tools, budget: { toolCalls: 2 } };
  const fixture = newFixture();
  const paused = await fixture.run(soloist([calls(use("pay"), use("alone"), use("b"))], more).role);
  const { role } = soloist([], more);
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, approveAll(paused)));
  expect([ending(result), log, spent(result)]).toEqual([
    ["stopped", "tool_call_limit"],
    ["pay", "alone"],
    2,
  ]);
});
