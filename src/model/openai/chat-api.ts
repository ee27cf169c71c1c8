// Chat Completions, which every server speaks, as the connection uses it.

import { ReplyCut } from "../reply-limits.ts";
import { failedCall, replyOfFailedCall } from "./from-openai.ts";
import { replyOfBody, StreamedReply } from "./streamed-reply.ts";
import { toOpenAi, type WireSettings } from "./to-openai.ts";
import type { WireApi } from "./wire-api.ts";

export function chatApi(settings: WireSettings): WireApi {
  const { reasoningField } = settings;
  return {
    name: "chat",
    path: "/chat/completions",
    write: (request, isStreaming) => Buffer.from(toOpenAi(request, settings, isStreaming)),
    read: (body, limits) => replyOfBody(body, limits, reasoningField),
    stream: (limits, onDelta) => new StreamedReply(limits, onDelta, reasoningField),
    rescue: (body, limits) => {
      const failed = failedCall(body);
      return failed === undefined ? undefined : replyOfFailedCall(failed, new ReplyCut(limits));
    },
  };
}
