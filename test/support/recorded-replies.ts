// Recorded replies of real servers, in the folder that RECORDED_REPLIES names. They are not part of
// the project. Each has an expected result of the adapter.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { z } from "zod";

const FOLDER = process.env["RECORDED_REPLIES"];

/** Said by the tests that are skipped without them. */
export const WHY_SKIPPED = "RECORDED_REPLIES names no folder of recorded replies";

const ExpectedSchema = z.looseObject({
  text: z.string().optional(),
  calls: z
    .array(z.object({ id: z.string(), toolName: z.string(), arguments: z.string() }))
    .optional(),
  /** Ours, or each of those that are right. */
  finish: z.union([z.string(), z.array(z.string())]).optional(),
  usage: z
    .object({
      input: z.number(),
      cached: z.number(),
      output: z.number(),
      reasoning: z.number(),
      cacheWrite: z.number().optional(),
    })
    .nullable()
    .optional(),
  reasoning: z.string().optional(),
  /** Values, or how they begin, that must stand in the next request. */
  sendBack: z
    .array(z.object({ where: z.string(), field: z.string(), value: z.string() }))
    .optional(),
  /** The reply is the failure of a call, with one of these codes. */
  errorCodes: z.array(z.string()).optional(),
  errorRule: z.string().optional(),
  /** The reply is the failure of a call, as the provider reports it. */
  error: z.looseObject({ code: z.string().optional(), message: z.string().optional() }).optional(),
  /** The types of the items, in order. */
  order: z.array(z.string()).optional(),
  /** The server gave the calls no ids, so that they have some of ours. */
  ownIds: z.boolean().optional(),
  /** Number of requests of a run whose only reply this is. */
  runRequests: z.number().optional(),
});

const RecordingSchema = z.object({
  file: z.string(),
  kind: z.string(),
  status: z.number(),
  stream: z.boolean(),
  expect: ExpectedSchema,
});
export type ExpectedReply = z.infer<typeof ExpectedSchema>;
export type Recording = z.infer<typeof RecordingSchema>;

/** All recordings of one interface; none without the folder. */
export function recordings(kind: "chat" | "responses" | "anthropic" | "gemini"): Recording[] {
  if (FOLDER === undefined) return [];
  const all: unknown = JSON.parse(readFileSync(join(FOLDER, "expected.json"), "utf8"));
  return z
    .array(RecordingSchema)
    .parse(all)
    .filter((recording) => recording.kind === kind);
}

/** How the bytes of a body come. */
export const WAYS = ["whole", "in pieces of 61 bytes", "with CRLF", "with a BOM"] as const;
export type Way = (typeof WAYS)[number];

/** The body of a recording, in the pieces in which it is to come. */
export function bodyOf({ file }: Recording, way: Way): readonly Uint8Array[] {
  return inPieces(readFileSync(join(FOLDER ?? "", file)), way);
}

/** A body as it comes in this way. */
export function inPieces(body: Buffer, way: Way): readonly Uint8Array[] {
  switch (way) {
    case "whole":
      return [body];
    case "in pieces of 61 bytes":
      return Array.from({ length: Math.ceil(body.length / 61) }, (_piece, index) =>
        body.subarray(index * 61, (index + 1) * 61),
      );
    case "with CRLF":
      return [Buffer.from(body.toString().replaceAll(/\r?\n/g, "\r\n"))];
    case "with a BOM":
      return [Buffer.concat([Buffer.from("\uFEFF"), body])];
  }
}
