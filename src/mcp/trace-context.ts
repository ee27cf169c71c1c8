import { context, propagation } from "@opentelemetry/api";

import { ownBaggage } from "../telemetry/spans/run-baggage.ts";

/** What of a trace goes to a server. */
const FIELDS = ["traceparent", "tracestate", "baggage"] as const;

/**
 * The current trace in W3C form, for a server to go on with it; empty if nobody traces. Of its baggage only what we put into it where
 * that is wanted: the rest is nobody else's business.
 */
export function currentTrace(): Readonly<Record<string, string>> {
  const carrier: Record<string, unknown> = {};
  const own = ownBaggage();
  const bare = propagation.deleteBaggage(context.active());
  propagation.inject(own === undefined ? bare : propagation.setBaggage(bare, own), carrier);
  const entries = FIELDS.flatMap((field) => {
    const value = carrier[field];
    return typeof value === "string" && value !== "" ? [[field, value] as const] : [];
  });
  return Object.fromEntries(entries);
}
