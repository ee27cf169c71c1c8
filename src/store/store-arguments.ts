// Checks of store arguments, the same for all stores: a value that any store would alter or reject
// is rejected by all. Texts are stored unchanged, so they must be well-formed Unicode without
// U+0000: databases store UTF-8, and some cannot store U+0000. JSON text always is, because
// `JSON.stringify` escapes both. Titles are only displayed, so they are repaired instead.

import { checkAmount, checkCount, checkKeys, mismatch } from "../kernel/argument-checks.ts";
import type { JournalBatch, Mail, RunFilter, RunOwner, StoredStatus } from "./run-store.ts";
import { createStoreError } from "./store-errors.ts";

/** Maximum length of an id in code units: long enough for any id, short enough for any index. */
const LONGEST_ID = 512;
/** Maximum length of a stored title in code units. */
const LONGEST_TITLE = 1024;
const DEFAULT_LIMIT = 100;
/** Largest process id of any operating system. */
const GREATEST_PROCESS_ID = 2 ** 32 - 1;
/** Largest number of a record or a mail. */
const GREATEST_NUMBER = 2 ** 31 - 1;
const STATUSES: readonly string[] = ["open", "paused", "ended"] satisfies readonly StoredStatus[];

/** Throws for a value that cannot be an id. */
export function checkId(field: string, id: unknown): void {
  checkStoredText(field, id);
  if (id === "") throw createValueError(field, "a non-empty string", "nothing");
  if (String(id).length > LONGEST_ID)
    throw createValueError(field, `at most ${LONGEST_ID} characters`, `${String(id).length}`);
}

/** Throws for a text that cannot be stored unchanged. */
export function checkStoredText(field: string, text: unknown): void {
  if (typeof text !== "string") throw createValueError(field, "text", typeof text);
  if (!text.isWellFormed())
    throw createValueError(field, "well-formed Unicode", "a lone surrogate");
  if (text.includes("\0")) throw createValueError(field, "text without U+0000", "text with U+0000");
}

/**
 * Returns a title as it is stored: invalid characters are replaced, and long titles are truncated.
 */
export function sanitizeTitle(title: unknown): string {
  return String(title).slice(0, LONGEST_TITLE).toWellFormed().replaceAll("\0", "\uFFFD");
}

/** Returns an immutable copy of an owner. Throws if its process could not be looked up. */
export function copyOwner({ token, hostname, processId }: RunOwner): RunOwner {
  checkId("owner.token", token);
  checkId("owner.hostname", hostname);
  checkWithin("owner.processId", processId, 0, GREATEST_PROCESS_ID);
  return { token, hostname, processId };
}

/** Returns an immutable copy of a batch. Throws if it is invalid. */
export function copyBatch(batch: JournalBatch): JournalBatch {
  const { firstNumber, hasProgress = false, isQueued = false } = batch;
  const records = [...batch.records];
  // So that the numbers of the records stay safe integers as well.
  checkWithin("firstNumber", firstNumber, 1, GREATEST_NUMBER);
  if (records.length === 0) throw createValueError("records", "at least one record", "none");
  for (const record of records) checkLine("a record", record);
  return { firstNumber, records, hasProgress, isQueued };
}

/** Returns an immutable copy of mail. Throws if it is invalid. */
export function copyMail({ key, body }: Pick<Mail, "key" | "body">): Pick<Mail, "key" | "body"> {
  checkId("key", key);
  checkLine("body", body);
  return { key, body };
}

/** Returns the number of the last mail that an owner has read. Throws if it is invalid. */
export function resolveLastMail(number: number | undefined): number {
  if (number === undefined) return GREATEST_NUMBER;
  checkWithin("lastMail", number, 0, GREATEST_NUMBER);
  return number;
}

/** Throws for a text that is not one line of JSON, as far as a store checks it. */
function checkLine(field: string, text: string): void {
  checkStoredText(field, text);
  if (/[\n\r]/.test(text)) throw createValueError(field, "one line of text", "a line break");
  if (text === "") throw createValueError(field, "the text of one JSON value", "nothing");
}

function checkWithin(field: string, value: unknown, least: number, most: number): void {
  const isWithin = typeof value === "number" && Number.isSafeInteger(value);
  if (isWithin && value >= least && value <= most) return;
  throw createValueError(field, `a whole number from ${least} to ${most}`, String(value));
}

/** Returns the number of the first record or mail to read. Throws `invalid_argument`. */
export function resolveFirstNumber(from: number | undefined): number {
  if (from === undefined) return 1;
  checkCount("from", from, "Leave it out to read all of them.");
  if (from === 0) throw mismatch("from", "a whole number from 1 up", from, "The first is 1.");
  return from;
}

/** Returns the maximum number of records to read. Throws `invalid_argument`. */
export function readLimit(limit: number | undefined): number {
  if (limit === undefined) return Infinity;
  checkCount("limit", limit, "Leave it out to read all of them.");
  return limit;
}

/** Returns the maximum number of entries to list. Throws `invalid_argument`. */
export function resolveListLimit(limit: number | undefined): number {
  if (limit === undefined) return DEFAULT_LIMIT;
  checkCount("limit", limit, `Leave it out for ${DEFAULT_LIMIT}.`);
  return limit;
}

/** Checks a filter of runs. Throws `invalid_argument`, and `store_failed` for an invalid id. */
export function checkFilter(filter: RunFilter): void {
  checkKeys("filter", filter, ["status", "limit", "before"]);
  if (filter.status !== undefined) checkOneOf("filter.status", filter.status, STATUSES);
  if (filter.before !== undefined) checkId("filter.before", filter.before);
}

/** Throws `invalid_argument` unless the value is one of the known values. */
export function checkOneOf(field: string, value: string, known: readonly string[]): void {
  if (known.includes(value)) return;
  throw mismatch(field, `one of ${known.join(", ")}`, value, "Correct the name.");
}

/**
 * Throws `invalid_argument` unless the value is a number from 0 up. With `Infinity`, no owner is ever
 * stale.
 */
export function checkStaleAfterMs(staleAfterMs: number): void {
  if (staleAfterMs === Infinity) return;
  checkAmount("staleAfterMs", staleAfterMs, "0 treats every owner as lost.");
}

/** Throws `invalid_argument` unless the value is a version, or 0 for a new session. */
export function checkExpectedVersion(expectedVersion: number): void {
  checkCount("expectedVersion", expectedVersion, "0 means a new session.");
}

function createValueError(field: string, expected: string, got: string): Error {
  return createStoreError(
    "unsuitable",
    `Expected ${field} to be ${expected}, got ${got}. A store accepts nothing else.`,
  );
}
