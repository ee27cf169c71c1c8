// Content: what a model and a tool were given, and what they answered. Recorded only by a tracing that asks for it.

import type { JsonValue } from "../kernel/json.ts";
import type { AssistantMessage, Message } from "./message.ts";

/** What a model is offered, as far as a trace may show it. */
export interface OfferedTool {
  /** The name of the tool. */
  readonly name: string;
  /** What the model reads about it. */
  readonly description: string;
  /** JSON Schema. */
  readonly inputSchema: JsonValue;
}

/** One piece of content: values that the run itself works with, which a tracing must not change. */
export type SpanContent =
  | {
      readonly type: "request";
      readonly messages: readonly Message[];
      readonly tools: readonly OfferedTool[];
    }
  | {
      readonly type: "reply";
      readonly message: AssistantMessage;
      /** A `FinishReason`. */
      readonly finishReason: string;
      /** The provider's own text, for example `eos_token`, if it differs. */
      readonly rawFinishReason?: string | undefined;
    }
  /** With which a tool runs, as hooks and answers left them; as text, if they are no JSON. */
  | { readonly type: "arguments"; readonly value: JsonValue }
  /** What the model reads of it. */
  | { readonly type: "result"; readonly text: string };
