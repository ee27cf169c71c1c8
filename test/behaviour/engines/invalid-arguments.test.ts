// Arguments that a JavaScript program may pass by mistake to clients, attached runs, workers and
// recordings.

import { expect } from "vitest";

import { storeEngine } from "../../../src/engine/store-engine.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { proves } from "../../harness/proves.ts";
import { allOf } from "../../support/all-of.ts";
import { rejectionOf } from "../../support/thrown.ts";
import { clientOf, doings, engineWorld, solo } from "../../support/engine/engine-world.ts";

/** Calls a method without the compiler's checks. */
async function called(owner: object, method: string, ...given: readonly unknown[]) {
  const work: unknown = Reflect.get(owner, method);
  if (typeof work !== "function") throw new Error(`There is no ${method}.`);
  const result: unknown = await Reflect.apply(work, owner, given);
  return isIterable(result) ? await allOf(result) : result;
}

function isIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

proves(
  ["D327"],
  "names the argument that is not an options object, and the option that does not exist",
  async () => {
    const world = engineWorld();
    const { clock, process, store } = world;
    const client = clientOf(world);
    const run = client.attach("order-1");
    const worker = await process({ roles: [solo(doings())] }).startWorker(storeEngine({ clock }), {
      context: () => undefined,
    });
    const given = [
      [called(client, "start", "solo", "Go.", null), "start options"],
      [called(client, "start", "solo", "Go.", { steps: 3 }), "start options.steps"],
      [called(run, "getResult", null), "result options"],
      [called(run, "getResult", { singal: 1 }), "result options.singal"],
      [called(run, "events", null), "events options"],
      [called(run, "events", { since: 1 }), "events options.since"],
      [called(run, "sendCommand", null), "request"],
      [called(worker, "close", null), "close options"],
      [called({ loadRecording: loadRecording }, "loadRecording", undefined, "order-1"), "store"],
      [called({ loadRecording: loadRecording }, "loadRecording", store, ""), "runId"],
    ] as const;
    for (const [work, field] of given)
      expect(await rejectionOf(work)).toMatchObject({ code: "invalid_argument", data: { field } });
    await worker.close();
  },
);
