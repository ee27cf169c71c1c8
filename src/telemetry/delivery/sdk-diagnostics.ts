// Reports of the OpenTelemetry SDK about itself, which it passes to a logger only.
// Owns the place of that logger, unless the application has set one.
// 1. The first ten different reports after a set-up are process warnings.
// 2. Only this logger learns that an endpoint answered a success with a web page or refused some of
//    the spans. The remark is for the export whose success comes next, in the same tick.

import { diag, DiagLogLevel, type DiagLogger } from "@opentelemetry/api";

import { isRecord } from "../../kernel/json.ts";
import { emitWarning } from "../../kernel/warn-once.ts";
import { registeredApi } from "../spans/api-versions.ts";
import type { AnyExportResult } from "./any-sdk.ts";
import { isWebPage, NO_OTLP } from "./export-loss.ts";

/** Values that otel-variables.ts checks, too. The address may contain a password. */
const CHECKED_HERE = /\bURL\b|_TIMEOUT\b|_VALUE_LENGTH_LIMIT\b/;
const MAX_REPORTS = 10;
const MAX_LENGTH = 300;

let listeners = 0;
const reports = new Set<string>();
let ownLogger: unknown;
let remark: AnyExportResult | undefined;

/** Returns a function that gives the place of the logger back. */
export function listenToSdk(): () => void {
  listeners += 1;
  if (listeners === 1 && registeredApi()?.diag === undefined) {
    reports.clear();
    diag.setLogger(LOGGER, DiagLogLevel.WARN);
    ownLogger = registeredApi()?.diag;
  }
  return () => {
    listeners -= 1;
    // A logger that the application set later keeps its place.
    if (listeners === 0 && registeredApi()?.diag === ownLogger) diag.disable();
  };
}

/** Returns the result of an export with what the SDK remarked on the answer. */
export function applyRemark(result: AnyExportResult): AnyExportResult {
  const applied = result.code === 0 ? (remark ?? result) : result;
  remark = undefined;
  return applied;
}

const report = (...parts: readonly unknown[]): void => {
  const found = parts.some(isForeignAnswer)
    ? { code: 1, error: new Error(`status 200 with a web page, ${NO_OTLP}`) }
    : readRejection(parts);
  if (found !== undefined) {
    remark = found;
    return;
  }
  const text = parts.filter((part) => typeof part === "string").join(" ");
  const [line = ""] = text.slice(0, MAX_LENGTH).split("\n");
  if (CHECKED_HERE.test(line) || reports.has(line) || reports.size >= MAX_REPORTS) return;
  reports.add(line);
  const message = `OpenTelemetry reports: ${line}. See all reports with diag.setLogger().`;
  emitWarning(message, "ESPALIER_OTEL_REPORT");
};

const silent = (): void => {};
const LOGGER: DiagLogger = {
  verbose: silent,
  debug: silent,
  info: silent,
  warn: report,
  error: report,
};

/** The SDK takes every answer of status 200 for a success, and reports one that it cannot read. */
function isForeignAnswer(part: unknown): boolean {
  if (part instanceof Uint8Array) return isWebPage(new TextDecoder().decode(part.subarray(0, 100)));
  return typeof part === "string" && /^Failed to parse trace export response: .*'<'/.test(part);
}

const PARTIAL = "Received Partial Success response:";

/** `{"rejectedSpans":"7","errorMessage":"…"}`: JSON has 64 bits as text. 0 is only advice. */
function readRejection(parts: readonly unknown[]): AnyExportResult | undefined {
  const at = parts.indexOf(PARTIAL);
  const answer = at === -1 ? undefined : parseJson(parts[at + 1]);
  if (!isRecord(answer)) return undefined;
  const rejectedSpans = Number(answer["rejectedSpans"]);
  if (!(rejectedSpans > 0)) return undefined;
  const { errorMessage } = answer;
  const text = typeof errorMessage === "string" ? errorMessage.slice(0, MAX_LENGTH) : "";
  return { code: 0, rejectedSpans, error: new Error(text) };
}

function parseJson(text: unknown): unknown {
  try {
    return typeof text === "string" ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}
