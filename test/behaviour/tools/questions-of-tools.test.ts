// Goal: a running tool can ask the approver of its run for a value, and always learns the outcome;
// no question or answer is recorded for a call that has ended.
// Method: one tool that asks, with each kind of approver; a manual clock.

import { describe, expect } from "vitest";
import { z } from "zod";

import type { Approver } from "../../../src/agent/approver.ts";
import {
  approve,
  deny,
  provideResult,
  provideError,
  toQuestion,
} from "../../../src/protocol/question.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import type { AskOutcome, AskRequest, ToolContext } from "../../../src/tools/tool-context.ts";
import { withRetries } from "../../../src/tools/wrappers/with-retries.ts";
import { withTimeout } from "../../../src/tools/wrappers/with-timeout.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { aborted } from "../../harness/scripted-agents.ts";
import { rejectionOf } from "../../support/thrown.ts";

const REQUEST: AskRequest = {
  reason: "The form is not complete.",
  arguments: { wanted: "city" },
  validate: (value) => (typeof value === "string" ? undefined : "it is no text"),
};

/** Returns a tool that acts like this, and the agent that calls it once. */
function asker(execute: (context: ToolContext) => unknown, more: object = {}) {
  const tool = defineTool({
    name: "form",
    description: "Fills in a form.",
    inputSchema: z.object({}),
    ...more,
    execute: (_input, context) => execute(context),
  });
  return { tool, role: soloist([asks("form", {}), says("Done.")], { tools: [tool] }).role };
}

/** Returns the outcome for the tool with this approver, and how the question ended. */
async function learned(approver: Approver | undefined) {
  const outcomes: AskOutcome[] = [];
  const { role } = asker(async ({ ask }) => void outcomes.push(await ask(REQUEST)));
  const fixture = newFixture(approver === undefined ? {} : { approver });
  const result = await fixture.run(role);
  const said = fixture.sink.ofType("question.answered");
  return {
    status: result.status,
    outcomes,
    said: said.map(({ answer, source }) => [answer, source]),
  };
}

type Case = readonly [Approver | undefined, AskOutcome, readonly string[]];

const UNUSABLE = "The approver returned no usable answer";
const CASES: Readonly<Record<string, Case>> = {
  "gives a value": [
    (question) => provideResult(question, "Bonn"),
    { type: "answered", value: "Bonn" },
    ["result", "approver"],
  ],
  "reports a failure": [
    (question) => provideError(question, "Not now."),
    { type: "declined", reason: "Not now." },
    ["failure", "approver"],
  ],
  "denies it": [
    (question) => deny(question, "Never."),
    { type: "declined", reason: "Never." },
    ["failure", "approver"],
  ],
  "is not there": [
    undefined,
    { type: "declined", reason: "No approver is configured for this run." },
    ["failure", "nobody"],
  ],
  "says nothing": [
    () => undefined,
    { type: "unanswered", reason: "The approver returned no answer." },
    ["failure", "approver"],
  ],
  throws: [
    () => Promise.reject(new Error("The line is dead.")),
    { type: "unanswered", reason: `${UNUSABLE} (The line is dead.).` },
    ["failure", "approver"],
  ],
  "gives what does not fit": [
    (question) => provideResult(question, 7),
    { type: "unanswered", reason: `${UNUSABLE} (it is no text).` },
    ["failure", "approver"],
  ],
  "approves it": [
    (question) => approve(question),
    {
      type: "unanswered",
      reason: `${UNUSABLE} (a question of kind external takes provideResult() or provideError(), not an answer of type approved).`,
    },
    ["failure", "approver"],
  ],
};

for (const [what, [approver, outcome, said]] of Object.entries(CASES))
  proves(["M77"], `returns the outcome to the tool if the approver ${what}`, async () => {
    expect(await learned(approver)).toEqual({
      status: "completed",
      outcomes: [outcome],
      said: [said],
    });
    takeWarnings();
  });

proves(
  ["M77"],
  "describes each question by its request, and emits no answer in events",
  async () => {
    const { role } = asker(async ({ ask }) => {
      await Promise.all([ask(REQUEST), ask({ ...REQUEST, arguments: { wanted: "street" } })]);
    });
    const fixture = newFixture({
      approver: (question) => provideResult(question, "a secret place"),
    });
    await fixture.run(role);
    const questions = fixture.sink.ofType("question.asked").map(toQuestion);
    expect(questions).toMatchObject([
      { kind: "external", toolName: "form", arguments: { wanted: "city" }, callId: "call_1" },
      { kind: "external", toolName: "form", arguments: { wanted: "street" }, callId: "call_1" },
    ]);
    expect(new Set(questions.map(({ questionId }) => questionId)).size).toBe(2);
    expect(JSON.stringify(fixture.sink.events)).not.toContain("a secret place");
  },
);

/** Starts a run whose tool has asked an approver that never answers by itself. */
async function waiting(fixture: (approver: Approver) => Fixture, more: object = {}) {
  const asked = latch();
  const outcomes: AskOutcome[] = [];
  let isWithdrawn = false;
  const { role } = asker(async ({ ask }) => void outcomes.push(await ask(REQUEST)), more);
  const made = fixture(async (_question, { signal }) => {
    asked.open();
    await aborted(signal);
    isWithdrawn = true;
    return undefined;
  });
  const run = made.start(role);
  await asked.opened;
  return { made, run, outcomes, isWithdrawn: () => isWithdrawn };
}

