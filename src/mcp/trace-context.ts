import { context, propagation } from "@opentelemetry/api";

/** What of a trace goes to a server: not its baggage, which is nobody else's business. */
const FIELDS = ["traceparent", "tracestate"] as const;

/** The current trace in W3C form, for a server to go on with it; empty if nobody traces. */
export function currentTrace(): Readonly<Record<string, string>> {
  const carrier: Record<string, unknown> = {};
  propagation.inject(context.active(), carrier);
  const entries = FIELDS.flatMap((field) => {
    const value = carrier[field];
    return typeof value === "string" && value !== "" ? [[field, value] as const] : [];
  });
  return Object.fromEntries(entries);
}
