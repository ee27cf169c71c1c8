// Answers that arrive in the mailbox: while the approver is asked, at a pause, for some or all
// questions, and when the owner of the run dies.

import { expect } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { JsonValue } from "../../../src/kernel/json.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import {
  approve,
  deny,
  provideResult,
  toQuestion,
  type Question,
} from "../../../src/protocol/question.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import type { FunctionTool } from "../../../src/tools/tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { aborted } from "../../support/journal/crash-play.ts";
import { dyingStore } from "../../support/journal/dying-store.ts";
import { countedTool, thinker } from "../../support/journal/thinkers.ts";
import { storedEvents, storedRecords } from "../../support/journal/stored-events.ts";
import { rejectionOf } from "../../support/thrown.ts";
import {
  counts,
  doings,
  engineWorld,
  runId,
  turns,
  type Doings,
} from "../../support/engine/engine-world.ts";

const ID = "order-4711";
const ORDER = { runId: ID, role: "asker", task: "Go." };
const UNFIT = { thing: "stone" };
const PAUSING = { unansweredPolicy: "pause" } as const;

/** Makes two calls at once that need an approval, then replies with their results. */
function asker(done: Doings): AgentRole {
  return defineAgent({
    name: "asker",
    description: "Asks.",
    instructions: "You ask.",
    model: thinker("asker", ({ results }) => {
      done.asked.push(`asker ${results.length}`);
      const calls = ["a", "b"].map((thing) => ["work", { thing }] as const);
      return results.length < 2 ? { calls } : { text: results.join(" ") };
    }),
    tools: [work(done)],
  });
}

/** A tool whose schema has a rule that JSON Schema cannot express. */
function work({ calls }: Doings): FunctionTool {
  const input = z.object({ thing: z.string().refine((thing) => thing !== UNFIT.thing) });
  return defineTool({
    name: "work",
    description: "Does work.",
    inputSchema: input,
    needsApproval: true,
    execute: ({ thing }, { idempotencyKey }) => {
      calls.set(idempotencyKey, (calls.get(idempotencyKey) ?? 0) + 1);
      return `work of ${thing}`;
    },
  });
}

/** An approver that never answers by itself. */
const SILENT: OrchestratorOptions = {
  approver: async (_question, { signal }) => {
    await aborted(signal);
    return undefined;
  },
};

async function questionsIn(
  store: Parameters<typeof storedEvents>[0],
): Promise<readonly Question[]> {
  const events = await storedEvents(store, runId(ID));
  return events.flatMap((event) => (event.type === "question.asked" ? [toQuestion(event)] : []));
}

/** Waits until two questions were asked, and returns the last two. */
async function twoQuestionsIn(store: Parameters<typeof storedEvents>[0]) {
  for (;;) {
    const questions = await questionsIn(store).catch(() => []);
    if (questions.length >= 2) return questions.slice(-2);
    await turns(5);
  }
}

const BOTH = "work of a work of b";

proves(["E16"], "applies answers of another process while the approver is asked", async () => {
  const done = doings();
  const { process, store, pushed, clock } = engineWorld();
  const one = process({ roles: [asker(done)], ...SILENT });
  const other = process({});
  const executed = one.execute(ORDER);
  await turns(20);
  const [a, b] = await questionsIn(store);
  if (a === undefined || b === undefined) throw new Error("Nothing was asked.");
  expect(await other.answer(ID, [approve(a)])).toEqual([b]);
  await pushed(turns(30).then(() => clock.advance(1_000)));
  await turns(20);
  expect(done.calls.size).toBe(1);
  expect(await other.answer(ID, [deny(b, "Not that.")])).toEqual([]);
  const result = await pushed(executed);
  expect([result.status, done.calls.size, done.asked.length]).toEqual(["completed", 1, 2]);
  expect(result.text).toContain("Not that.");
  const answered = one.sink.events.filter(({ type }) => type === "question.answered");
  expect(answered).toMatchObject([
    { questionId: a.questionId, answer: "approved", source: "approver" },
    { questionId: b.questionId, answer: "denied", source: "approver" },
  ]);
  expect(clock.pendingTimers).toBe(0);
});

