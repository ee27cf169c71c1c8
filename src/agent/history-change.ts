// A history is only ever added to, but for a compaction. What a compaction took away is kept beside it, once, so that what the steps
// before it were shown can still be derived (R173). Pure.

import { z } from "../protocol/late-zod.ts";
import { MessageSchema, type Message } from "../protocol/message.ts";
import type { TaggedHistory } from "./message-tags.ts";

const count = z.int().nonnegative();

/**
 * A part of a history as it was before a change. `kept`: messages of the history as the change left it.
 * `leftOut`: messages of `Conversation.leftOut`. Both from number `from`, counted from 0, to before number
 * `to`. `dropped`: messages that no other record has, such as notes, instructions and inherited messages.
 */
const PastPartSchema = z.discriminatedUnion("type", [
  z.strictObject({ type: z.enum(["kept", "leftOut"]), from: count, to: count }),
  z.strictObject({ type: z.literal("dropped"), messages: z.array(MessageSchema).readonly() }),
]);

/** A change of a history after which it does not begin as it did before. */
export const HistoryChangeSchema = z.strictObject({
  /** The steps that were completed by then. */
  afterStep: count,
  before: z.array(PastPartSchema).readonly(),
});
export type HistoryChange = Readonly<z.infer<typeof HistoryChangeSchema>>;

/** A history with what compactions left out of it. */
export type PersistedHistory = Pick<TaggedHistory, "messages" | "leftOut">;

/** What has to be kept when a history becomes another one; undefined: nothing, since the new one begins with the old one. */
export function historyChange(
  { messages: before }: PersistedHistory,
  after: PersistedHistory,
  afterStep: number,
): HistoryChange | undefined {
  if (before.every((message, index) => message === after.messages[index])) return undefined;
  const kept = placesIn(after.messages);
  const leftOut = placesIn(after.leftOut.map(({ message }) => message));
  const parts: Growing[] = [];
  for (const message of before) {
    const last = parts.at(-1);
    const type = kept.has(message) ? "kept" : "leftOut";
    const from = kept.get(message) ?? leftOut.get(message);
    if (from === undefined && last?.type === "dropped") last.messages.push(message);
    else if (from === undefined) parts.push({ type: "dropped", messages: [message] });
    else if (last?.type === type && last.to === from) last.to += 1;
    else parts.push({ type, from, to: from + 1 });
  }
  return { afterStep, before: parts };
}

type Growing =
  | { readonly type: "kept" | "leftOut"; readonly from: number; to: number }
  | { readonly type: "dropped"; readonly messages: Message[] };

function placesIn(messages: readonly Message[]): ReadonlyMap<Message, number> {
  return new Map(messages.map((message, index) => [message, index]));
}

/** A list that begins with the history as it was when the step began. */
export function historyAtStep(
  { messages, leftOut }: PersistedHistory,
  changes: readonly HistoryChange[],
  stepNumber: number,
): readonly Message[] {
  const later = changes.filter(({ afterStep }) => afterStep >= stepNumber);
  if (later.length === 0) return messages;
  const gone = leftOut.map(({ message }) => message);
  return later.reduceRight<readonly Message[]>(
    (list, { before }) =>
      before.flatMap((part) => {
        if (part.type === "dropped") return part.messages;
        return (part.type === "kept" ? list : gone).slice(part.from, part.to);
      }),
    messages,
  );
}
