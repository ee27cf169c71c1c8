// Goal: the prices in the table are those of the source, made by the command and never by hand, and never less than what is charged.
// Method: the command's own function over the installed source; the source's own calculation; and small hand-made sources.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";

import { calcPrice } from "@pydantic/genai-prices";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import {
  identified,
  installedVersion,
  priceTable,
  problemOf,
  releaseOf,
  sourceModels,
  type SourceModel,
} from "../../scripts/update-prices.ts";
import { knownPrice } from "../../src/model/known-price.ts";
import { costMicroUsd } from "../../src/model/model-price.ts";
import { OPENAI_PRICES, PRICES_AS_OF, PRICES_SOURCE } from "../../src/model/price-table.ts";
import { proves } from "../harness/proves.ts";

const COMMITTED = readFileSync(resolve("src/model/price-table.ts"), "utf8");
const RELEASE = { version: installedVersion(), asOf: PRICES_AS_OF };

proves(["X30"], "the table is what the command makes of the installed source", () => {
  expect(COMMITTED).toBe(priceTable(sourceModels(), identified, RELEASE));
  expect(releaseOf(COMMITTED)).toEqual(RELEASE);
  expect(PRICES_SOURCE).toBe(`@pydantic/genai-prices ${installedVersion()}`);
  expect(problemOf(COMMITTED)).toBe(undefined);
});

