// Who serves a model, by the host of its base URL.

/** In the words of `gen_ai.provider.name`, where it has one. */
const PROVIDERS: readonly (readonly [host: RegExp, provider: string])[] = [
  [/(^|\.)openai\.com$/, "openai"],
  [/\.azure\.com$/, "azure.ai.openai"],
  [/(^|\.)deepseek\.com$/, "deepseek"],
  [/(^|\.)groq\.com$/, "groq"],
  [/(^|\.)mistral\.ai$/, "mistral_ai"],
  [/(^|\.)openrouter\.ai$/, "openrouter"],
  [/(^|\.)perplexity\.ai$/, "perplexity"],
  [/(^|\.)x\.ai$/, "x_ai"],
  [/^generativelanguage\.googleapis\.com$/, "gcp.gemini"],
];

/** The provider at a host; `openai` where nothing better is known. */
export function providerAt(hostname: string): string {
  return PROVIDERS.find(([host]) => host.test(hostname))?.[1] ?? "openai";
}
