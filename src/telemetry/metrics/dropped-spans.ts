import type { Meter } from "@opentelemetry/api";

import { Instruments, keepingMeter, registeredMeter } from "./instruments.ts";

/** Counts spans that never reached their backend, as `espalier.telemetry.spans.dropped`. */
export class DroppedSpans {
  readonly #given: Meter | undefined;
  #used: { readonly meter: Meter; readonly instruments: Instruments } | undefined;

  /** `meter`: left out, that of the provider that is registered when spans are dropped. */
  constructor(meter?: Meter) {
    this.#given = meter;
  }

  /** So many more. Never throws; counts nothing while no provider is registered. */
  add(count: number): void {
    const instruments = this.#instruments();
    if (count > 0) instruments?.measure("droppedSpans", count);
  }

  #instruments(): Instruments | undefined {
    const meter = this.#given === undefined ? registeredMeter() : keepingMeter(this.#given);
    if (meter === undefined) return undefined;
    if (this.#used?.meter !== meter) {
      this.#used = { meter, instruments: new Instruments(meter, { legacyMetrics: false }) };
    }
    return this.#used.instruments;
  }
}