test("a table that was changed by hand, is of another release or is missing is found", () => {
  const differs = "The price table is not the one that its source gives.";
  const isOfAnother = `The price table is not of @pydantic/genai-prices ${installedVersion()}.`;
  const tables = [
    COMMITTED.replace("outputUsd: 10", "outputUsd: 1"),
    COMMITTED.replace(/ {2}\{ model: "gpt-5-mini".*\n/, ""),
    `${COMMITTED}\n`,
    COMMITTED.replace(PRICES_SOURCE, "@pydantic/genai-prices 0.0.1"),
    COMMITTED.replace(PRICES_AS_OF, "yesterday"),
    "",
  ];
  expect(tables.map(problemOf)).toEqual([
    differs,
    differs,
    differs,
    isOfAnother,
    isOfAnother,
    isOfAnother,
  ]);
});

function isAmount(value: number): boolean {
  return Number.isFinite(value) && value > 0;
}

test("every price is a number above zero, and cached input is not dearer than other input", () => {
  const wrong = OPENAI_PRICES.filter(
    ({ inputUsd, cachedInputUsd = inputUsd, outputUsd }) =>
      !(isAmount(inputUsd) && isAmount(outputUsd) && isAmount(cachedInputUsd)) ||
      cachedInputUsd > inputUsd,
  );
  expect(wrong).toEqual([]);
  expect(OPENAI_PRICES.length).toBeGreaterThan(50);
});

test("no model is in it twice, and nothing in it can be changed", () => {
  const names = OPENAI_PRICES.map(({ model }) => model);
  expect(names).toEqual([...new Set(names)].toSorted());
  expect([OPENAI_PRICES, ...OPENAI_PRICES].filter((part) => !Object.isFrozen(part))).toEqual([]);
});

test("fine-tuned, audio, image, search and embedding models are not in it", () => {
  const others = /ft[:-]|audio|realtime|image|search|research|embed|tts|whisper|transcribe|oss/;
  expect(OPENAI_PRICES.filter(({ model }) => others.test(model))).toEqual([]);
});

/** Micro-dollars, by the source itself on the table's day. `written`: input tokens that go into the cache. */
function sourceCost(model: string, usage: TokenCounts & { readonly written: number }): number {
  const result = calcPrice(
    {
      input_tokens: usage.inputTokens,
      cache_read_tokens: usage.cachedInputTokens,
      cache_write_tokens: usage.written,
      output_tokens: usage.outputTokens,
    },
    model,
    { providerId: "openai", timestamp: new Date(`${PRICES_AS_OF}T23:59:59Z`) },
  );
  return (result?.total_price ?? Number.NaN) * 1e6;
}

interface TokenCounts {
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
}

function tableCost(model: string, counts: TokenCounts): number {
  const price = knownPrice("openai", model) ?? expect.fail(`${model} has no price`);
  return costMicroUsd(price, { ...counts, reasoningTokens: 0 });
}

const tokens = fc.oneof(fc.nat(1000), fc.nat(1_000_000));

/** For models without a price for cached or for written tokens the source counts them as input. */
const someCall = fc.tuple(tokens, tokens, tokens, tokens).map(([cached, written, fresh, out]) => ({
  inputTokens: cached + written + fresh,
  cachedInputTokens: cached,
  outputTokens: out,
  written,
}));

test("no call costs more than by the table; exactly as much where the rates do not vary", () => {
  fc.assert(
    fc.property(fc.constantFrom(...OPENAI_PRICES), someCall, ({ model, isHighest }, call) => {
      const ours = tableCost(model, call);
      const theirs = sourceCost(model, call);
      if (isHighest === true) expect(ours).toBeGreaterThanOrEqual(Math.floor(theirs));
      else expect(Math.abs(ours - theirs)).toBeLessThanOrEqual(1);
    }),
    { numRuns: 1000 },
  );
});

function onlyGptX(name: string): string | undefined {
  return name === "gpt-x" ? name : undefined;
}

/** A row of the table that a source with this one model gives; undefined: none. */
function rowOf(model: Partial<SourceModel>): string | undefined {
  const whole: SourceModel = { id: "gpt-x", match: { equals: "gpt-x" }, prices: {}, ...model };
  const table = priceTable([whole], onlyGptX, { version: "1", asOf: "2026-06-15" });
  return /deepFreeze\(\[\n(?<row>.*)\]\);/s.exec(table)?.groups?.["row"]?.trim() || undefined;
}

const rates = (input_mtok: number, output_mtok: number) => ({ input_mtok, output_mtok });
const from = (start_date: string) => ({ type: "start_date" as const, start_date });

describe("of a model", () => {
  test.each<[string, Partial<SourceModel>, string | undefined]>([
    ["plain rates", { prices: rates(1, 2) }, '{ model: "gpt-x", inputUsd: 1, outputUsd: 2 },'],
    [
      "rates by the length of the prompt: the highest of each",
      {
        prices: {
          input_mtok: { base: 1, tiers: [{ price: 3 }, { price: 2 }] },
          cache_read_mtok: 0.5,
          output_mtok: 4,
        },
      },
      '{ model: "gpt-x", inputUsd: 3, cachedInputUsd: 0.5, outputUsd: 4, isHighest: true },',
    ],
    [
      "dearer input when it is written to the cache",
      { prices: { ...rates(1, 2), cache_write_mtok: 1.25 } },
      '{ model: "gpt-x", inputUsd: 1.25, outputUsd: 2, isHighest: true },',
    ],
    [
      "a price cut in the past: what holds now",
      {
        prices: [
          { prices: rates(10, 20) },
          { constraint: from("2026-06-15"), prices: rates(1, 2) },
        ],
      },
      '{ model: "gpt-x", inputUsd: 1, outputUsd: 2 },',
    ],
    [
      "a price rise that is announced: the higher one, at once",
      {
        prices: [{ prices: rates(1, 9) }, { constraint: from("2026-06-16"), prices: rates(5, 6) }],
      },
      '{ model: "gpt-x", inputUsd: 5, outputUsd: 9, isHighest: true },',
    ],
    [
      "rates by the time of day: the highest of each",
      {
        prices: [
          { prices: rates(4, 4) },
          { constraint: { type: "time_of_date" }, prices: rates(1, 8) },
        ],
      },
      '{ model: "gpt-x", inputUsd: 4, outputUsd: 8, isHighest: true },',
    ],
    [
      "a cached rate that does not always hold: none",
      {
        prices: [
          { prices: { ...rates(1, 2), cache_read_mtok: 0.1 } },
          { constraint: from("2027-01-01"), prices: rates(1, 2) },
        ],
      },
      '{ model: "gpt-x", inputUsd: 1, outputUsd: 2, isHighest: true },',
    ],
    ["no rates: no row", { prices: {} }, undefined],
    ["input only: no row", { prices: { input_mtok: 1 } }, undefined],
    ["a rate of zero, which no provider charges: no row", { prices: rates(1, 0) }, undefined],
    [
      "something else that is charged: no row",
      { prices: { ...rates(1, 2), audio_hours: 1 } },
      undefined,
    ],
    [
      "a price that the source has from elsewhere: no row",
      { prices: rates(1, 2), price_comments: "Imported from OpenRouter pricing." },
      undefined,
    ],
    [
      "only a beginning of its name: no row",
      { match: { starts_with: "gpt-x" }, prices: rates(1, 2) },
      undefined,
    ],
    [
      "a name by which the source means another: no row",
      { id: "gpt-y", prices: rates(1, 2) },
      undefined,
    ],
    [
      "a fine-tuned name: no row",
      { match: { equals: "ft:gpt-x" }, prices: rates(1, 2) },
      undefined,
    ],
  ])("with %s", (_what, model, row) => {
    expect(rowOf(model)).toBe(row);
  });
});

test.each(["", "PRICES_AS_OF = 2026", 'PRICES_AS_OF = "2026-09-23"'])(
  "a table %j says of no release that it is from it",
  (text) => {
    expect(releaseOf(text)).toBe(undefined);
  },
);
