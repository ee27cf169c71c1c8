// What a subagent was born with, on record: counts, names and hashes, but no text (X13).

import { createHash } from "node:crypto";

import { z } from "zod";

import { canonicalJson } from "../kernel/json.ts";
import { RemovedToolSchema } from "./tool-rule.ts";

const count = z.int().nonnegative();
const texts = z.array(z.string()).readonly();

const PortionSchema = z.strictObject({
  count,
  /** `hashOf` the messages, as the first request of the subagent holds them. */
  hash: z.string(),
});

const TighteningSchema = z.strictObject({
  /** What was asked for, such as `limits.maxDepth` or `budget.steps`. */
  field: z.string(),
  asked: z.number(),
  given: z.number(),
  /** The agent under which it was started, by its path: its limits, or those above it, are tighter. */
  source: z.string(),
});
/** A limit that the role of a subagent asked for, and the tighter one that it got (X16). */
export type Tightening = Readonly<z.infer<typeof TighteningSchema>>;

export const ContextManifestSchema = z.strictObject({
  /** Messages of the parent. In the first request they come right after the instructions. */
  messages: PortionSchema,
  /** Everything else that the subagent reads before its task: one message for each text and for each kind of fact. */
  injections: PortionSchema,
  /** Keys of the metadata that it got. */
  metadataKeys: texts,
  /** Subagents of the parent whose results it was shown in short. */
  siblingResults: texts,
  /** Subagents of the parent whose results it was given word for word. */
  results: texts,
  /** Failed tool calls of the parent that it reads of. */
  failedAttempts: count,
  /** True if it reads what binds its parent. */
  parentConstraints: z.boolean(),
  /** Tools of its role that it does not have. */
  removedTools: z.array(RemovedToolSchema).readonly(),
  /** Limits of its role that do not hold, since those above are tighter. */
  tightened: z.array(TighteningSchema).readonly(),
});
/** What a subagent received besides its instructions and its task. */
export type ContextManifest = Readonly<z.infer<typeof ContextManifestSchema>>;

/** The fingerprint of a JSON value: 64 hexadecimal digits, equal for equal values, whatever the order of their keys. Throws for what is no JSON. */
export function hashOf(value: unknown): string {
  return createHash("sha256").update(canonicalJson(value)).digest("hex");
}
