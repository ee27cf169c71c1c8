// Instruments: what measures of one meter, and how few values each of its attributes may have.
// Owns the values that were seen. Talks to one meter.
// 1. Nothing here throws: a meter that does causes one warning, and that measurement is missing.
// 2. An attribute has at most `MOST_VALUES` values: models can make up names without end, and a
//    backend keeps a series for each.

import {
  createNoopMeter,
  metrics,
  type Attributes,
  type Meter,
  type MetricOptions,
} from "@opentelemetry/api";

import { messageOf } from "../../kernel/error.ts";
import { OWN_PACKAGE } from "../../kernel/own-package.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import { METRICS, OTHER, type Metric, type MetricDefinition } from "./metric-names.ts";
import { checkBoolean, checkMethods } from "../../kernel/check.ts";

/** So many values of an attribute are distinguished; all others are `_OTHER`. */
export const MOST_VALUES = 200;

/** Characters; what is longer is no name. */
const LONGEST_VALUE = 256;

/** What is known of a measurement. A metric distinguishes the attributes that it declares. */
export type Dimensions = Readonly<Attributes>;

type Measure = (value: number, attributes: Attributes) => void;

export class Instruments {
  readonly #meter: Meter;
  readonly #hasLegacy: boolean;
  /** Made when the first thing is measured; undefined: it could not be made. */
  readonly #measures = new Map<Metric, Measure | undefined>();
  readonly #values = new Map<string, Set<string>>();

  constructor(meter: Meter, hasLegacy: boolean) {
    this.#meter = meter;
    this.#hasLegacy = hasLegacy;
  }

  /** Adds to a counter, or records in a histogram. A metric that is not asked for takes nothing. */
  measure(metric: Metric, value: number, dimensions: Dimensions = {}): void {
    const measure = this.#measureOf(metric);
    if (measure === undefined || !Number.isFinite(value)) return;
    const attributes = this.#bounded(METRICS[metric], dimensions);
    this.#attempt(() => measure(value, attributes));
  }

  #measureOf(metric: Metric): Measure | undefined {
    const definition: MetricDefinition = METRICS[metric];
    if (definition.isLegacy === true && !this.#hasLegacy) return undefined;
    if (!this.#measures.has(metric)) {
      this.#measures.set(metric, undefined);
      this.#attempt(() => this.#measures.set(metric, measureOf(this.#meter, definition)));
    }
    return this.#measures.get(metric);
  }

  #bounded({ attributes: names }: MetricDefinition, dimensions: Dimensions): Attributes {
    const attributes: Record<string, string> = {};
    for (const name of names) {
      const value = dimensions[name];
      if (typeof value === "string") attributes[name] = this.#known(name, value) ? value : OTHER;
    }
    return attributes;
  }

  /** A value that is known once stays known: what goes up under a name comes down under it. */
  #known(name: string, value: string): boolean {
    const values = this.#values.get(name) ?? new Set();
    this.#values.set(name, values);
    if (values.size < MOST_VALUES && value.length <= LONGEST_VALUE) values.add(value);
    return values.has(value);
  }

  #attempt(work: () => void): void {
    try {
      work();
    } catch (cause) {
      warnOnce(this.#meter, `A meter threw (${messageOf(cause)}); what it measures has gaps.`);
    }
  }
}

function measureOf(meter: Meter, definition: MetricDefinition): Measure {
  const { name, kind, unit, description, boundaries } = definition;
  const options: MetricOptions = { unit, description };
  if (kind === "histogram") {
    const advice = boundaries === undefined ? {} : { explicitBucketBoundaries: [...boundaries] };
    const histogram = meter.createHistogram(name, { ...options, advice });
    return (value, attributes) => histogram.record(value, attributes);
  }
  const counter =
    kind === "counter"
      ? meter.createCounter(name, options)
      : meter.createUpDownCounter(name, options);
  return (value, attributes) => counter.add(value, attributes);
}

/** The instruments of the meter that is there at the time. Owns those that were made, one set for each meter. */
export class MeteredInstruments {
  readonly #given: Meter | undefined;
  readonly #hasLegacy: boolean;
  readonly #byMeter = new WeakMap<Meter, Instruments>();

  /** `meter`: left out, that of the provider that is registered when something is to be measured. */
  constructor({ meter, legacyMetrics = false }: MetricsOptions = {}) {
    this.#given = meter;
    this.#hasLegacy = legacyMetrics;
  }

  /** Undefined: there is no meter that keeps what it is given. Never throws. */
  find(): Instruments | undefined {
    const meter = this.#given ?? registeredMeter();
    if (meter === undefined || meter === createNoopMeter()) return undefined;
    const made = this.#byMeter.get(meter) ?? new Instruments(meter, this.#hasLegacy);
    this.#byMeter.set(meter, made);
    return made;
  }
}

/** The meter `espalier` of the provider that is registered now; undefined: it throws. */
function registeredMeter(): Meter | undefined {
  const provider = metrics.getMeterProvider();
  try {
    return provider.getMeter(OWN_PACKAGE.name, OWN_PACKAGE.version);
  } catch (cause) {
    warnOnce(provider, `A meter provider threw (${messageOf(cause)}); nothing is measured.`);
    return undefined;
  }
}

/** What is measured of runs, and by whom (docs/metrics.md). */
export interface MetricsOptions {
  /**
   * Makes the metrics. Left out: the meter `espalier` of the provider that is registered globally
   * when a run begins or is resumed. For no metrics: `createNoopMeter()` of `@opentelemetry/api`.
   */
  readonly meter?: Meter;
  /**
   * Adds metrics under their names of version 1.41 of the semantic conventions, for dashboards that
   * go by them. Default: false.
   */
  readonly legacyMetrics?: boolean;
}

const METHODS = ["createCounter", "createUpDownCounter", "createHistogram"];

/** Throws `invalid_option` for an option that cannot be used. */
export function checkMetricsOptions({ meter, legacyMetrics }: MetricsOptions): void {
  if (meter !== undefined) checkMethods("openTelemetry.meter", meter, METHODS);
  const advice = "Leave it out for the newest names alone.";
  if (legacyMetrics !== undefined)
    checkBoolean("openTelemetry.legacyMetrics", legacyMetrics, advice);
}
