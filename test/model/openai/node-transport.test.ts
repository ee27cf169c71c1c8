// Goal: the transport behaves like fetch for its requests, and closes sockets that no request
// needs.
// Method: both against the same server, and servers that close or hold a socket at a chosen moment.

import { createServer, type Server, type Socket } from "node:net";

import { expect, test } from "vitest";

import { CancelSignal } from "../../../src/kernel/cancel-signal.ts";
import {
  NodeTransport,
  getTransport,
  type Send,
  type WireResponse,
} from "../../../src/model/openai/node-transport.ts";
import {
  createRequestTarget,
  createFetchSender,
} from "../../../src/model/openai/openai-connection.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { failure, modelAt, MODES, never, rejection, reply } from "../../support/openai-calls.ts";
import { OpenAiServer, says, status } from "../../support/openai-server.ts";

const HEADERS = { "content-type": "application/json", "x-twice": "a, b" };

async function post(send: Send, url: string, signal = new CancelSignal()): Promise<WireResponse> {
  const head = {
    target: createRequestTarget(new URL(url)),
    headers: Object.entries(HEADERS).flat(),
  };
  return await send(head, Buffer.from('{"model":"m"}'), signal);
}

const ours: Send = (...request) => getTransport("http://server", undefined).send(...request);
const theirs = createFetchSender(fetch);

async function textOf({ pieces }: WireResponse): Promise<string> {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all).toString();
}

async function facts(send: Send, url: string): Promise<object> {
  const response = await post(send, url);
  const headers = [...response.headers()].filter(([name]) => name !== "date");
  const named = ["content-type", "set-cookie", "retry-after", "x-none"];
  return {
    status: response.status,
    headers,
    named: named.map((name) => response.header(name)),
    text: await textOf(response),
  };
}

test("returns the same status, headers and text as fetch", async () => {
  await using server = await OpenAiServer.start((_request, count) =>
    count <= 2 ? says("ok") : status(429, { "retry-after": "1", "set-cookie": ["a=1", "b=2"] }),
  );
  for (let round = 0; round < 2; round += 1) {
    expect(await facts(ours, server.baseUrl)).toEqual(await facts(theirs, server.baseUrl));
  }
  const [first, second] = server.requests.map(({ headers }) => ({ ...headers }));
  const own = ["content-type", "content-length", "x-twice"];
  expect(own.map((name) => first?.[name])).toEqual(own.map((name) => second?.[name]));
});

test("rejects an aborted request with the reason of the abort", async () => {
  const reason = { type: "cancelled" };
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
  await using server = await OpenAiServer.start(() => {
    arrive();
    return new Promise(() => undefined);
  });
  const signal = new CancelSignal();
  const thrown = rejection(post(ours, server.baseUrl, signal));
  await arrived;
  signal.abort(reason);
  expect(await thrown).toBe(reason);
  expect(await server.request(1).ended).toBe("closed early");
  expect(server.requests.length).toBe(1);
});

for (const isReused of [false, true]) {
  const socket = isReused ? "a socket that was used before" : "a new socket";
  proves(["M26"], `closes the connection of an aborted response body on ${socket}`, async () => {
    const { promise: until, resolve: release } = Promise.withResolvers<void>();
    const paused = says("A long story", { interrupted: { type: "pause", afterChunks: 1, until } });
    await using server = await OpenAiServer.start(({ path }) =>
      path === "/v1/pause" ? paused : says("ok"),
    );
    const transport = new NodeTransport("http:");
    for (const isReading of [true, false]) {
      if (isReused) {
        await textOf(await post(transport.send, `${server.baseUrl}/quick`));
        await new Promise((resolve) => setImmediate(resolve));
      }
      const caller = new CancelSignal();
      const response = await post(transport.send, `${server.baseUrl}/pause`, caller);
      const early = isReading ? rejection(textOf(response)) : undefined;
      caller.abort(undefined);
      expect(await (early ?? rejection(textOf(response)))).toBeInstanceOf(Error);
      expect(await server.request(server.requests.length).ended).toBe("closed early");
    }
    const ports = new Set(server.requests.map(({ clientPort }) => clientPort));
    expect([server.requests.length, ports.size]).toEqual([isReused ? 4 : 2, 2]);
    release();
  });
}

