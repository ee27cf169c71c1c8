// Record of the context that a subagent received at its creation: counts, names and hashes, but no
// text.

import { sha256 } from "../kernel/crypto.ts";
import { stringifyCanonical } from "../kernel/json.ts";
import { CountSchema, lazyObject, lazySchema, z } from "./lazy-schema.ts";
import { RemovedToolSchema, type RemovedTool } from "./tool-rule.ts";

/**
 * Record of the context that a subagent inherited, besides its instructions and its task.
 *
 * It contains counts, names and hashes, but no text. Hashes have 64 hexadecimal digits.
 *
 * @example
 * ```ts
 * for await (const event of run.events())
 *   if (event.type === "subagent.spawned")
 *     console.log(event.childPath, event.inherited.messages.count, event.inherited.removedTools);
 * ```
 */
export interface InheritanceRecord {
  /** Messages of the parent. They follow the instructions in the first request. */
  readonly messages: {
    /** Number of messages. */
    readonly count: number;
    /** Hash of the messages. */
    readonly hash: string;
  };
  /** Other messages that the subagent reads before its task. */
  readonly injections: {
    /** Number of messages. */
    readonly count: number;
    /** Hash of the messages. */
    readonly hash: string;
  };
  /** Keys of the inherited metadata. */
  readonly metadataKeys: readonly string[];
  /** Siblings whose results the subagent received as a short summary, by `subagent`. */
  readonly siblingResults: readonly string[];
  /** Siblings whose full results the subagent received, by `subagent`. */
  readonly results: readonly string[];
  /** Number of the parent's failed tool calls that the subagent was shown. */
  readonly failedAttempts: number;
  /** True if the subagent was shown the limits of its parent. */
  readonly parentConstraints: boolean;
  /** Tools of the role that the subagent does not have, each with the reason. */
  readonly removedTools: readonly RemovedTool[];
  /** Limits of the role that were lowered to the limits of the ancestors. */
  readonly tightened: readonly {
    /** Lowered limit, such as `limits.maxDepth` or `budget.steps`. */
    readonly field: string;
    /** Value in the role. */
    readonly requested: number;
    /** Value that applies. */
    readonly granted: number;
    /** Path of the agent whose limits, or whose ancestors' limits, are lower. */
    readonly source: string;
  }[];
}

export type Tightening = InheritanceRecord["tightened"][number];

const texts = lazySchema(() => z.array(z.string()).readonly());
const PortionSchema = lazyObject(() => ({ count: CountSchema(), hash: z.string() }));

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
  failedAttempts: CountSchema(),
  parentConstraints: z.boolean(),
  removedTools: z.array(RemovedToolSchema()).readonly(),
  tightened: z.array(TighteningSchema()).readonly(),
})) satisfies () => z.ZodType<InheritanceRecord>;

/**
 * Returns the hash of a JSON value: 64 hexadecimal digits, the same for equal values in any key
 * order. Throws for non-JSON values.
 */
export function computeJsonHash(value: unknown): string {
  return sha256(stringifyCanonical(value));
}
