// Replaces lone surrogates, which a text contains if it was cut within a character, by U+FFFD in
// all requests. Most servers cannot parse them as JSON, and would refuse each request with this
// history.

import { sha256 } from "../kernel/crypto.ts";
import type { CacheKey } from "./model.ts";

/**
 * Returns the value without lone surrogates in its texts, or the same value if it has none. Objects
 * other than plain ones are returned unchanged.
 */
export function createWellFormed<T>(value: T): T;
export function createWellFormed(value: unknown): unknown {
  if (typeof value === "string") return value.toWellFormed();
  if (Array.isArray(value)) {
    const items: readonly unknown[] = value;
    const formed = items.map((item) => createWellFormed(item));
    return formed.every((item, index) => item === items[index]) ? items : formed;
  }
  if (typeof value !== "object" || value === null) return value;
  if (Object.getPrototypeOf(value) !== Object.prototype) return value;
  const fields = Object.entries<unknown>({ ...value });
  const formed = fields.map(
    ([key, field]) => [key.toWellFormed(), createWellFormed(field)] as const,
  );
  const isSame = formed.every(
    ([key, field], at) => key === fields[at]?.[0] && field === fields[at][1],
  );
  return isSame ? value : Object.fromEntries(formed);
}

/** Returns the value as JSON text that every server can parse. */
export function stringifyForWire(value: unknown): string {
  const text = JSON.stringify(value);
  return text.includes(String.raw`\ud`) ? JSON.stringify(createWellFormed(value)) : text;
}

// Rewrites call ids that a provider does not accept. A server with ids in another form
// (`functions.read:0`), or without ids, gets its own ids or ours back. Other providers that refuse
// such an id get a hash in its place, which is always the same.

/** Pattern of the call ids that a provider accepts. */
export type CallIdForm = RegExp;

/** The Responses API of OpenAI. */
export const RESPONSES_CALL_ID: CallIdForm = /^[^]{1,64}$/;
const CHAT: CallIdForm = /^[^]{1,40}$/;
const CLAUDE: CallIdForm = /^[\w-]{1,64}$/;
const MISTRAL: CallIdForm = /^[A-Za-z0-9]{9}$/;

const FORMS_BY_HOST: readonly (readonly [host: RegExp, form: CallIdForm])[] = [
  [/(^|\.)openai\.com$|\.azure\.com$/, CHAT],
  [/(^|\.)anthropic\.com$/, CLAUDE],
  [/(^|\.)mistral\.ai$/, MISTRAL],
];

/** Returns the form for Chat Completions at a host, or `undefined` if no rules are known. */
export function findHostIdForm(hostname: string): CallIdForm | undefined {
  return FORMS_BY_HOST.find(([host]) => host.test(hostname))?.[1];
}

/** Providers of Claude, by their names in the AI SDK. */
export const CLAUDE_PROVIDER = /\banthropic\b|^amazon-bedrock|^bedrock\b/;

/** Forms by the AI SDK's provider name. */
const FORMS_BY_PROVIDER: readonly (readonly [provider: RegExp, form: CallIdForm])[] = [
  [CLAUDE_PROVIDER, CLAUDE],
  [/^mistral\b/, MISTRAL],
  [/^(openai|azure)\b.*\.responses$/, RESPONSES_CALL_ID],
  [/^(openai|azure)\b/, CHAT],
];

/** Returns the form for a provider of the AI SDK, or `undefined` if no rules are known. */
export function findProviderIdForm(provider: string): CallIdForm | undefined {
  return FORMS_BY_PROVIDER.find(([pattern]) => pattern.test(provider))?.[1];
}

/** Letters and digits of this number are valid in every form. */
const MIN_ID_LENGTH = 9;

/** Returns the id if it has the form, or else an id that is valid in every form. */
export function adaptCallId(callId: string, form: CallIdForm | undefined): string {
  return form === undefined || form.test(callId) ? callId : sha256(callId).slice(0, MIN_ID_LENGTH);
}

// The key by which a provider finds the cached beginning of a request.

/**
 * A provider serves one key well up to a few requests per second, so the agents of a role share
 * several.
 */
const SHARDS = 8;

/**
 * `role`: a few keys for all agents of a role, in every run. `agent`: one key per agent of a run.
 */
export function buildPromptCacheKey({ role, agent }: CacheKey, by: "role" | "agent"): string {
  return `esp-${role}-${by === "role" ? agent % SHARDS : agent}`;
}
