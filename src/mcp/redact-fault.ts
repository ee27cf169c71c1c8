// Removes values of `headers` from errors of a server: a careless server quotes its request.

import {
  findHeaderSecrets,
  quotesSecret,
  redactValues,
  type KnownSecret,
} from "../kernel/redact-values.ts";
import { defined } from "../kernel/json.ts";
import { McpFault } from "./mcp-fault.ts";
import type { McpTransport } from "./mcp-options.ts";

/** Returns the secrets in the headers of a transport. */
export function findTransportSecrets(transport: McpTransport): readonly KnownSecret[] {
  return transport.type === "http" ? findHeaderSecrets(transport.headers) : [];
}

/** Returns the fault without values of headers. A fault that contained one loses its cause. */
export function redactFault(thrown: unknown, transport: McpTransport): unknown {
  if (!(thrown instanceof McpFault)) return thrown;
  const secrets = findTransportSecrets(transport);
  if (!quotesSecret(thrown, secrets)) return thrown;
  const { kind, message, detail, challenge } = thrown;
  return new McpFault(kind, redactValues(message, secrets), undefined, {
    ...defined({ detail: detail && redactValues(detail, secrets), challenge }),
  });
}
