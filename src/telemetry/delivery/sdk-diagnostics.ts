// SdkDiagnostics: reports of the OpenTelemetry SDK about itself, which it gives only to a logger, and by
// default there is none.
// Owns the slot of that logger, and a count.
// 1. A logger of the application gets everything, as it asked for, and has its slot again afterwards.
//    What it gets is reported: no warning is given, and nothing is counted.
// 2. Without one: one process warning; what comes later is counted.
// 3. The message of an endpoint within a success reaches no other than this logger: it is held for the export
//    whose success comes next, in the same step.

import { diag, DiagLogLevel, type DiagLogger } from "@opentelemetry/api";

import { isRecord } from "../../kernel/json.ts";
import { registeredApi } from "../spans/api-versions.ts";
import { isWebPage } from "./loss.ts";

/** The message of an endpoint within a success: it is none, or it did not take all spans. */
export type SdkRemark =
  | "foreign"
  | { readonly rejectedSpans: number; readonly errorMessage: string };

export class SdkDiagnostics {
  /** Reports up to now. */
  reports = 0;
  /** Whether a report is about spans that were counted as lost. */
  hasCounted: (report: string) => boolean = () => false;

  isKnown(report: string): boolean {
    return READ_HERE.test(report) || this.hasCounted(report);
  }

  install(): void {
    if (installed.size === 0) place.take();
    installed.add(this);
  }

  uninstall(): void {
    if (installed.delete(this) && installed.size === 0) place.giveBack();
  }

  /** What the last answer was remarked on with; asked once. */
  takeRemark(): SdkRemark | undefined {
    const { remark } = place;
    place.remark = undefined;
    return remark;
  }
}

/** Reports about variables that are read and checked here; the SDK would show an address with its password. */
const READ_HERE = /^Configuration: |^Failed to read (root|client) certificate|\bOTEL_[A-Z]/;

/** The place of the logger, of which there is one in a process, however often tracing is set up. */
class LoggerPlace {
  /** What is registered there while it is taken. */
  #own: unknown;
  #before: DiagLogger | undefined;
  remark: SdkRemark | undefined;

  take(): void {
    const before = registeredApi()?.diag;
    if (before !== undefined && !isLogger(before)) return;
    this.#before = before;
    const isSet =
      before === undefined
        ? diag.setLogger(this.#logger(), LEVEL_OF.own)
        : diag.setLogger(this.#loggerBeside(before), LEVEL_OF.beside);
    if (isSet) this.#own = registeredApi()?.diag;
  }

  /** A logger that came later keeps it. */
  giveBack(): void {
    const own = this.#own;
    this.#own = undefined;
    if (own === undefined || registeredApi()?.diag !== own) return;
    if (this.#before === undefined) diag.disable();
    else diag.setLogger(this.#before, LEVEL_OF.beside);
  }

  #logger(): DiagLogger {
    const report = (...parts: readonly unknown[]): void => {
      if (!this.#isRemark(parts)) takeReport(parts);
    };
    return { verbose: silent, debug: silent, info: silent, warn: report, error: report };
  }

  #loggerBeside(before: DiagLogger): DiagLogger {
    return {
      verbose: (message, ...more) => before.verbose(message, ...more),
      debug: (message, ...more) => before.debug(message, ...more),
      info: (message, ...more) => before.info(message, ...more),
      warn: (message, ...more) => {
        this.#isRemark([message, ...more]);
        before.warn(message, ...more);
      },
      error: (message, ...more) => before.error(message, ...more),
    };
  }

  #isRemark(parts: readonly unknown[]): boolean {
    const remark = parts.some(isForeignAnswer) ? "foreign" : rejectionIn(parts);
    this.remark = remark ?? this.remark;
    return remark !== undefined;
  }
}

const place = new LoggerPlace();
const installed = new Set<SdkDiagnostics>();

function takeReport(parts: readonly unknown[]): void {
  const report = parts.filter((part) => typeof part === "string").join(" ");
  const listeners = [...installed];
  if (listeners.some((listener) => listener.isKnown(report))) return;
  const isFirst = listeners.every((listener) => listener.reports === 0);
  for (const listener of listeners) listener.reports += 1;
  if (!isFirst) return;
  const [line = ""] = report.split("\n");
  process.emitWarning(
    `OpenTelemetry reports: ${line.slice(0, MAX_LENGTH)}. ` +
      "Further reports are counted, without another warning. See them all with diag.setLogger().",
    { type: "EspalierWarning", code: "ESPALIER_OTEL_REPORT" },
  );
}

/** The logger of the application has a level of its own. */
const LEVEL_OF = {
  own: { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  beside: { logLevel: DiagLogLevel.ALL, suppressOverrideMessage: true },
} as const;

const silent = (): void => {};

const MAX_LENGTH = 300;

/** The SDK takes every answer of status 200 for a success, and complains if it cannot read it. */
function isForeignAnswer(part: unknown): boolean {
  if (part instanceof Uint8Array) return isWebPage(new TextDecoder().decode(part.subarray(0, 100)));
  return typeof part === "string" && /^Failed to parse trace export response: .*'<'/.test(part);
}

const PARTIAL = "Received Partial Success response:";

/** `{"rejectedSpans":"7","errorMessage":"…"}`: 64 bits are text in JSON. None rejected is only advice. */
function rejectionIn(parts: readonly unknown[]): SdkRemark | undefined {
  const at = parts.indexOf(PARTIAL);
  const answer = at === -1 ? undefined : parsed(parts[at + 1]);
  if (!isRecord(answer)) return undefined;
  const { errorMessage } = answer;
  const rejectedSpans = Number(answer["rejectedSpans"]);
  if (!(rejectedSpans > 0)) return undefined;
  const text = typeof errorMessage === "string" ? errorMessage.slice(0, MAX_LENGTH) : "";
  return { rejectedSpans, errorMessage: text };
}

function parsed(text: unknown): unknown {
  try {
    return typeof text === "string" ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}

const LOGGER_METHODS = ["verbose", "debug", "info", "warn", "error"] as const;

function isLogger(value: unknown): value is DiagLogger {
  return isRecord(value) && LOGGER_METHODS.every((name) => typeof value[name] === "function");
}
