// Goal: requests are admitted only with the token, at a name of this machine and from pages of the
// viewer; every response has the security headers.
// Method: requests over real sockets that differ in one respect.

import { connect } from "node:net";
import { createServer } from "node:http";

import { expect } from "vitest";

import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import {
  act,
  ask,
  askApi,
  responseOf,
  type AskOptions,
  type Place,
  codeOf,
} from "../support/viewer-server/asking.ts";
import { asker, opened, survey, viewerWorld } from "../support/viewer-server/viewer-world.ts";

const API = [
  "meta",
  "runs",
  "questions",
  "runs/survey",
  "runs/survey/feed",
  "runs/survey/log",
  "runs/survey/interrupted",
  "runs/survey/agents/agent_1",
  "runs/survey/agents/agent_1/steps/1",
  "nothing",
];
const SECURITY = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-store",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

async function surveyed(): Promise<Place> {
  const { place, process } = await viewerWorld();
  const role = survey(1);
  await process({ roles: [role] }).start(role, "Survey.", { runId: "survey" }).result;
  return place;
}

proves(
  ["V71"],
  "refuses a missing or wrong token, another viewer's token, and a token in the wrong place",
  async () => {
    const place = await surveyed();
    const other = await viewerWorld();
    const { token } = place;
    const wrong: readonly AskOptions["headers"][] = [
      { authorization: undefined },
      { authorization: "" },
      { authorization: `Bearer ${other.place.token}` },
      { authorization: `Bearer ${token}0` },
      { authorization: `Bearer ${token.slice(1)}` },
      { authorization: `Bearer ${token.toUpperCase().replaceAll(/\d/g, "A")}` },
      { authorization: token },
      { authorization: `Basic ${Buffer.from(`:${token}`).toString("base64")}` },
      { authorization: undefined, cookie: `token=${token}` },
    ];
    for (const headers of wrong) {
      for (const path of API)
        expect(codeOf(await askApi(place, path, { headers }))).toEqual([401, "unauthorized"]);
      expect(codeOf(await act(place, "survey", { key: "1", type: "cancel" }, { headers }))).toEqual(
        [401, "unauthorized"],
      );
    }
    const { origin } = place;
    expect(codeOf(await askApi({ origin, token: "" }, `meta?token=${token}`))).toEqual([
      401,
      "unauthorized",
    ]);
    expect((await askApi(place, "meta")).status).toBe(200);
  },
);

proves(["V71"], "refuses host names of other machines and other ports", async () => {
  const place = await surveyed();
  const { port } = new URL(place.origin);
  for (const host of [
    `evil.example:${port}`,
    `127.0.0.1.evil.example:${port}`,
    `127.0.0.1:1`,
    "127.0.0.1",
    `192.168.0.1:${port}`,
    `localhost.:${port}`,
    "",
  ])
    for (const path of ["/", "/viewer.js", "/api/v1/meta", "/api/v1/runs/survey"])
      expect(codeOf(await ask(place, path, { headers: { host } })), host).toEqual([
        403,
        "foreign_host",
      ]);
  for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`])
    expect((await askApi(place, "meta", { headers: { host } })).status, host).toBe(200);
});

proves(["V71"], "accepts changes only from a page of the viewer and as JSON", async () => {
  const place = await surveyed();
  const { origin } = place;
  const { port } = new URL(origin);
  for (const from of [
    undefined,
    "null",
    "https://evil.example",
    `http://127.0.0.1:1`,
    `http://evil.example:${port}`,
    `http://127.0.0.1.evil.example:${port}`,
    "file://",
  ]) {
    const said = await act(
      place,
      "survey",
      { key: "1", type: "cancel" },
      { headers: { origin: from } },
    );
    expect(codeOf(said), from).toEqual([403, "foreign_origin"]);
  }
  for (const type of [
    undefined,
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=application/json",
    "application/jsonp",
  ]) {
    const said = await act(
      place,
      "survey",
      { key: "1", type: "cancel" },
      { headers: { "content-type": type } },
    );
    expect(codeOf(said), type).toEqual([415, "not_json"]);
  }
  const charset = { "content-type": "application/json; charset=utf-8" };
  expect(
    codeOf(await act(place, "survey", { key: "1", type: "cancel" }, { headers: charset })),
  ).toEqual([409, "run_ended"]);
});

