// Half of a surrogate pair, as a text has that was cut in the middle of a character, is no JSON to most servers: they refuse the request,
// and with it each later one over the same history. What a model is sent has U+FFFD in its place.

import { sha256 } from "../kernel/crypto.ts";
import type { CacheKey } from "./model.ts";

/** The same value without halves of surrogate pairs in its texts; itself, if there are none. What is no plain data stays as it is. */
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

/** A value as JSON text that every server can read. */
export function stringifyForWire(value: unknown): string {
  const text = JSON.stringify(value);
  return text.includes(String.raw`\ud`) ? JSON.stringify(createWellFormed(value)) : text;
}

// The ids of calls, as providers take them. A server that writes ids of a form of its own (`functions.read:0`), or none, is sent what it wrote,
// or what we made; where the history is sent to a provider that refuses such an id, another one goes out in its place: always the same.

/** What a provider demands of the id of a call. */
export type CallIdForm = RegExp;

/** Responses of OpenAI. */
export const RESPONSES_CALL_ID: CallIdForm = /^[^]{1,64}$/;
const CHAT: CallIdForm = /^[^]{1,40}$/;
const CLAUDE: CallIdForm = /^[\w-]{1,64}$/;
const MISTRAL: CallIdForm = /^[A-Za-z0-9]{9}$/;

const AT_HOSTS: readonly (readonly [host: RegExp, form: CallIdForm])[] = [
  [/(^|\.)openai(\.azure)?\.com$/, CHAT],
  [/(^|\.)anthropic\.com$/, CLAUDE],
  [/(^|\.)mistral\.ai$/, MISTRAL],
];

/** The form over Chat Completions at a host; undefined: any, as far as is known. */
export function findHostIdForm(hostname: string): CallIdForm | undefined {
  return AT_HOSTS.find(([host]) => host.test(hostname))?.[1];
}

/** How the AI SDK calls providers of Claude. */
export const CLAUDE_PROVIDER = /\banthropic\b|^amazon-bedrock|^bedrock\b/;

/** By how the AI SDK calls its providers. */
const OF_PROVIDERS: readonly (readonly [provider: RegExp, form: CallIdForm])[] = [
  [CLAUDE_PROVIDER, CLAUDE],
  [/^mistral\b/, MISTRAL],
  [/^(openai|azure)\b.*\.responses$/, RESPONSES_CALL_ID],
  [/^(openai|azure)\b/, CHAT],
];

/** The form over the AI SDK; undefined: any, as far as is known. */
export function findProviderIdForm(provider: string): CallIdForm | undefined {
  return OF_PROVIDERS.find(([pattern]) => pattern.test(provider))?.[1];
}

/** So many characters, letters and digits, are of every form. */
const LENGTH_FOR_ALL = 9;

/** The id itself, if it is of the form, else one that is of every form. */
export function adaptCallId(callId: string, form: CallIdForm | undefined): string {
  return form === undefined || form.test(callId) ? callId : sha256(callId).slice(0, LENGTH_FOR_ALL);
}

// The key under which a provider with a cache by key finds the beginning of a request again.

/** One key is served well up to a few requests a second, so the agents of a role share several. */
const SHARDS = 8;

/** `role`: a few keys for all agents of a role, in every run; `agent`: one for each agent of a run. */
export function buildPromptCacheKey({ role, agent }: CacheKey, by: "role" | "agent"): string {
  return `esp-${role}-${by === "role" ? agent % SHARDS : agent}`;
}
