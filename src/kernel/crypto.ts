// Hashes and chance, by `node:crypto`. It is loaded when one of them is first needed: that takes as long as a tenth of importing the rest.

import type * as Crypto from "node:crypto";

let loaded: typeof Crypto | undefined;

/** SHA-256 as 64 lower-case hexadecimal digits; of a text, that of its UTF-8. */
export function sha256(data: string | Uint8Array): string {
  loaded ??= process.getBuiltinModule("node:crypto");
  return loaded.hash("sha256", data);
}

/** Returns `bytes` random bytes as lower-case hexadecimal digits. */
export function randomDigits(bytes: number): string {
  loaded ??= process.getBuiltinModule("node:crypto");
  return loaded.randomBytes(bytes).toString("hex");
}
