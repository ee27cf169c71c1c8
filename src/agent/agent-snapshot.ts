// Converts the state of a paused or ended agent to plain JSON and back. The keys are part of the
// format of a paused run and must not change within a version. Transient parts, such as the error
// of an open step, are left out.

import { deepFreeze, omitUndefined } from "../kernel/json.ts";
import { ExecutionIdSchema } from "../protocol/ids.ts";
import { lazyObject, lazySchema, lazyUnion, z } from "../protocol/lazy-schema.ts";
import type { Message } from "../protocol/message.ts";
import { StopReasonSchema, TerminalStatusSchema } from "../protocol/stop.ts";
import {
  ConversationSchema,
  OpenStepSchema,
  ExecutionLogSchema,
  ExecutionTelemetrySchema,
  type AgentState,
  type SettledState,
} from "./agent-state.ts";

/** The parts of every state. */
const parts = lazySchema(() => ({
  conversation: ConversationSchema(),
  log: ExecutionLogSchema(),
  telemetry: ExecutionTelemetrySchema(),
}));
const settled = lazySchema(() => ({
  executionId: ExecutionIdSchema(),
  reason: StopReasonSchema(),
  ...parts(),
}));
const EndedSchema = lazyObject(() => ({ status: TerminalStatusSchema(), ...settled() }));

const AtRestSchema = lazySchema(() => OpenStepSchema().omit({ error: true }));
export const AgentSnapshotSchema = lazyUnion("status", () => [
  z.strictObject({ status: z.literal("paused"), ...settled(), step: AtRestSchema().optional() }),
  EndedSchema(),
]);
/** The state of a paused or ended agent, as JSON. */
export type AgentSnapshot = z.infer<ReturnType<typeof AgentSnapshotSchema>>;

/** Returns the state as plain JSON, frozen, without undefined keys and transient parts. */
export function toSnapshot(state: SettledState): AgentSnapshot {
  const { status, conversation, executionId, reason, step } = state;
  const log = omitUndefined(state.log);
  const telemetry = omitUndefined(state.telemetry);
  const open = step && omitUndefined({ ...step, error: undefined });
  const plain = { status, executionId, reason, conversation, log, telemetry, step: open };
  return cloneFrozen(AgentSnapshotSchema().parse(omitUndefined(plain)));
}

/**
 * Returns a deeply frozen copy. Schemas freeze only the top level of lists, but `deepFreeze` would
 * take such a list for completely frozen.
 */
function cloneFrozen<Snapshot>(snapshot: Snapshot): Snapshot {
  return deepFreeze(structuredClone(snapshot));
}

// The state of an agent after any phase, as a journal persists it. Shared parts stay shared, so
// that only new parts are written.

const PersistedStateSchema = lazySchema(() => {
  const [shared, step] = [settled(), OpenStepSchema().optional()];
  const { executionId } = shared;
  return z.discriminatedUnion("status", [
    z.strictObject({ status: z.literal("pending"), ...parts() }),
    z.strictObject({ status: z.literal("running"), executionId, ...parts(), step }),
    z.strictObject({ status: z.literal("paused"), ...shared, step }),
    EndedSchema(),
  ]);
});

/**
 * Options for checking a single state. Compiling the check takes longer than one check and blocks
 * other work. It is worthwhile only for thousands of states.
 */
export const UNCOMPILED = { jitless: true } as const;

/** Returns the persisted state, frozen. Throws a `ZodError` if it is invalid. */
export function parsePersistedState(value: unknown, options?: typeof UNCOMPILED): AgentState {
  return restoreState(PersistedStateSchema().parse(value, options));
}

/** Returns the history of a persisted state. Throws a `ZodError` if it is invalid. */
export function parsePersistedHistory(value: unknown): readonly Message[] {
  return HistorySchema().parse(value, UNCOMPILED).conversation.messages;
}

const HistorySchema = lazySchema(() => z.object({ conversation: ConversationSchema() }));

/** Returns the state that was persisted, frozen. */
export function restoreState(stored: AgentSnapshot): SettledState;
export function restoreState(stored: z.infer<ReturnType<typeof PersistedStateSchema>>): AgentState;
export function restoreState(stored: z.infer<ReturnType<typeof PersistedStateSchema>>): AgentState {
  return cloneFrozen(stored);
}