proves(
  ["E16"],
  "continues a paused run with some of the answers, and asks again for the rest",
  async () => {
    const done = doings();
    const { process, store, pushed } = engineWorld();
    const make = () => process({ roles: [asker(done)], ...PAUSING });
    const paused = await pushed(make().execute(ORDER));
    expect(paused).toMatchObject({ status: "paused", questions: [{}, {}] });
    const [a, b] = paused.questions;
    if (a === undefined || b === undefined) throw new Error("Nothing was asked.");
    expect(await process({}).answer(ID, [approve(b)])).toEqual([a]);
    expect(await store.find(runId(ID))).toMatchObject({ status: "open", owner: null });
    const again = await pushed(make().execute(ORDER));
    expect(again).toMatchObject({ status: "paused", questions: [{ questionId: a.questionId }] });
    expect([counts(done), done.asked.length]).toEqual([[1], 1]);
    // Executing it again without new answers returns the same result and changes nothing.
    expect(await pushed(make().execute(ORDER))).toEqual(again);
    expect(await process({}).answer(ID, [approve(a)])).toEqual([]);
    expect(await pushed(make().execute(ORDER))).toMatchObject({ status: "completed", text: BOTH });
    expect([counts(done), done.asked.length]).toEqual([[1, 1], 2]);
  },
);

proves(
  ["E16"],
  "accepts the first of two concurrent answers, and rejects the second as already answered",
  async () => {
    const done = doings();
    const { process, pushed } = engineWorld();
    const paused = await pushed(process({ roles: [asker(done)], ...PAUSING }).execute(ORDER));
    const [a, b] = paused.questions;
    if (a === undefined || b === undefined) throw new Error("Nothing was asked.");
    const [one, two] = [process({}), process({})];
    const settled = await Promise.allSettled([
      one.answer(ID, [approve(a)]),
      two.answer(ID, [deny(a)]),
    ]);
    expect(settled).toMatchObject([
      { status: "fulfilled", value: [b] },
      {
        status: "rejected",
        reason: { code: "invalid_answer", data: { problem: "already_answered" } },
      },
    ]);
    expect(await rejectionOf(two.answer(ID, [deny(a)]))).toMatchObject({
      code: "invalid_answer",
      data: { problem: "already_answered", questionId: a.questionId },
    });
    await one.answer(ID, [approve(b)]);
    const role = asker(done);
    expect(await pushed(process({ roles: [role] }).execute(ORDER))).toMatchObject({ text: BOTH });
  },
);

proves(
  ["E16"],
  "rejects a batch with an invalid answer at once, and posts none of its answers",
  async () => {
    const done = doings();
    const { process, store, pushed } = engineWorld();
    const paused = await pushed(process({ roles: [asker(done)], ...PAUSING }).execute(ORDER));
    const [a, b] = paused.questions;
    if (a === undefined || b === undefined) throw new Error("Nothing was asked.");
    const other = process({});
    const bad: readonly (readonly [string, readonly unknown[]])[] = [
      ["malformed", [{}]],
      ["malformed", [approve(a, { arguments: { id: nestedLists() } })]],
      ["unknown", [approve(b), { ...approve(a), questionId: "execution_9.1.0" }]],
      ["duplicate", [approve(b), approve(a), deny(a)]],
      ["wrong_kind", [approve(b), provideResult(a, 1)]],
      ["altered", [approve(b), { ...approve(a), argumentsHash: "x" }]],
    ];
    for (const [problem, answers] of bad) {
      // @ts-expect-error: some are not answers.
      const posting = other.answer(ID, answers);
      expect(await rejectionOf(posting), problem).toMatchObject({
        code: "invalid_answer",
        data: { problem },
      });
    }
    expect(await store.readMail(runId(ID))).toEqual([]);
    expect(await rejectionOf(other.answer("nobody", []))).toMatchObject({ code: "unknown_run" });
  },
);

proves(
  ["E16"],
  "records an answer with invalid arguments, and asks the question again",
  async () => {
    const done = doings();
    const { process, store, pushed } = engineWorld();
    const make = () => process({ roles: [asker(done)], ...PAUSING });
    const paused = await pushed(make().execute(ORDER));
    const [a, b] = paused.questions;
    if (a === undefined || b === undefined) throw new Error("Nothing was asked.");
    // Only the refinement of the tool's schema rejects these arguments.
    const unfit = approve(a, { arguments: UNFIT });
    expect(await process({}).answer(ID, [unfit, approve(b)])).toEqual([]);
    const again = await pushed(make().execute(ORDER));
    expect(again).toMatchObject({ status: "paused", questions: [{ questionId: a.questionId }] });
    const records = await storedRecords(store, runId(ID));
    const posts = records.flatMap((record) => (record.type === "post" ? [record] : []));
    expect(posts.map(({ number }) => number)).toEqual([1, 2]);
    expect(posts[0]?.problem).toContain("work");
    expect(posts[1]?.problem).toBeUndefined();
    expect(await process({}).answer(ID, [approve(a)])).toEqual([]);
    expect(await pushed(make().execute(ORDER))).toMatchObject({ status: "completed", text: BOTH });
    expect(counts(done)).toEqual([1, 1]);
  },
);

