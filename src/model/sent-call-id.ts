// The ids of calls, as providers take them. A server that writes ids of a form of its own (`functions.read:0`), or none, is sent what it wrote,
// or what we made; where the history is sent to a provider that refuses such an id, another one goes out in its place: always the same.

import { sha256 } from "../kernel/crypto.ts";

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
export function callIdFormAt(hostname: string): CallIdForm | undefined {
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
export function callIdFormOf(provider: string): CallIdForm | undefined {
  return OF_PROVIDERS.find(([pattern]) => pattern.test(provider))?.[1];
}

/** So many characters, letters and digits, are of every form. */
const LENGTH_FOR_ALL = 9;

/** The id itself, if it is of the form, else one that is of every form. */
export function sentCallId(callId: string, form: CallIdForm | undefined): string {
  return form === undefined || form.test(callId) ? callId : sha256(callId).slice(0, LENGTH_FOR_ALL);
}
