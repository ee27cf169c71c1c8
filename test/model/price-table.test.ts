// Goal: the prices in the table are those of the source, made by the command and never by hand, and what is charged.
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
  textOfTable,
  type PriceTable,
  type SourceModel,
} from "../../scripts/update-prices.ts";
import { lookUpModelPrice } from "../../src/model/prices.ts";
import { computeMicroUsd, type ModelPrice } from "../../src/model/model-price.ts";
import table from "../../src/model/price-table.json" with { type: "json" };
import { proves } from "../harness/proves.ts";

const COMMITTED = readFileSync(resolve("src/model/price-table.json"), "utf8");
const MODELS: readonly string[] = table.rows.flatMap(({ models }) => models);
const RELEASE = { version: installedVersion(), asOf: table.asOf };

proves(["X30"], "the table is what the command makes of the installed source", () => {
  expect(COMMITTED).toBe(textOfTable(priceTable(sourceModels(), identified, RELEASE)));
  expect(releaseOf(COMMITTED)).toEqual(RELEASE);
  expect(table.source).toBe(`@pydantic/genai-prices ${installedVersion()}`);
  expect(problemOf(COMMITTED)).toBe(undefined);
});

test("a table that was changed by hand, is of another release or is missing is found", () => {
  const differs = "The price table is not the one that its source gives.";
  const isOfAnother = `The price table is not of @pydantic/genai-prices ${installedVersion()}.`;
  const tables = [
    COMMITTED.replace('"outputUsdPerMillion": 10', '"outputUsdPerMillion": 1'),
    COMMITTED.replace(/ *"gpt-5-mini",\n/, ""),
    `${COMMITTED}\n`,
    COMMITTED.replace(table.source, "@pydantic/genai-prices 0.0.1"),
    COMMITTED.replace(table.asOf, "yesterday"),
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
  const wrong = table.rows.filter(
    ({ price: { inputUsdPerMillion: fresh, cachedInputUsdPerMillion: cached, ...others } }) =>
      ![fresh, cached ?? fresh, others.outputUsdPerMillion].every(isAmount) ||
      (cached ?? 0) > fresh,
  );
  expect(wrong).toEqual([]);
  expect(MODELS.length).toBeGreaterThan(50);
});

test("no model is in it twice, and its prices cannot be changed", () => {
  expect(MODELS.toSorted()).toEqual([...new Set(MODELS)].toSorted());
  expect(MODELS.filter((name) => !Object.isFrozen(lookUpModelPrice("openai", name)))).toEqual([]);
});

test("fine-tuned, audio, image, search and embedding models are not in it", () => {
  const others = /ft[:-]|audio|realtime|image|search|research|embed|tts|whisper|transcribe|oss/;
  expect(MODELS.filter((model) => others.test(model))).toEqual([]);
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
    { providerId: "openai", timestamp: new Date(`${table.asOf}T23:59:59Z`) },
  );
  return (result?.total_price ?? Number.NaN) * 1e6;
}

interface TokenCounts {
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
}

function tableCost(model: string, { written, ...counts }: TokenCounts & { written: number }) {
  const price = lookUpModelPrice("openai", model) ?? expect.fail(`${model} has no price`);
  return computeMicroUsd(price, {
    ...counts,
    cacheWriteInputTokens: written,
    reasoningTokens: 0,
  });
}

const tokens = fc.oneof(fc.nat(1000), fc.nat(1_000_000));

/** For models without a price for cached or for written tokens the source counts them as input. */
const someCall = fc.tuple(tokens, tokens, tokens, tokens).map(([cached, written, fresh, out]) => ({
  inputTokens: cached + written + fresh,
  cachedInputTokens: cached,
  outputTokens: out,
  written,
}));

proves(["M60"], "a call costs by the table what the source says, at every length", () => {
  expect(table.rows.filter(({ isHighest }) => isHighest)).toEqual([]);
  fc.assert(
    fc.property(fc.constantFrom(...MODELS), someCall, (model, call) => {
      expect(Math.abs(tableCost(model, call) - sourceCost(model, call))).toBeLessThanOrEqual(1);
    }),
    { numRuns: 1000 },
  );
});

proves(["M60"], "the longer request costs more by the token, all of it", () => {
  const call = (inputTokens: number) => ({
    inputTokens,
    cachedInputTokens: 0,
    outputTokens: 1_000,
    written: 0,
  });
  expect([100_000, 300_000].map((input) => tableCost("gpt-5.4", call(input)))).toEqual([
    265_000, 1_522_500,
  ]);
});

function onlyGptX(name: string): string | undefined {
  return name === "gpt-x" ? name : undefined;
}

/** The row of the table for a source with this one model, or `undefined` for a table without rows. */
function rowOf(model: Partial<SourceModel>): PriceTable["rows"][number] | undefined {
  const whole: SourceModel = { id: "gpt-x", match: { equals: "gpt-x" }, prices: {}, ...model };
  return priceTable([whole], onlyGptX, { version: "1", asOf: "2026-06-15" }).rows[0];
}

/** The row of a model with these rates, and others. */
const row = (
  inputUsdPerMillion: number,
  outputUsdPerMillion: number,
  others: Partial<ModelPrice> = {},
): PriceTable["rows"][number] => ({
  models: ["gpt-x"],
  price: { inputUsdPerMillion, outputUsdPerMillion, ...others },
  isHighest: false,
});

const rates = (input_mtok: number, output_mtok: number) => ({ input_mtok, output_mtok });
const from = (start_date: string) => ({ type: "start_date" as const, start_date });

describe("of a model", () => {
  test.each<[string, Partial<SourceModel>, PriceTable["rows"][number] | undefined]>([
    ["plain rates", { prices: rates(1, 2) }, row(1, 2)],
    [
      "rates by the length of the prompt: a tier for each length at which one changes",
      {
        prices: {
          input_mtok: { base: 1, tiers: [{ start: 200, price: 3 }] },
          cache_read_mtok: 0.5,
          output_mtok: {
            base: 4,
            tiers: [
              { start: 300, price: 6 },
              { start: 200, price: 5 },
            ],
          },
        },
      },
      row(1, 4, {
        cachedInputUsdPerMillion: 0.5,
        tiers: [
          {
            aboveInputTokens: 200,
            inputUsdPerMillion: 3,
            cachedInputUsdPerMillion: 0.5,
            outputUsdPerMillion: 5,
          },
          {
            aboveInputTokens: 300,
            inputUsdPerMillion: 3,
            cachedInputUsdPerMillion: 0.5,
            outputUsdPerMillion: 6,
          },
        ],
      }),
    ],
    [
      "a rate for input that is written to the cache",
      { prices: { ...rates(1, 2), cache_write_mtok: 1.25 } },
      row(1, 2, { cacheWriteUsdPerMillion: 1.25 }),
    ],
    [
      "a price cut in the past: what holds now",
      {
        prices: [
          { prices: rates(10, 20) },
          { constraint: from("2026-06-15"), prices: rates(1, 2) },
        ],
      },
      row(1, 2),
    ],
    [
      "a price rise that is announced: what holds on the day",
      {
        prices: [{ prices: rates(1, 9) }, { constraint: from("2026-06-16"), prices: rates(5, 6) }],
      },
      row(1, 9),
    ],
    [
      "rates by the time of day: the dearest of each, but not of what held before",
      {
        prices: [
          { prices: rates(9, 9) },
          { constraint: { type: "time_of_date" }, prices: rates(8, 8) },
          { constraint: from("2026-06-14"), prices: rates(4, 4) },
          { constraint: { type: "time_of_date" }, prices: rates(1, 8) },
        ],
      },
      { ...row(4, 8), isHighest: true },
    ],
    [
      "a cached rate that does not always hold: that of other input",
      {
        prices: [
          { prices: { ...rates(1, 2), cache_read_mtok: 0.1 } },
          { constraint: { type: "time_of_date" }, prices: rates(1, 2) },
        ],
      },
      { ...row(1, 2, { cachedInputUsdPerMillion: 1 }), isHighest: true },
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
  ])("with %s", (_what, model, expected) => {
    expect(rowOf(model)).toEqual(expected);
  });
});

test("models that cost the same share a row, and those with snapshots are listed", () => {
  const source = ["gpt-b", "gpt-a"].map((name) => ({
    id: name,
    match: { equals: name },
    prices: rates(1, 2),
  }));
  const identify = (name: string) => (name === "gpt-b" ? name : name.slice(0, "gpt-a".length));
  expect(priceTable(source, identify, { version: "1", asOf: "2026-06-15" })).toEqual({
    asOf: "2026-06-15",
    source: "@pydantic/genai-prices 1",
    withSnapshots: ["gpt-a", "gpt-b"],
    rows: [{ ...row(1, 2), models: ["gpt-a", "gpt-b"] }],
  });
});

test.each(["", '"asOf": "2026"', '"asOf": "2026-09-23"'])(
  "a table %j says of no release that it is from it",
  (text) => {
    expect(releaseOf(text)).toBe(undefined);
  },
);
