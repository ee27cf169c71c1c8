// Virtual objects of Restate: one service for each role and version, and in it one object for each
// run, which executes the run. Restate delivers one message at a time to an object, queues the
// others, and redelivers a message whose delivery failed or broke off.

import type * as RestateSdk from "@restatedev/restate-sdk";

import { systemClock } from "../../kernel/clock.ts";
import { sha256 } from "../../kernel/crypto.ts";
import { EspalierError } from "../../kernel/error.ts";
import { parseId, type RunId } from "../../protocol/ids.ts";
import type { ExecutorResult } from "../engine.ts";

/** Name of the only handler of these objects. */
export const LEAD = "lead";

const HOUR_MS = 3_600_000;

/**
 * Settings of the service. An execution is one long step, of which Restate journals nothing.
 * Restate aborts an invocation that is silent for both timeouts together; after the first it logs a
 * warning. An aborted invocation is delivered again, possibly to another worker.
 */
const OPTIONS = {
  inactivityTimeout: 24 * HOUR_MS,
  abortTimeout: 60_000,
  // A completed invocation needs no journal: the store has the result.
  journalRetention: 0,
  // As long as a client retries to send a run.
  idempotencyRetention: 60_000,
  // Unlimited and fast retries: a run of a lost worker must be executed elsewhere within a second.
  // If Restate gives up anyway, the next message for the run is delivered, and a worker's sweep
  // enqueues the run again.
  retryPolicy: {
    initialInterval: 50,
    exponentiationFactor: 2,
    maxInterval: 5_000,
    maxAttempts: Number.MAX_SAFE_INTEGER,
    onMaxAttempts: "kill",
  },
} as const satisfies RestateSdk.ServiceOptions;

/**
 * Returns the name of the service for a role and version. Restate allows letters, digits, `_`, `.`
 * and `-`: allowed characters of the role make the name readable, and a hash makes it unique.
 */
export function createServiceName(role: string, version: string): string {
  const readable = role.replaceAll(/[^A-Za-z0-9_-]+/g, "_").slice(0, 64);
  return `espalier.${readable}.${sha256(JSON.stringify([role, version])).slice(0, 32)}`;
}

type ObjectSdk = Pick<typeof RestateSdk, "object" | "RetryableError">;

/**
 * Executes a run until it has ended or is paused. `lost` is aborted when Restate no longer waits.
 */
type LeadRun = (runId: RunId, lost: AbortSignal) => Promise<ExecutorResult>;

/** Creates the object with this name. */
export function createRestateObject(
  { object, RetryableError }: ObjectSdk,
  name: string,
  settle: LeadRun,
) {
  const lead = async (context: RestateSdk.ObjectContext): Promise<void> => {
    const settled = await settle(
      parseId<"RunId">(context.key),
      context.request().attemptCompletedSignal,
    ).catch((cause: unknown) => {
      const isLeft = EspalierError.is(cause) && cause.code === "run_released";
      throw isLeft ? RetryableError.from(cause, { retryAfter: 0 }) : cause;
    });
    if (settled.type !== "waiting" || settled.untilMs === undefined) return;
    const delay = Math.max(0, Math.ceil(settled.untilMs - systemClock.nowMs()));
    context.genericSend({
      service: name,
      method: LEAD,
      key: context.key,
      parameter: NOTHING,
      delay,
    });
  };
  return object({ name, handlers: { lead }, options: OPTIONS });
}

/** Empty message to an object: its key is the run id. */
const NOTHING = new Uint8Array();
