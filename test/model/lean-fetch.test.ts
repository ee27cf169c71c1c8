// Goal: the transport does what fetch would do, for what we ask of it. Method: both against the same server.

import { expect, test } from "vitest";

import { leanFetch } from "../../src/model/openai/lean-fetch.ts";
import { rejection } from "../support/openai-calls.ts";
import { OpenAiServer, says, status } from "../support/openai-server.ts";

const post = (signal: AbortSignal | null = null): RequestInit => ({
  method: "post",
  headers: { "content-type": "application/json", "x-twice": "a, b" },
  body: '{"model":"m"}',
  signal,
});

async function facts(send: typeof fetch, url: string): Promise<object> {
  const response = await send(url, post());
  const headers = [...response.headers].filter(([name]) => name !== "date");
  return {
    status: response.status,
    ok: response.ok,
    statusText: response.statusText,
    headers,
    text: await response.text(),
  };
}

test("status, headers and text are those that fetch gives", async () => {
  await using server = await OpenAiServer.start((_request, count) =>
    count <= 2 ? says("ok") : status(429, { "retry-after": "1", "set-cookie": ["a=1", "b=2"] }),
  );
  for (let round = 0; round < 2; round += 1) {
    expect(await facts(leanFetch, server.baseUrl)).toEqual(await facts(fetch, server.baseUrl));
  }
  const [ours, theirs] = server.requests.map(({ headers }) => ({ ...headers }));
  const own = ["content-type", "content-length", "x-twice"];
  expect(own.map((name) => ours?.[name])).toEqual(own.map((name) => theirs?.[name]));
});

test("the reason of an aborted signal is what the request is rejected with, before it and after its head", async () => {
  const reason = { type: "cancelled" };
  const { promise: until, resolve: release } = Promise.withResolvers<void>();
  const paused = says("A long story", { interrupted: { type: "pause", afterChunks: 1, until } });
  await using server = await OpenAiServer.start(() => paused);
  const caller = new AbortController();

  const response = await leanFetch(`${server.baseUrl}/chat/completions`, post(caller.signal));
  const text = rejection(response.text());
  caller.abort(reason);

  expect(await text).toBe(reason);
  expect(await server.request(1).ended).toBe("closed early");
  expect(await rejection(leanFetch(server.baseUrl, post(AbortSignal.abort(reason))))).toBe(reason);
  release();
});

test("sockets are used again", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  for (let round = 0; round < 5; round += 1) {
    await (await leanFetch(server.baseUrl, post())).text();
    // undici gives a socket back in the tick after the one in which the reply has ended.
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(new Set(server.requests.map(({ clientPort }) => clientPort)).size).toBe(1);
});

test("a request that is not text to an address goes to fetch", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  const bytes = new TextEncoder().encode('{"model":"m"}');
  const answers = [
    await leanFetch(server.baseUrl, { method: "POST", body: bytes }),
    await leanFetch(new URL(server.baseUrl), { method: "POST", body: '{"model":"m"}' }),
    await leanFetch(new Request(server.baseUrl, { method: "POST", body: '{"model":"m"}' })),
  ];
  await Promise.all(answers.map((answer) => answer.text()));
  expect(server.requests.map(({ body }) => body)).toEqual([
    { model: "m" },
    { model: "m" },
    { model: "m" },
  ]);
});
