import { SessionIdSchema } from "../../protocol/ids.ts";
import { lazyObject, lazySchema, z } from "../../protocol/lazy-schema.ts";

const maximum = lazySchema(() => z.union([z.int().positive(), z.literal("unlimited")]));

export const SessionRefSchema = lazyObject(() => ({
  sessionId: SessionIdSchema(),
  /** The version that the run began with, or that it has written. */
  version: z.int().nonnegative(),
  retention: z.strictObject({
    maxMessages: maximum(),
    maxExecutions: maximum(),
    summarizeDropped: z.boolean(),
  }),
  failedExecutionPolicy: z.enum(["keep", "remove"]),
  showBoundaries: z.boolean(),
}));
/** Reference of a settled run to its session. */
export type SessionRef = Readonly<z.infer<ReturnType<typeof SessionRefSchema>>>;
