// Goal: a session always has a valid history: every call with its results, every id once,
// instructions first in each request; and the stored history equals the one of the handle.
// Method: random executions, endings, retentions, removals and forks in sequence; requests are
// checked for validity.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import type { Session } from "../../../src/orchestrator/sessions/session.ts";
import { repairMessages } from "../../../src/policies/message-repair.ts";
import { retainMessages, resolveMessageRetention } from "../../../src/policies/retention-policy.ts";
import { removeMessages } from "../../../src/policies/message-groups.ts";
import { findMessageProblems } from "../../../src/testing/check-messages.ts";
import { says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, use } from "../../harness/scripted-agents.ts";
import {
  historyOf,
  newSessionFixture,
  type SessionFixture,
} from "../../support/session-fixture.ts";

const runs = fc.record({
  type: fc.constant("run" as const),
  calls: fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 3 }),
  ending: fc.constantFrom("answer", "failure", "limit", "cancel", "empty"),
});
const changes = fc.oneof(
  { weight: 6, arbitrary: runs },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("remove" as const), at: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("clear" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({ type: fc.constant("fork" as const), at: fc.nat(5), step: fc.nat(4) }),
  },
);
type RunPlan = typeof runs extends fc.Arbitrary<infer Value> ? Value : never;
type Happening = typeof changes extends fc.Arbitrary<infer Value> ? Value : never;

const maximum = fc.oneof(fc.integer({ min: 1, max: 9 }), fc.constant("unlimited" as const));
const options = fc.record({
  retention: fc.record({
    maxMessages: maximum,
    maxExecutions: maximum,
    summarizeDropped: fc.boolean(),
  }),
  failedExecutionPolicy: fc.constantFrom("keep" as const, "remove" as const),
  showBoundaries: fc.boolean(),
});

/** Returns the script of an execution. A summary that is requested first is one more reply. */
function scriptOf({ calls: steps, ending }: RunPlan): readonly ScriptStep[] {
  const last: Record<typeof ending, readonly ScriptStep[]> = {
    answer: [says("Answer.")],
    failure: [{ error: new TypeError("Broken.") }],
    limit: [calls(use("search"))],
    cancel: [says("Never heard.")],
    empty: [says(""), says("Answer.")],
  };
  return [
    ...steps.map((count) => calls(...Array.from({ length: count }, () => use("search")))),
    ...last[ending],
  ];
}

async function execute(s: SessionFixture, session: Session, run: RunPlan) {
  const script = scriptOf(run);
  let at = 0;
  const reply: ScriptStep = (request) => {
    if (request.tools.length === 0) return says("Summed up.");
    const step = script[at];
    at += 1;
    return typeof step === "function" ? step(request) : (step ?? says("Answer."));
  };
  const { role, model } = soloist(
    Array.from({ length: 20 }, () => reply),
    {
      tools: [spyTool("search")],
    },
  );
  const budget = run.ending === "limit" ? { steps: run.calls.length + 1 } : {};
  const started = s.start(role, "Task.", { session, budget });
  if (run.ending === "cancel" && run.calls.length > 0)
    for await (const { phase } of started.iterate()) if (phase === "execute") void started.cancel();
  const result = await s.outcome(started);
  expect(result.session?.status).toBe("saved");
  for (const { messages } of model.requests) {
    expect(findMessageProblems(messages)).toEqual([]);
    expect(messages[0]?.role).toBe("system");
  }
  const ids = result.messages.map(({ messageId }) => messageId);
  expect(new Set(ids).size).toBe(ids.length);
}

async function happen(s: SessionFixture, session: Session, what: Happening): Promise<Session> {
  if (what.type === "run") await execute(s, session, what);
  if (what.type === "clear") await session.clear();
  if (what.type === "remove") {
    const execution = session.executions[what.at];
    if (execution !== undefined) await session.remove(execution.executionId);
  }
  if (what.type !== "fork") return session;
  const execution = session.boundaries.at(what.at)?.execution;
  const point =
    execution === undefined || what.step === 0 || what.step > execution.stepCount
      ? {}
      : { executionId: execution.executionId, atStep: what.step };
  const before = s.shelf.bodyOf(session.id);
  const fork = await session.fork(point).catch((thrown: unknown) => {
    expect(String(thrown)).toContain("whose history is complete");
    return session;
  });
  expect(s.shelf.bodyOf(session.id)).toBe(before);
  return fork;
}

async function checkWhole(s: SessionFixture, session: Session): Promise<void> {
  const { messages } = session;
  const { repairs } = repairMessages(messages);
  expect(repairs.filter(({ type }) => type !== "added_notice")).toEqual([]);
  const ids = messages.map(({ messageId }) => messageId);
  expect(new Set(ids).size).toBe(ids.length);
  if (session.version === 0) return;
  const found = await s.elsewhere(session.id);
  expect([found.messages, found.executions, found.usage]).toEqual([
    messages,
    session.executions,
    session.usage,
  ]);
}

test("keeps a valid history through random executions, removals and forks", async () => {
  await fc.assert(
    fc.asyncProperty(
      options,
      fc.array(changes, { minLength: 1, maxLength: 8 }),
      async (how, happenings) => {
        const s = newSessionFixture();
        let session = await s.session("customer-42", how);
        for (const what of happenings) {
          session = await happen(s, session, what);
          await checkWhole(s, session);
        }
      },
    ),
    { numRuns: 80 },
  );
}, 60_000);

test("splits a history into retained and dropped messages in order, in complete groups and within the limits", () => {
  const histories = fc
    .array(fc.record({ tasks: fc.integer({ min: 1, max: 3 }), callsEach: fc.nat(3) }), {
      minLength: 1,
      maxLength: 7,
    })
    .map(historyOf);
  fc.assert(
    fc.property(histories, maximum, maximum, fc.boolean(), (history, most, executions, sums) => {
      const policy = resolveMessageRetention("retention", {
        maxMessages: most,
        maxExecutions: executions,
        summarizeDropped: sums,
      });
      const { retained: kept, dropped } = retainMessages(history, policy);
      expect(kept[0]?.role).toBe("system");
      expect(history.filter((one) => kept.includes(one))).toEqual(kept);
      expect(history.filter((one) => dropped.includes(one))).toEqual(dropped);
      expect(kept.length + dropped.length).toBe(history.length);
      const { repairs } = repairMessages(kept);
      expect(repairs.filter(({ type }) => type !== "added_notice")).toEqual([]);
      const others = kept.slice(1);
      if (most !== "unlimited") expect(others.length).toBeLessThanOrEqual(Math.max(most, 1));
      if (executions !== "unlimited")
        expect(new Set(others.map((one) => one.executionId)).size).toBeLessThanOrEqual(executions);
    }),
  );
});

test("removes exactly the messages of one execution", () => {
  const histories = fc
    .array(fc.record({ tasks: fc.integer({ min: 1, max: 3 }), callsEach: fc.nat(3) }), {
      minLength: 1,
      maxLength: 5,
    })
    .map(historyOf);
  fc.assert(
    fc.property(histories, fc.nat(4), (history, at) => {
      const executionId = [...new Set(history.map((one) => one.executionId))].at(at);
      if (executionId === undefined) return;
      const left = removeMessages(history, executionId);
      expect(left).toEqual(
        history.filter((one) => one.role === "system" || one.executionId !== executionId),
      );
      const { repairs } = repairMessages(left);
      expect(repairs.filter(({ type }) => type !== "added_notice")).toEqual([]);
    }),
  );
});
