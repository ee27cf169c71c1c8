// `--otel`: spans of runs over OpenTelemetry, where its packages are installed.

import type { FlushReport, NodeTracing } from "espalier/otel/node";
import { plainText } from "espalier/terminal";

import { UsageError } from "./usage-error.ts";

const PACKAGES = [
  "@opentelemetry/resources",
  "@opentelemetry/sdk-trace-node",
  "@opentelemetry/exporter-trace-otlp-http",
].join(" ");

/** The tracing of this process. Throws UsageError if the packages for it are not installed. */
export async function nodeTracing(): Promise<NodeTracing> {
  try {
    const { setUpNodeTracing } = await import("espalier/otel/node");
    return setUpNodeTracing();
  } catch (cause) {
    if (!(cause instanceof Error) || Reflect.get(cause, "code") !== "ERR_MODULE_NOT_FOUND")
      throw cause;
    throw new UsageError(
      `Expected OpenTelemetry to be installed for --otel, got: ${cause.message}. Run: npm install ${PACKAGES}`,
      { cause },
    );
  }
}

/** What became of the spans. */
export function deliveryText({
  deliveredSpans,
  lostSpans,
  pendingSpans,
  lastError,
}: FlushReport): string {
  const missing = lostSpans + pendingSpans;
  if (missing === 0) return `Trace sent: ${deliveredSpans} spans`;
  const why =
    lastError === undefined ? "the endpoint did not answer in time" : plainText(lastError);
  return `Trace incomplete: ${missing} of ${deliveredSpans + missing} spans not sent (${why})`;
}
