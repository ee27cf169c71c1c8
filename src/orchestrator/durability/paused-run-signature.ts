// Signs paused runs with HMAC-SHA256 over the canonical JSON of all fields but the signature.
// `node:crypto` is loaded when a key is given.

import type { KeyObject } from "node:crypto";

import { mismatch } from "../../kernel/argument-checks.ts";
import { EspalierError } from "../../kernel/error.ts";
import { stringifyCanonical, deepFreeze, isRecord } from "../../kernel/json.ts";

/** A secret of at least 32 bytes. Text counts as UTF-8. */
type SigningKey = string | Uint8Array;

const LEAST_BYTES = 32;
/**
 * Domain separation: a signature of other data under the same key is not a valid signature of a
 * paused run.
 */
const PURPOSE = "espalier paused run\n";

/** Signs paused runs with the first of its keys, and verifies them with all. */
export class PausedRunSigner {
  // Key objects copy the bytes, and do not show them when they are printed.
  readonly #keys: readonly KeyObject[];
  readonly #crypto = process.getBuiltinModule("node:crypto");

  /** The keys must have been checked by `checkSigningKey`. */
  constructor(signingKey: SigningKey | readonly SigningKey[]) {
    const keys = isOneKey(signingKey) ? [signingKey] : signingKey;
    this.#keys = keys.map((key) => this.#crypto.createSecretKey(Buffer.from(key)));
  }

  /** Returns the paused run with its signature, frozen. */
  sign<Run extends object>(run: Run): Run & { readonly signature: string } {
    const [key] = this.#keys;
    if (key === undefined) throw new Error("A signer has a key.");
    const signature = this.#digest(key, stringifyCanonical(run));
    return deepFreeze({ ...run, signature });
  }

  /**
   * Returns exactly the values that the signature covers.
   *
   * Throws `invalid_signature` if it is missing or wrong.
   */
  verify({ signature, ...run }: Readonly<Record<string, unknown>>): unknown {
    if (typeof signature !== "string") throw createInvalidSignatureError("missing");
    const text = stringifyCanonical(run);
    const received = Buffer.from(signature);
    const isValid = this.#keys.some((key) => {
      const expected = Buffer.from(this.#digest(key, text));
      return (
        received.length === expected.length && this.#crypto.timingSafeEqual(received, expected)
      );
    });
    if (!isValid) throw createInvalidSignatureError("wrong");
    return JSON.parse(text);
  }

  /** 64 lower-case hexadecimal digits. */
  #digest(key: KeyObject, text: string): string {
    return this.#crypto.createHmac("sha256", key).update(PURPOSE).update(text).digest("hex");
  }
}

/** Throws `invalid_argument` for an invalid or too short key. */
export function checkSigningKey(field: string, value: unknown): void {
  if (isOneKey(value)) return checkKeyLength(field, value);
  if (!Array.isArray(value)) throw createKeyTypeError(field, value);
  const keys: readonly unknown[] = value;
  if (keys.length === 0)
    throw mismatch(
      field,
      "at least one key",
      "an empty array",
      "Leave it out to turn signing off.",
    );
  for (const [index, key] of keys.entries()) {
    if (!isOneKey(key)) throw createKeyTypeError(`${field}[${index}]`, key);
    checkKeyLength(`${field}[${index}]`, key);
  }
}

function checkKeyLength(field: string, key: SigningKey): void {
  const length = Buffer.byteLength(key);
  if (length >= LEAST_BYTES) return;
  // The message does not contain the key, which is secret.
  throw mismatch(field, `at least ${LEAST_BYTES} bytes`, length, KEY_ADVICE);
}

function createKeyTypeError(field: string, value: unknown): EspalierError {
  return mismatch(field, "a string, bytes or an array of both", typeof value, KEY_ADVICE);
}

const KEY_ADVICE = 'Generate a random key, for example with randomBytes(32) of "node:crypto".';

function isOneKey(value: unknown): value is SigningKey {
  return typeof value === "string" || value instanceof Uint8Array;
}

const PROBLEMS = {
  missing:
    "it has no signature. Pass a paused run of an orchestrator with this signingKey, or continue the run from its store",
  wrong:
    "its signature does not match. It was altered, or signed with another key. Pass it as it was stored, or add the key that signed it to signingKey",
  unverifiable:
    "it is signed, but this orchestrator has no signingKey. Set signingKey to the key that signed it",
} as const;

/** Returns the error for a paused run whose signature does not allow it to continue. */
export function createInvalidSignatureError(problem: keyof typeof PROBLEMS): EspalierError {
  return new EspalierError({
    code: "invalid_signature",
    message: `Cannot continue the paused run: ${PROBLEMS[problem]}.`,
    data: { problem },
  });
}

/** Returns true if the value has a signature, valid or not. */
export function isSigned(value: unknown): value is Readonly<Record<string, unknown>> {
  return isRecord(value) && value["signature"] !== undefined;
}
