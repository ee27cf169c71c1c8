// A run without an approver in its process is answered while another agent works: it pauses, then
// continues by itself under the same handle.

import { expect } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { approve, toQuestion, type Question } from "../../../src/protocol/question.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { proves } from "../../harness/proves.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { replaysToTheSame } from "../../support/journal/replay-story.ts";
import { storedEvents } from "../../support/journal/stored-events.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";
import { checkRecordedOnce } from "../../support/journal/recorded-once.ts";
import { allOf } from "../../support/all-of.ts";
import {
  counts,
  doings,
  engineWorld,
  latch,
  runId,
  turns,
  type Doings,
  type Latch,
} from "../../support/engine/engine-world.ts";

const ID = runId("order-4711");

/** Makes `count` calls, while a background subagent waits at the gate. */
function lead(done: Doings, gate?: Latch, count = 2): AgentRole {
  const helper = defineAgent({
    name: "helper",
    description: "Helps.",
    instructions: "You help.",
    model: thinker("helper", ({ results }) =>
      results.length === 0 ? { calls: [["look", { thing: "x" }]] } : { text: "Helped." },
    ),
    tools: [
      countedTool(new Map(), "look", async () => {
        await gate?.opened;
        return "seen";
      }),
    ],
  });
  return defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("lead", ({ results }) => {
      const calls = Array.from(
        { length: count },
        (_, nth) => ["work", { thing: `${nth}` }] as const,
      );
      return results.length === 0
        ? { calls: [spawnCall("helper", "Help.", { background: true }), ...calls] }
        : { text: results.slice(1).join(" ") };
    }),
    tools: [countedTool(done.calls, "work", undefined, { needsApproval: true })],
    subagents: [helper],
    delegation: { background: true },
  });
}

/** Returns the first `count` questions. */
async function asked(run: Run, count: number): Promise<readonly Question[]> {
  const questions: Question[] = [];
  for await (const event of run.events({ from: 1 })) {
    if (event.type === "question.asked") questions.push(toQuestion(event));
    if (questions.length === count) return questions;
  }
  throw new Error("It ended before.");
}

proves(
  ["D242"],
  "continues a run that is answered here or by another process while a subagent works",
  async () => {
    for (const who of ["here", "elsewhere"] as const) {
      const done = doings();
      const gate = latch();
      const { process, pushed, store, clock } = engineWorld();
      const one = process({});
      const run = one.start(lead(done, gate), "Go.", { runId: ID });
      const events = allOf(run.events());
      const pieces = allOf(run.stream());
      const questions = await asked(run, 2);
      const by = who === "here" ? one : process({});
      const answers = questions.map((one) => approve(one));
      expect(await pushed(by.answer(ID, answers))).toEqual([]);
      await turns(20);
      expect(counts(done)).toEqual([]); // The lead waits for its subagent.
      gate.open();
      const { status, text, questions: open } = await pushed(run.result);
      expect([status, text, open, counts(done)]).toEqual([
        "completed",
        "work of 0 work of 1",
        [],
        [1, 1],
      ]);
      const kept = await storedEvents(store, ID);
      checkRecordedOnce(kept);
      expect(await events).toEqual(kept); // One reader has read all events.
      expect(kept.map(({ type }) => type)).toEqual(
        expect.arrayContaining(["run.paused", "run.resumed"]),
      );
      expect((await pieces).at(-1)).toMatchObject({ type: "end" });
      expect([one.activeRuns(), clock.pendingTimers]).toEqual([[], 0]);
      expect(await store.find(ID)).toMatchObject({ status: "ended", owner: null });
      const recording = await loadRecording(store, ID);
      await replaysToTheSame({ role: lead(doings()) }, { recording, result: await run.result });
    }
  },
);

proves(
  ["D242"],
  "makes the calls that were answered, and pauses for the remaining questions",
  async () => {
    const done = doings();
    const gate = latch();
    const { process, pushed, store } = engineWorld();
    const one = process({});
    const run = one.start(lead(done, gate), "Go.", { runId: ID });
    const [first, second] = await asked(run, 2);
    if (first === undefined || second === undefined) throw new Error("Nothing was asked.");
    await one.answer(ID, [approve(first)]);
    gate.open();
    const paused = await pushed(run.result);
    expect([paused.status, paused.questions, counts(done)]).toEqual(["paused", [second], [1]]);
    expect(await store.find(ID)).toMatchObject({ status: "paused" });
  },
);

proves(["D242"], "ends a run that is cancelled after it continued with an answer", async () => {
  const done = doings();
  const later = latch();
  const { process, pushed, store } = engineWorld();
  const one = process({});
  const role = defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("lead", ({ results }) =>
      results.length === 0 ? { calls: [["work", { thing: "0" }]] } : { text: results.join(" ") },
    ),
    tools: [
      countedTool(
        done.calls,
        "work",
        async (_input, { signal }) => {
          later.open();
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          return "late";
        },
        { needsApproval: true },
      ),
    ],
  });
  const run = one.start(role, "Go.", { runId: ID });
  const [question] = await asked(run, 1);
  if (question === undefined) throw new Error("Nothing was asked.");
  await one.answer(ID, [approve(question)]);
  await pushed(later.opened);
  const { status } = await pushed(run.cancel("Enough."));
  expect(status).toBe("cancelled");
  expect(await store.find(ID)).toMatchObject({ status: "ended" });
});

proves(
  ["D242"],
  "keeps a run paused after a pause request or a closed orchestrator, and resumes it elsewhere",
  async () => {
    for (const how of ["paused", "closed"] as const) {
      const done = doings();
      const gate = latch();
      const { process, pushed, store } = engineWorld();
      const one = process({});
      const run = one.start(lead(done, gate), "Go.", { runId: ID });
      const questions = await asked(run, 2);
      await one.answer(
        ID,
        questions.map((one) => approve(one)),
      );
      if (how === "paused") run.requestPause();
      else void one.close();
      gate.open();
      expect((await pushed(run.result)).status).toBe("paused");
      // The answers are not lost: a process that looks for open runs continues the run.
      expect(await store.find(ID)).toMatchObject({ status: "open", owner: null });
      const { runs } = await process({ roles: [lead(done, gate)] }).resumeLostRuns();
      expect(await pushed(runs[0]?.result ?? Promise.reject(new Error("none")))).toMatchObject({
        status: "completed",
      });
      expect(counts(done)).toEqual([1, 1]);
    }
  },
);

proves(
  ["D788"],
  "continues a run that is answered after it has read its mailbox to pause",
  async () => {
    const done = doings();
    const { process, store, clock, pushed } = engineWorld();
    let answer: (() => Promise<unknown>) | undefined;
    const late = forwarding(store, {
      find: async (id: typeof ID) => {
        const found = await store.find(id);
        if (found?.status !== "paused" || answer === undefined) return found;
        const send = answer;
        answer = undefined;
        await send();
        return found; // The run reads the state before the answer.
      },
    });
    const gate = latch();
    const role = lead(done, gate, 1);
    const here = process({ roles: [role], store: late });
    const run = here.start(role, "Go.", { runId: ID });
    const [question] = await asked(run, 1);
    if (question === undefined) throw new Error("Nothing was asked.");
    answer = () => here.answer(ID, [approve(question)]);
    gate.open();
    const { status } = await pushed(run.result);
    expect([status, counts(done), here.findActiveRun(ID)]).toEqual(["completed", [1], undefined]);
    expect(clock.pendingTimers).toBe(0);
  },
);