test("does not interrupt a later request on the same socket if an ended one is aborted", async () => {
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
  const { promise: until, resolve: release } = Promise.withResolvers<void>();
  await using server = await OpenAiServer.start(async (_request, count) => {
    if (count === 2) arrive();
    if (count === 2) await until;
    return says("ok");
  });
  const transport = new NodeTransport("http:");
  const caller = new CancelSignal();
  await textOf(await post(transport.send, server.baseUrl, caller));
  await new Promise((resolve) => setImmediate(resolve));
  const second = post(transport.send, server.baseUrl);
  await arrived;
  caller.abort(undefined);
  release();
  expect((await second).status).toBe(200);
  expect(new Set(server.requests.map(({ clientPort }) => clientPort)).size).toBe(1);
  await textOf(await second);
});

proves(["M20"], "reuses sockets", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  for (let round = 0; round < 5; round += 1) {
    await textOf(await post(ours, server.baseUrl));
    // A socket returns to the pool in the tick after the end of its reply.
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(new Set(server.requests.map(({ clientPort }) => clientPort)).size).toBe(1);
});

/** Starts a TCP server that handles each connection with `serve`, and returns its URL. */
async function bytesServer(serve: (socket: Socket, count: number) => void): Promise<string> {
  let count = 0;
  const sockets: Socket[] = [];
  const server: Server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined);
    serve(socket, (count += 1));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterwards(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The server has no port.");
  return `http://127.0.0.1:${address.port}/`;
}

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/**
 * Starts a server that handles the second request on the first socket with `second` and answers all
 * others.
 */
async function staleServer(
  second: (socket: Socket) => void,
): Promise<{ readonly url: string; readonly requests: number[] }> {
  const requests: number[] = [];
  const url = await bytesServer((socket, connection) => {
    let onThis = 0;
    socket.on("data", () => {
      requests.push(connection);
      onThis += 1;
      if (connection === 1 && onThis === 2) second(socket);
      else socket.write(OK);
    });
  });
  return { url, requests };
}

async function twice(transport: NodeTransport, url: string): Promise<string> {
  await textOf(await post(transport.send, url));
  await new Promise((resolve) => setImmediate(resolve));
  return await textOf(await post(transport.send, url));
}

for (const [how, close] of [
  ["reset", (socket: Socket) => socket.resetAndDestroy()],
  ["closed", (socket: Socket) => socket.destroy()],
] as const) {
  proves(
    ["M27"],
    `resends a request without using an attempt if its idle socket was ${how}`,
    async () => {
      const { url, requests } = await staleServer(close);
      expect(await twice(new NodeTransport("http:"), url)).toBe("ok");
      expect(requests).toEqual([1, 1, 2]);
    },
  );
}

proves(["M27"], "resends a request only once, on a new socket", async () => {
  let connections = 0;
  const url = await bytesServer((socket) => {
    const connection = (connections += 1);
    let onThis = 0;
    socket.on("data", () => {
      onThis += 1;
      if (connection === 3 || onThis === 2) socket.destroy();
      else socket.write(OK);
    });
  });
  const transport = new NodeTransport("http:");
  const both = [post(transport.send, url), post(transport.send, url)];
  await Promise.all((await Promise.all(both)).map(textOf));
  await new Promise((resolve) => setImmediate(resolve));
  expect(await rejection(post(transport.send, url))).toMatchObject({ code: "ECONNRESET" });
  expect(connections).toBe(3);
});

proves(["M27"], "does not resend a request that the server may have seen", async () => {
  const answering = await staleServer((socket) => socket.end("HTTP/1.1 200 OK\r\ncont"));
  const broken = await rejection(twice(new NodeTransport("http:"), answering.url));
  expect(broken).toBeInstanceOf(Error);
  expect(answering.requests).toEqual([1, 1]);

  const clock = new ManualClock();
  const thinking = await staleServer((socket) => {
    clock.advance(1_001);
    socket.destroy();
  });
  const late = await rejection(twice(new NodeTransport("http:", undefined, clock), thinking.url));
  expect(late).toMatchObject({ code: "ECONNRESET" });
  expect(thinking.requests).toEqual([1, 1]);

  let connections = 0;
  const first = await bytesServer((socket) => {
    connections += 1;
    socket.on("data", () => socket.destroy());
  });
  const fresh = await rejection(post(new NodeTransport("http:").send, first));
  expect(fresh).toMatchObject({ code: "ECONNRESET" });
  expect(connections).toBe(1);
});

