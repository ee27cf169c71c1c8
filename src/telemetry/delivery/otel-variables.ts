// The `OTEL_*` variables that tracing goes by. Reads the files that they name, and nothing else. A value that does not fit is left out and
// warned of, never thrown: a slip in an environment must not stop a program.

import { readFileSync } from "node:fs";

import { withoutSecrets } from "../../kernel/address.ts";
import { shown } from "../../kernel/check.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

export type Compression = "gzip" | "none";
export type Protocol = "http/json" | "http/protobuf" | "grpc";

/** Which traces are taken; `share` of those that a ratio decides on. */
export interface Sampling {
  readonly sampler: SamplerName;
  readonly share: number;
}

/** As PEM. */
export interface Certificates {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
}

/** Settings of tracing from the environment; undefined where it has none that fits. */
export interface TracingVariables {
  /** `OTEL_SDK_DISABLED`. */
  readonly isDisabled: boolean;
  /** `OTEL_TRACES_EXPORTER` is `none`. */
  readonly isExportOff: boolean;
  /** With its path. */
  readonly tracesUrl: string | undefined;
  readonly protocol: Protocol | undefined;
  readonly compression: Compression | undefined;
  readonly certificates: Certificates;
  /** Of one attempt of the exporter for OTLP. */
  readonly exportTimeoutMs: number | undefined;
  /** `OTEL_BSP_EXPORT_TIMEOUT`: of an export with all that belongs to it. */
  readonly batchTimeoutMs: number | undefined;
  readonly maxQueueSize: number | undefined;
  readonly batchSize: number | undefined;
  readonly delayMs: number | undefined;
  readonly maxAttributeLength: number | undefined;
  readonly sampling: Sampling;
  /** One sentence or two for each variable that does not fit. */
  readonly warnings: readonly string[];
}

export function tracingVariables(environment: Environment): TracingVariables {
  const reader = new VariableReader(environment);
  for (const name of OTHER_LIMITS) reader.wholeNumber(name, 0);
  return {
    isDisabled:
      reader.word("OTEL_SDK_DISABLED", ["true", "false"], "Nothing is disabled.") === "true",
    isExportOff: isExportOff(reader),
    tracesUrl: tracesUrl(reader),
    protocol:
      reader.word("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", PROTOCOLS, AS_JSON) ??
      reader.word("OTEL_EXPORTER_OTLP_PROTOCOL", PROTOCOLS, AS_JSON),
    compression:
      reader.word("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", COMPRESSIONS) ??
      reader.word("OTEL_EXPORTER_OTLP_COMPRESSION", COMPRESSIONS),
    certificates: certificates(reader),
    exportTimeoutMs:
      reader.wholeNumber("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", 1, LONGEST_MS) ??
      reader.wholeNumber("OTEL_EXPORTER_OTLP_TIMEOUT", 1, LONGEST_MS),
    batchTimeoutMs: reader.wholeNumber("OTEL_BSP_EXPORT_TIMEOUT", 1, LONGEST_MS),
    maxQueueSize: reader.wholeNumber("OTEL_BSP_MAX_QUEUE_SIZE", 1),
    batchSize: reader.wholeNumber("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1),
    delayMs: reader.wholeNumber("OTEL_BSP_SCHEDULE_DELAY", 0, LONGEST_MS),
    maxAttributeLength: attributeLengthBy(reader),
    sampling: sampling(reader),
    warnings: reader.warnings,
  };
}

/** What a timer of an SDK can wait, less what is added to it here: a longer wait would be none. */
const LONGEST_MS = 2_147_000_000;

/** The length that attributes may have; undefined: the environment has none that fits. */
export function maxAttributeLength(environment: Environment): number | undefined {
  return attributeLengthBy(new VariableReader(environment));
}

function attributeLengthBy(reader: VariableReader): number | undefined {
  return (
    reader.wholeNumber("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", 0) ??
    reader.wholeNumber("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", 0)
  );
}

const PROTOCOLS = ["http/json", "http/protobuf", "grpc"] as const;
const COMPRESSIONS = ["gzip", "none"] as const;
const AS_JSON = "Spans leave as JSON over HTTP.";

const RATIO_SAMPLERS = ["traceidratio", "parentbased_traceidratio"] as const;
const SAMPLERS = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
] as const;
export type SamplerName = (typeof SAMPLERS)[number];

