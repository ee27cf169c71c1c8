import { deepStrictEqual, ok } from "node:assert/strict";

import type { RunClient } from "../orchestrator/run/run-client.ts";
import { approve } from "../protocol/question.ts";
import type { RunId } from "../protocol/ids.ts";
import { engineCheck, type EngineCheck, type EngineScene } from "./engine-contract-scene.ts";

/** What an engine promises about runs that wait, are cancelled, or are given up. */
export const waitingChecks: readonly EngineCheck[] = [
  engineCheck("a run that waits goes on when any process answers", async (scene) => {
    await scene.worker();
    const run = await scene.order(scene.client(), "note a\nsign b\nnote c");
    deepStrictEqual(await scene.rest(run), "paused b");
    await answer(scene, scene.client(), run.runId, "b");
    deepStrictEqual(await scene.rest(run), "completed");
    deepStrictEqual(scene.agents.effects, ["a by worker", "b by worker", "c by worker"]);
  }),

  engineCheck("a run that waits goes on in a worker that came since", async (scene) => {
    const client = scene.client();
    const first = await scene.worker({ name: "first" });
    const runs = [
      await scene.order(client, "note a\nsign b\nnote c"),
      await scene.order(client, "sign d"),
    ];
    for (const run of runs) deepStrictEqual((await scene.rest(run)).split(" ")[0], "paused");
    await first.close();
    // One is answered while no worker is there.
    await answer(scene, client, runs[0]?.runId, "b");
    await scene.worker({ name: "second" });
    await answer(scene, scene.client(), runs[1]?.runId, "d");
    for (const run of runs) deepStrictEqual(await scene.rest(run), "completed");
    const effects = ["a by first", "b by second", "c by second", "d by second"];
    deepStrictEqual(scene.agents.effects.toSorted(), effects);
  }),

  engineCheck("answers may come one by one", async (scene) => {
    await scene.worker();
    const [one, other] = [scene.client(), scene.client()];
    const { runId } = await scene.order(one, "sign a, sign b, note c");
    deepStrictEqual(await scene.rest(one.attach(runId)), "paused a b");
    deepStrictEqual(await answer(scene, one, runId, "a"), ["b"]);
    await scene.until("the effect that was approved", () =>
      scene.agents.effects.includes("a by worker"),
    );
    deepStrictEqual(await scene.rest(other.attach(runId)), "paused b");
    deepStrictEqual(await answer(scene, other, runId, "b"), []);
    deepStrictEqual(await scene.rest(one.attach(runId)), "completed");
    const effects = ["a by worker", "b by worker", "c by worker"];
    deepStrictEqual(scene.agents.effects.toSorted(), effects);
  }),

  engineCheck("what comes while a run comes to rest is not lost", async (scene) => {
    const rested = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<void>();
    await scene.worker({
      after: async () => {
        rested.resolve();
        await answered.promise;
      },
    });
    const client = scene.client();
    const run = await scene.order(client, "sign a");
    await scene.within("a run that rests", rested.promise);
    try {
      await answer(scene, client, run.runId, "a");
    } finally {
      answered.resolve();
    }
    deepStrictEqual(await scene.rest(run), "completed");
  }),

  engineCheck("a run whose question has a deadline goes on then by itself", async (scene) => {
    // Long enough to be led too often by an engine that does not wait.
    const { leadings } = await scene.worker({ answerTimeoutMs: 1_500 });
    const run = await scene.order(scene.client(), "sign a\nnote b");
    await scene.until("what comes after the deadline", () =>
      scene.agents.effects.includes("b by worker"),
    );
    deepStrictEqual(await scene.rest(run), "completed");
    deepStrictEqual(scene.agents.effects, ["b by worker"]);
    // Once for the order and once for the deadline; each may come twice.
    ok(leadings.length <= 4, `It was led ${leadings.length} times.`);
  }),

  engineCheck(
    "a run is cancelled while it is led, while it waits, and before it begins",
    async (scene) => {
      const client = scene.client();
      scene.agents.hold("a");
      const first = await scene.worker({ name: "first" });
      const led = await scene.order(client, "note a");
      const waiting = await scene.order(client, "sign b");
      deepStrictEqual(await scene.rest(waiting), "paused b");
      await scene.until("a run that is led", () => scene.agents.begun.includes("a"));
      for (const { runId } of [led, waiting]) {
        const other = scene.client().attach(runId);
        await scene.within("a wish that is taken", other.cancel());
        deepStrictEqual(await scene.rest(other), "cancelled");
      }
      await first.close();
      const unbegun = await scene.order(client, "note c");
      await scene.within("a wish that is taken", unbegun.cancel());
      await scene.worker({ name: "second" });
      deepStrictEqual(await scene.rest(unbegun), "cancelled");
      deepStrictEqual(scene.agents.effects, []);
      await scene.rejects(unbegun.cancel(), "run_ended");
    },
  ),

  engineCheck(
    "a worker that closes hands its runs over, and what returned is not repeated",
    async (scene) => {
      const { agents } = scene;
      const client = scene.client();
      agents.hold("b", "e");
      const first = await scene.worker({ name: "first", graceMs: scene.withinMs });
      const kept = await scene.order(client, "note a\nnote b\nnote c");
      await scene.until("an effect under way", () => agents.begun.includes("b"));
      const closed = first.close();
      closed.catch(() => undefined); // Awaited later; what fails until then is said first.
      await scene.until("a run that is to be left", () => isLeft(first.leadings));
      agents.letGo("b");
      await closed;
      ok(
        first.leadings.every(({ settled }) => settled !== undefined),
        "It was closed too early.",
      );
      const second = await scene.worker({ name: "second", graceMs: 0 });
      deepStrictEqual(await scene.rest(kept), "completed");
      deepStrictEqual(agents.effects, ["a by first", "b by first", "c by second"]);
      const cut = await scene.order(client, "note d\nnote e");
      await scene.until("an effect under way", () => agents.begun.includes("e"));
      // It has looked into the store before: the engine has to notify it.
      await scene.worker({ name: "third" });
      await second.close();
      agents.letGo("e");
      deepStrictEqual(await scene.rest(cut), "completed");
      deepStrictEqual(agents.effects.slice(3), ["d by second", "e by third"]);
    },
  ),

  engineCheck(
    "a worker that is closed takes nothing more, and leaves nothing behind",
    async (scene) => {
      const client = scene.client();
      const gone = await scene.worker({ name: "gone" });
      const waiting = await scene.order(client, "sign a");
      deepStrictEqual(await scene.rest(waiting), "paused a");
      await Promise.all([gone.close(), gone.close()]);
      await scene.within("an engine that closes", gone.engine.close?.() ?? Promise.resolve());
      const { length } = gone.leadings;
      const runs = await Promise.all(["b", "c"].map((text) => scene.order(client, `note ${text}`)));
      await scene.worker({ name: "staying" });
      await answer(scene, client, waiting.runId, "a");
      for (const run of [...runs, waiting]) deepStrictEqual(await scene.rest(run), "completed");
      deepStrictEqual(gone.leadings.length, length);
      const effects = ["a by staying", "b by staying", "c by staying"];
      deepStrictEqual(scene.agents.effects.toSorted(), effects);
    },
  ),
];

function isLeft(leadings: readonly { readonly leave: AbortSignal }[]): boolean {
  return leadings.some(({ leave }) => leave.aborted);
}

/** Approves the call of this id. Gives the calls that are still asked about. */
async function answer(
  scene: EngineScene,
  client: RunClient,
  runId: RunId | undefined,
  callId: string,
): Promise<readonly string[]> {
  const run = client.attach(runId ?? "");
  const questions = await scene.within("questions", run.questions());
  const answers = questions.flatMap((one) => (one.callId === callId ? [approve(one)] : []));
  const open = await scene.within("an answer that is taken", run.answer(answers));
  return open.map((question) => question.callId);
}
