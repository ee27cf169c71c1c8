// The fields that a patch may have at each point. Checked when a hook returns.

import { isRecord, sameJson, type JsonObject, type JsonValue } from "../kernel/json.ts";
import { lazySchema, z } from "../protocol/lazy-schema.ts";
import { MAX_TEMPERATURE } from "../model/check-model-settings.ts";
import { MessageSchema, type Message } from "../protocol/message.ts";
import { createHookResultError, type HookPlace } from "./hook-error.ts";
import type { PointInput, PointPatch, TransformPoint } from "./hook-points.ts";
import { fitParts } from "../protocol/reply-message.ts";

/** Fields and schema of the patches at a point. */
export interface PatchContract<P extends TransformPoint> {
  /** The fields that a patch may have at the point. */
  readonly fields: readonly string[];
  /** Parses only our own copy of the hook's return value. */
  readonly schema: z.ZodType<PointPatch[P]>;
  /**
   * Fits the patch to the input of the hook, and throws `invalid_hook_result` if it cannot. Absent
   * if nothing must fit.
   */
  readonly fitted?: (patch: PointPatch[P], shown: PointInput[P], place: HookPlace) => PointPatch[P];
}

const contracts = lazySchema((): { readonly [P in TransformPoint]: PatchContract<P> } => {
  const words = z
    .string()
    .refine((text) => text.trim() !== "", "Expected a non-empty string")
    .optional();
  const conversation = z
    .array(MessageSchema())
    .refine(
      (messages) => messages.every((message) => message.role !== "system"),
      "Expected no system message; change the instructions instead",
    )
    .optional();
  const stop = createContract({ continueWith: words });
  return {
    userInput: createContract({ task: words, refuse: words }),
    beforeModel: {
      ...createContract({
        instructions: words,
        messages: conversation,
        temperature: z.number().nonnegative().max(MAX_TEMPERATURE).optional(),
      }),
      fitted: (patch, shown, place) => {
        const messages = patch.messages?.map((message) => fitShownParts(message, shown, place));
        return messages === undefined ? patch : { ...patch, messages };
      },
    },
    beforeTool: createContract({
      arguments: z.custom<JsonValue>((value) => value !== undefined).optional(),
      deny: words,
    }),
    afterTool: createContract({
      text: z.string().optional(),
      metadata: z.custom<JsonObject>(isRecord, "Expected an object").optional(),
    }),
    beforeCompaction: createContract({ keepMessages: z.int().positive().optional() }),
    subagentStart: createContract({ task: words }),
    stop,
    subagentStop: stop,
  };
});

/** Returns the points at which a hook may change something. */
export function getHookPoints(): readonly string[] {
  return Object.keys(contracts());
}

/** Returns the patch contract of `point`. */
export function getPatchContract<P extends TransformPoint>(point: P): PatchContract<P> {
  return contracts()[point];
}

/** Returns true if a patch is final, so that later hooks of the chain are skipped. */
export function isFinal(patch: PointPatch[TransformPoint]): boolean {
  return "refuse" in patch || "deny" in patch || "continueWith" in patch;
}

/** Merges a later patch over an earlier one. Metadata is merged by key. */
export function mergePatches<P extends TransformPoint>(
  earlier: PointPatch[P],
  later: PointPatch[P],
): PointPatch[P] {
  const merged: PointPatch[P] = { ...earlier, ...later };
  const metadata = { ...getMetadata(earlier), ...getMetadata(later) };
  return "metadata" in merged ? { ...merged, metadata } : merged;
}

/**
 * Returns the message with its parts adapted to its new text. The parts must be those of a message
 * that the hook received.
 */
function fitShownParts(
  message: Message,
  { messages }: PointInput["beforeModel"],
  place: HookPlace,
): Message {
  if (message.role !== "assistant" || message.parts === undefined) return message;
  const { parts, writtenBy } = message;
  const origins = messages.filter(
    (other) =>
      other.role === "assistant" && other.writtenBy === writtenBy && sameJson(other.parts, parts),
  );
  const origin = origins.find(({ text }) => text === message.text) ?? origins[0];
  if (origin?.role === "assistant") return fitParts(message, origin);
  throw createHookResultError(place, {
    field: "messages",
    expected: "leave the parts of replies as the model wrote them, or out",
    got: "parts that no earlier message has",
    advice: "Change only text and toolCalls, or leave parts and writtenBy out.",
  });
}

function getMetadata(patch: PointPatch[TransformPoint]): JsonObject {
  return "metadata" in patch ? (patch.metadata ?? {}) : {};
}

function createContract<Shape extends z.ZodRawShape>(
  shape: Shape,
): { readonly fields: readonly string[]; readonly schema: z.ZodObject<Shape, z.core.$strict> } {
  return { fields: Object.freeze(Object.keys(shape)), schema: z.strictObject(shape) };
}
