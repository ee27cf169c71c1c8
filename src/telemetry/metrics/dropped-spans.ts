import type { Meter } from "@opentelemetry/api";

import { MeteredInstruments } from "./instruments.ts";

/** Counts spans that never reached their backend, as `espalier.telemetry.spans.dropped`. */
export class DroppedSpans {
  readonly #instruments: MeteredInstruments;

  /** `meter`: left out, that of the provider that is registered when spans are dropped. */
  constructor(meter?: Meter) {
    this.#instruments = new MeteredInstruments(meter === undefined ? {} : { meter });
  }

  /** So many more. Never throws; counts nothing while no provider is registered. */
  add(count: number): void {
    if (count > 0) this.#instruments.find()?.measure("droppedSpans", count);
  }
}
