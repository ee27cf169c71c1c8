import {
  context,
  createContextKey,
  propagation,
  type Attributes,
  type Baggage,
  type Span,
} from "@opentelemetry/api";

import { messageOf } from "../kernel/error.ts";
import { warnOnce } from "../kernel/warn-once.ts";
import { OWN_BAGGAGE } from "../protocol/tracing.ts";

/** What of a trace goes to a server. */
const FIELDS = ["traceparent", "tracestate", "baggage"] as const;

/**
 * The current trace in W3C form, for a server to continue it; empty without tracing. Of its baggage only what we put into it where
 * that is switched on: the rest is private to the application. Never throws: a propagator that does causes one warning, and nothing is sent.
 */
export function currentTrace(): Readonly<Record<string, string>> {
  try {
    return injected();
  } catch (cause) {
    warnOnce(
      propagation,
      `Expected the propagator of OpenTelemetry to write a trace, got an error (${messageOf(cause)}). MCP servers get no trace context; tools are not affected.`,
    );
    return {};
  }
}

/** Says something about the span of a call. Never throws. */
export function describeCall(span: Span | undefined, attributes: Attributes): void {
  try {
    span?.setAttributes(attributes);
  } catch (cause) {
    const what = `A span threw (${messageOf(cause)}); it says nothing of its MCP server.`;
    warnOnce(describeCall, what);
  }
}

function injected(): Readonly<Record<string, string>> {
  const carrier: Record<string, unknown> = {};
  const own = context.active().getValue(createContextKey(OWN_BAGGAGE));
  const bare = propagation.deleteBaggage(context.active());
  propagation.inject(isBaggage(own) ? propagation.setBaggage(bare, own) : bare, carrier);
  const entries = FIELDS.flatMap((field) => {
    const value = carrier[field];
    return typeof value === "string" && value !== "" ? [[field, value] as const] : [];
  });
  return Object.fromEntries(entries);
}

/** What we put into the baggage of the active context, without the entries of other code. The key is the same for all copies of the package. */
function isBaggage(value: unknown): value is Baggage {
  return typeof value === "object" && value !== null && "getAllEntries" in value;
}
