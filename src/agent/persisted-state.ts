// The state of an agent at any phase, as a journal keeps it: shared parts stay shared, so that only what is new is written.

import { deepFreeze } from "../kernel/json.ts";
import { ExecutionIdSchema } from "../protocol/ids.ts";
import { z } from "../protocol/late-zod.ts";
import { ErrorRecordSchema, StopReasonSchema, TerminalStatusSchema } from "../protocol/stop.ts";
import {
  restoredStep,
  snapshotPartsOf,
  STATE_PARTS,
  StepSnapshotSchema,
} from "./agent-snapshot.ts";
import { type AgentState } from "./agent-state.ts";

const PersistedStepSchema = StepSnapshotSchema.extend({ error: ErrorRecordSchema.exactOptional() });
const executionId = ExecutionIdSchema;
const reason = StopReasonSchema;
const step = PersistedStepSchema.optional();

const PersistedStateSchema = z.discriminatedUnion("status", [
  z.strictObject({ status: z.literal("pending"), ...STATE_PARTS }),
  z.strictObject({ status: z.literal("running"), executionId, step, ...STATE_PARTS }),
  z.strictObject({ status: z.literal("paused"), executionId, reason, step, ...STATE_PARTS }),
  z.strictObject({ status: TerminalStatusSchema, executionId, reason, ...STATE_PARTS }),
]);

/** The state without what is transient. */
export function persistedState(state: AgentState): object {
  const open = state.step;
  return open === undefined ? state : { ...state, step: { ...open, input: undefined } };
}

/** The state that was kept, frozen. Throws a `ZodError` for what is none. */
export function stateFromPersisted(value: unknown): AgentState {
  const kept = deepFreeze(structuredClone(PersistedStateSchema.parse(value)));
  const parts = snapshotPartsOf(kept);
  switch (kept.status) {
    case "pending":
      return deepFreeze({ status: kept.status, ...parts });
    case "running": {
      const { status, executionId, step } = kept;
      return deepFreeze({ status, executionId, ...parts, step: restoredStep(step, step?.error) });
    }
    case "paused": {
      const { status, executionId, reason, step } = kept;
      return deepFreeze({
        status,
        executionId,
        reason,
        ...parts,
        step: restoredStep(step, step?.error),
      });
    }
    default: {
      const { status, executionId, reason } = kept;
      return deepFreeze({ status, executionId, reason, ...parts });
    }
  }
}
