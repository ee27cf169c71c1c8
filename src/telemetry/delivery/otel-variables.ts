// The `OTEL_*` variables that tracing goes by. Pure. A value that does not fit is left out and
// complained about, never thrown: a slip in an environment must not stop a program.

import { shown } from "../../kernel/check.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

export type Compression = "gzip" | "none";
export type Protocol = "http/json" | "http/protobuf" | "grpc";

/** What the environment says of tracing; undefined where it says nothing that fits. */
export interface TracingVariables {
  /** `OTEL_SDK_DISABLED`. */
  readonly isDisabled: boolean;
  /** `OTEL_TRACES_EXPORTER` is `none`. */
  readonly isExportOff: boolean;
  /** With its path. */
  readonly tracesUrl: string | undefined;
  readonly protocol: Protocol | undefined;
  readonly compression: Compression | undefined;
  readonly exportTimeoutMs: number | undefined;
  readonly maxQueueSize: number | undefined;
  readonly batchSize: number | undefined;
  readonly delayMs: number | undefined;
  readonly maxAttributeLength: number | undefined;
  /** One sentence or two for each variable that does not fit. */
  readonly complaints: readonly string[];
}

export function tracingVariables(environment: Environment): TracingVariables {
  const reader = new VariableReader(environment);
  checkSampling(reader);
  for (const name of OTHER_LIMITS) reader.wholeNumber(name, 0);
  reader.wholeNumber("OTEL_BSP_EXPORT_TIMEOUT", 0);
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
    exportTimeoutMs:
      reader.wholeNumber("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", 1) ??
      reader.wholeNumber("OTEL_EXPORTER_OTLP_TIMEOUT", 1),
    maxQueueSize: reader.wholeNumber("OTEL_BSP_MAX_QUEUE_SIZE", 1),
    batchSize: reader.wholeNumber("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1),
    delayMs: reader.wholeNumber("OTEL_BSP_SCHEDULE_DELAY", 0),
    maxAttributeLength:
      reader.wholeNumber("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", 0) ??
      reader.wholeNumber("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", 0),
    complaints: reader.complaints,
  };
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

/** Read by the SDK itself, which uses its default without a word. */
const OTHER_LIMITS = [
  "OTEL_ATTRIBUTE_COUNT_LIMIT",
  "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
  "OTEL_SPAN_EVENT_COUNT_LIMIT",
  "OTEL_SPAN_LINK_COUNT_LIMIT",
];

/** The SDK reads it, too, and takes every trace if it does not fit. */
function checkSampling(reader: VariableReader): void {
  const sampler = reader.word("OTEL_TRACES_SAMPLER", SAMPLERS, "Every trace is taken.");
  if (!RATIO_SAMPLERS.some((ratio) => ratio === sampler)) return;
  const name = "OTEL_TRACES_SAMPLER_ARG";
  const text = reader.text(name);
  const share = Number(text);
  if (text !== undefined && share >= 0 && share <= 1) return;
  reader.complain(name, "a number from 0 to 1", text, "Every trace is taken.");
}

function isExportOff(reader: VariableReader): boolean {
  const name = "OTEL_TRACES_EXPORTER";
  const words = reader.text(name)?.split(",") ?? [];
  const exporters = words.map((word) => word.trim());
  const unknown = exporters.find((word) => word !== "otlp" && word !== "none" && word !== "");
  if (unknown !== undefined) {
    const advice = "Spans leave by OTLP. Hand another exporter to setUpNodeTracing as `exporter`.";
    reader.complain(name, "otlp or none", unknown, advice);
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

/** An address without what may be secret in it. */
export function withoutSecrets(address: string): string {
  return address.replace(/[?#].*$/s, "").replace(/^([a-z]+:\/\/)?.*@/is, "$1…@");
}

class VariableReader {
  readonly #environment: Environment;
  readonly #complaints: string[] = [];

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  get complaints(): readonly string[] {
    return this.#complaints;
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
    if (word === undefined) this.complain(name, `one of ${words.join(", ")}`, text, advice);
    return word;
  }

  wholeNumber(name: string, minimum: number): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (Number.isSafeInteger(value) && value >= minimum) return value;
    this.complain(name, `a whole number from ${minimum} up`, text);
    return undefined;
  }

  url(name: string): string | undefined {
    const text = this.text(name);
    if (text === undefined || isHttpUrl(text)) return text;
    const expected = "an address that begins with http:// or https://";
    this.complain(name, expected, withoutSecrets(text));
    return undefined;
  }

  complain(name: string, expected: string, got: string | undefined, advice = DEFAULT_USED): void {
    const came = got === undefined ? "nothing" : shown(got.slice(0, MAX_SHOWN));
    this.#complaints.push(`Expected ${name} to be ${expected}, got ${came}. ${advice}`);
  }
}

const DEFAULT_USED = "The default is used.";
const MAX_SHOWN = 100;
