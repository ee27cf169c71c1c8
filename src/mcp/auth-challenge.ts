// What a server asks for where it does not take a request: HTTP 401, or 403 with a challenge. It is the server's text, shortened, without what looks
// like a secret: a careless server repeats what it was sent.

import { extractWWWAuthenticateParams } from "@modelcontextprotocol/client";

import { defined } from "../kernel/json.ts";
import { findHeaderSecrets, redactValues } from "../kernel/redact-values.ts";
import { redactSecrets } from "../tools/redact-secrets.ts";
import type { McpHttp } from "./mcp-options.ts";

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

const UNAUTHORIZED = 401;
const FORBIDDEN = 403;
/** Of each part. */
const MOST_CHARACTERS = 500;

/**
 * Returns the challenge without values of the headers that were sent; `undefined` if the response is
 * not about an authorization.
 */
export function challengeOf(
  response: Response,
  sentHeaders: McpHttp["headers"],
): AuthChallenge | undefined {
  const { status, headers } = response;
  const header = headers.get("www-authenticate");
  if (status !== UNAUTHORIZED && (status !== FORBIDDEN || header === null)) return undefined;
  const said = extractWWWAuthenticateParams(response);
  const secrets = findHeaderSecrets(sentHeaders);
  const bounded = (text = ""): string | undefined =>
    text === "" ? undefined : redactSecrets(redactValues(text, secrets)).slice(0, MOST_CHARACTERS);
  return {
    status,
    ...defined({
      scheme: bounded(header?.trim().split(/[\s,]/)[0]),
      scope: bounded(said.scope),
      error: bounded(said.error),
      description: bounded(said.errorDescription),
      resourceMetadataUrl: bounded(said.resourceMetadataUrl?.href),
    }),
  };
}

/** In words; undefined: the server does not say what it wants. */
export function challengeText(challenge: AuthChallenge): string | undefined {
  const { scheme, scope, error, description, resourceMetadataUrl } = challenge;
  if (scheme === undefined) return undefined;
  const wanted = scope === undefined ? scheme : `${scheme} with scope ${JSON.stringify(scope)}`;
  const reasons = [error, description].filter((text) => text !== undefined);
  return [
    `it asks for ${wanted}`,
    ...reasons.map((text) => JSON.stringify(text)),
    ...(resourceMetadataUrl === undefined ? [] : [`resource metadata: ${resourceMetadataUrl}`]),
  ].join(", ");
}
