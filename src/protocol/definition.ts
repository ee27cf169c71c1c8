// Texts that many records refer to, kept once for a run under their hash (C28): prompts, tool definitions, what hooks showed a model.

import { sha256 } from "../kernel/crypto.ts";
import { lazySchema, z } from "./lazy-schema.ts";

/** Texts by their hash (`textHash`): prompts as they are, lists of tool definitions as JSON. */
export type Definitions = Readonly<Record<string, string>>;

/** 64 hexadecimal digits. */
export const HashSchema = lazySchema(() => z.string().regex(/^[0-9a-f]{64}$/));
export const DefinitionsSchema = lazySchema(
  () => z.record(HashSchema(), z.string()).readonly() satisfies z.ZodType<Definitions>,
);

/** No byte of any text in UTF-8. */
const ILL_FORMED = Buffer.from([0xff]);

/** The hash of a text: SHA-256 of its UTF-8. Texts with half a character, which UTF-8 does not know, have hashes of their own. */
export function hashText(text: string): string {
  return text.isWellFormed()
    ? sha256(text)
    : sha256(Buffer.concat([ILL_FORMED, Buffer.from(text, "utf16le")]));
}
