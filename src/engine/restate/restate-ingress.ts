// How runs are handed to Restate: over HTTP, each as a message to the object that leads it.

import type * as Clients from "@restatedev/restate-sdk-clients";

import { systemClock } from "../../kernel/clock.ts";
import { randomDigits } from "../../kernel/crypto.ts";
import type { EspalierError } from "../../kernel/error.ts";
import { loadingError } from "../../kernel/optional-package.ts";
import { unknownRole, type RunTicket } from "../engine.ts";
import { restateFailed, unreachable } from "./restate-errors.ts";
import { LEAD, serviceNameOf } from "./leading-object.ts";

const PACKAGE = "@restatedev/restate-sdk-clients";
/** Under two seconds in all, if it is refused at once. */
const RETRY = { maxAttempts: 4, initialInterval: 250 } as const;
/** How long one attempt may take. */
const TIMEOUT_MS = 10_000;

type Sdk = Pick<typeof Clients, "connect" | "rpc">;

export class RestateIngress {
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(url: string, headers: Readonly<Record<string, string>> = {}) {
    this.#url = url.replace(/\/+$/, "");
    this.#headers = { ...headers };
  }

  async lead(ticket: RunTicket, atMs?: number): Promise<void> {
    const { connect, rpc } = await loaded();
    const ingress = connect({ url: this.#url, headers: this.#headers, retry: RETRY });
    const service = serviceNameOf(ticket.role, ticket.version);
    const delay = atMs === undefined ? 0 : Math.max(0, Math.ceil(atMs - systemClock.nowMs()));
    // The key is that of this one call: so it is tried again without being taken twice, and no other call is swallowed.
    const opts = { idempotencyKey: randomDigits(16), timeout: TIMEOUT_MS, delay };
    try {
      await ingress.send<undefined>({
        service,
        handler: LEAD,
        key: ticket.runId,
        parameter: undefined,
        opts: rpc.sendOpts<undefined>(opts),
      });
    } catch (cause) {
      throw this.#failed(ticket, service, cause);
    }
  }

  #failed(ticket: RunTicket, service: string, cause: unknown): EspalierError {
    const { status, responseText: reply } = replyIn(cause);
    if (status === 404 && reply.includes(`'${service}'`)) return unknownRole(ticket);
    const got = status === undefined ? unreachable(cause) : reply;
    const headers = this.#headers;
    const expected = "to take the run";
    return restateFailed({ url: this.#url, expected, status, got, cause, headers });
  }
}

async function loaded(): Promise<Sdk> {
  try {
    return await import("@restatedev/restate-sdk-clients");
  } catch (cause) {
    throw loadingError(PACKAGE, "no run can be handed to Restate", cause);
  }
}

/** What the server replied. The class of these errors may exist twice. */
function replyIn(cause: unknown): { readonly status?: number; readonly responseText: string } {
  if (!(cause instanceof Error && "status" in cause && "responseText" in cause))
    return { responseText: "" };
  return { status: Number(cause.status), responseText: String(cause.responseText) };
}
