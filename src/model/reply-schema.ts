// What a reply must be, whatever parts its message has.

import { z } from "../protocol/late-zod.ts";
import { PlainAssistantMessageSchema } from "../protocol/message.ts";
import { FinishReasonSchema } from "../protocol/finish-reason.ts";

/** Who wrote the message is for the loop to say; the usage is checked apart. */
export const PlainReplySchema = z.object({
  message: PlainAssistantMessageSchema.extend({
    parts: z.unknown().optional(),
    writtenBy: z.unknown().optional(),
  }),
  finishReason: FinishReasonSchema,
  rawFinishReason: z.string().optional(),
  usage: z.unknown().optional(),
  responseId: z.string().optional(),
  responseModel: z.string().optional(),
  warnings: z.array(z.string()).readonly().optional(),
});
