// Goal: reading runs over HTTP changes nothing.
// Method: a viewer over a store that fails on every write.

import { expect } from "vitest";

import { proves } from "../harness/proves.ts";
import { engineWorld, runId } from "../support/engine/engine-world.ts";
import { askApi, openFeed, placeOf } from "../support/viewer-server/asking.ts";
import { asker, opened } from "../support/viewer-server/viewer-world.ts";

const ID = runId("buy");

proves(["V83"], "writes nothing and claims no run when reading", async () => {
  const { clock, store, process } = engineWorld();
  const role = asker(["pear"]);
  const { questions } = await process({ roles: [role] }).start(role, "Buy.", { runId: ID }).result;
  const forbidden = (): never => {
    throw new Error("It is only looked at.");
  };
  const { read, readMail, find, list } = store;
  const readOnly = Object.fromEntries(
    ["create", "claim", "append", "heartbeat", "release", "sendMail", "remove"].map((name) => [
      name,
      forbidden,
    ]),
  );
  const bound = {
    read: read.bind(store),
    readMail: readMail.bind(store),
    find: find.bind(store),
    list: list.bind(store),
  };
  const place = placeOf(await opened({ store: { ...store, ...readOnly, ...bound }, clock }));
  const [{ agentId } = { agentId: "" }] = questions;
  const before = [await store.find(ID), await store.readMail(ID)];
  for (const path of [
    "meta",
    "runs",
    "questions",
    `runs/${ID}`,
    `runs/${ID}/log`,
    `runs/${ID}/interrupted`,
    `runs/${ID}/agents/${agentId}`,
    `runs/${ID}/agents/${agentId}/steps/1`,
  ])
    expect((await askApi(place, path)).status, path).toBe(200);
  expect((await (await openFeed(place, ID)).next())?.entry.type).toBe("patch");
  expect([await store.find(ID), await store.readMail(ID)]).toEqual(before);
});
