// Detects two copies of @opentelemetry/api, which otherwise fail silently: a copy that is newer
// than the registering copy does not see the SDK, and records nothing.

import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";

import { metrics, trace } from "@opentelemetry/api";

import { isRecord } from "../../kernel/json.ts";
import { emitWarning } from "../../kernel/warn-once.ts";

type ApiPart = "version" | "trace" | "context" | "propagation" | "diag" | "metrics";

/** Objects that any copy of the API has registered globally. */
export type RegisteredApi = Readonly<Partial<Record<ApiPart, unknown>>>;

let hasWarned = false;

/** Returns the registered objects, whether or not our copy of the API sees them. */
export function findRegisteredApi(): RegisteredApi | undefined {
  const registered: unknown = Reflect.get(globalThis, Symbol.for("opentelemetry.js.api.1"));
  return typeof registered === "object" && registered !== null ? registered : undefined;
}

/** Remedy for two copies. */
export const ONE_COPY =
  "See `npm ls @opentelemetry/api`, and let both use one version: `npm dedupe`, or an `overrides` entry in " +
  "package.json.";

/**
 * Warns once per process if a provider is registered that our copy of the API does not see.
 * `isTracerMissed` is true if a span did not record. `isMeterAsked` is true if metrics use the
 * registered provider.
 */
export function warnOfUnseenProvider(isTracerMissed: boolean, isMeterAsked: boolean): void {
  const registered = findRegisteredApi();
  if (hasWarned || registered === undefined) return;
  const isTraceLost = isTracerMissed && isUnseen(registered.trace, trace.getTracerProvider());
  const isMeterLost = isMeterAsked && isUnseen(registered.metrics, metrics.getMeterProvider());
  if (!isTraceLost && !isMeterLost) return;
  hasWarned = true;
  const losses = [
    ...(isTraceLost ? ["Runs are not traced."] : []),
    ...(isMeterLost ? ["Metrics of runs are not recorded."] : []),
  ];
  warnOfTwoCopies(registered, losses);
}

function warnOfTwoCopies({ version }: RegisteredApi, losses: readonly string[]): void {
  emitWarning(
    "Expected one copy of @opentelemetry/api, got two: the application has registered its SDK with " +
      `version ${String(version)}, and espalier has found version ${findApiVersion()}, which ` +
      `does not see it. ${losses.join(" ")} ${ONE_COPY}`,
    "ESPALIER_API_VERSIONS",
  );
}

/**
 * Describes the two copies that prevented the registration of our provider beside earlier objects.
 * `undefined` if copies are not the reason.
 */
export function findUnseenCopy(before: RegisteredApi | undefined): string | undefined {
  if (before === undefined) return undefined;
  if (before.trace !== undefined && !isUnseen(before.trace, trace.getTracerProvider()))
    return undefined;
  const version = String(before.version);
  return `something was registered with version ${version} before, and espalier has found version ${findApiVersion()}.`;
}

function isUnseen(registered: unknown, seen: unknown): boolean {
  return registered !== undefined && registered !== seen;
}

function findApiVersion(): string {
  try {
    const file = findPackageJSON("@opentelemetry/api", import.meta.url);
    const manifest: unknown = file === undefined ? {} : JSON.parse(readFileSync(file, "utf8"));
    if (isRecord(manifest) && "version" in manifest) return String(manifest["version"]);
  } catch {
    // A bundle has no manifest beside it.
  }
  return "unknown";
}
