// Replies of our own adapters, which have checked what their servers said: nothing in them is checked again.

import type { ModelReply } from "./model.ts";

const own = new WeakSet<ModelReply>();

/** Marks a reply that an adapter of ours made. Data for the provider is still measured and copied by the loop. */
export function ownReply(reply: ModelReply): ModelReply {
  if (reply.message.parts === undefined) own.add(Object.freeze(reply));
  return reply;
}

export function isOwnReply(reply: ModelReply): boolean {
  return own.has(reply);
}
