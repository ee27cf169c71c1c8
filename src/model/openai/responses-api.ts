// ResponsesApi: Responses, the interface of OpenAI itself, as the connection uses it.
// Owns what the server has refused of what was sent: replies without their parts, and whether it can be asked for sealed reasoning. Both
// hold for as long as the connection lives, so that no step of a run pays for it twice.

import type { Message } from "../../protocol/message.ts";
import type { ModelError } from "../model-error.ts";
import type { ModelReply, ModelRequest } from "../model.ts";
import type { ModelDelta } from "../../protocol/stream-piece.ts";
import { tokensThatCame, type ReplyLimits } from "../reply-limits.ts";
import { sendable, textOnly } from "../written-by.ts";
import { withLostInput } from "../http-errors.ts";
import { errorInBody } from "../wire-json.ts";
import { objectOfBody } from "./from-openai.ts";
import { failureOfResponse, noResponseError, readResponseUsage } from "./from-responses.ts";
import { failures } from "./openai-errors.ts";
import { StreamedResponse } from "./streamed-response.ts";
import type { WireSettings } from "./to-openai.ts";
import { toResponses } from "./to-responses.ts";
import type { Relented, ReplyStream, WireApi, WireRequest } from "./wire-api.ts";

/** A server that cannot read what it is to have written says one of these. */
const UNREADABLE = /without its required|produced under a different model/;
/** Models without reasoning refuse to be asked for it in any form. */
const UNSEALABLE = /encrypted content is not supported/i;

export class ResponsesApi implements WireApi {
  readonly name = "responses";
  readonly path = "/responses";
  readonly #settings: WireSettings;
  /** Replies without the reasoning that the provider refused. Left out: it has refused none. */
  #bare: WeakMap<Message, Message> | undefined;
  #isSealed = true;

  constructor(settings: WireSettings) {
    this.#settings = settings;
  }

  write(request: WireRequest, isStreaming: boolean): Buffer {
    const bare = this.#bare;
    const shown = sendable(request.messages, this.#settings);
    const messages =
      bare === undefined ? shown : shown.map((message) => bare.get(message) ?? message);
    const sent = { ...request, messages };
    return Buffer.from(toResponses(sent, this.#settings, isStreaming, this.#isSealed));
  }

  read(body: string, limits: ReplyLimits): ModelReply {
    const response = objectOfBody(body, limits, noResponseError);
    const failure = failureOfResponse(response, undefined);
    if (failure !== undefined) throw withLostInput(failure, readResponseUsage(response));
    if (!Array.isArray(response["output"])) {
      const error = errorInBody(response);
      throw error === undefined
        ? noResponseError(`a response without output: ${body}`, undefined)
        : failures.reported(error, undefined);
    }
    const reply = new StreamedResponse(limits, () => undefined);
    reply.takeWhole(response, tokensThatCame(Buffer.byteLength(body), limits));
    return reply.finish();
  }

  stream(limits: ReplyLimits, onDelta: (delta: ModelDelta) => void): ReplyStream {
    return new StreamedResponse(limits, onDelta);
  }

  relent(request: ModelRequest, { message, data }: ModelError): Relented | undefined {
    if (UNSEALABLE.test(message)) {
      this.#isSealed = false;
      return { warning: undefined };
    }
    if (data["providerCode"] !== "invalid_encrypted_content" && !UNREADABLE.test(message))
      return undefined;
    const bare = (this.#bare ??= new WeakMap());
    const refused = sendable(request.messages, this.#settings).filter(
      (sent) => sent.role === "assistant" && sent.parts !== undefined && !bare.has(sent),
    );
    // Another call has met it meanwhile.
    if (refused.length === 0) return { warning: undefined };
    for (const whole of refused) {
      const [plain = whole] = textOnly([whole]);
      bare.set(whole, plain);
    }
    const warning = `The reasoning of ${refused.length} earlier replies was left out, since the provider could not read it: ${message}`;
    return { warning };
  }
}
