// Finds the Jaeger of the environment, for links to traces.

import { jaegerLinks } from "espalier/terminal";

import { describeCause, UsageError } from "./exit-codes.ts";
import { readSetting, type Shell } from "./shell.ts";

const THIS_MACHINE = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** Returns the OTLP endpoint for spans. `undefined` if it is not set. */
export function findTraceEndpoint({ env }: Shell): string | undefined {
  return (
    readSetting(env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") ??
    readSetting(env, "OTEL_EXPORTER_OTLP_ENDPOINT")
  );
}

/** Returns the address of the Jaeger that gets the spans, if it is known. Throws UsageError. */
export function findJaeger(shell: Shell): { readonly jaegerUrl?: string } {
  const endpoint = findTraceEndpoint(shell);
  if (endpoint === undefined) return {};
  const isHere = URL.canParse(endpoint) && THIS_MACHINE.test(new URL(endpoint).hostname);
  const jaegerUrl =
    readSetting(shell.env, "ESPALIER_JAEGER_URL") ??
    (isHere ? "http://localhost:16686" : undefined);
  if (jaegerUrl === undefined) return {};
  try {
    jaegerLinks(jaegerUrl);
    return { jaegerUrl };
  } catch (cause) {
    throw new UsageError(`ESPALIER_JAEGER_URL: ${describeCause(cause)}`, { cause });
  }
}
