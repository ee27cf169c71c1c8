// Responses of the test server over Responses: replies of the fixtures' events, whole or streamed,
// and the refusals of a provider for invalid input.

import type { ResponseOutputItem } from "openai/resources/responses/responses";
import { z } from "zod";

import {
  beginning,
  callEvents,
  completed,
  messageEvents,
  reasoningEvents,
  responseOf,
  usageOf,
  type Unnumbered,
} from "../fixtures/streams/response-events.ts";
import type { ServerReply, WireRequest } from "./openai-server.ts";

const USAGE = usageOf(10, 5);

/** The items as a reply to this request: in the way that it asks for, or the error about it. */
export function responds(request: WireRequest, output: ResponseOutputItem[]): ServerReply {
  const problems = inputProblems(request.body);
  if (problems.length > 0) {
    const error = { message: problems.join("; "), type: "invalid_request_error", code: null };
    return { type: "status", status: 400, body: { error } };
  }
  if (request.body["stream"] === true) {
    const events = output.flatMap((item, place) => eventsOf(item, place));
    return { type: "events", data: [...beginning(), ...events, completed(output, USAGE)] };
  }
  const response = responseOf({ status: "completed", output, usage: USAGE });
  return { type: "raw", body: JSON.stringify(response) };
}

function eventsOf(item: ResponseOutputItem, place: number): readonly Unnumbered[] {
  switch (item.type) {
    case "message": {
      const [part] = item.content;
      const text = part?.type === "output_text" ? part.text : "";
      return messageEvents(place, item, [text.slice(0, 4), text.slice(4)]);
    }
    case "reasoning":
      return reasoningEvents(place, item);
    default:
      return callEvents(place, item, item.type === "function_call" ? [item.arguments] : []);
  }
}

const ItemSchema = z.looseObject({
  type: z.string().default("message"),
  role: z.string().optional(),
  id: z.string().optional(),
  call_id: z.string().optional(),
  encrypted_content: z.string().optional(),
});
const BodySchema = z.object({ input: z.array(ItemSchema), store: z.literal(false) });

/**
 * Refuses ids of items that were not stored, reasoning without the item after it, calls without
 * results, and results without a call.
 */
function inputProblems(body: unknown): readonly string[] {
  const parsed = BodySchema.safeParse(body);
  if (!parsed.success) return [z.prettifyError(parsed.error)];
  const { input } = parsed.data;
  const problems: string[] = [];
  const open = new Set<string>();
  for (const [index, item] of input.entries()) {
    const { type, role, id, call_id: callId = "", encrypted_content: sealed } = item;
    if (id !== undefined) problems.push(`Item '${id}' not found: nothing is stored`);
    if (type === "function_call") open.add(callId);
    if (type === "function_call_output" && !open.delete(callId))
      problems.push(`item ${index} answers no call`);
    if (type === "message" && role !== "assistant" && open.size > 0)
      problems.push(`no tool output found for ${[...open].join(", ")}`);
    if (type !== "reasoning") continue;
    if (sealed === undefined) problems.push(`the reasoning ${index} is not sealed`);
    const { type: next, role: by } = input[index + 1] ?? { type: "nothing" };
    const isFollowed = next === "function_call" || next === "reasoning" || by === "assistant";
    if (!isFollowed) problems.push(`the reasoning ${index} is provided without its following item`);
  }
  return open.size === 0 ? problems : [...problems, `no tool output found for ${[...open].join()}`];
}