proves(["V71"], "refuses other methods and preflight requests", async () => {
  const place = await surveyed();
  const evil = { origin: "https://evil.example", "access-control-request-method": "POST" };
  for (const method of ["OPTIONS", "PUT", "DELETE", "PATCH"]) {
    for (const path of ["/", "/api/v1/meta", "/api/v1/runs/survey/actions"]) {
      const said = await ask(place, path, { method, headers: evil });
      expect(codeOf(said), `${method} ${path}`).toEqual([405, "not_allowed"]);
      expect(Object.keys(said.headers).filter((name) => name.startsWith("access-control"))).toEqual(
        [],
      );
    }
  }
  for (const path of [
    "meta",
    "runs",
    "runs/survey",
    "questions",
    "runs/survey/log",
    "runs/survey/feed",
  ])
    expect(codeOf(await askApi(place, path, { method: "POST", body: {} })), path).toEqual([
      404,
      "not_found",
    ]);
  expect(codeOf(await askApi(place, "runs/survey/actions"))).toEqual([404, "not_found"]);
});

proves(["V71"], "refuses bodies that are too long or invalid JSON", async () => {
  const place = await surveyed();
  const long = JSON.stringify({ key: "1", type: "cancel", message: "x".repeat(1_000_000) });
  expect(codeOf(await act(place, "survey", {}, { body: long }))).toEqual([413, "too_large"]);
  for (const body of ["", "{", "key=1"])
    expect(codeOf(await act(place, "survey", {}, { body })), body).toEqual([400, "not_json"]);
  for (const body of [
    null,
    [],
    1,
    {},
    { key: "1" },
    { key: "", type: "pause" },
    { key: "1", type: "fork" },
    { key: "1", type: "pause", more: 1 },
    { key: "x".repeat(201), type: "pause" },
    { key: "1", type: "answer", answers: [] },
    { key: "1", type: "answer", answers: [{ type: "approved" }] },
  ])
    expect(
      codeOf(await act(place, "survey", {}, { body: JSON.stringify(body) })),
      JSON.stringify(body),
    ).toEqual([400, "invalid_request"]);
  const deep = `${"[".repeat(5_000)}${"]".repeat(5_000)}`;
  const answer = `{"type":"result","questionId":"q","argumentsHash":"h","result":${deep}}`;
  const nested = `{"key":"1","type":"answer","answers":[${answer}]}`;
  expect(codeOf(await act(place, "survey", {}, { body: nested }))).toEqual([
    400,
    "invalid_request",
  ]);
});

proves(["V72"], "sends the same security headers with every response", async () => {
  const place = await surveyed();
  for (const path of [
    "/",
    "/viewer.js",
    "/nothing",
    "/api/v1/meta",
    "/api/v1/nothing",
    "/api/v1/runs/survey",
  ])
    expect((await ask(place, path)).headers, path).toMatchObject(SECURITY);
  expect((await ask(place, "/", { headers: { host: "evil.example" } })).headers).toMatchObject(
    SECURITY,
  );
  expect((await askApi({ ...place, token: "" }, "meta")).headers).toMatchObject(SECURITY);
  const feed = await responseOf(place, "/api/v1/runs/survey/feed", {});
  expect(feed.headers).toMatchObject({
    ...SECURITY,
    "content-type": "text/event-stream; charset=utf-8",
  });
  feed.destroy();
});

proves(["V72"], "resolves hostile ids and paths to no run and no file", async () => {
  const place = await surveyed();
  const hostile = [
    "..",
    "%2e%2e",
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "a%00b",
    "%2F",
    "%ED%A0%80",
    "x".repeat(513),
    "__proto__",
    "constructor",
  ];
  for (const name of hostile) {
    const { status } = await askApi(place, `runs/${name}`);
    expect([400, 404], name).toContain(status);
    expect([400, 404], name).toContain((await askApi(place, `runs/survey/agents/${name}`)).status);
    expect([400, 404], name).toContain((await askApi(place, `runs/${name}/feed`)).status);
    expect([400, 404], name).toContain((await askApi(place, `runs/${name}/log`)).status);
  }
  for (const path of [
    "/../package.json",
    "/%2e%2e/package.json",
    "/viewer.js/..",
    "/index.html",
    "//viewer.js",
    "/viewer.js%00",
    "/package.json",
    "/.env",
    "/api",
    "/api/v2/meta",
  ])
    expect(codeOf(await ask(place, path)), path).toEqual([404, "not_found"]);
  expect(codeOf(await ask(place, "/%"))).toEqual([400, "invalid_request"]);
  expect(codeOf(await ask(place, "http://evil.example/api/v1/meta"))).toEqual([404, "not_found"]);
  for (const query of ["limit=-1", "limit=x", "after=1.5", "after=%00"])
    expect(codeOf(await askApi(place, `runs/survey/log?${query}`)), query).toEqual([
      400,
      "invalid_request",
    ]);
});

