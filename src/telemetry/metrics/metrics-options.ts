import type { Meter } from "@opentelemetry/api";

import { checkBoolean, checkMethods } from "../../kernel/check.ts";

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
