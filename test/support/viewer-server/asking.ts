// Sends requests to a viewer over real sockets, as a page and as other clients send them.

import { Agent, request as httpRequest, type IncomingMessage } from "node:http";
import { buffer, text } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";

import { afterwards } from "../../harness/afterwards.ts";
import type { FeedEntry } from "../../../src/read-model/viewer-data.ts";

/** The address of a viewer and its credentials. */
export interface Place {
  readonly origin: string;
  readonly token: string;
}

export function placeOf({ url }: { readonly url: string }): Place {
  const { origin, hash } = new URL(url);
  return { origin, token: hash.replace("#token=", "") };
}

export interface AskOptions {
  readonly method?: string;
  /** `undefined` omits a header that would be sent by default. */
  readonly headers?: Readonly<Record<string, string | undefined>> | undefined;
  /** A value is sent as JSON, a string unchanged. */
  readonly body?: unknown;
}

export interface Said {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
  /** `undefined` if the text is not JSON. */
  readonly body: unknown;
  /** The bytes as they were received. */
  readonly bytes: number;
}

/** Requests the path unchanged, with the headers of a page. */
export async function ask(
  { origin, token }: Place,
  path: string,
  options: AskOptions = {},
): Promise<Said> {
  const response = await responseOf({ origin, token }, path, options);
  const bytes = await buffer(response);
  const isPacked = response.headers["content-encoding"] === "gzip";
  const said = (isPacked ? gunzipSync(bytes) : bytes).toString("utf8");
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text: said,
    body: jsonIn(said),
    bytes: bytes.length,
  };
}

/** Requests a path of the API. */
export async function askApi(place: Place, path: string, options: AskOptions = {}): Promise<Said> {
  return await ask(place, `/api/v1/${path}`, options);
}

/** Requests an action on a run. */
export async function act(
  place: Place,
  runId: string,
  request: object,
  options: AskOptions = {},
): Promise<Said> {
  const path = `runs/${encodeURIComponent(runId)}/actions`;
  return await askApi(place, path, { method: "POST", body: request, ...options });
}

export async function responseOf(
  { origin, token }: Place,
  path: string,
  { method = "GET", headers = {}, body }: AskOptions,
): Promise<IncomingMessage> {
  const { hostname, port, host } = new URL(origin);
  const sent = typeof body === "string" || body === undefined ? body : JSON.stringify(body);
  const all: Record<string, string | undefined> = {
    host,
    authorization: `Bearer ${token}`,
    ...(method === "POST" ? { origin, "content-type": "application/json" } : {}),
    ...headers,
  };
  const given = Object.entries(all).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  );
  return await new Promise((resolve, reject) => {
    const agent = new Agent({ keepAlive: false });
    const asked = httpRequest({
      host: hostname,
      port,
      path,
      method,
      agent,
      headers: Object.fromEntries(given),
      setHost: false,
    });
    asked.once("response", resolve).once("error", reject);
    asked.end(sent);
  });
}

/** A feed that is read entry by entry. */
export interface Feed {
  readonly response: IncomingMessage;
  /** Resolves with the next entry and its id, or with undefined once the feed has ended. */
  next(): Promise<{ readonly id: number; readonly entry: FeedEntry } | undefined>;
  close(): void;
}

export async function openFeed(
  place: Place,
  runId: string,
  {
    after,
    headers = {},
  }: { readonly after?: number; readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<Feed> {
  const query = after === undefined ? "" : `?after=${after}`;
  const path = `/api/v1/runs/${encodeURIComponent(runId)}/feed${query}`;
  const response = await responseOf(place, path, { headers });
  if (response.statusCode !== 200) throw new Error(`No feed: ${await text(response)}`);
  const blocks = blocksOf(response);
  afterwards(() => response.destroy());
  return {
    response,
    next: async () => {
      for (;;) {
        const read = await blocks.next();
        if (read.done === true) return undefined;
        const [, id = "", data = ""] = /^id: (\d+)\ndata: (.*)$/s.exec(read.value) ?? [];
        const entry: unknown = data === "" ? undefined : JSON.parse(data);
        if (isEntry(entry)) return { id: Number(id), entry };
      }
    },
    close: () => void response.destroy(),
  };
}

async function* blocksOf(response: IncomingMessage): AsyncGenerator<string, undefined> {
  let rest = "";
  response.setEncoding("utf8");
  try {
    for await (const part of response) {
      rest += String(part);
      const blocks = rest.split("\n\n");
      rest = blocks.pop() ?? "";
      yield* blocks;
    }
  } catch {
    // The feed was closed.
  }
  return undefined;
}

function isEntry(value: unknown): value is FeedEntry {
  return typeof value === "object" && value !== null && "type" in value;
}

function jsonIn(said: string): unknown {
  try {
    return JSON.parse(said);
  } catch {
    return undefined;
  }
}

/** Returns the status of a response, and its code if it has one. */
export function codeOf({ status, body }: Said): readonly unknown[] {
  return [status, typeof body === "object" && body !== null && "code" in body ? body.code : body];
}
