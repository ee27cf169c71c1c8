// `--otel`: spans of runs over OpenTelemetry, where its packages are installed.

import type { DeliveryCounts } from "espalier/otel";
import type { NodeTracing } from "espalier/otel/node";
import { plainText } from "espalier/terminal";

import { codeOf, describeCause, UsageError } from "./usage-error.ts";

const PACKAGES =
  "@opentelemetry/resources @opentelemetry/sdk-trace-node @opentelemetry/exporter-trace-otlp-http";

/** The tracing of this process. Throws UsageError if the packages for it are not installed. */
export async function nodeTracing(): Promise<NodeTracing> {
  try {
    const { setUpNodeTracing } = await import("espalier/otel/node");
    return setUpNodeTracing();
  } catch (cause) {
    if (codeOf(cause) !== "ERR_MODULE_NOT_FOUND") throw cause;
    throw new UsageError(
      `Expected OpenTelemetry to be installed for --otel, got: ${describeCause(cause)}. Run: npm install ${PACKAGES}`,
      { cause },
    );
  }
}

/** Returns one line with the counts of a flush. */
export function deliveryText({
  deliveredSpans,
  lostSpans,
  unconfirmedSpans = 0,
  pendingSpans,
  lastError,
}: DeliveryCounts): string {
  const missing = lostSpans + pendingSpans;
  const total = deliveredSpans + unconfirmedSpans + missing;
  if (total === deliveredSpans) return `Trace sent: ${deliveredSpans} spans`;
  const why =
    lastError === undefined ? "the endpoint did not answer in time" : plainText(lastError);
  const counts = [
    ...(missing > 0 ? [`${missing} of ${total} spans not sent`] : []),
    ...(unconfirmedSpans > 0 ? [`${unconfirmedSpans} of ${total} spans not confirmed`] : []),
  ];
  return `Trace incomplete: ${counts.join(", ")} (${why})`;
}
