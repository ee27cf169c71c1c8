// The token of a viewer: a client that has it may use its API. Kept in a file that only its user can read, so that pages outlive the server.

import { createHmac, timingSafeEqual } from "node:crypto";
import { mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

import { randomDigits, sha256 } from "../kernel/crypto.ts";
import { EspalierError, messageOf } from "../kernel/error.ts";

/** 192 bits of chance. */
const TOKEN_BYTES = 24;
const TOKEN = /^[0-9a-f]{48}$/;
/** What users other than its own may do with a file. */
const OTHERS = 0o077;

/**
 * The token of a file, or a new one, which is put there. One that others could read, or that is none, is replaced. Rejects with
 * `invalid_option` if the file can be neither read nor written.
 */
export async function keptToken(file: string): Promise<string> {
  try {
    const kept = await tokenIn(file);
    if (kept !== undefined) return kept;
    const token = newToken();
    await mkdir(dirname(file), { recursive: true });
    const beside = `${file}.${randomDigits(8)}`;
    try {
      await writeFile(beside, `${token}\n`, { flag: "wx", mode: 0o600 });
      await rename(beside, file);
    } catch (cause) {
      await rm(beside, { force: true });
      throw cause;
    }
    return token;
  } catch (cause) {
    const message = `Expected viewer options.tokenFile to be a file for the token, got: ${messageOf(cause)}. Name another file.`;
    const data = { field: "viewer options.tokenFile" };
    throw new EspalierError({ code: "invalid_option", message, data, cause });
  }
}

export function newToken(): string {
  return randomDigits(TOKEN_BYTES);
}

async function tokenIn(file: string): Promise<string | undefined> {
  const found = await stat(file).catch((cause: unknown) => {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return undefined;
    throw cause;
  });
  const isShared =
    process.platform !== "win32" && found !== undefined && (found.mode & OTHERS) !== 0;
  if (found === undefined || isShared) return undefined;
  const text = (await readFile(file, "utf8")).trim();
  return TOKEN.test(text) ? text : undefined;
}

/** Returns a proof that its sender has the token and serves this store. It does not reveal the token. */
export function tokenProof(token: string, challenge: string, storeName: string): string {
  return createHmac("sha256", token).update(`${challenge}\n${storeName}`).digest("hex");
}

/** Whether both are the same, in a time that does not depend on where they differ. */
export function isSameToken(given: string, token: string): boolean {
  return timingSafeEqual(Buffer.from(sha256(given)), Buffer.from(sha256(token)));
}