proves(["V72"], "finds a run whose id has a slash, dots and spaces in encoded form", async () => {
  const { place, process } = await viewerWorld();
  const role = survey(1);
  const runId = "../a b/c?d#e%2f";
  await process({ roles: [role] }).start(role, "Survey.", { runId }).result;
  const { body } = await askApi(place, `runs/${encodeURIComponent(runId)}`);
  expect(body).toMatchObject({ run: { runId, status: "completed" } });
});

proves(["V71"], "accepts at most 64 connections", async () => {
  const { view, place } = await viewerWorld();
  const { port } = new URL(place.origin);
  const sockets = Array.from({ length: 70 }, () => connect(Number(port), "127.0.0.1"));
  afterwards(() => sockets.forEach((socket) => socket.destroy()));
  const closed = sockets.map(
    (socket) =>
      new Promise<void>((resolve) =>
        socket.once("close", () => resolve()).on("error", () => undefined),
      ),
  );
  let gone = 0;
  const sixGone = new Promise<void>((resolve) => {
    for (const one of closed) void one.then(() => (gone += 1) === 6 && resolve());
  });
  await sixGone;
  expect(sockets.filter(({ destroyed }) => !destroyed)).toHaveLength(64);
  await view.close();
  await Promise.all(closed);
});

proves(
  ["V86"],
  "runs within another server, below a path, with its own authorization",
  async () => {
    const { view, process, store, clock } = await viewerWorld();
    const role = asker(["pear"]);
    await process({ roles: [role] }).start(role, "Buy.", { runId: "buy" }).result;
    const own = await opened({
      store,
      clock,
      port: null,
      authorize: ({ headers }) => headers["x-user"] === "eva",
    });
    const plain = await opened({ store, clock, port: null });
    expect([own.url, plain.url, new URL(view.url).hash]).toEqual(["", "", `#token=${view.token}`]);
    const servers = [own, plain].map((one) => createServer(one.handler("/espalier")));
    const places = await Promise.all(
      servers.map(async (server) => {
        await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
        afterwards(() => new Promise((resolve) => server.close(resolve)));
        const address = server.address();
        const port = typeof address === "object" ? address?.port : 0;
        return {
          origin: `http://127.0.0.1:${port}`,
          token: plain.token,
        };
      }),
    );
    const [byUser, byToken] = places;
    if (byUser === undefined || byToken === undefined) throw new Error("There are two.");
    const eva = { "x-user": "eva", host: "runs.example" };
    const path = "/espalier/api/v1/runs/buy";
    expect((await ask(byUser, path, { headers: eva })).body).toMatchObject({
      run: { status: "input_required" },
    });
    expect(codeOf(await ask(byUser, path))).toEqual([401, "unauthorized"]);
    expect(codeOf(await ask(byUser, "/api/v1/meta", { headers: eva }))).toEqual([404, "not_found"]);
    const body = { key: "1", type: "cancel" };
    const crossed = await ask(byUser, `${path}/actions`, {
      method: "POST",
      headers: { ...eva, origin: "https://evil.example" },
      body,
    });
    expect(codeOf(crossed)).toEqual([403, "foreign_origin"]);
    const posted = await ask(byUser, `${path}/actions`, {
      method: "POST",
      headers: { ...eva, origin: "https://runs.example" },
      body,
    });
    expect(posted).toMatchObject({ status: 202, body: { hasOwner: false } });
    expect((await ask(byToken, path)).status).toBe(200);
    expect(codeOf(await ask(byToken, path, { headers: { host: "evil.example" } }))).toEqual([
      403,
      "foreign_host",
    ]);
    expect(codeOf(await ask({ ...byToken, token: "" }, path))).toEqual([401, "unauthorized"]);
  },
);