/** Read by the SDK itself, which uses its default without a word. */
const OTHER_LIMITS = [
  "OTEL_ATTRIBUTE_COUNT_LIMIT",
  "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
  "OTEL_SPAN_ATTRIBUTE_PER_EVENT_COUNT_LIMIT",
  "OTEL_SPAN_ATTRIBUTE_PER_LINK_COUNT_LIMIT",
  "OTEL_SPAN_EVENT_COUNT_LIMIT",
  "OTEL_SPAN_LINK_COUNT_LIMIT",
];

function sampling(reader: VariableReader): Sampling {
  const everyTrace: Sampling = { sampler: "parentbased_always_on", share: 1 };
  const sampler = reader.word("OTEL_TRACES_SAMPLER", SAMPLERS, "Every trace is taken.");
  if (sampler === undefined) return everyTrace;
  if (!RATIO_SAMPLERS.some((ratio) => ratio === sampler)) return { sampler, share: 1 };
  const name = "OTEL_TRACES_SAMPLER_ARG";
  const text = reader.text(name);
  const share = Number(text);
  if (text !== undefined && share >= 0 && share <= 1) return { sampler, share };
  reader.warn(name, "a number from 0 to 1", text, "Every trace is taken.");
  return { sampler, share: 1 };
}

/** The exporter would read them, too, but not for connections of ours. */
function certificates(reader: VariableReader): Certificates {
  const ca = reader.file("CERTIFICATE");
  const cert = reader.file("CLIENT_CERTIFICATE");
  const key = reader.file("CLIENT_KEY");
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  };
}

function isExportOff(reader: VariableReader): boolean {
  const name = "OTEL_TRACES_EXPORTER";
  const words = reader.text(name)?.split(",") ?? [];
  const exporters = words.map((word) => word.trim().toLowerCase());
  const unknown = exporters.find((word) => word !== "otlp" && word !== "none" && word !== "");
  if (unknown !== undefined) {
    const advice = "Spans leave by OTLP. Hand another exporter to setUpNodeTracing as `exporter`.";
    reader.warn(name, "otlp or none", unknown, advice);
  }
  return exporters.includes("none");
}

function tracesUrl(reader: VariableReader): string | undefined {
  const own = reader.url("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  if (own !== undefined) return new URL(own).href;
  const shared = reader.url("OTEL_EXPORTER_OTLP_ENDPOINT");
  return shared === undefined ? undefined : `${shared.replace(/\/$/, "")}/v1/traces`;
}

/** Whether spans can be sent there. */
export function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}

class VariableReader {
  readonly #environment: Environment;
  readonly #warnings: string[] = [];

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  get warnings(): readonly string[] {
    return this.#warnings;
  }

  /** Empty is the same as not set. */
  text(name: string): string | undefined {
    return this.#environment[name]?.trim() || undefined;
  }

  word<const Word extends string>(
    name: string,
    words: readonly Word[],
    advice = DEFAULT_USED,
  ): Word | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const word = words.find((known) => known === text.toLowerCase());
    if (word === undefined) this.warn(name, `one of ${words.join(", ")}`, text, advice);
    return word;
  }

  wholeNumber(name: string, minimum: number, maximum?: number): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const value = Number(text);
    const isWithin = value >= minimum && value <= (maximum ?? value);
    if (Number.isSafeInteger(value) && isWithin) return value;
    const end = maximum === undefined ? "up" : `to ${maximum}`;
    this.warn(name, `a whole number from ${minimum} ${end}`, text);
    return undefined;
  }

  /** What stands in a file that a variable of the exporter names. */
  file(what: string): Buffer | undefined {
    const own = `OTEL_EXPORTER_OTLP_TRACES_${what}`;
    const name = this.text(own) === undefined ? `OTEL_EXPORTER_OTLP_${what}` : own;
    const path = this.text(name);
    if (path === undefined) return undefined;
    try {
      return readFileSync(path);
    } catch {
      this.warn(name, "a file that can be read", path, "Spans leave without it.");
      return undefined;
    }
  }

  url(name: string): string | undefined {
    const text = this.text(name);
    if (text === undefined || isHttpUrl(text)) return text;
    const expected = "an address that begins with http:// or https://";
    this.warn(name, expected, withoutSecrets(text));
    return undefined;
  }

  warn(name: string, expected: string, got: string | undefined, advice = DEFAULT_USED): void {
    const came = got === undefined ? "nothing" : shown(got.slice(0, MAX_SHOWN));
    this.#warnings.push(`Expected ${name} to be ${expected}, got ${came}. ${advice}`);
  }
}

const DEFAULT_USED = "The default is used.";
const MAX_SHOWN = 100;
