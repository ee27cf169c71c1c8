// The state of an agent at rest, as plain JSON and back. Stable: its keys are part of the version of a paused run (R47). What is
// transient, such as the error of an open step, is not in it.

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

/** What every state has. */
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
/** An agent's state at rest, as JSON. */
export type AgentSnapshot = z.infer<ReturnType<typeof AgentSnapshotSchema>>;

/** The state as plain JSON, frozen: no key that is undefined, nothing transient. */
export function createAgentSnapshot(state: SettledState): AgentSnapshot {
  const { status, conversation, executionId, reason, step } = state;
  const log = omitUndefined(state.log);
  const telemetry = omitUndefined(state.telemetry);
  const open = step && omitUndefined({ ...step, error: undefined });
  const plain = { status, executionId, reason, conversation, log, telemetry, step: open };
  return cloneFrozen(AgentSnapshotSchema().parse(omitUndefined(plain)));
}

/** Schemas freeze lists, and not what is in them: what they give is not frozen whole, though it may look so. */
function cloneFrozen<Snapshot>(snapshot: Snapshot): Snapshot {
  return deepFreeze(structuredClone(snapshot));
}

// The state of an agent at any phase, as a journal keeps it: shared parts stay shared, so that only what is new is written.

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

/** How one state is checked alone: to compile the check takes longer, and holds others up. It pays for thousands. */
export const UNCOMPILED = { jitless: true } as const;

/** The state that was kept, frozen. Throws a `ZodError` for what is none. */
export function parsePersistedState(value: unknown, how?: typeof UNCOMPILED): AgentState {
  return restoreState(PersistedStateSchema().parse(value, how));
}

/** The history of one such state. Throws the same. */
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
