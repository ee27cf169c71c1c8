// What Restate sees of a role: a virtual object for each version of it, and in that one for each run, which leads it. Restate lets one
// message at a time through to an object, keeps the others, and delivers the one anew whose delivery failed or broke off.

import type * as RestateSdk from "@restatedev/restate-sdk";

import { systemClock } from "../../kernel/clock.ts";
import { sha256 } from "../../kernel/crypto.ts";
import { EspalierError } from "../../kernel/error.ts";
import { idOf, type RunId } from "../../protocol/ids.ts";
import type { ExecutorResult } from "../engine.ts";

/** The one handler that these objects have. */
export const LEAD = "lead";

const HOUR_MS = 3_600_000;

/**
 * How Restate is to treat a leading: one long step, of which it remembers nothing. It would be broken off when it has said nothing for as
 * long as both time-outs together; the first one has the server write a warning. What is broken off is begun again, elsewhere maybe.
 */
const OPTIONS = {
  inactivityTimeout: 24 * HOUR_MS,
  abortTimeout: 60_000,
  // What has settled is done with: the store has the result.
  journalRetention: 0,
  // As long as a client tries to hand over one run.
  idempotencyRetention: 60_000,
  // Without end, and soon: what is lost with a worker is to be led elsewhere within a second. If Restate gives up all the same, what waits
  // for the run has its turn, and a worker that sweeps hands it over once more.
  retryPolicy: {
    initialInterval: 50,
    exponentiationFactor: 2,
    maxInterval: 5_000,
    maxAttempts: Number.MAX_SAFE_INTEGER,
    onMaxAttempts: "kill",
  },
} as const satisfies RestateSdk.ServiceOptions;

/**
 * The name of the object that leads the runs of a role in a version. Restate takes letters, digits, `_`, `.` and `-`: as much of the role
 * as they allow makes it readable, and the hash makes it unique for this role in this version.
 */
export function serviceNameOf(role: string, version: string): string {
  const readable = role.replaceAll(/[^A-Za-z0-9_-]+/g, "_").slice(0, 64);
  return `espalier.${readable}.${sha256(JSON.stringify([role, version])).slice(0, 32)}`;
}

type ObjectSdk = Pick<typeof RestateSdk, "object" | "RetryableError">;

/** Leads a run until it rests. `lost` is aborted when Restate does not wait for it any more. */
type LeadRun = (runId: RunId, lost: AbortSignal) => Promise<ExecutorResult>;

/** The object under that name. */
export function leadingObject(
  { object, RetryableError }: ObjectSdk,
  name: string,
  settle: LeadRun,
) {
  const lead = async (context: RestateSdk.ObjectContext): Promise<void> => {
    const settled = await settle(
      idOf<"RunId">(context.key),
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

/** The message to an object: its key says all. */
const NOTHING = new Uint8Array();
