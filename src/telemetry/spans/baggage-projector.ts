// BaggageProjector: the same spans, and user code that carries its scope in its baggage. Owns nothing besides.

import { context } from "@opentelemetry/api";

import type { EventScope } from "../../protocol/event.ts";
import { contextWithBaggage } from "./run-baggage.ts";
import { SpanProjector } from "./span-projector.ts";

export class BaggageProjector extends SpanProjector {
  override within<T>(scope: EventScope, work: () => T): T {
    return super.within(scope, () => context.with(contextWithBaggage(scope), work));
  }
}
