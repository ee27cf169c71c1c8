// RunOrder: a run as it is asked for, before it begins, in plain JSON: what `execute` takes, and what the mailbox of a run keeps of it.

import { checkAmount, checkKeys, checkText, mismatch } from "../../kernel/check.ts";
import { EspalierError } from "../../kernel/error.ts";
import { defined, type JsonObject } from "../../kernel/json.ts";
import { checkBudget } from "../../policies/budget.ts";
import { idOf, type RunId } from "../../protocol/ids.ts";
import { checkedContent, type MessageContent } from "../../protocol/message-content.ts";
import {
  type StartOptions,
  checkRunId,
  checkTraceparent,
  frozenMetadata,
} from "./start-options.ts";

/** Version of the fields of an order. */
export const ORDER_VERSION = 1;

/** A run that is to be started under an id of the caller's: plain JSON, so that it can be handed to another process. */
export interface RunOrder extends Pick<StartOptions, "budget" | "deadlineAtMs" | "traceparent"> {
  /** Version of the fields. Default, and the only one: 1. */
  readonly version?: number;
  /** As in `StartOptions`. */
  readonly runId: string;
  /** The name of the role at the root: one of those of the orchestrator that executes it. */
  readonly role: string;
  readonly task: MessageContent;
  /** As in `StartOptions`. */
  readonly metadata?: JsonObject;
  /** The id of the session that the run continues, in the store of the orchestrator. */
  readonly sessionId?: string;
  /** The version of the roles that it is for: workers of another one leave it alone. Default "1". */
  readonly rolesVersion?: string;
}

/** An order that was checked. */
export interface CheckedOrder extends RunOrder {
  readonly version: typeof ORDER_VERSION;
  readonly runId: RunId;
  readonly rolesVersion: string;
}

const FIELDS = [
  "version",
  "runId",
  "role",
  "task",
  "budget",
  "deadlineAtMs",
  "metadata",
  "sessionId",
  "traceparent",
  "rolesVersion",
];

export const DEFAULT_ROLES_VERSION = "1";

/** A copy. Throws `unsupported_version` for another version, `invalid_option` or `invalid_definition`, naming the part. */
export function checkedOrder(given: RunOrder): CheckedOrder {
  checkVersion(given);
  checkKeys("order", given, FIELDS);
  const { runId, role, task, budget, deadlineAtMs, metadata, sessionId, traceparent } = given;
  const { rolesVersion = DEFAULT_ROLES_VERSION } = given;
  checkRunId("order.runId", runId);
  checkText("order.role", role);
  checkVersionName("order.rolesVersion", rolesVersion);
  if (budget !== undefined) checkBudget("order.budget", budget);
  if (deadlineAtMs !== undefined) checkAmount("order.deadlineAtMs", deadlineAtMs);
  if (sessionId !== undefined) checkText("order.sessionId", sessionId);
  if (traceparent !== undefined) checkTraceparent("order.traceparent", traceparent);
  return Object.freeze({
    version: ORDER_VERSION,
    runId: idOf<"RunId">(runId),
    role,
    task: checkedContent("order.task", task),
    rolesVersion,
    ...defined({
      budget: budget && defined(budget),
      deadlineAtMs,
      metadata: metadata && frozenMetadata(metadata),
      sessionId,
      traceparent,
    }),
  });
}

function checkVersion(given: unknown): void {
  if (typeof given !== "object" || given === null) return;
  const version: unknown = Reflect.get(given, "version");
  if (version === undefined || version === ORDER_VERSION) return;
  throw new EspalierError({
    code: "unsupported_version",
    message: `Expected an order of version ${ORDER_VERSION}, got ${JSON.stringify(version)}. Hand it to workers with the version of espalier that wrote it.`,
    data: { expected: ORDER_VERSION, got: typeof version === "number" ? version : null },
  });
}

/** Throws `invalid_option` for what does not name a version of roles: it stands in the names of queues and services. */
export function checkVersionName(field: string, version: unknown): void {
  if (typeof version === "string" && /^[\w.-]{1,40}$/u.test(version)) return;
  const expected = "1 to 40 letters, digits, dots, hyphens and underscores";
  throw mismatch(field, expected, version, "Name a release of your roles, as v3.");
}
