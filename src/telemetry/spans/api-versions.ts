// The silence of two copies of @opentelemetry/api: a copy that is newer than the one with which an
// SDK was registered does not see that SDK, records nothing and says nothing.

import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";

import { trace } from "@opentelemetry/api";

/** What any copy of the API has registered for the whole process. */
export interface RegisteredApi {
  readonly version?: unknown;
  readonly trace?: unknown;
  readonly context?: unknown;
  readonly propagation?: unknown;
  readonly diag?: unknown;
}

let hasWarned = false;

/** What is registered, whether or not our copy of the API sees it. */
export function registeredApi(): RegisteredApi | undefined {
  const registered: unknown = Reflect.get(globalThis, Symbol.for("opentelemetry.js.api.1"));
  return typeof registered === "object" && registered !== null ? registered : undefined;
}

/**
 * Warns, once in a process, if a provider is registered that our copy of the API does not see. To be
 * called when a span does not record, which may have other reasons.
 */
export function warnOfUnseenProvider(): void {
  if (hasWarned) return;
  const registered = registeredApi();
  if (registered?.trace === undefined || trace.getTracerProvider() === registered.trace) return;
  hasWarned = true;
  process.emitWarning(
    "Expected one copy of @opentelemetry/api, got two: the application has registered its SDK with " +
      `version ${String(registered.version)}, and espalier has found version ${ownVersion()}, which ` +
      "does not see it. Runs are not traced. See `npm ls @opentelemetry/api`, and let both use one " +
      "version: `npm dedupe`, or an `overrides` entry in package.json.",
    { type: "EspalierWarning", code: "ESPALIER_API_VERSIONS" },
  );
}

function ownVersion(): string {
  try {
    const file = findPackageJSON("@opentelemetry/api", import.meta.url);
    const manifest: unknown = file === undefined ? {} : JSON.parse(readFileSync(file, "utf8"));
    if (typeof manifest === "object" && manifest !== null && "version" in manifest) {
      return String(manifest.version);
    }
  } catch {
    // A bundle has no manifest beside it.
  }
  return "unknown";
}
