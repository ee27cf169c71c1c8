// What models of the AI SDK take besides text, as far as it follows from their provider. Pure.

import type { LanguageModelV4 } from "@ai-sdk/provider";

import type { AttachmentKind } from "../../protocol/attachment.ts";
import { CLAUDE_PROVIDER } from "../sent-call-id.ts";

/** By how the AI SDK calls its providers. The first that fits holds; of others nothing is known. */
const TAKEN = [
  [/^(vertex\.)?anthropic\b/, ["image", "file"]],
  [/^google\b/, ["image", "audio", "file"]],
  [/^(openai|azure)\b/, ["image", "file"]],
] as const satisfies readonly (readonly [RegExp, readonly AttachmentKind[]])[];

/** What the models of a provider take, where the user does not say so. */
export function takenBy(provider: string): readonly AttachmentKind[] {
  const [, kinds = []] = TAKEN.find(([pattern]) => pattern.test(provider)) ?? [];
  return kinds;
}

/** Those known to hand on what stands in the result of a tool. Others write it as JSON, base64 and all. */
const SEES_RESULTS = /^((vertex\.)?anthropic|google|openrouter)\b|^(openai|azure)\b.*\.responses$/;

export function seesResults(provider: string): boolean {
  return SEES_RESULTS.test(provider);
}

/** Whether the models of a provider take texts in which there is no word. */
export function takesBlanks(provider: string): boolean {
  return !CLAUDE_PROVIDER.test(provider);
}

/** Addresses that a provider fetches from, by media types: `image/*`, `*` and the like. */
export type FetchedAddresses = Awaited<LanguageModelV4["supportedUrls"]>;

/** Whether a provider fetches a file of this type from this address. */
export function isFetched(known: FetchedAddresses, mediaType: string, address: string): boolean {
  const type = mediaType.toLowerCase();
  return Object.entries(known).some(
    ([pattern, addresses]) =>
      type.startsWith(pattern.toLowerCase().replace(/\*.*$/, "")) &&
      addresses.some((one) => one.test(address.toLowerCase())),
  );
}
