// Detects what a test process must not do: leave a rejection unhandled, emit an unexpected warning,
// or reach another machine. Vitest loads this module once per worker, however many test files the
// worker runs.

import { keepToLoopback } from "./loopback-only.ts";

interface Faults {
  readonly rejections: readonly unknown[];
  readonly warnings: readonly string[];
  readonly otherHosts: readonly string[];
}

const rejections: unknown[] = [];
const warnings: string[] = [];
const otherHosts: string[] = [];

process.on("unhandledRejection", (reason) => rejections.push(reason));
process.on("warning", (warning) => warnings.push(`${warning.name}: ${warning.message}`));
keepToLoopback((host) => otherHosts.push(host));
process.env["NODE_OPTIONS"] = `--import=${new URL("child-loopback.ts", import.meta.url).href}`;

export const NO_FAULTS: Faults = { rejections: [], warnings: [], otherHosts: [] };

/** Faults since the last call. */
export function takeFaults(): Faults {
  return {
    rejections: rejections.splice(0),
    warnings: warnings.splice(0).filter((warning) => !warning.startsWith("ExperimentalWarning")),
    otherHosts: otherHosts.splice(0),
  };
}

/** Takes the warnings that a test expects, so that they do not fail it. */
export function takeWarnings(): readonly string[] {
  return warnings.splice(0);
}

/** Takes the hosts that a test reached on purpose, so that they do not fail it. */
export function takeOtherHosts(): readonly string[] {
  return otherHosts.splice(0);
}
