// Reads the `OTEL_*` variables that the SDK does not read for us, or for which our defaults differ.
// An invalid value causes a warning, never an error: a typo in the environment must not stop a
// program.

import { readFileSync } from "node:fs";

import { redactAddress } from "../../kernel/redact-address.ts";
import { describeReceived } from "../../kernel/argument-checks.ts";
import { NamedOffenders } from "../../kernel/warn-once.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** Settings from the environment. `undefined` for a variable that is unset or invalid. */
export type TracingVariables = Readonly<ReturnType<typeof readTracingVariables>>;

export function readTracingVariables(environment: Environment) {
  const reader = new VariableReader(environment);
  const boolean = ["true", "false"];
  const isDisabled =
    reader.readWord("OTEL_SDK_DISABLED", boolean, "Nothing is disabled.") === "true";
  const exportName = "OTEL_TRACES_EXPORTER";
  const exporters = (reader.readText(exportName) ?? "").toLowerCase().split(",");
  const words = exporters.map((word) => word.trim());
  const unknown = words.find((word) => word !== "otlp" && word !== "none" && word !== "");
  if (unknown !== undefined) {
    const advice =
      "Spans are exported by OTLP. Pass another exporter to setUpNodeTracing as `exporter`.";
    reader.warn(exportName, "otlp or none", unknown, advice);
  }
  const ownUrl = reader.readUrl("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  const shared = ownUrl === undefined ? reader.readUrl("OTEL_EXPORTER_OTLP_ENDPOINT") : undefined;
  return {
    isDisabled,
    isExportOff: words.includes("none"),
    /** URL with its path. */
    tracesUrl:
      ownUrl === undefined
        ? shared && `${shared.replace(/\/$/, "")}/v1/traces`
        : new URL(ownUrl).href,
    protocol: reader.readOtlp("PROTOCOL", (name) => reader.readWord(name, PROTOCOLS, AS_JSON)),
    hasCompression: reader.readOtlp("COMPRESSION", (name) => reader.readText(name)) !== undefined,
    /** PEM files. The exporter also reads them, but only for its own connections. */
    certificates: {
      ca: reader.readPemFile("CERTIFICATE"),
      cert: reader.readPemFile("CLIENT_CERTIFICATE"),
      key: reader.readPemFile("CLIENT_KEY"),
    },
    /** Time limit of an OTLP request. */
    exportTimeoutMs: reader.readOtlp("TIMEOUT", (name) =>
      reader.readWholeNumber(name, 1, LONGEST_MS),
    ),
    /** Time limit of an export with its retries, for other exporters. */
    batchTimeoutMs: reader.readWholeNumber("OTEL_BSP_EXPORT_TIMEOUT", 1, LONGEST_MS),
    maxQueueSize: reader.readWholeNumber("OTEL_BSP_MAX_QUEUE_SIZE", 1),
    batchSize: reader.readWholeNumber("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1),
    delayMs: reader.readWholeNumber("OTEL_BSP_SCHEDULE_DELAY", 0, LONGEST_MS),
    maxAttributeLength: reader.readAttributeLength(),
    /** Messages about invalid variables. */
    warnings: reader.warnings,
  };
}

const offenders = new NamedOffenders();

/** Warns once per process, even if tracing is set up repeatedly. */
export function warnOfVariable(warning: string): void {
  offenders.warn(warning, warning, "ESPALIER_OTEL_VARIABLE");
}

/**
 * Longest timer of an SDK, minus the grace that is added here. A longer timer would fire at once.
 */
const LONGEST_MS = 2_147_000_000;

const PROTOCOLS = ["http/json", "http/protobuf", "grpc"] as const;
const AS_JSON = "Spans are exported as JSON over HTTP.";

/** True for a URL to which spans can be sent. */
export function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}

/** Reads variables of an environment. Owns the warnings about invalid values. */
export class VariableReader {
  readonly #environment: Environment;
  readonly #warnings: string[] = [];

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  get warnings(): readonly string[] {
    return this.#warnings;
  }

  /** Returns the trimmed value. `undefined` if it is empty or unset. */
  readText(name: string): string | undefined {
    return this.#environment[name]?.trim() || undefined;
  }

  readWord<const Word extends string>(
    name: string,
    words: readonly Word[],
    advice = DEFAULT_USED,
  ): Word | undefined {
    const text = this.readText(name);
    if (text === undefined) return undefined;
    const word = words.find((known) => known.toLowerCase() === text.toLowerCase());
    if (word === undefined) this.warn(name, `one of ${words.join(", ")}`, text, advice);
    return word;
  }

  readWholeNumber(name: string, minimum: number, maximum?: number): number | undefined {
    const text = this.readText(name);
    if (text === undefined) return undefined;
    const value = Number(text);
    const isWithin = value >= minimum && value <= (maximum ?? value);
    if (Number.isSafeInteger(value) && isWithin) return value;
    const end = maximum === undefined ? "up" : `to ${maximum}`;
    this.warn(name, `a whole number from ${minimum} ${end}`, text);
    return undefined;
  }

  /** Reads a variable of the exporter. The one for traces takes precedence over the general one. */
  readOtlp<Value>(ending: string, read: (name: string) => Value | undefined): Value | undefined {
    return read(`OTEL_EXPORTER_OTLP_TRACES_${ending}`) ?? read(`OTEL_EXPORTER_OTLP_${ending}`);
  }

  /** Returns the limit for the length of attributes. */
  readAttributeLength(): number | undefined {
    return (
      this.readWholeNumber("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", 0) ??
      this.readWholeNumber("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", 0)
    );
  }

  /**
   * Returns the content of a PEM file, or `undefined` if it is unreadable, which the SDK reports.
   */
  readPemFile(ending: string): Buffer | undefined {
    const path = this.readOtlp(ending, (name) => this.readText(name));
    try {
      return path === undefined ? undefined : readFileSync(path);
    } catch {
      return undefined;
    }
  }

  readUrl(name: string): string | undefined {
    const text = this.readText(name);
    if (text === undefined || isHttpUrl(text)) return text;
    const expected = "a URL that begins with http:// or https://";
    this.warn(name, expected, redactAddress(text));
    return undefined;
  }

  warn(name: string, expected: string, got: string | undefined, advice = DEFAULT_USED): void {
    const came = got === undefined ? "nothing" : describeReceived(got.slice(0, MAX_SHOWN));
    this.#warnings.push(`Expected ${name} to be ${expected}, got ${came}. ${advice}`);
  }
}

const DEFAULT_USED = "The default is used.";
const MAX_SHOWN = 100;
