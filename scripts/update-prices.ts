// `node scripts/update-prices.ts` makes src/model/price-table.json anew from the installed @pydantic/genai-prices; `--check` writes
// nothing and fails if the table is another. To update the prices, update that package and run this.
// Asks the npm registry for one thing: the day on which a release was published, unless the table has it already.

import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

import { calcPrice, findProvider } from "@pydantic/genai-prices";
import { z } from "zod";

import type { ModelPrice } from "../src/model/model-price.ts";
import { computeSourcePrice, SourcePricesSchema } from "../src/model/genai-prices/source-price.ts";

/** A release of the package that the prices are from, and the day on which it was published. */
export interface Release {
  readonly version: string;
  readonly asOf: string;
}

/** A model as the source describes it; what we do not read is left out. */
export type SourceModel = z.infer<typeof SourceModelSchema>;

/** The model at OpenAI that the source means by a name; undefined: none. */
export type Identify = (name: string) => string | undefined;

const PACKAGE = "@pydantic/genai-prices";
const TABLE = resolve(import.meta.dirname, "../src/model/price-table.json");

const MatchSchema = z.union([
  z.object({ equals: z.string() }),
  z.object({
    get or() {
      return z.array(MatchSchema);
    },
  }),
  z.record(z.string(), z.unknown()),
]);
const SourceModelSchema = z.object({
  id: z.string(),
  match: MatchSchema,
  price_comments: z.string().optional(),
  prices: SourcePricesSchema(),
});

/** What some models cost. */
interface Row {
  /** The names of the models that cost this. */
  readonly models: readonly string[];
  readonly price: ModelPrice;
  /** The rates depend on the time of the day: these are the highest. */
  readonly isHighest: boolean;
}

interface NamedPrice {
  readonly model: string;
  readonly cost: Omit<Row, "models">;
  readonly hasSnapshots: boolean;
}

/** The table: the prices at the standard tier of the models at OpenAI itself. */
export interface PriceTable {
  /** The day on which the release was published. */
  readonly asOf: string;
  readonly source: string;
  /** Models whose dated snapshots all cost the same, also those that no row names. */
  readonly withSnapshots: readonly string[];
  readonly rows: readonly Row[];
}

/** Returns the table for a release of the source. */
export function priceTable(
  models: readonly SourceModel[],
  identify: Identify,
  { version, asOf }: Release,
): PriceTable {
  const priced = models
    .filter(isPricedByTokens)
    .flatMap((model) => loadPrices(model, identify, asOf))
    .toSorted((left, right) => (left.model < right.model ? -1 : 1));
  const rows = new Map<string, Row>();
  for (const { model, cost } of priced) {
    const key = JSON.stringify(cost);
    rows.set(key, { models: [...(rows.get(key)?.models ?? []), model], ...cost });
  }
  return {
    asOf,
    source: `${PACKAGE} ${version}`,
    withSnapshots: priced.filter(({ hasSnapshots }) => hasSnapshots).map(({ model }) => model),
    rows: [...rows.values()],
  };
}

/** OpenAI's models as the installed package has them. */
export function sourceModels(): readonly SourceModel[] {
  return z.array(SourceModelSchema).parse(findProvider({ providerId: "openai" })?.models);
}

/** By the rules of the package itself. */
export const identified: Identify = (name) =>
  calcPrice({ input_tokens: 0 }, name, { providerId: "openai" })?.model.id;

export function installedVersion(): string {
  const manifest = resolve(createRequire(import.meta.url).resolve(PACKAGE), "../../package.json");
  return z.object({ version: z.string() }).parse(JSON.parse(readFileSync(manifest, "utf8")))
    .version;
}

/** What an agent may spend besides tokens, but only on tools of the provider's own, which we never ask for. */
const IRRELEVANT_RATES = ["web_searches_kcount", "storage_searches_kcount"];
const TOKEN_RATES = ["input_mtok", "cache_read_mtok", "cache_write_mtok", "output_mtok"];
const READ_RATES = new Set([...IRRELEVANT_RATES, ...TOKEN_RATES]);

