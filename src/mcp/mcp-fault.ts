// What goes wrong between us and a server, sorted by what it means: may the call be sent again, and what does the model read?

import { groupDigits } from "../kernel/check.ts";
import { omitUndefined } from "../kernel/json.ts";
import {
  findHeaderSecrets,
  hasSecret,
  redactValues,
  type KnownSecret,
} from "../kernel/redact-values.ts";
import { truncateText } from "../kernel/sentence.ts";
import type { McpTransport } from "./mcp-options.ts";

/**
 * What a failure means. `answered`: the server said no. `invalid`: it answered, and the answer cannot be used. `not_taken`: the server
 * never had the call, so it may be sent again. `unauthorized`: it wants credentials, or others than it was given. `lost`: the server went away while it had the call; whether it took effect is unknown.
 * `too_large`: its answer exceeds the limit, and was not read to its end. `unreachable`: no connection came about. `closed`: we closed it. `cancelled`: the caller no longer wants it.
 */
export type McpFaultKind =
  | "answered"
  | "invalid"
  | "not_taken"
  | "unauthorized"
  | "lost"
  | "too_large"
  | "unreachable"
  | "closed"
  | "cancelled";

/** As its `WWW-Authenticate` says, as far as it does. */
export interface AuthChallenge {
  readonly status: number;
  /** `Bearer`, or another way. */
  readonly scheme?: string;
  /** What the token must permit, separated by spaces. */
  readonly scope?: string;
  /** Such as `invalid_token` or `insufficient_scope`, and what the server says about it. */
  readonly error?: string;
  readonly description?: string;
  /** Where the server names its authorization servers. */
  readonly resourceMetadataUrl?: string;
}

/** A server may answer with an error, or a page, of megabytes. */
const MAX_CHARACTERS = 10_000;

/** A failure between us and a server. Its message says what went wrong, without names. */
export class McpFault extends Error {
  override readonly name = "McpFault";
  readonly kind: McpFaultKind;
  /** What the server itself had to say. For people, not for models: its content is not trusted. */
  readonly detail: string | undefined;
  /** What it asks for, of a fault `unauthorized`. */
  readonly challenge: AuthChallenge | undefined;

  constructor(
    kind: McpFaultKind,
    message: string,
    cause?: unknown,
    { detail, challenge }: { readonly detail?: string; readonly challenge?: AuthChallenge } = {},
  ) {
    super(truncateText(message, MAX_CHARACTERS), cause === undefined ? undefined : { cause });
    this.kind = kind;
    this.detail = detail;
    this.challenge = challenge;
  }
}

/** Creates the fault for an answer of more bytes than the limit. */
export function createTooLargeFault(what: string, maxBytes: number): McpFault {
  return new McpFault(
    "too_large",
    `${what} is longer than ${groupDigits(maxBytes)} bytes ${OPTION}`,
  );
}

const OPTION = "(maxResponseBytes)";

/** True for a fault of `tooLarge`: no option raises the other limits of an answer. */
export function isSizeExcess({ message }: McpFault): boolean {
  return message.endsWith(OPTION);
}

/** The codes of an error and of all that it was caused by. */
export function collectCodes(thrown: unknown): readonly string[] {
  const codes: string[] = [];
  let error = thrown;
  for (let depth = 0; depth < 5 && error instanceof Error; depth += 1) {
    if ("code" in error && typeof error.code === "string") codes.push(error.code);
    if (error instanceof AggregateError)
      codes.push(...error.errors.flatMap((one) => collectCodes(one)));
    error = error.cause;
  }
  return codes;
}

/** Returns the secrets in the headers of a transport. */
export function findTransportSecrets(transport: McpTransport): readonly KnownSecret[] {
  return transport.type === "http" ? findHeaderSecrets(transport.headers) : [];
}

/**
 * Returns the fault without values of headers, which a careless server quotes. A fault that contained
 * one loses its cause.
 */
export function redactFault(thrown: unknown, transport: McpTransport): unknown {
  if (!(thrown instanceof McpFault)) return thrown;
  const secrets = findTransportSecrets(transport);
  if (!hasSecret(thrown, secrets)) return thrown;
  const { kind, message, detail, challenge } = thrown;
  return new McpFault(kind, redactValues(message, secrets), undefined, {
    ...omitUndefined({ detail: detail && redactValues(detail, secrets), challenge }),
  });
}
