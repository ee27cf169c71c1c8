// Removes secrets whose values are known, such as API keys and values of headers, from texts that
// servers and clients may have quoted them in. `redactSecrets` finds unknown ones by their shape.

import { inspect } from "node:util";

/** A value that must not appear in errors. */
export interface KnownSecret {
  readonly value: string;
  /** The text that replaces the value, for example `[header authorization]`. */
  readonly label: string;
}

/** Shorter values are not treated as secrets, since they also occur inside words. */
const MIN_SECRET_CHARACTERS = 6;

/** Headers whose values are names, versions and media types, which errors may contain. */
const HARMLESS_HEADERS: ReadonlySet<string> = new Set([
  "anthropic-beta",
  "anthropic-version",
  "api-version",
  "cache-control",
  "connection",
  "host",
  "mcp-protocol-version",
  "openai-beta",
  "openai-organization",
  "openai-project",
  "pragma",
  "user-agent",
  "x-api-version",
]);
const HARMLESS_PREFIXES = /^(accept(-|$)|content-)/;

/** Returns the API key as a secret, unless it is too short. */
export function findKeySecrets(apiKey: string | undefined): readonly KnownSecret[] {
  return toSecrets([apiKey], "[API key]");
}

/**
 * Returns the secrets in headers: each value, the token after its scheme, the password of `Basic`,
 * and each value of a cookie. Values of harmless headers and values shorter than 6 characters are
 * left out.
 *
 * @example findHeaderSecrets({ authorization: "Bearer abc123" }) // values "Bearer abc123",
 * "abc123"
 */
export function findHeaderSecrets(
  headers: Readonly<Record<string, string>> | undefined,
): readonly KnownSecret[] {
  return Object.entries(headers ?? {}).flatMap(([name, value]) => {
    const lowerName = name.toLowerCase();
    if (HARMLESS_HEADERS.has(lowerName) || HARMLESS_PREFIXES.test(lowerName)) return [];
    return toSecrets(findSecretParts(lowerName, value.trim()), `[header ${lowerName}]`);
  });
}

/** Returns the text with the label of each secret in its place. */
export function redactValues(text: string, secrets: readonly KnownSecret[]): string {
  const longestFirst = secrets.toSorted((left, right) => right.value.length - left.value.length);
  return longestFirst.reduce((rest, { value, label }) => rest.replaceAll(value, () => label), text);
}

/**
 * Returns true if an error contains a secret in its message, fields or causes, or cannot be
 * printed.
 */
export function hasSecret(thrown: unknown, secrets: readonly KnownSecret[]): boolean {
  if (secrets.length === 0) return false;
  try {
    const text = inspect(thrown, { depth: 5, customInspect: false, maxStringLength: Infinity });
    return secrets.some(({ value }) => text.includes(value));
  } catch {
    return true;
  }
}

/**
 * Also redacts the beginning of a secret that was cut off, if `…` follows. For short texts: the
 * time grows with the length of the text times the length of the secret.
 */
export function redactCutValues(text: string, secrets: readonly KnownSecret[]): string {
  let redacted = redactValues(text, secrets);
  for (const { value, label } of secrets) {
    for (let end = redacted.indexOf("…"); end !== -1; end = redacted.indexOf("…", end + 1)) {
      const length = countCutCharacters(redacted, value, end);
      if (length === 0) continue;
      redacted = `${redacted.slice(0, end - length)}${label}${redacted.slice(end)}`;
      end += label.length - length;
    }
  }
  return redacted;
}

/** Returns how many characters before `end` are the beginning of the value; 0 if too few are. */
function countCutCharacters(text: string, value: string, end: number): number {
  const longest = Math.min(value.length - 1, end);
  for (let length = longest; length >= MIN_SECRET_CHARACTERS; length -= 1)
    if (text.startsWith(value.slice(0, length), end - length)) return length;
  return 0;
}

/** In headers with other names, the words of a value are not secret. */
const NAMES_WITH_SCHEMES = /auth|token|key|secret/;

function findSecretParts(name: string, value: string): readonly (string | undefined)[] {
  if (name === "cookie")
    return [value, ...value.split(";").map((pair) => pair.slice(pair.indexOf("=") + 1))];
  if (!NAMES_WITH_SCHEMES.test(name)) return [value];
  const [, scheme = "", token] = /^([A-Za-z][\w-]*)[ \t]+(\S.*)$/s.exec(value) ?? [];
  if (token === undefined || scheme.toLowerCase() !== "basic") return [value, token];
  const [, ...password] = Buffer.from(token, "base64").toString("utf8").split(":");
  return [value, token, password.join(":")];
}

/** Returns the values as secrets, also in the form in which JSON or a URL quotes them. */
function toSecrets(values: readonly (string | undefined)[], label: string): readonly KnownSecret[] {
  const written = values
    .filter((value) => value !== undefined)
    .map((value) => value.trim().toWellFormed())
    .filter(({ length }) => length >= MIN_SECRET_CHARACTERS)
    .flatMap((value) => [value, JSON.stringify(value).slice(1, -1), encodeURIComponent(value)]);
  return [...new Set(written)].map((value) => ({ value, label }));
}