/** False where a call costs more than text tokens, and where the source says that the price is not OpenAI's own. */
function isPricedByTokens({ prices, price_comments: comments = "" }: SourceModel): boolean {
  const all = Array.isArray(prices) ? prices.map((price) => price.prices) : [prices];
  return (
    !comments.includes("OpenRouter") &&
    all.every((rates) => Object.keys(rates).every((rate) => READ_RATES.has(rate)))
  );
}

const CHAT_FAMILIES = /^(gpt-|chatgpt-|codex-|o\d)/;
/** Not for chat, or charged per search besides the tokens; fine-tuned; or a name that only others than OpenAI use. */
const NOT_CHAT =
  /audio|realtime|transcribe|tts|image|search|deep-research|instruct|[:]|\.ft-|^gpt-35|^gpt-\d-\d(-|$)|-high$/;
const SOME_DAY = "2099-12-31";

function loadPrices(model: SourceModel, identify: Identify, asOf: string): readonly NamedPrice[] {
  const cost = costOf(model, asOf);
  if (cost === undefined) return [];
  return namesOf(model.match)
    .filter((name) => CHAT_FAMILIES.test(name) && !NOT_CHAT.test(name))
    .filter((name) => identify(name) === model.id)
    .map((name) => {
      const hasSnapshots = identify(`${name}-${SOME_DAY}`) === model.id;
      return { model: name, cost, hasSnapshots };
    });
}

/** The names that are given in full. */
function namesOf(match: z.infer<typeof MatchSchema>): readonly string[] {
  const { equals, or } = z
    .object({ equals: z.string().optional(), or: z.array(MatchSchema).optional() })
    .parse(match);
  return equals === undefined ? (or ?? []).flatMap(namesOf) : [equals];
}

/** Undefined: not a price for text in and text out. */
function costOf({ prices }: SourceModel, asOf: string): NamedPrice["cost"] | undefined {
  const { price, isHighest = false } = computeSourcePrice(prices, asOf) ?? {};
  if (price === undefined || price.inputUsdPerMillion === 0 || price.outputUsdPerMillion === 0)
    return undefined;
  return { price, isHighest };
}

/** Returns the text of the file. */
export function textOfTable(table: PriceTable): string {
  return `${JSON.stringify(table, null, 2)}\n`;
}

/** The release that a table says it was made from. */
export function releaseOf(table: string): Release | undefined {
  const asOf = /"asOf": "(\d{4}-\d{2}-\d{2})"/.exec(table)?.[1];
  const version = /"source": "\S+ (\S+)"/.exec(table)?.[1];
  return asOf === undefined || version === undefined ? undefined : { asOf, version };
}

function publishedOn(version: string): string {
  const { stdout, status } = spawnSync("npm", ["view", PACKAGE, "time", "--json"], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (status !== 0) throw new Error(`npm could not say when ${PACKAGE} ${version} was published.`);
  const day = z.record(z.string(), z.string()).parse(JSON.parse(stdout))[version]?.slice(0, 10);
  return z.iso.date().parse(day);
}

function readTable(): string {
  try {
    return readFileSync(TABLE, "utf8");
  } catch {
    return "";
  }
}

/** Why a table is not the one that the installed source gives; undefined: it is. */
export function problemOf(table: string): string | undefined {
  const version = installedVersion();
  const release = releaseOf(table);
  if (release?.version !== version) return `The price table is not of ${PACKAGE} ${version}.`;
  return table === textOfTable(priceTable(sourceModels(), identified, release))
    ? undefined
    : "The price table is not the one that its source gives.";
}

function check(): number {
  const problem = problemOf(readTable());
  if (problem === undefined) return 0;
  console.error(`${problem} Run \`node scripts/update-prices.ts\` and review the change.`);
  return 1;
}

function update(): number {
  const version = installedVersion();
  const before = releaseOf(readTable());
  const release = before?.version === version ? before : { version, asOf: publishedOn(version) };
  writeFileSync(TABLE, textOfTable(priceTable(sourceModels(), identified, release)));
  return 0;
}

if (import.meta.main) process.exitCode = process.argv.includes("--check") ? check() : update();
