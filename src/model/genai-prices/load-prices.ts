// Entry `espalier/prices`: prices of many providers, from the data of an optional package. The
// package is loaded by `loadPrices`, so that a program may import this entry without it. No request
// is sent.

import type { calcPrice, findProvider } from "@pydantic/genai-prices";

import { checkOptions, mustBe, type OptionChecks } from "../check-options.ts";
import { systemClock } from "../../kernel/clock.ts";
import { createLoadError } from "../../kernel/optional-package.ts";
import { isDay, type ModelPrice } from "../model-price.ts";
import type { PricedModel, Prices } from "../prices.ts";
import { computeSourcePrice, SourcePricesSchema } from "./source-price.ts";

const CHECKS: OptionChecks<NonNullable<Parameters<typeof loadPrices>[0]>> = {
  asOf: mustBe('a day like "2026-09-23"', isDay, "Leave it out for today."),
};

const PACKAGE = "@pydantic/genai-prices";

/** Functions of the package that are used. */
interface PriceSource {
  readonly calcPrice: typeof calcPrice;
  readonly findProvider: typeof findProvider;
}

/**
 * Ids of the package for providers with another name in the OpenTelemetry conventions or the AI
 * SDK.
 */
const IDS: ReadonlyMap<string, string> = new Map([
  ["gcp.gemini", "google"],
  ["gcp.vertex_ai", "google"],
  ["aws.bedrock", "aws"],
  ["azure.ai.openai", "azure"],
  ["x_ai", "x-ai"],
  ["mistral_ai", "mistral"],
  ["togetherai", "together"],
]);

/**
 * Loads the prices of many providers from the optional package `@pydantic/genai-prices`, without
 * network access. The provider is found by name or base URL, never by the model's name alone.
 *
 * If a price depends on the time of day, the highest one applies all day. Unknown models, and
 * models that charge for more than text, have no price.
 *
 * @throws EspalierError `missing_package` if the package is not installed.
 * @throws EspalierError `invalid_argument` if `asOf` is not a date.
 *
 * @example
 * ```ts
 * const orchestrator = new Orchestrator({ prices: await loadPrices() });
 * ```
 */
export async function loadPrices(
  options: {
    /**
     * Date of the prices, for example `2026-09-23`.
     *
     * @default today, in UTC
     */
    readonly asOf?: string;
  } = {},
): Promise<Prices> {
  checkOptions("loadPrices", options, CHECKS);
  const { asOf = new Date(systemClock.nowMs()).toISOString().slice(0, "2026-09-23".length) } =
    options;
  const source: PriceSource = await import("@pydantic/genai-prices").catch((cause: unknown) => {
    throw createLoadError(PACKAGE, "prices of other providers are unknown", cause);
  });
  return Object.freeze({
    getPrice: (model: PricedModel): ModelPrice | undefined => {
      const providerId = findProviderId(source, model);
      if (providerId === undefined) return undefined;
      const prices = source.calcPrice({ input_tokens: 0 }, model.model, { providerId })?.model
        .prices;
      const { data } = SourcePricesSchema().safeParse(prices);
      const known = data === undefined ? undefined : computeSourcePrice(data, asOf);
      if (known === undefined) return undefined;
      const name = known.isHighest ? `${PACKAGE}, highest rate` : PACKAGE;
      return { ...known.price, asOf, source: name };
    },
  });
}

function findProviderId(
  source: PriceSource,
  { provider, baseUrl }: PricedModel,
): string | undefined {
  if (baseUrl === undefined) {
    const providerId = IDS.get(provider) ?? provider;
    // The package also matches names that only contain the name of a provider.
    return source.findProvider({ providerId })?.id === providerId ? providerId : undefined;
  }
  if (!URL.canParse(baseUrl)) return undefined;
  const { origin, pathname } = new URL(baseUrl);
  // A gateway whose path contains the address of another server is not that server.
  if (pathname.includes("//")) return undefined;
  const address = origin + pathname;
  const matched = source.findProvider({ providerApiUrl: address });
  // The package matches only the beginning of an address. The match must end where a segment of the
  // address ends.
  const pattern = matched && new RegExp(`^(?:${matched.api_pattern})(?:(?<=[/.])|(?=/|$))`);
  return pattern?.test(address) === true ? matched?.id : undefined;
}
