// How Restate discovers a worker: it is given an address, and asks there which services it has.

import type { EspalierError } from "../../kernel/error.ts";
import { isRecord } from "../../kernel/json.ts";
import { replyOf, restateFailed, unreachable, type RestateFailure } from "./restate-errors.ts";

export interface Registration {
  readonly adminUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly workerUrl: string;
  /** The names under which runs are led at that address. */
  readonly services: readonly string[];
}

/** Restate asks the worker before it replies. */
const TIMEOUT_MS = 30_000;

/**
 * Has Restate know what is led at an address, in place of what it knew of it. Rejects with `engine_failed`, also if something else is led
 * there.
 */
export async function registerWorker(registration: Registration): Promise<void> {
  const { services } = registration;
  const { status, text } = await replyTo(registration);
  if (status >= 300) throw failed(registration, text, { status });
  const missing = services.filter((name) => !namesIn(text).includes(name));
  if (missing.length === 0) return;
  const got = `a worker without ${missing.join(", ")} there`;
  throw failed(registration, got, { advice: "Check adminUrl and workerUrl." });
}

async function replyTo(
  registration: Registration,
): Promise<{ readonly status: number; readonly text: string }> {
  const { adminUrl, headers, workerUrl } = registration;
  try {
    const response = await fetch(`${adminUrl.replace(/\/+$/, "")}/deployments`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      // "force": with what this release says of it, and of this worker, though the address is known already.
      body: JSON.stringify({ uri: workerUrl, force: true }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return { status: response.status, text: await response.text() };
  } catch (cause) {
    throw failed(registration, unreachable(cause), { cause });
  }
}

function failed(
  { adminUrl, workerUrl, headers }: Registration,
  got: string,
  more: Pick<RestateFailure, "status" | "advice" | "cause">,
): EspalierError {
  const expected = `to register the worker at ${workerUrl}`;
  return restateFailed({ url: adminUrl, expected, got, headers, ...more });
}

/** The services that it found. */
function namesIn(text: string): readonly unknown[] {
  const reply = replyOf(text);
  const found = isRecord(reply) ? reply["services"] : undefined;
  if (!Array.isArray(found)) return [];
  return found.map((one: unknown) => (isRecord(one) ? one["name"] : undefined));
}
