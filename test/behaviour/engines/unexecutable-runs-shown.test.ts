// Goal: a person who looks at a run that no process could execute reads why, in the terminal and in
// the viewer.
// Method: a worker pauses a run, the next one cannot resume it; `espalier show` and the viewer read
// the store.

import { expect } from "vitest";

import { EspalierError } from "../../../src/kernel/error.ts";
import { pauseUntilMail } from "../../../src/orchestrator/run/quarantine.ts";
import type { Store } from "../../../src/store/store.ts";
import { keptRuns } from "../../support/cli/kept-runs.ts";
import { performed } from "../../support/cli/performed.ts";
import { proves } from "../../harness/proves.ts";
import { askApi } from "../../support/viewer-server/asking.ts";
import { asker, viewerWorld } from "../../support/viewer-server/viewer-world.ts";
import {
  clientOf,
  engineWorld,
  runId,
  workerIn,
  type EngineWorld,
} from "../../support/engine/engine-world.ts";

const ID = runId("order");
const NO_TENANT =
  "Expected options.context to return the context of run order, but it threw: No tenant.. Fix it, and resume the run.";

/**
 * Creates a run whose second worker refuses it, after it asked for an approval in the first one.
 */
async function refuse(world: EngineWorld): Promise<void> {
  const { pushed } = world;
  const roles = [asker(["pear"])];
  const client = clientOf(world);
  const first = await workerIn(world, { roles });
  const run = await client.start("asker", "Buy.", { runId: ID });
  const { questions } = await pushed(run.getResult());
  await pushed(first.close());
  const context = () => {
    throw new Error("No tenant.");
  };
  const second = await workerIn(world, { roles }, { context });
  await run.answer(
    questions.map(({ questionId, argumentsHash }) => ({
      type: "approved",
      questionId,
      argumentsHash,
    })),
  );
  await pushed(run.getResult()).catch((cause: unknown) => {
    if (!EspalierError.is(cause) || cause.code !== "context_failed") throw cause;
  });
  await pushed(second.close());
}

proves(["D496"], "prints why no process could execute a run in `espalier show`", async () => {
  await using kept = keptRuns();
  const world = engineWorld(kept.store);
  await refuse(world);
  const show = (...args: readonly string[]) =>
    performed(["show", ...args, "--store", kept.path], { cwd: kept.folder });
  const { code, stdout } = await show(ID);
  expect([code, stdout.split("\n").slice(0, 3)]).toEqual([
    0,
    ["order ‖ paused: context_failed", "asker: Buy.", NO_TENANT],
  ]);
  expect(JSON.parse((await show(ID, "--json")).stdout)).toMatchObject({
    run: { reason: { code: "context_failed", message: NO_TENANT } },
  });
  const third = await workerIn(world, { roles: [asker(["pear"])] });
  await clientOf(world).attach(ID).sendCommand({ type: "resume" });
  await world.pushed(clientOf(world).attach(ID).getResult());
  expect((await show(ID)).stdout).toMatch(/^order ✔ completed\n/u);
  await world.pushed(third.close());
});

/** Creates a run that no process has started, and at whose start processes died. */
async function laidToRest(store: Store): Promise<void> {
  const owner = { token: "dead", hostname: "elsewhere", processId: 1 };
  const cause = new EspalierError({ code: "crash_loop", message: "It dies." });
  await pauseUntilMail(store, await store.create(ID, "asker: Buy.", owner), cause);
}

proves(["D535"], "prints the error code of a paused run in the list of runs", async () => {
  const listed = async (make: (store: Store) => Promise<void>) => {
    await using kept = keptRuns();
    await make(kept.store);
    const { code, stdout } = await performed(["runs", "--store", kept.path], { cwd: kept.folder });
    return [code, /‖ .*?(?= {2}|$)/mu.exec(stdout)?.[0]];
  };
  expect(await listed(laidToRest)).toEqual([0, "‖ paused: crash_loop"]);
  expect(await listed((store) => refuse(engineWorld(store)))).toEqual([
    0,
    "‖ paused: context_failed",
  ]);
});

proves(["D496"], "prints why no process could execute a run that has not started", async () => {
  await using kept = keptRuns();
  await laidToRest(kept.store);
  const { code, stderr } = await performed(["show", ID, "--store", kept.path], {
    cwd: kept.folder,
  });
  expect([code, stderr.trim()]).toEqual([
    2,
    "Run order has not started: nothing is recorded yet. No process could run it (crash_loop): It dies. [usage]",
  ]);
});

proves(
  ["D496"],
  "shows in the viewer why no process could execute a run, without its message if content is hidden",
  async () => {
    for (const content of [true, false]) {
      const { place, ...world } = await viewerWorld({ content });
      await refuse(world);
      const reason = { code: "context_failed", message: content ? NO_TENANT : "" };
      const { body } = await askApi(place, `runs/${ID}`);
      expect(body).toMatchObject({ run: { runId: ID, status: "paused", reason } });
      expect((await askApi(place, "runs")).body).toMatchObject({ runs: [{ runId: ID, reason }] });
    }
  },
);
