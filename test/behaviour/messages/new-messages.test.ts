// Goal: a result reports the messages that its run has added to earlier ones (R102), whatever
// happened to the history meanwhile.
// Method: scripted runs whose histories are compacted, cut off, paused and granted more.

import { expect, test } from "vitest";

import { transform } from "../../../src/hooks/hook.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { said, newSessionFixture } from "../../support/session-fixture.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { calls, use } from "../../harness/scripted-agents.ts";

const COMPACTING = { compaction: { maxInputTokens: 40, keepMessages: 2 } };
const estimating = { countTokens: null } as const;

/** Each request is far too long, so that all messages but the last are removed. */
const LONG = "word ".repeat(60);

proves(
  ["R102"],
  "reports exactly the messages of the second execution, including compacted ones, without the notice",
  async () => {
    const s = newSessionFixture();
    const session = await s.session();
    const search = spyTool("search", () => LONG);
    const first = soloist([says("One.")]);
    await s.outcome(s.start(first.role, "First?", { session }));
    const script = [calls(use("search")), calls(use("search")), says("Two.")];
    const { role } = soloist(script, { tools: [search], ...COMPACTING }, estimating);
    const result = await s.outcome(s.start(role, "Second?", { session }));
    expect(s.sink.ofType("conversation.compacted").length).toBeGreaterThan(0);
    expect(said(result.newMessages)).toEqual([
      "user Second?",
      "assistant ",
      `tool ${LONG}`,
      "assistant ",
      `tool ${LONG}`,
      "assistant Two.",
    ]);
    const ids = result.newMessages.map(({ messageId }) => messageId);
    expect(new Set(ids).size).toBe(ids.length);
    const gone = ids.filter((id) => result.messages.every(({ messageId }) => messageId !== id));
    expect(gone.length).toBeGreaterThan(0);
    const notes = result.messages.filter(({ note }) => note !== undefined);
    expect(notes.map(({ note, executionId }) => [note, executionId])).toEqual([
      ["left_out", "execution_2"],
    ]);
    expect(session.messages).toEqual(result.messages.slice(1));
  },
);

proves(["R102"], "reports messages that a hook removed from a request", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const forgetful = transform("beforeModel", ({ messages }) => ({
    messages: messages.slice(-1),
  }));
  const { role, model } = soloist([says("One."), says("Two.")], { hooks: [forgetful] });
  await s.outcome(s.start(role, "First?", { session }));
  const result = await s.outcome(s.start(role, "Second?", { session }));
  expect(model.requests[1]?.messages.map(({ text }) => text)).toEqual(["Work.", "Second?"]);
  expect(said(result.newMessages)).toEqual(["user Second?", "assistant Two."]);
  expect(said(session.messages)).toEqual([
    "user First?",
    "assistant One.",
    "user Second?",
    "assistant Two.",
  ]);
});

test("reports all messages that a run added over a pause once, in another process", async () => {
  const s = newFixture();
  const { role } = soloist([calls({ toolName: "pay", arguments: { amount: 3 } }), says("Paid.")], {
    tools: [payTool()],
  });
  const paused = await s.run(role);
  expect(said(paused.newMessages)).toEqual(["user Do it.", "assistant "]);
  const result = await s.outcome(s.resume(role, paused.pausedRun, approveAll(paused)));
  expect(said(result.newMessages)).toEqual([
    "user Do it.",
    "assistant ",
    "tool paid 3",
    "assistant Paid.",
  ]);
  expect(said(result.messages)).toEqual(["system Work.", ...said(result.newMessages)]);
});

test("reports all messages of a run that a limit stopped and that was granted more", async () => {
  const s = newFixture();
  const { role } = soloist([calls(use("search")), says("Found.")], { tools: [spyTool("search")] });
  const run = s.start(role, "Do it.", { budget: { steps: 1 } });
  await s.outcome(run);
  const grants = [{ budget: { steps: 3 }, by: "Ada" }];
  const result = await s.outcome(s.grantOn(role, run.snapshot(), grants));
  const [task, reply, found, notice, last, ...rest] = said(result.newMessages);
  expect([task, reply, found, last, rest]).toEqual([
    "user Do it.",
    "assistant ",
    "tool search done",
    "assistant Found.",
    [],
  ]);
  expect(notice).toContain("You were stopped before you were done");
  expect(result.newMessages.map(({ executionId }) => executionId)).toEqual([
    "execution_1",
    "execution_1",
    "execution_1",
    "execution_2",
    "execution_2",
  ]);
});

test("reports no messages of a run whose task was refused, or that was cancelled before it began", async () => {
  const s = newFixture();
  const refusing = transform("userInput", () => ({ refuse: "Not today." }));
  const { role } = soloist([], { hooks: [refusing] });
  const refused = await s.run(role);
  expect([refused.status, refused.newMessages]).toEqual(["stopped", []]);
  const run = s.start(soloist([]).role);
  const cancelled = await run.cancel();
  expect([cancelled.status, said(cancelled.newMessages)]).toEqual(["cancelled", []]);
  await s.outcome(run);
});