proves(
  ["E16"],
  "records an invalid answer that arrives while the approver is asked, and accepts another one",
  async () => {
    const done = doings();
    const { process, store, pushed } = engineWorld();
    const executed = process({ roles: [asker(done)], ...SILENT }).execute(ORDER);
    await turns(20);
    const [a, b] = await questionsIn(store);
    if (a === undefined || b === undefined) throw new Error("Nothing was asked.");
    const other = process({});
    await other.answer(ID, [approve(a, { arguments: UNFIT }), approve(b)]);
    const isHeeded = async (): Promise<boolean> => {
      const records = await storedRecords(store, runId(ID));
      return records.filter(({ type }) => type === "post").length === 2;
    };
    await pushed(
      (async () => {
        while (!(await isHeeded())) await turns(5);
      })(),
    );
    expect(await other.answer(ID, [approve(a)])).toEqual([]);
    expect(await pushed(executed)).toMatchObject({ status: "completed", text: BOTH });
  },
);

proves(
  ["E15", "E16"],
  "applies an answer after the asking process died at any append",
  async () => {
    for (const how of ["before", "after"] as const)
      for (let at = 1; at <= 8; at += 1) {
        const done = doings();
        const { process, store, pushed, clock } = engineWorld();
        const dying = dyingStore(store, { at, how });
        const one = process({ roles: [asker(done)], ...SILENT, store: dying.store });
        const dead = one.execute(ORDER).catch(() => undefined);
        await turns(20);
        const asked = dying.isDead ? [] : await questionsIn(store);
        if (asked.length > 0)
          await process({}).answer(
            ID,
            asked.map((one) => approve(one)),
          );
        await turns(10);
        clock.advance(1_000);
        await turns(20);
        if (dying.isDead) await dead;
        const two = process({ roles: [asker(done)], ...SILENT });
        const executed = two.execute(ORDER);
        if (asked.length === 0) {
          const questions = await pushed(twoQuestionsIn(store), 1_000);
          await process({}).answer(
            ID,
            questions.map((one) => approve(one)),
          );
        }
        const result = await pushed(executed, 1_000);
        expect(result, `${how} ${at}`).toMatchObject({ status: "completed", text: BOTH });
        expect(counts(done).every((count) => count <= 2)).toBe(true);
      }
  },
);

proves(
  ["E16"],
  "settles a question at its deadline without waiting for the other questions",
  async () => {
    const done = doings();
    const { process, pushed, clock } = engineWorld();
    let nth = 0;
    const role = defineAgent({
      name: "asker",
      description: "Asks.",
      instructions: "You ask.",
      model: thinker("asker", ({ results }) =>
        results.length < 2
          ? { calls: ["a", "b"].map((thing) => ["work", { thing }] as const) }
          : { text: results.join(" ") },
      ),
      tools: [countedTool(done.calls, "work", undefined, { needsApproval: true })],
      guards: [
        toolGuard(async () => {
          nth += 1;
          if (nth === 2) {
            await turns(2);
            clock.advance(400);
          }
          return { type: "allow" };
        }),
      ],
    });
    const make = () => process({ roles: [role], ...PAUSING, answerTimeoutMs: 1_000 });
    const paused = await pushed(make().execute(ORDER), 1);
    expect(paused.status).toBe("paused");
    const [a, b] = paused.questions.map(({ deadlineAtMs }) => deadlineAtMs ?? 0);
    expect((b ?? 0) - (a ?? 0)).toBeGreaterThan(0);
    clock.advance((a ?? 0) - clock.nowMs());
    const again = await pushed(make().execute(ORDER), 1);
    expect(again).toMatchObject({ status: "paused", questions: [{ deadlineAtMs: b }] });
    clock.advance(1_000);
    expect((await pushed(make().execute(ORDER), 1)).status).toBe("completed");
    expect(counts(done)).toEqual([]);
  },
);

proves(["E16"], "rejects answers to a run that has ended", async () => {
  const done = doings();
  const { process, pushed } = engineWorld();
  const make = () => process({ roles: [asker(done)], ...PAUSING });
  const paused = await pushed(make().execute(ORDER));
  await process({}).answer(
    ID,
    paused.questions.map((one) => approve(one)),
  );
  await pushed(make().execute(ORDER));
  const late = process({}).answer(
    ID,
    paused.questions.map((one) => approve(one)),
  );
  expect(await rejectionOf(late)).toMatchObject({
    code: "invalid_answer",
    data: { problem: "already_answered" },
  });
});

/** Returns nested lists, deeper than a schema can check. */
function nestedLists(): JsonValue {
  let list: JsonValue = [];
  for (let level = 0; level < 100_000; level += 1) list = [list];
  return list;
}
