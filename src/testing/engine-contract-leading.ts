import { deepStrictEqual, ok } from "node:assert/strict";

import { EspalierError } from "../kernel/error.ts";
import { engineCheck, type EngineCheck } from "./engine-contract-scene.ts";

/** What an engine promises about which worker leads a run, and when. */
export const leadingChecks: readonly EngineCheck[] = [
  engineCheck(
    "a run that is ordered anywhere is led, and its result is read anywhere",
    async (scene) => {
      const [one, other] = [scene.client(), scene.client()];
      const early = await scene.order(one, "note early");
      const { engine } = await scene.worker();
      const late = await scene.order(other, "note late");
      const own = await scene.order(scene.client({ engine }), "note own");
      for (const client of [one, other])
        for (const { runId } of [early, late, own])
          deepStrictEqual(await scene.rest(client.attach(runId)), "completed");
      deepStrictEqual(scene.agents.effects.toSorted(), [
        "early by worker",
        "late by worker",
        "own by worker",
      ]);
      await scene.rejects(one.attach(scene.newRunId()).result(), "unknown_run");
    },
  ),

  engineCheck("one order, given by many and often, is one run", async (scene) => {
    const clients = [scene.client(), scene.client(), scene.client()];
    await scene.worker();
    const runId = scene.newRunId();
    const order = "note a\nnote b, note c";
    const orders = Array.from({ length: 10 }, () =>
      clients.map((client) => scene.order(client, order, { runId })),
    );
    const runs = await Promise.all(orders.flat());
    const results = await Promise.all(runs.map((run) => scene.rest(run)));
    deepStrictEqual(new Set(results.map(String)), new Set(["completed"]));
    const again = await scene.order(scene.client(), order, { runId });
    deepStrictEqual(await scene.rest(again), "completed");
    const effects = ["a by worker", "b by worker", "c by worker"];
    deepStrictEqual(scene.agents.effects.toSorted(), effects);
    await scene.rejects(scene.order(scene.client(), "note other", { runId }), "other_run");
  }),

  engineCheck(
    "a worker leaves runs of other roles and versions to those that have them",
    async (scene) => {
      const client = scene.client();
      const [untold] = [await scene.order(client, "note untold")];
      const known = await scene.worker({ name: "first" });
      deepStrictEqual(await scene.rest(untold), "completed");
      await known.close();
      const newer = await scene.worker({ name: "newer", rolesVersion: "2" });
      const writer = await scene.worker({ name: "writer", role: "writer" });
      const run = await scene.order(client, "note mine");
      // What was ordered after it has been led: it was left alone.
      const after = [
        scene.client({ engine: newer.engine, rolesVersion: "2" }),
        scene.client({ rolesVersion: "2" }),
      ];
      for (const [index, later] of after.entries())
        deepStrictEqual(
          await scene.rest(await scene.order(later, `note newer${index}`)),
          "completed",
        );
      const written = await scene.order(client, "note written", { role: "writer" });
      deepStrictEqual(await scene.rest(written), "completed");
      for (const { leadings } of [newer, writer])
        ok(
          leadings.every(({ runId }) => runId !== run.runId),
          "It was led by a worker without it.",
        );
      await scene.worker({ name: "right" });
      deepStrictEqual(await scene.rest(run), "completed");
      ok(scene.agents.effects.includes("mine by right"));
    },
  ),

  engineCheck("what could not be led is led again, until it can be", async (scene) => {
    const codes = ["store_failed", "run_alive", "run_fenced", "run_left"] as const;
    let count = 0;
    await scene.worker({
      before: async () => {
        const code = codes[count];
        count += 1;
        if (code !== undefined) throw new EspalierError({ code, message: "It is not to be." });
      },
    });
    const run = await scene.order(scene.client(), "note a");
    deepStrictEqual(await scene.rest(run), "completed");
    deepStrictEqual(scene.agents.effects, ["a by worker"]);
    ok(count > codes.length);
  }),

  engineCheck(
    "a worker leads as many runs at once as it is to, and the others after them",
    async (scene) => {
      const texts = ["a", "b", "c", "d", "e", "f"];
      scene.agents.hold(...texts);
      await scene.worker({ maxRuns: 2 });
      const client = scene.client();
      const runs = await Promise.all(texts.map((text) => scene.order(client, `note ${text}`)));
      const { begun } = scene.agents;
      for (let count = 2; count <= 6; count += 1) {
        await scene.until(`run ${count} that is led`, () => begun.length >= count);
        scene.agents.letGo(begun[count - 2] ?? "");
      }
      scene.agents.letGo(...texts);
      for (const run of runs) deepStrictEqual(await scene.rest(run), "completed");
      deepStrictEqual([scene.agents.mostAtOnce, begun.toSorted()], [2, texts]);
    },
  ),

  engineCheck("several workers lead many runs, and each of them once", async (scene) => {
    const workers = [await scene.worker({ name: "one" }), await scene.worker({ name: "two" })];
    const clients = [scene.client(), ...workers.map(({ engine }) => scene.client({ engine }))];
    const runs = Array.from({ length: 20 }, async (_, index) => {
      const client = clients[index % clients.length] ?? scene.client();
      const run = await scene.order(client, `note a${index}\nnote b${index}`);
      return await scene.rest(run);
    });
    for (const result of await Promise.all(runs)) deepStrictEqual(result, "completed");
    const effects = scene.agents.effects.map((effect) => effect.split(" ")[0]);
    deepStrictEqual([effects.length, new Set(effects).size], [40, 40]);
  }),

  engineCheck(
    "what cannot be led is tried once, and goes on when a repaired worker is asked",
    async (scene) => {
      const client = scene.client();
      const broken = await scene.worker({ name: "broken", isPriced: false });
      const order = { runId: scene.newRunId(), budget: { costUsd: 1 } };
      const run = await scene.order(client, "note a", order);
      await scene.rejects(run.result(), "price_unknown");
      const sound = await scene.order(client, "note b");
      deepStrictEqual(await scene.rest(sound), "completed");
      const posts = await scene.store.posts(run.runId);
      deepStrictEqual(posts.length, 2, "The order, and why it was refused once.");
      await broken.close();
      await scene.worker({ name: "repaired" });
      await scene.within("a request that is taken", run.post({ type: "resume" }));
      deepStrictEqual(await scene.rest(run), "completed");
      ok(scene.agents.effects.includes("a by repaired"));
    },
  ),

  engineCheck("an order of a later release is refused, and harms no other", async (scene) => {
    const { engine } = await scene.worker();
    const runId = scene.newRunId();
    const owner = { token: "later", hostname: "elsewhere", processId: 1 };
    const ownership = await scene.store.create(runId, "", owner);
    const order = { version: 2 ** 20, runId, role: "lead", task: "note a", rolesVersion: "1" };
    await scene.store.post(runId, { key: "order", body: JSON.stringify({ type: "order", order }) });
    await scene.store.release(ownership, "open");
    await engine.lead({ runId, role: "lead", version: "1" });
    await scene.rejects(scene.client().attach(runId).result(), "unsupported_version");
    const run = await scene.order(scene.client(), "note b");
    deepStrictEqual(await scene.rest(run), "completed");
    deepStrictEqual(scene.agents.effects, ["b by worker"]);
  }),
];
