import { deepStrictEqual, ok } from "node:assert/strict";

import { EspalierError } from "../kernel/error.ts";
import { createEngineChecks } from "./engine-contract-fixture.ts";

/** Promises of an engine about which worker executes a run, and when. */
export const executionChecks = createEngineChecks({
  "a worker executes a run that any client starts, and any client reads its result": async (
    fixture,
  ) => {
    const [first, other] = [fixture.createClient(), fixture.createClient()];
    const early = await fixture.startRun(first, "note early");
    const { engine } = await fixture.startWorker();
    const late = await fixture.startRun(other, "note late");
    const run = await fixture.startRun(fixture.createClient({ engine }), "note own");
    for (const client of [first, other])
      for (const { runId } of [early, late, run]) await fixture.expectRest(client.attach(runId));
    deepStrictEqual(fixture.agents.effects.toSorted(), [
      "early by worker",
      "late by worker",
      "own by worker",
    ]);
    await fixture.expectRejection(first.attach(fixture.createRunId()).getResult(), "unknown_run");
  },

  "many clients that start the same run often enqueue one run": async (fixture) => {
    const clients = [fixture.createClient(), fixture.createClient(), fixture.createClient()];
    await fixture.startWorker();
    const runId = fixture.createRunId();
    const order = "note a\nnote b, note c";
    const orders = Array.from({ length: 10 }, () =>
      clients.map((client) => fixture.startRun(client, order, { runId })),
    );
    const runs = await Promise.all(orders.flat());
    const results = await Promise.all(runs.map((run) => fixture.waitForRest(run)));
    deepStrictEqual(new Set(results.map(String)), new Set(["completed"]));
    const again = await fixture.startRun(fixture.createClient(), order, { runId });
    await fixture.expectRest(again);
    const effects = ["a by worker", "b by worker", "c by worker"];
    deepStrictEqual(fixture.agents.effects.toSorted(), effects);
    await fixture.expectRejection(
      fixture.startRun(fixture.createClient(), "note other", { runId }),
      "run_id_conflict",
    );
  },

  "a worker executes only runs of its own roles and versions": async (fixture) => {
    const client = fixture.createClient();
    const [untold] = [await fixture.startRun(client, "note untold")];
    const known = await fixture.startWorker({ name: "first" });
    await fixture.expectRest(untold);
    await known.close();
    const newer = await fixture.startWorker({ name: "newer", rolesVersion: "2" });
    const writer = await fixture.startWorker({ name: "writer", role: "writer" });
    const run = await fixture.startRun(client, "note mine");
    // Later runs have been executed, but this one was left alone.
    const after = [
      fixture.createClient({ engine: newer.engine, rolesVersion: "2" }),
      fixture.createClient({ rolesVersion: "2" }),
    ];
    for (const [index, later] of after.entries())
      await fixture.expectRest(await fixture.startRun(later, `note newer${index}`));
    const written = await fixture.startRun(client, "note written", { role: "writer" });
    await fixture.expectRest(written);
    for (const { leadings } of [newer, writer])
      ok(
        leadings.every(({ runId }) => runId !== run.runId),
        "The run was executed by a worker without its role.",
      );
    await fixture.startWorker({ name: "right" });
    await fixture.expectRest(run);
    ok(fixture.agents.effects.includes("mine by right"));
  },

  "a run whose execution rejects is executed again until it succeeds": async (fixture) => {
    const codes = ["store_failed", "run_active", "run_fenced", "run_released"] as const;
    let count = 0;
    await fixture.startWorker({
      before: async () => {
        const code = codes[count];
        count += 1;
        if (code !== undefined) throw new EspalierError({ code, message: "The execution fails." });
      },
    });
    const run = await fixture.startRun(fixture.createClient(), "note a");
    await fixture.expectRest(run);
    deepStrictEqual(fixture.agents.effects, ["a by worker"]);
    ok(count > codes.length);
  },

  "a worker executes maxRuns runs at once, and the others afterwards": async (fixture) => {
    const texts = ["a", "b", "c", "d", "e", "f"];
    fixture.agents.hold(...texts);
    await fixture.startWorker({ maxRuns: 2 });
    const client = fixture.createClient();
    const runs = await Promise.all(texts.map((text) => fixture.startRun(client, `note ${text}`)));
    const { begun } = fixture.agents;
    for (let count = 2; count <= 6; count += 1) {
      await fixture.waitUntil(`the start of run ${count}`, () => begun.length >= count);
      fixture.agents.release(begun[count - 2] ?? "");
    }
    fixture.agents.release(...texts);
    for (const run of runs) await fixture.expectRest(run);
    deepStrictEqual([fixture.agents.mostAtOnce, begun.toSorted()], [2, texts]);
  },

  "several workers execute many runs, each run once": async (fixture) => {
    const workers = [
      await fixture.startWorker({ name: "one" }),
      await fixture.startWorker({ name: "two" }),
    ];
    const clients = [
      fixture.createClient(),
      ...workers.map(({ engine }) => fixture.createClient({ engine })),
    ];
    const runs = Array.from({ length: 20 }, async (_, index) => {
      const client = clients[index % clients.length] ?? fixture.createClient();
      const run = await fixture.startRun(client, `note a${index}\nnote b${index}`);
      return await fixture.waitForRest(run);
    });
    for (const result of await Promise.all(runs)) deepStrictEqual(result, "completed");
    const effects = fixture.agents.effects.map((effect) => effect.split(" ")[0]);
    deepStrictEqual([effects.length, new Set(effects).size], [40, 40]);
  },

  "a run that cannot be executed is tried once, and continues in a repaired worker": async (
    fixture,
  ) => {
    const client = fixture.createClient();
    const broken = await fixture.startWorker({ name: "broken", isPriced: false });
    const order = { runId: fixture.createRunId(), budget: { costUsd: 1 } };
    const run = await fixture.startRun(client, "note a", order);
    await fixture.expectRejection(run.getResult(), "price_unknown");
    const sound = await fixture.startRun(client, "note b");
    await fixture.expectRest(sound);
    const posts = await fixture.store.readMail(run.runId);
    deepStrictEqual(posts.length, 2, "The order, and why it was refused once.");
    await broken.close();
    await fixture.startWorker({ name: "repaired" });
    await fixture.waitFor("a request that is taken", run.sendCommand({ type: "resume" }));
    await fixture.expectRest(run);
    ok(fixture.agents.effects.includes("a by repaired"));
  },

  "a request of a later release is rejected, and other runs continue": async (fixture) => {
    const { engine } = await fixture.startWorker();
    const runId = fixture.createRunId();
    const owner = { token: "later", hostname: "elsewhere", processId: 1 };
    const ownership = await fixture.store.create(runId, "", owner);
    const order = { version: 2 ** 20, runId, role: "lead", task: "note a", rolesVersion: "1" };
    await fixture.store.sendMail(runId, {
      key: "order",
      body: JSON.stringify({ type: "order", order }),
    });
    await fixture.store.release(ownership, "open");
    await engine.enqueue({ runId, role: "lead", version: "1" });
    await fixture.expectRejection(
      fixture.createClient().attach(runId).getResult(),
      "unsupported_version",
    );
    const run = await fixture.startRun(fixture.createClient(), "note b");
    await fixture.expectRest(run);
    deepStrictEqual(fixture.agents.effects, ["b by worker"]);
  },
});
