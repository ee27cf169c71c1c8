// SdkDiagnostics: what the OpenTelemetry SDK has to say of itself, which it tells only to a logger,
// and by default there is none.
// Owns the place of that logger, if the application has not taken it, and a count.
// 1. A logger of the application is left alone.
// 2. One process warning; what comes later is counted.

import { diag, DiagLogLevel, type DiagLogger } from "@opentelemetry/api";

import { registeredApi } from "../spans/api-versions.ts";
import { isWebPage } from "./loss.ts";

export class SdkDiagnostics {
  readonly #isKnown: (report: string) => boolean;
  #reports = 0;
  #isInstalled = false;
  #hasForeignAnswer = false;

  /** `isKnown` says whether a report was counted elsewhere. */
  constructor(isKnown: (report: string) => boolean) {
    this.#isKnown = isKnown;
  }

  /** Reports up to now. */
  get reports(): number {
    return this.#reports;
  }

  install(): void {
    if (registeredApi()?.diag !== undefined) return;
    this.#isInstalled = diag.setLogger(this.#logger(), {
      logLevel: DiagLogLevel.WARN,
      suppressOverrideMessage: true,
    });
  }

  uninstall(): void {
    if (!this.#isInstalled) return;
    this.#isInstalled = false;
    diag.disable();
  }

  /** Whether the last export was answered by a web page; asked once. */
  takeForeignAnswer(): boolean {
    const was = this.#hasForeignAnswer;
    this.#hasForeignAnswer = false;
    return was;
  }

  #logger(): DiagLogger {
    const report = (...parts: readonly unknown[]): void => this.#take(parts);
    return { verbose: silent, debug: silent, info: silent, warn: report, error: report };
  }

  #take(parts: readonly unknown[]): void {
    if (parts.some(isForeignAnswer)) {
      this.#hasForeignAnswer = true;
      return;
    }
    const words = parts.filter((part) => typeof part === "string");
    const report = words.join(" ");
    if (this.#isKnown(report)) return;
    this.#reports += 1;
    if (this.#reports > 1) return;
    const [line = ""] = report.split("\n");
    process.emitWarning(
      `OpenTelemetry reports: ${line.slice(0, MAX_LENGTH)}. ` +
        "Further reports are counted, without another warning. See them all with diag.setLogger().",
      { type: "EspalierWarning", code: "ESPALIER_OTEL_REPORT" },
    );
  }
}

const silent = (): void => {};

const MAX_LENGTH = 300;

/** The SDK takes every answer of status 200 for a success, and complains if it cannot read it. */
function isForeignAnswer(part: unknown): boolean {
  if (part instanceof Uint8Array) return isWebPage(new TextDecoder().decode(part.subarray(0, 100)));
  return typeof part === "string" && /^Failed to parse trace export response: .*'<'/.test(part);
}
