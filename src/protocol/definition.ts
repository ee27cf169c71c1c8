// Texts that many records share, stored once per run under their hash: prompts, tool definitions,
// messages from hooks.

import { mismatch } from "../kernel/argument-checks.ts";
import { sha256 } from "../kernel/crypto.ts";
import { lazySchema, z } from "./lazy-schema.ts";

/**
 * Texts by their hash: system prompts as they are, tool definitions as JSON.
 *
 * @example
 * ```ts
 * const [step] = result.steps;
 * if (step) console.log(result.definitions[step.context.promptHash]);
 * ```
 */
export type Definitions = Readonly<Record<string, string>>;

/** 64 hexadecimal digits. */
export const HashSchema = lazySchema(() => z.string().regex(/^[0-9a-f]{64}$/));
export const DefinitionsSchema = lazySchema(
  () => z.record(HashSchema(), z.string()).readonly() satisfies z.ZodType<Definitions>,
);

/** Byte that no UTF-8 text contains. */
const ILL_FORMED = Buffer.from([0xff]);

/**
 * Returns the hash of a text as 64 hexadecimal digits: SHA-256 of its UTF-8 encoding. Texts with
 * lone surrogates get distinct hashes.
 *
 * @example
 * ```ts
 * const isUnchanged = hashText("You research.") === result.steps[0]?.context.promptHash;
 * ```
 */
export function hashText(text: string): string {
  if (typeof text !== "string") throw mismatch("hashText text", "a string", text, "Pass a text.");
  return text.isWellFormed()
    ? sha256(text)
    : sha256(Buffer.concat([ILL_FORMED, Buffer.from(text, "utf16le")]));
}
