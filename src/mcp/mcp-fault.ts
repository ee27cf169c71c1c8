// Failures of the communication with a server, classified by their meaning: whether the call may be
// sent again, and the text for the model.

import { groupDigits } from "../kernel/argument-checks.ts";
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
 * Kind of a failure:
 * - `answered`: the server returned an error.
 * - `invalid`: its answer cannot be used.
 * - `not_taken`: the server never received the call, so it may be sent again.
 * - `unauthorized`: it demands credentials, or refused the ones it received.
 * - `lost`: the server disappeared during the call. Whether the call took effect is unknown.
 * - `too_large`: its answer exceeds the limit, and was not read to its end.
 * - `unreachable`: no connection was established.
 * - `closed`: we closed the connection.
 * - `cancelled`: the caller cancelled.
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

/** Demand for credentials, as far as the `WWW-Authenticate` header contains it. */
export interface AuthChallenge {
  readonly status: number;
  /** `Bearer` or another scheme. */
  readonly scheme?: string;
  /** Required permissions of the token, separated by spaces. */
  readonly scope?: string;
  /** Error code such as `invalid_token` or `insufficient_scope`, and its description. */
  readonly error?: string;
  readonly description?: string;
  /** URL of the metadata that names the authorization servers. */
  readonly resourceMetadataUrl?: string;
}

/** Maximum length of a message. A server may answer with an error, or a page, of megabytes. */
const MAX_CHARACTERS = 10_000;

/** Failure of the communication with a server. Its message is the reason, without names. */
export class McpFault extends Error {
  override readonly name = "McpFault";
  readonly kind: McpFaultKind;
  /** Output of the server itself. For people, not for models: its content is not trusted. */
  readonly detail: string | undefined;
  /** Demand for credentials, for a fault `unauthorized`. */
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
export function createTooLargeFault(subject: string, maxBytes: number): McpFault {
  return new McpFault(
    "too_large",
    `${subject} is longer than ${groupDigits(maxBytes)} bytes ${OPTION}`,
  );
}

const OPTION = "(maxResponseBytes)";

/** True for a fault of `createTooLargeFault`: no option raises the other limits of an answer. */
export function isSizeExcess({ message }: McpFault): boolean {
  return message.endsWith(OPTION);
}

/** Returns the codes of an error and of all its causes. */
export function collectCodes(thrown: unknown): readonly string[] {
  const codes: string[] = [];
  let error = thrown;
  for (let depth = 0; depth < 5 && error instanceof Error; depth += 1) {
    if ("code" in error && typeof error.code === "string") codes.push(error.code);
    if (error instanceof AggregateError)
      codes.push(...error.errors.flatMap((inner) => collectCodes(inner)));
    error = error.cause;
  }
  return codes;
}

/** Returns the secrets in the headers of a transport. */
export function findTransportSecrets(transport: McpTransport): readonly KnownSecret[] {
  return transport.type === "http" ? findHeaderSecrets(transport.headers) : [];
}

/**
 * Returns the fault without values of headers, which a careless server quotes. A fault that
 * contained such a value loses its cause.
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