proves(
  ["M27"],
  "does not resend an aborted request whose reason looks like a stale socket",
  async () => {
    const caller = new CancelSignal();
    const reason = Object.assign(new Error("enough"), { code: "ECONNRESET" });
    const { url, requests } = await staleServer(() => caller.abort(reason));
    const transport = new NodeTransport("http:");
    await textOf(await post(transport.send, url));
    await new Promise((resolve) => setImmediate(resolve));
    expect(await rejection(post(transport.send, url, caller))).toBe(reason);
    expect(requests).toEqual([1, 1]);
  },
);

proves(["M28"], "abandons a connection that is not open after ten seconds", async () => {
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<Socket>();
  const url = await bytesServer(arrive); // The server never completes the TLS handshake.
  const clock = new ManualClock();
  const transport = new NodeTransport("https:", undefined, clock);
  const thrown = rejection(post(transport.send, url.replace("http:", "https:")));
  const socket = await arrived;
  const closed = new Promise((resolve) => socket.on("close", resolve).resume());
  clock.advance(9_999);
  expect(clock.pendingTimers).toBe(1);
  clock.advance(1);
  expect(await thrown).toMatchObject({ message: "Connection timed out after 10000 ms" });
  await closed;
});

proves(["M28"], "reports an abandoned connection as model_timeout", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  const givenUp = (): Promise<never> =>
    Promise.reject(new Error("Connection timed out after 10000 ms"));
  const { code, message } = await failure(modelAt(server, { fetch: givenUp }), "whole");
  expect([code, message.slice(0, 62)]).toEqual([
    "model_timeout",
    "Expected a reply from the model, got no connection in time. Tr",
  ]);
});

test("reports the failure at each address of a host", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  const tried = ["connect ECONNREFUSED ::1:9", "connect ECONNREFUSED 127.0.0.1:9"];
  const refused = (): Promise<never> =>
    Promise.reject(new AggregateError(tried.map((why) => new Error(why))));
  const { code, message } = await failure(modelAt(server, { fetch: refused }), "whole");
  expect([code, message]).toEqual([
    "model_unavailable",
    `Expected a reply from the model, got no connection (${tried.join("; ")}). Try again. If it persists, check the network and the base URL.`,
  ]);
});

test("leaves no timer behind when a socket opens or fails to open", async () => {
  const clock = new ManualClock();
  const transport = new NodeTransport("http:", undefined, clock);
  const url = await bytesServer((socket) => socket.on("data", () => socket.write(OK)));
  await textOf(await post(transport.send, url));
  expect(clock.pendingTimers).toBe(0);
  const server = await OpenAiServer.start(() => says("ok"));
  await server[Symbol.asyncDispose]();
  const refused = await rejection(post(transport.send, server.baseUrl));
  expect(refused).toMatchObject({ code: "ECONNREFUSED" });
  // The timer is cleared some turns after the failure.
  while (clock.pendingTimers > 0) await new Promise((resolve) => setImmediate(resolve));
});

test("rejects invalid and unexpected response heads and closes the socket", async () => {
  const changed = "HTTP/1.1 101 Go\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
  const others = ["HTTP/1.1 999 No\r\n\r\n", "HTTP/1.1 101 Go\r\n\r\n", "SMTP ready\r\n"];
  for (const head of [changed, ...others]) {
    const { promise: closed, resolve: close } = Promise.withResolvers<unknown>();
    const url = await bytesServer((socket) => {
      socket.on("close", close).on("data", () => socket.write(head));
    });
    expect(await rejection(post(ours, url))).toBeInstanceOf(Error);
    await closed;
  }
});

/** Records each construction of these globals while a test runs. */
function counted(names: readonly string[]): readonly string[] {
  const made: string[] = [];
  for (const name of names) {
    const original: unknown = Reflect.get(globalThis, name);
    if (typeof original !== "function") throw new Error(`There is no ${name}.`);
    const counting = new Proxy(original, {
      construct: (target, values, newTarget) => {
        made.push(name);
        const one: unknown = Reflect.construct(target, values, newTarget);
        if (typeof one !== "object" || one === null) throw new Error(`${name} makes nothing.`);
        return one;
      },
    });
    Reflect.set(globalThis, name, counting);
    afterwards(() => Reflect.set(globalThis, name, original));
  }
  return made;
}

test.each(MODES)(
  "creates no fetch objects for a call over its own transport (%s)",
  async (mode) => {
    await using server = await OpenAiServer.start(() => says("ok"));
    const model = modelAt(server);
    await reply(model, mode); // The first request lets the client build its head.
    const signal = never();
    const made = counted(["Response", "Headers", "Request", "AbortController"]);
    await reply(model, mode, signal);
    expect(made).toEqual([]);
  },
);