describe("an open question", () => {
  const ended: AskOutcome = {
    type: "unanswered",
    reason: "The call ended before an answer came.",
  };

  proves(["M77"], "ends at its deadline", async () => {
    const { made, run, outcomes } = await waiting((approver) =>
      newFixture({ approver, answerTimeoutMs: 500 }),
    );
    made.clock.advance(500);
    await made.outcome(run);
    expect(outcomes).toEqual([{ type: "unanswered", reason: "Nobody answered in time." }]);
    expect(made.sink.ofType("question.answered").map(({ source }) => source)).toEqual(["deadline"]);
  });

  proves(["M77"], "does not delay a requested pause", async () => {
    const { made, run, outcomes } = await waiting((approver) => newFixture({ approver }));
    run.requestPause();
    expect((await made.outcome(run)).status).toBe("paused");
    expect(outcomes).toEqual([{ type: "unanswered", reason: "The approver returned no answer." }]);
  });

  proves(["M77"], "ends with its agent, and with the timeout of its tool", async () => {
    const cancelled = await waiting((approver) => newFixture({ approver }));
    void cancelled.run.cancel("Enough.");
    await cancelled.made.outcome(cancelled.run);
    const late = await waiting((approver) => newFixture({ approver }), { timeoutMs: 100 });
    late.made.clock.advance(100);
    await flushEventLoop();
    late.made.clock.advance(1_000_000);
    await late.made.outcome(late.run);
    for (const { made, outcomes, isWithdrawn } of [cancelled, late]) {
      expect([outcomes, isWithdrawn()]).toEqual([[ended], true]);
      expect(made.sink.ofType("question.answered").map(({ source }) => source)).toEqual(["end"]);
    }
  });
});

proves(["M77"], "records no question or answer for a call that has ended", async () => {
  let late: ToolContext["ask"] | undefined;
  const { role } = asker(({ ask }) => {
    late = ask;
    void ask(REQUEST);
    return "done";
  });
  const fixture = newFixture({
    approver: async (question, { signal }) => {
      await aborted(signal);
      return provideResult(question, "Bonn");
    },
  });
  await fixture.run(role);
  expect(await late?.(REQUEST)).toMatchObject({ type: "unanswered" });
  const types = fixture.sink.events.map(({ type }) => type);
  expect(types.filter((type) => /^(question|tool)\./.test(type))).toEqual([
    "tool.started",
    "question.asked",
    "question.answered",
    "tool.ended",
  ]);
});

proves(["M77"], "withdraws the question of an attempt that a wrapper has given up", async () => {
  const { tool } = asker(({ ask }) => ask(REQUEST));
  const patient = withRetries(withTimeout(tool, { timeoutMs: 50 }), {
    maxAttempts: 2,
    initialDelayMs: 1,
  });
  const { role } = soloist([asks("form", {}), says("Done.")], { tools: [patient] });
  const open: boolean[] = [];
  const asked = [latch(), latch()];
  const fixture = newFixture({
    approver: async (question, { signal }) => {
      const nth = open.push(true) - 1;
      asked[nth]?.open();
      if (nth === 0) await aborted(signal);
      open[nth] = false;
      return provideResult(question, "Bonn");
    },
  });
  const run = fixture.start(role);
  await asked[0]?.opened;
  fixture.clock.advance(50);
  await flushEventLoop();
  expect(open).toEqual([false]);
  fixture.clock.advance(100_000);
  await flushEventLoop();
  fixture.clock.advance(100_000);
  const result = await fixture.outcome(run);
  expect([result.status, open.length]).toEqual(["completed", 2]);
});

proves(["M77"], "refuses an invalid request with the field, even within a time limit", async () => {
  const wrong: readonly unknown[] = [
    null,
    { arguments: {} },
    { reason: "Why", arguments: [1] },
    { reason: "Why", arguments: {}, validate: "text" },
    { reason: "Why", arguments: {}, signal: {} },
    { reason: "Why", arguments: {}, schema: {} },
  ];
  for (const more of [{}, { timeoutMs: 100 }]) {
    const fields: unknown[] = [];
    const { role } = asker(async ({ ask }) => {
      for (const request of wrong) {
        const { code, data } = await rejectionOf(ask(foreign(request)));
        fields.push([code, data["field"]]);
      }
    }, more);
    await newFixture().run(role);
    expect(fields).toEqual([
      ["invalid_argument", "ask"],
      ["invalid_argument", "ask.reason"],
      ["invalid_argument", "ask.arguments"],
      ["invalid_argument", "ask.validate"],
      ["invalid_argument", "ask.signal"],
      ["invalid_argument", "ask.schema"],
    ]);
  }
});

/** Passes an invalid request, as a user without types could. */
function foreign(request: unknown): AskRequest {
  return isRequest(request) ? request : expect.fail("nothing");
}

function isRequest(request: unknown): request is AskRequest {
  return request !== undefined;
}
