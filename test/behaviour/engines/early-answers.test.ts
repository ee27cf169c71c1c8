// Answers that are given as soon as their question is read, before the store has it, in the process
// of the run and in another one.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, expect } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { EventSink } from "../../../src/protocol/event.ts";
import { approve, toQuestion, type Question } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { sqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { proves } from "../../harness/proves.ts";
import { aborted, turns } from "../../support/journal/crash-play.ts";
import { countedTool, thinker } from "../../support/journal/thinkers.ts";
import { rejectionOf } from "../../support/thrown.ts";
import { counts, doings, runId, type Doings } from "../../support/engine/engine-world.ts";

const ID = runId("order-4711");
const folder = mkdtempSync(join(tmpdir(), "espalier-asked-"));
afterAll(() => rmSync(folder, { recursive: true }));

function asker(done: Doings) {
  return defineAgent({
    name: "asker",
    instructions: "You ask.",
    model: thinker("asker", ({ results }) =>
      results.length < 2
        ? { calls: [["work", { thing: `${results.length}` }]] }
        : { text: results.join(" ") },
    ),
    tools: [countedTool(done.calls, "work", undefined, { needsApproval: true })],
  });
}

/** The approver never answers by itself. */
const silent = async (_question: Question, { signal }: { readonly signal: AbortSignal }) => {
  await aborted(signal);
  return undefined;
};

/** Two connections to one store. */
const connections: Readonly<Record<string, () => readonly [Store, Store]>> = {
  memory: () => {
    const store = memoryStore();
    return [store, store];
  },
  sqlite: () => {
    const file = join(folder, "runs.db");
    return [sqliteStore(file), sqliteStore(file)];
  },
};

for (const [kind, open] of Object.entries(connections))
  for (const who of ["leader", "other"] as const)
    for (const how of ["sink", "reader"] as const)
      proves(
        ["D240"],
        `${kind}: accepts an answer as soon as a ${how} reads the question, from the ${who}`,
        async () => {
          const done = doings();
          const [own, theirs] = open();
          const answered: Promise<unknown>[] = [];
          const runId = `${kind}-${who}-${how}`;
          const answer = (question: Question): void => {
            const by = who === "leader" ? leader : other;
            answered.push(by.answer(runId, [approve(question)]));
          };
          const sink: EventSink = {
            emit: (event) => {
              if (event.type === "question.asked") answer(toQuestion(event));
            },
          };
          const sinks = how === "sink" ? [sink] : [];
          const leader = new Orchestrator({ store: own, approver: silent, sinks });
          const other = new Orchestrator({ store: theirs });
          const run = leader.start(asker(done), "Go.", { runId });
          if (how === "reader") for await (const event of run.events()) sink.emit(event);
          const { status } = await run.result;
          expect([status, await Promise.all(answered), counts(done)]).toEqual([
            "completed",
            [[], []],
            [1, 1],
          ]);
          await own.close();
          if (theirs !== own) await theirs.close();
        },
      );

proves(
  ["D240"],
  "rejects an answer to a question that an active run never asked as too early, after a wait",
  async () => {
    const done = doings();
    const clock = new ManualClock(1_000_000);
    const store = memoryStore({ clock });
    const leader = new Orchestrator({ store, clock, approver: silent });
    const other = new Orchestrator({ store, clock });
    const asked = Promise.withResolvers<Question>();
    const run = leader.start(asker(done), "Go.", { runId: ID });
    void (async () => {
      for await (const event of run.events())
        if (event.type === "question.asked") asked.resolve(toQuestion(event));
    })();
    const question = await asked.promise;
    const unknown = { ...approve(question), questionId: `${question.questionId}.1` };
    // @ts-expect-error: no question has this id.
    const refused = rejectionOf(other.answer(ID, [unknown]));
    const looking = turns(10).then(async () => {
      for (let looks = 0; looks < 40; looks += 1) {
        clock.advance(50);
        await turns(5);
      }
    });
    const { code, data, message } = await refused;
    await looking;
    expect([code, data["problem"]]).toEqual(["invalid_answer", "unknown"]);
    expect(message).toContain("too early");
    // The owner of the run knows at once which questions are open.
    // @ts-expect-error: no question has this id.
    expect((await rejectionOf(leader.answer(ID, [unknown]))).message).not.toContain("too early");
    await run.cancel();
  },
);
