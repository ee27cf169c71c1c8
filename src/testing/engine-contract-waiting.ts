import { deepStrictEqual, ok } from "node:assert/strict";

import type { RunClient } from "../orchestrator/run/run-client.ts";
import { approve } from "../protocol/question.ts";
import type { RunId } from "../protocol/ids.ts";
import { createEngineChecks, type EngineFixture } from "./engine-contract-fixture.ts";

/** Promises of an engine about runs that wait, are cancelled, or are released. */
export const waitingChecks = createEngineChecks({
  "a waiting run continues when any process answers": async (fixture) => {
    await fixture.startWorker();
    const run = await fixture.startRun(fixture.createClient(), "note a\nsign b\nnote c");
    await fixture.expectRest(run, "paused b");
    await answer(fixture, fixture.createClient(), run.runId, "b");
    await fixture.expectRest(run);
    deepStrictEqual(fixture.agents.effects, ["a by worker", "b by worker", "c by worker"]);
  },

  "a waiting run continues in a worker that started later": async (fixture) => {
    const client = fixture.createClient();
    const first = await fixture.startWorker({ name: "first" });
    const runs = [
      await fixture.startRun(client, "note a\nsign b\nnote c"),
      await fixture.startRun(client, "sign d"),
    ];
    for (const run of runs)
      deepStrictEqual((await fixture.waitForRest(run)).split(" ")[0], "paused");
    await first.close();
    // Answers a question while no worker is running.
    await answer(fixture, client, runs[0]?.runId, "b");
    await fixture.startWorker({ name: "second" });
    await answer(fixture, fixture.createClient(), runs[1]?.runId, "d");
    for (const run of runs) await fixture.expectRest(run);
    const effects = ["a by first", "b by second", "c by second", "d by second"];
    deepStrictEqual(fixture.agents.effects.toSorted(), effects);
  },

  "a run accepts its answers one by one": async (fixture) => {
    await fixture.startWorker();
    const [first, other] = [fixture.createClient(), fixture.createClient()];
    const { runId } = await fixture.startRun(first, "sign a, sign b, note c");
    await fixture.expectRest(first.attach(runId), "paused a b");
    deepStrictEqual(await answer(fixture, first, runId, "a"), ["b"]);
    await fixture.waitUntil("the approved effect", () =>
      fixture.agents.effects.includes("a by worker"),
    );
    await fixture.expectRest(other.attach(runId), "paused b");
    deepStrictEqual(await answer(fixture, other, runId, "b"), []);
    await fixture.expectRest(first.attach(runId));
    const effects = ["a by worker", "b by worker", "c by worker"];
    deepStrictEqual(fixture.agents.effects.toSorted(), effects);
  },

  "an answer that arrives while a run pauses is not lost": async (fixture) => {
    const rested = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<void>();
    await fixture.startWorker({
      after: async () => {
        rested.resolve();
        await answered.promise;
      },
    });
    const client = fixture.createClient();
    const run = await fixture.startRun(client, "sign a");
    await fixture.waitFor("a run that rests", rested.promise);
    try {
      await answer(fixture, client, run.runId, "a");
    } finally {
      answered.resolve();
    }
    await fixture.expectRest(run);
  },

  "a run continues by itself at the deadline of its question": async (fixture) => {
    // Long enough for repeated executions by an engine that does not wait.
    const { leadings } = await fixture.startWorker({ answerTimeoutMs: 1_500 });
    const run = await fixture.startRun(fixture.createClient(), "sign a\nnote b");
    await fixture.waitUntil("the effect after the deadline", () =>
      fixture.agents.effects.includes("b by worker"),
    );
    await fixture.expectRest(run);
    deepStrictEqual(fixture.agents.effects, ["b by worker"]);
    // Once for the start and once for the deadline; each may be delivered twice.
    ok(leadings.length <= 4, `It was led ${leadings.length} times.`);
  },

  "a run can be cancelled while it is executed, while it waits, and before it starts": async (
    fixture,
  ) => {
    const client = fixture.createClient();
    fixture.agents.hold("a");
    const first = await fixture.startWorker({ name: "first" });
    const led = await fixture.startRun(client, "note a");
    const waiting = await fixture.startRun(client, "sign b");
    await fixture.expectRest(waiting, "paused b");
    await fixture.waitUntil("the start of the run", () => fixture.agents.begun.includes("a"));
    for (const { runId } of [led, waiting]) {
      const other = fixture.createClient().attach(runId);
      await fixture.waitFor("a request that is taken", other.cancel());
      await fixture.expectRest(other, "cancelled");
    }
    await first.close();
    const unbegun = await fixture.startRun(client, "note c");
    await fixture.waitFor("a request that is taken", unbegun.cancel());
    await fixture.startWorker({ name: "second" });
    await fixture.expectRest(unbegun, "cancelled");
    deepStrictEqual(fixture.agents.effects, []);
    await fixture.expectRejection(unbegun.cancel(), "run_ended");
  },

  "a closing worker hands its runs over, and completed calls are not repeated": async (fixture) => {
    const { agents } = fixture;
    const client = fixture.createClient();
    agents.hold("b", "e");
    const first = await fixture.startWorker({ name: "first", graceMs: fixture.withinMs });
    const run = await fixture.startRun(client, "note a\nnote b\nnote c");
    await fixture.waitUntil("an active effect", () => agents.begun.includes("b"));
    const closed = first.close();
    closed.catch(() => undefined); // Awaited later. Earlier failures are reported first.
    await fixture.waitUntil("the release signal", () => isLeft(first.leadings));
    agents.release("b");
    await closed;
    ok(
      first.leadings.every(({ settled }) => settled !== undefined),
      "The worker closed too early.",
    );
    const second = await fixture.startWorker({ name: "second", graceMs: 0 });
    await fixture.expectRest(run);
    deepStrictEqual(agents.effects, ["a by first", "b by first", "c by second"]);
    const cut = await fixture.startRun(client, "note d\nnote e");
    await fixture.waitUntil("an active effect", () => agents.begun.includes("e"));
    // This worker has already polled the store, so the engine has to notify it.
    await fixture.startWorker({ name: "third" });
    await second.close();
    agents.release("e");
    await fixture.expectRest(cut);
    deepStrictEqual(agents.effects.slice(3), ["d by second", "e by third"]);
  },

  "a closed worker takes no further run and leaves no resources behind": async (fixture) => {
    const client = fixture.createClient();
    const gone = await fixture.startWorker({ name: "gone" });
    const waiting = await fixture.startRun(client, "sign a");
    await fixture.expectRest(waiting, "paused a");
    await Promise.all([gone.close(), gone.close()]);
    await fixture.waitFor("an engine that closes", gone.engine.close?.() ?? Promise.resolve());
    const { length } = gone.leadings;
    const runs = await Promise.all(
      ["b", "c"].map((text) => fixture.startRun(client, `note ${text}`)),
    );
    await fixture.startWorker({ name: "staying" });
    await answer(fixture, client, waiting.runId, "a");
    for (const run of [...runs, waiting]) await fixture.expectRest(run);
    deepStrictEqual(gone.leadings.length, length);
    const effects = ["a by staying", "b by staying", "c by staying"];
    deepStrictEqual(fixture.agents.effects.toSorted(), effects);
  },
});

function isLeft(leadings: readonly { readonly releaseSignal: AbortSignal }[]): boolean {
  return leadings.some(({ releaseSignal }) => releaseSignal.aborted);
}

/** Approves the question of a call. Returns the calls with open questions. */
async function answer(
  fixture: EngineFixture,
  client: RunClient,
  runId: RunId | undefined,
  callId: string,
): Promise<readonly string[]> {
  const run = client.attach(runId ?? "");
  const questions = await fixture.waitFor("questions", run.getQuestions());
  const answers = questions.flatMap((question) =>
    question.callId === callId ? [approve(question)] : [],
  );
  const open = await fixture.waitFor("an answer that is taken", run.answer(answers));
  return open.map((question) => question.callId);
}
