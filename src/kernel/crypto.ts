// Hashes and random bytes from `node:crypto`, which is loaded on first use: loading takes a tenth
// of the import time.

import type * as Crypto from "node:crypto";

let loaded: typeof Crypto | undefined;

/**
 * Returns the SHA-256 of the data as 64 lower-case hexadecimal digits. Text is encoded as UTF-8.
 */
export function sha256(data: string | Uint8Array): string {
  loaded ??= process.getBuiltinModule("node:crypto");
  return loaded.hash("sha256", data);
}

/** Returns `bytes` random bytes as lower-case hexadecimal digits. */
export function generateHexDigits(bytes: number): string {
  loaded ??= process.getBuiltinModule("node:crypto");
  return loaded.randomBytes(bytes).toString("hex");
}
