// What a subagent was given at its creation, on record: counts, names and hashes, but no text (X13).

import { sha256 } from "../kernel/crypto.ts";
import { canonicalJson } from "../kernel/json.ts";
import { lazyObject, lazySchema, z } from "./lazy-schema.ts";
import { RemovedToolSchema, type RemovedTool } from "./tool-rule.ts";

/** What a subagent received besides its instructions and its task. `hash`: `hashOf` the messages, as its first request holds them. */
export interface InheritanceRecord {
  /** Messages of the parent. In the first request they come right after the instructions. */
  readonly messages: {
    /** How many. */
    readonly count: number;
    /** Of these messages. */
    readonly hash: string;
  };
  /** Everything else that the subagent reads before its task: one message for each text and for each kind of fact. */
  readonly injections: {
    /** How many. */
    readonly count: number;
    /** Of these messages. */
    readonly hash: string;
  };
  /** Keys of the metadata that it got. */
  readonly metadataKeys: readonly string[];
  /** Subagents of the parent whose results it was shown in short. */
  readonly siblingResults: readonly string[];
  /** Subagents of the parent whose results it was given word for word. */
  readonly results: readonly string[];
  /** Failed tool calls of the parent that it reads of. */
  readonly failedAttempts: number;
  /** True if it reads what binds its parent. */
  readonly parentConstraints: boolean;
  /** Tools of its role that it does not have. */
  readonly removedTools: readonly RemovedTool[];
  /** Limits of its role that do not hold, since those above are tighter. */
  readonly tightened: readonly {
    /** What was asked for, such as `limits.maxDepth` or `budget.steps`. */
    readonly field: string;
    /** The value in the definition of the role. */
    readonly requested: number;
    /** The value that applies. */
    readonly granted: number;
    /** The agent under which it was started, by its path: its limits, or those above it, are tighter. */
    readonly source: string;
  }[];
}

export type Tightening = InheritanceRecord["tightened"][number];

const count = lazySchema(() => z.int().nonnegative());
const texts = lazySchema(() => z.array(z.string()).readonly());
const PortionSchema = lazyObject(() => ({ count: count(), hash: z.string() }));

const TighteningSchema = lazyObject(() => ({
  field: z.string(),
  requested: z.number(),
  granted: z.number(),
  source: z.string(),
})) satisfies () => z.ZodType<Tightening>;

export const ContextManifestSchema = lazyObject(() => ({
  messages: PortionSchema(),
  injections: PortionSchema(),
  metadataKeys: texts(),
  siblingResults: texts(),
  results: texts(),
  failedAttempts: count(),
  parentConstraints: z.boolean(),
  removedTools: z.array(RemovedToolSchema()).readonly(),
  tightened: z.array(TighteningSchema()).readonly(),
})) satisfies () => z.ZodType<InheritanceRecord>;

/** The fingerprint of a JSON value: 64 hexadecimal digits, equal for equal values, whatever the order of their keys. Throws for what is no JSON. */
export function hashOf(value: unknown): string {
  return sha256(canonicalJson(value));
}
