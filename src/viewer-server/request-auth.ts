// RequestAuth: decides which requests are accepted, by host name, origin and token. Protects against
// cross-origin requests, DNS rebinding and clients without the token.

import { createHmac, timingSafeEqual } from "node:crypto";
import { mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { dirname } from "node:path";

import { parseJson, findJsonProblem, type JsonValue } from "../kernel/json.ts";
import { RefusedRequest } from "./http-reply.ts";
import { generateHexDigits, sha256 } from "../kernel/crypto.ts";
import { EspalierError, getErrorMessage } from "../kernel/error.ts";
import type { ViewerOptions } from "./viewer-options.ts";

export interface RequestAuthOptions {
  readonly token: string;
  readonly authorize: ViewerOptions["authorize"] | undefined;
  /** Returns true for a `Host` header that names the server. */
  readonly isOurs: (host: string) => boolean;
  /** Command line of espalier, for messages. `undefined` in a program of the user. */
  readonly command: string | undefined;
}

const LARGEST_BODY_BYTES = 1_000_000;
const JSON_TYPE = /^application\/json\s*(?:;|$)/i;

export class RequestAuth {
  readonly #options: RequestAuthOptions;

  constructor(options: RequestAuthOptions) {
    this.#options = options;
  }

  /** Throws 403 for a request to another host name. `authorize` replaces this check. */
  checkHost({ headers: { host = "" } }: IncomingMessage): void {
    if (this.#options.authorize !== undefined || this.#options.isOurs(host)) return;
    throw new RefusedRequest(
      "foreign_host",
      "Request refused: the Host header is not an address of the viewer. Open the address that the viewer printed.",
    );
  }

  /** Rejects with 401 for a client that may not use the API. */
  async checkCaller(request: IncomingMessage): Promise<void> {
    const { token, authorize, command } = this.#options;
    if (authorize !== undefined) {
      if (await authorize(request)) return;
      throw new RefusedRequest("unauthorized", "Request refused: you are not authorized. Sign in.");
    }
    const [, received] = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? "") ?? [];
    if (received !== undefined && isSameToken(received, token)) return;
    const advice =
      command === undefined
        ? "Open the `url` of the viewer, or the address of its page with `#token=` and its `token`."
        : `Open the address that \`${command} view --url\` prints.`;
    throw new RefusedRequest(
      "unauthorized",
      `Expected the token of the viewer, got ${received === undefined ? "none" : "another token"}. ${advice}`,
    );
  }

  /**
   * Throws 403 or 415 for a request that a page of another origin could send. For requests that
   * change something.
   */
  checkOrigin({ headers }: IncomingMessage): void {
    const { origin, host } = headers;
    if (
      origin === undefined ||
      !URL.canParse(origin) ||
      new URL(origin).host !== host?.toLowerCase()
    )
      throw new RefusedRequest(
        "foreign_origin",
        "Cross-origin request refused: the Origin header is missing or does not match the host. Send the Origin of the viewer.",
      );
    if (JSON_TYPE.test(headers["content-type"] ?? "")) return;
    throw new RefusedRequest(
      "not_json",
      "Expected the content type application/json, got another one. Set the header.",
      415,
    );
  }
}

/**
 * Returns the JSON body of a request. Rejects with 413 for a body that is too long, and with 400
 * for invalid JSON.
 */
export async function readJsonBody(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  let bytes = 0;
  // The stream stays open: the rest of a body that is too long is drained with the reply.
  for await (const part of request.iterator({ destroyOnReturn: false })) {
    const read: unknown = part;
    if (!Buffer.isBuffer(read)) continue;
    bytes += read.length;
    if (bytes > LARGEST_BODY_BYTES)
      throw new RefusedRequest(
        "too_large",
        "Expected a body of at most 1,000,000 bytes, got more. Send less.",
      );
    parts.push(read);
  }
  let value: JsonValue;
  try {
    value = parseJson(Buffer.concat(parts).toString("utf8"));
  } catch {
    throw new RefusedRequest(
      "not_json",
      "Expected a JSON body, got something else. Correct the body.",
    );
  }
  // Schemas are checked recursively, so deep nesting could overflow the stack.
  const reason = findJsonProblem(value, MAX_LEVELS);
  if (reason !== undefined)
    throw new RefusedRequest(
      "invalid_request",
      `Expected a body that can be stored, but ${reason}.`,
    );
  return value;
}

/** Nesting of an action with the deepest allowed arguments. */
const MAX_LEVELS = 210;

/** 192 random bits. */
const TOKEN_BYTES = 24;
const TOKEN = /^[0-9a-f]{48}$/;
/** Permission bits of a file for users other than its owner. */
const OTHERS = 0o077;

/**
 * Returns the token in a file, or writes a new one. Replaces an invalid token, and a token that
 * other users can read. Rejects with `invalid_argument` if the file cannot be read or written.
 */
export async function loadOrCreateToken(file: string): Promise<string> {
  try {
    const stored = await readTokenFile(file);
    if (stored !== undefined) return stored;
    const token = generateToken();
    await mkdir(dirname(file), { recursive: true });
    const beside = `${file}.${generateHexDigits(8)}`;
    try {
      await writeFile(beside, `${token}\n`, { flag: "wx", mode: 0o600 });
      await rename(beside, file);
    } catch (cause) {
      await rm(beside, { force: true });
      throw cause;
    }
    return token;
  } catch (cause) {
    const message = `Cannot use viewer options.tokenFile: ${getErrorMessage(cause)}. Name another file.`;
    const data = { field: "viewer options.tokenFile" };
    throw new EspalierError({ code: "invalid_argument", message, data, cause });
  }
}

export function generateToken(): string {
  return generateHexDigits(TOKEN_BYTES);
}

async function readTokenFile(file: string): Promise<string | undefined> {
  const stats = await stat(file).catch((cause: unknown) => {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return undefined;
    throw cause;
  });
  const isShared =
    process.platform !== "win32" && stats !== undefined && (stats.mode & OTHERS) !== 0;
  if (stats === undefined || isShared) return undefined;
  const text = (await readFile(file, "utf8")).trim();
  return TOKEN.test(text) ? text : undefined;
}

/**
 * Returns a proof that the server has the token and serves this store. The proof does not reveal
 * the token.
 */
export function computeTokenProof(token: string, challenge: string, storeName: string): string {
  return createHmac("sha256", token).update(`${challenge}\n${storeName}`).digest("hex");
}

/** Returns true for equal tokens, in constant time. */
function isSameToken(received: string, token: string): boolean {
  return timingSafeEqual(Buffer.from(sha256(received)), Buffer.from(sha256(token)));
}
