// Chat Completions, which every server speaks, as the connection uses it.

import { withLostInput } from "../http-errors.ts";
import { ReplyCut } from "../reply-limits.ts";
import { errorInBody } from "../wire-json.ts";
import { failedCall, objectOfBody, replyOfFailedCall } from "./from-openai.ts";
import { failures, protocolError } from "./openai-errors.ts";
import { StreamedReply } from "./streamed-reply.ts";
import { toOpenAi, type WireSettings } from "./to-openai.ts";
import type { WireApi } from "./wire-api.ts";

export function chatApi(settings: WireSettings): WireApi {
  const { reasoningField } = settings;
  return {
    name: "chat",
    path: "/chat/completions",
    write: (request, isStreaming) => Buffer.from(toOpenAi(request, settings, isStreaming)),
    read: (body, limits) => {
      const response = objectOfBody(body, limits, protocolError);
      const reply = new StreamedReply(limits, () => undefined, reasoningField);
      if (reply.takeWhole(response)) return reply.finish();
      const error = errorInBody(response);
      const refused =
        error === undefined
          ? protocolError(`a response without choices: ${body}`, undefined)
          : failures.reported(error, undefined);
      throw withLostInput(refused, reply.lostInput);
    },
    stream: (limits, onDelta) => new StreamedReply(limits, onDelta, reasoningField),
    rescue: (body, limits) => {
      const failed = failedCall(body);
      return failed === undefined ? undefined : replyOfFailedCall(failed, new ReplyCut(limits));
    },
  };
}
