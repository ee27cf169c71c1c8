// Goal: bugs found by random trees stay fixed: agents that ended late, twice or without an owner.
// Method: real runs with scripted models and latches; the fixture's checks of every run, and the
// results compared.

import { expect, test } from "vitest";
import { z } from "zod";

import { says, type ScriptedCall } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import {
  calls,
  listens,
  part,
  quiet,
  receivedTexts,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";

const DETACHING = { delegation: { background: true, parentEndPolicy: "detach" } } as const;
const BACKGROUND = { delegation: { background: true } } as const;

function beside(role: string, task = "Work."): ScriptedCall {
  return { toolName: "SpawnSubagent", arguments: { role, task, background: true } };
}

const isMore = (input: unknown): boolean => JSON.stringify(input).includes('"continue"');

function verb(name: string, input: object = {}): ScriptedCall {
  return { toolName: name, arguments: input };
}

test("a message that arrives during an answer is delivered, even if a pause is requested at the same time", async () => {
  const held = latch();
  const root = part("root", [says("First.", { after: held.opened }), says("Second.")]);
  const fixture = newFixture();
  const run = fixture.start(root.role);
  await until(() => root.model.requests.length === 1);
  const delivery = run.steer("And then?");
  run.requestPause();
  held.open();
  const result = await fixture.outcome(run);
  expect(await delivery).toEqual({ isDelivered: true, stepNumber: 2 });
  expect([result.status, result.text]).toEqual(["completed", "Second."]);
  for (const { messages } of root.model.requests)
    expect(messages.at(-1)?.role).not.toBe("assistant");
});

test("a paused detached agent ends with the root that is cancelled, and the run has a result", async () => {
  const held = latch();
  const worker = part("worker", [says("Never.", { after: held.opened }), says("Never.")], {
    tools: [tool("look", () => "seen")],
  });
  const lead = part("lead", [calls(beside("worker")), says("Left.")], {
    ...DETACHING,
    subagents: [worker.role],
  });
  const root = part("root", [calls(beside("lead"), use("listen")), says("Never.")], {
    ...BACKGROUND,
    subagents: [lead.role],
    tools: [listens("listen")],
  });
  const fixture = newFixture();
  const run = fixture.start(root.role);
  await until(() => fixture.sink.ofType("subagent.detached").length === 1);
  run.requestPause();
  await quiet();
  held.open();
  await quiet();
  void run.cancel();
  const result = await fixture.outcome(run);
  expect(result.status).toBe("cancelled");
});

test("the run waits for a subagent that a detached agent detaches in turn", async () => {
  const [early, late] = [latch(), latch()];
  const worker = part("worker", [says("Worked.", { after: late.opened })]);
  const lead = part("lead", [calls(beside("worker")), says("Left.", { after: early.opened })], {
    ...DETACHING,
    subagents: [worker.role],
  });
  const root = part("root", [calls(beside("lead")), says("Done.")], {
    ...DETACHING,
    subagents: [lead.role],
  });
  const fixture = newFixture();
  const run = fixture.start(root.role);
  expect((await run.result).status).toBe("completed");
  early.open();
  await quiet();
  expect(fixture.sink.ofType("run.ended")).toEqual([]);
  late.open();
  const result = await fixture.outcome(run);
  expect(result.agents.map(({ agentPath, status }) => [agentPath, status])).toEqual([
    ["root", "completed"],
    ["root/lead#1", "completed"],
    ["root/lead#1/worker#1", "completed"],
  ]);
});

/**
 * Continues a worker the given number of microtask turns after its reply, and returns the text that
 * the lead reads, the status and the ends.
 */
async function continuedAfter(turns: number, isBackground: boolean) {
  const held = latch();
  const worker = part("worker", [says("One.", { after: held.opened }), says("Never.")]);
  const more = { role: "worker", task: "More.", continue: "worker#1", background: isBackground };
  let isAsked = false;
  const inTime = toolGuard(async (call) => {
    if (!isMore(call.arguments)) return { type: "allow" };
    isAsked = true;
    await held.opened;
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
    return { type: "allow" };
  });
  const script = [calls(beside("worker")), calls(verb("SpawnSubagent", more)), says("Done.")];
  const lead = part("lead", script, {
    ...BACKGROUND,
    subagents: [worker.role],
    guards: [inTime],
  });
  const fixture = newFixture();
  const run = fixture.start(lead.role);
  await until(() => isAsked && worker.model.requests.length === 1);
  held.open();
  const result = await fixture.outcome(run);
  const ended = fixture.sink.ofType("subagent.ended").map(({ outcome }) => outcome);
  return { told: receivedTexts(lead.model.requests[2])[0], status: result.status, ended };
}

const RUNNING =
  "Not continued: worker#1 (lead/worker#1) has not ended. Wait for its result, or write to it while it runs.";
const UNREAD =
  "Not continued: worker#1 (lead/worker#1) has ended, and you have not read its result yet. It is in your next message: continue it then.";

for (const where of ["beside its parent", "while its parent waits"])
  test(`a subagent is not continued (${where}) between its end and its report`, async () => {
    const isBackground = where === "beside its parent";
    let turns = 0;
    let first = await continuedAfter(turns, isBackground);
    expect(first.told).toBe(RUNNING);
    while (first.told === RUNNING && turns < 200)
      first = await continuedAfter((turns += 1), isBackground);
    const refused = { told: UNREAD, status: "completed", ended: ["completed"] };
    expect(first, `after ${turns} turns`).toEqual(refused);
    // The report follows a few turns after the end.
    for (let further = 1; further <= 6; further += 1)
      expect(await continuedAfter(turns + further, isBackground)).toEqual(refused);
  });

test("two calls of one reply may cancel the same paused subagent", async () => {
  const external = defineTool({
    name: "external",
    description: "Elsewhere.",
    inputSchema: z.object({}),
  });
  const worker = part("worker", [calls(verb("external")), says("Never.")], { tools: [external] });
  const cancel = verb("CancelSubagent", { subagent: "worker#1" });
  const paused = latch();
  const root = part(
    "root",
    [calls(beside("worker")), { ...calls(cancel, cancel), after: paused.opened }, says("Done.")],
    { ...BACKGROUND, subagents: [worker.role] },
  );
  const fixture = newFixture();
  const run = fixture.start(root.role);
  await until(() => fixture.sink.ofType("agent.paused").length === 1);
  paused.open();
  const result = await fixture.outcome(run);
  expect(result.status).toBe("completed");
  const texts = root.model.requests[2]?.messages.slice(-2).map(({ text }) => text) ?? [];
  expect(texts.map((text) => text.includes('"outcome":"cancelled"'))).toEqual([true, true]);
});

test("a cancel of a paused subagent is handled before the run pauses, even after another cancel", async () => {
  const held = latch();
  const worker = part(
    "worker",
    (request) => (request.messages.length > 2 ? says("Done.") : calls(use("look"))),
    { tools: [tool("look", () => "seen")] },
  );
  const root = part(
    "root",
    [calls(beside("worker", "One."), beside("worker", "Two.")), calls(use("hold")), says("Done.")],
    {
      ...BACKGROUND,
      subagents: [worker.role],
      tools: [tool("hold", async () => (await held.opened, "held"))],
    },
  );
  const fixture = newFixture();
  const sent: string[] = [];
  const run = fixture.start(root.role);
  run.requestPause();
  for await (const event of run.events()) {
    if (event.type !== "agent.paused" || event.depth > 0) continue;
    const next = fixture.sink.ofType("agent.started")[sent.length + 1];
    if (next === undefined) continue;
    sent.push(next.agentId);
    run.cancelAgent(next.agentId);
  }
  held.open();
  const result = await fixture.outcome(run);
  const cancelled = result.agents.filter(({ status }) => status === "cancelled");
  expect(cancelled.map(({ agentId }) => agentId)).toEqual(sent);
});

test("a run cancelled while its subagents are paused can be forked", async () => {
  const held = latch();
  const look = tool("look", async () => (await held.opened, "seen"));
  const worker = part(
    "worker",
    (request) => (request.messages.length > 2 ? says("Done.") : calls(use("look"))),
    { tools: [look] },
  );
  const awaited = verb("SpawnSubagent", { role: "worker", task: "One." });
  const root = part("root", [calls(awaited, beside("worker", "Two.")), says("Forked.")], {
    ...BACKGROUND,
    subagents: [worker.role],
  });
  const fixture = newFixture();
  const run = fixture.start(root.role);
  await until(() => fixture.sink.ofType("tool.started").length === 4);
  run.requestPause();
  held.open();
  const { pausedRun } = await fixture.outcome(run);
  const resumed = fixture.resume(root.role, pausedRun);
  void resumed.cancel();
  expect((await fixture.outcome(resumed)).status).toBe("cancelled");
  const forked = fixture.fork(root.role, resumed.snapshot());
  expect(await fixture.outcome(forked)).toMatchObject({ status: "completed", text: "Forked." });
});
