// Goal: a client reads why its POST is refused, however long its body is.
// Method: raw sockets that read late, fetch with large bodies, and clients that never end a body.

import { connect, type Socket } from "node:net";
import { once } from "node:events";

import { expect } from "vitest";

import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { placeOf, type Place } from "../support/viewer-server/asking.ts";
import { opened } from "../support/viewer-server/viewer-world.ts";

const TIMES = 25;
const PATH = "/api/v1/runs/survey/actions";

interface Refusal {
  readonly status: number;
  readonly path: string;
  /** Headers besides those of every POST. */
  readonly headers: Readonly<Record<string, string>>;
}

async function viewerPlace(): Promise<Place> {
  return placeOf(await opened({}));
}

/** Each way to refuse a POST: before its body is read, and while it is read. */
function refusalsAt({ origin, token }: Place): readonly Refusal[] {
  const authorization = `Bearer ${token}`;
  const json = { origin, "content-type": "application/json" };
  return [
    { status: 401, path: PATH, headers: json },
    { status: 403, path: PATH, headers: { authorization, "content-type": "application/json" } },
    { status: 415, path: PATH, headers: { authorization, origin } },
    { status: 404, path: "/api/v1/nothing", headers: { authorization, ...json } },
    { status: 413, path: PATH, headers: { authorization, ...json } },
  ];
}

/** Opens a socket and sends the head of a POST. */
function beginPost(
  { origin }: Place,
  { path, headers }: Pick<Refusal, "path" | "headers">,
  body: string,
): Socket {
  const { host, hostname, port } = new URL(origin);
  const socket = connect(Number(port), hostname);
  afterwards(() => void socket.destroy());
  const lines = Object.entries({ host, ...headers }).map(([name, value]) => `${name}: ${value}`);
  socket.write(`POST ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n${body}\r\n\r\n`);
  return socket;
}

/** Resolves with everything that a socket received, and the code of its error if it had one. */
async function readToEnd(socket: Socket): Promise<readonly [status: number, error: string]> {
  let error = "";
  socket.on("error", (cause) => {
    error = "code" in cause ? String(cause.code) : cause.message;
  });
  let text = "";
  socket.on("data", (part: Buffer) => {
    text += part.toString("latin1");
  });
  if (!socket.closed) await once(socket, "close").catch(() => undefined);
  return [Number(text.slice(9, 12)), error];
}

proves(["D573"], "sends every refusal to a client that reads after its body of 3 MB", async () => {
  const place = await viewerPlace();
  for (const refusal of refusalsAt(place))
    for (let time = 0; time < TIMES; time += 1) {
      const socket = beginPost(place, refusal, "content-length: 3000000\r\nconnection: close");
      await new Promise<void>((sent) => socket.write("x".repeat(3_000_000), () => sent()));
      expect(await readToEnd(socket), `${refusal.status}, ${time}`).toEqual([refusal.status, ""]);
    }
});

proves(["D573"], "sends every refusal to fetch with a body of 5 MB", async () => {
  const place = await viewerPlace();
  const body = "x".repeat(5_000_000);
  for (const { status, path, headers } of refusalsAt(place))
    for (let time = 0; time < TIMES; time += 1) {
      const reply = await fetch(`${place.origin}${path}`, { method: "POST", headers, body });
      expect([reply.status, typeof (await reply.json())], `${time}`).toEqual([status, "object"]);
    }
});

proves(
  ["D573"],
  "sends a refusal before the body ends, and closes an idle connection",
  async () => {
    const place = await viewerPlace();
    const [refusal] = refusalsAt(place);
    if (refusal === undefined) throw new Error("no refusal");
    const socket = beginPost(place, refusal, "content-length: 3000000");
    const head = await new Promise<Buffer>((read) => void socket.once("data", read));
    expect(head.toString("latin1")).toMatch(/^HTTP\/1\.1 401 [^]*\r\n\r\n\{/);
    // The client sends nothing more.
    await once(socket, "close");
  },
);

proves(["D573"], "ends a connection whose refused body never ends, within 16 MB", async () => {
  const place = await viewerPlace();
  for (const refusal of refusalsAt(place)) {
    const socket = beginPost(place, refusal, "transfer-encoding: chunked");
    const received = readToEnd(socket);
    const chunk = `10000\r\n${"x".repeat(65_536)}\r\n`;
    let sent = 0;
    while (!socket.destroyed && sent < 200_000_000) {
      sent += chunk.length;
      await new Promise<void>((done) => socket.write(chunk, () => done()));
    }
    expect((await received)[0]).toBe(refusal.status);
    // The remaining bytes are in the buffers of both sockets.
    expect(sent).toBeGreaterThan(16_000_000);
    expect(sent).toBeLessThan(48_000_000);
  }
});

proves(["D573"], "keeps the connection of a refused POST whose body was read", async () => {
  const place = await viewerPlace();
  const [refusal] = refusalsAt(place);
  if (refusal === undefined) throw new Error("no refusal");
  const { path, headers } = refusal;
  const reply = await fetch(`${place.origin}${path}`, { method: "POST", headers, body: "{}" });
  expect([reply.status, reply.headers.get("connection")]).toEqual([401, "keep-alive"]);
  await reply.text();
});
