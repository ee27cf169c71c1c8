// What may be handed to a store, the same for all of them: what one would keep and another would refuse or alter is refused by each.
// Texts are kept character by character, so they must be well-formed Unicode without U+0000: databases keep UTF-8, and some of them no U+0000.
// JSON text is: `JSON.stringify` escapes both. Titles are for people only, and mended instead.

import { checkAmount, checkCount, checkKeys, mismatch } from "../kernel/check.ts";
import type { JournalBatch, Post, RunFilter, RunOwner, StoredStatus } from "./run-store.ts";
import { storeFailed } from "./store-errors.ts";

/** Characters. Long enough for any id, short enough for any index. */
const LONGEST_ID = 512;
/** Characters that are kept of a title. */
const LONGEST_TITLE = 1024;
const DEFAULT_LIMIT = 100;
/** Ids of processes are not greater anywhere. */
const GREATEST_PROCESS_ID = 2 ** 32 - 1;
/** Of a record, or of a post. */
const GREATEST_NUMBER = 2 ** 31 - 1;
const STATUSES: readonly string[] = ["open", "paused", "ended"] satisfies readonly StoredStatus[];

/** Rejects what no id can be. */
export function checkId(field: string, id: unknown): void {
  checkStoredText(field, id);
  if (id === "") throw unsuitable(field, "a non-empty string", "nothing");
  if (String(id).length > LONGEST_ID)
    throw unsuitable(field, `at most ${LONGEST_ID} characters`, `${String(id).length}`);
}

/** Rejects a text that could not be given back unchanged. */
export function checkStoredText(field: string, text: unknown): void {
  if (typeof text !== "string") throw unsuitable(field, "text", typeof text);
  if (!text.isWellFormed()) throw unsuitable(field, "well-formed Unicode", "a lone surrogate");
  if (text.includes("\0")) throw unsuitable(field, "text without U+0000", "text with U+0000");
}

/** The title as it is kept: what cannot be kept is replaced, what is too much is cut off. */
export function storedTitle(title: unknown): string {
  return String(title).slice(0, LONGEST_TITLE).toWellFormed().replaceAll("\0", "\uFFFD");
}

/** A copy of an owner, which cannot be changed. Rejects one whose process could not be looked up. */
export function checkedOwner({ token, hostname, processId }: RunOwner): RunOwner {
  checkId("owner.token", token);
  checkId("owner.hostname", hostname);
  checkWithin("owner.processId", processId, 0, GREATEST_PROCESS_ID);
  return { token, hostname, processId };
}

/** A copy of a batch, which cannot be changed. Rejects one that is none. */
export function checkedBatch(batch: JournalBatch): JournalBatch {
  const { firstNumber, hasProgress = false } = batch;
  const records = [...batch.records];
  // So many that the numbers of its records are whole as well.
  checkWithin("firstNumber", firstNumber, 1, GREATEST_NUMBER);
  if (records.length === 0) throw unsuitable("records", "at least one record", "none");
  for (const record of records) checkLine("a record", record);
  return { firstNumber, records, hasProgress };
}

/** A copy of what is posted, which cannot be changed. Rejects what cannot be. */
export function checkedPost({ key, body }: Pick<Post, "key" | "body">): Pick<Post, "key" | "body"> {
  checkId("key", key);
  checkLine("body", body);
  return { key, body };
}

/** The number of the last post that an owner has seen. Rejects what is none. */
export function lastPostSeen(number: number | undefined): number {
  if (number === undefined) return GREATEST_NUMBER;
  checkWithin("lastPost", number, 0, GREATEST_NUMBER);
  return number;
}

/** Rejects what is no JSON text of one line: as far as a store looks. */
function checkLine(field: string, text: string): void {
  checkStoredText(field, text);
  if (/[\n\r]/.test(text)) throw unsuitable(field, "one line of text", "a line break");
  if (text === "") throw unsuitable(field, "the text of one JSON value", "nothing");
}

function checkWithin(field: string, value: unknown, least: number, most: number): void {
  const isWithin = typeof value === "number" && Number.isSafeInteger(value);
  if (isWithin && value >= least && value <= most) return;
  throw unsuitable(field, `a whole number from ${least} to ${most}`, String(value));
}

/** The number of the first one to read. Throws `invalid_option`. */
export function firstToRead(from: number | undefined): number {
  if (from === undefined) return 1;
  checkCount("from", from, "Leave it out to read all of them.");
  if (from === 0) throw mismatch("from", "a whole number from 1 up", from, "The first is 1.");
  return from;
}

/** How many to read. Throws `invalid_option`. */
export function readLimit(limit: number | undefined): number {
  if (limit === undefined) return Infinity;
  checkCount("limit", limit, "Leave it out to read all of them.");
  return limit;
}

/** How many to list. Throws `invalid_option`. */
export function listLimit(limit: number | undefined): number {
  if (limit === undefined) return DEFAULT_LIMIT;
  checkCount("limit", limit, `Leave it out for ${DEFAULT_LIMIT}.`);
  return limit;
}

/** Which runs to list. Throws `invalid_option`, and `store_failed` for what no id can be. */
export function checkFilter(filter: RunFilter): void {
  checkKeys("filter", filter, ["status", "limit", "before"]);
  if (filter.status !== undefined) checkOneOf("filter.status", filter.status, STATUSES);
  if (filter.before !== undefined) checkId("filter.before", filter.before);
}

/** Throws `invalid_option` unless it is one of these. */
export function checkOneOf(field: string, value: string, known: readonly string[]): void {
  if (known.includes(value)) return;
  throw mismatch(field, `one of ${known.join(", ")}`, value, "Correct the name.");
}

/** Throws `invalid_option` unless it is a number from 0 up. `Infinity`: no owner is ever stale. */
export function checkStaleAfterMs(staleAfterMs: number): void {
  if (staleAfterMs === Infinity) return;
  checkAmount("staleAfterMs", staleAfterMs, "0 treats every owner as lost.");
}

/** Throws `invalid_option` unless it is a version, or 0 for a session that is new. */
export function checkExpectedVersion(expectedVersion: number): void {
  checkCount("expectedVersion", expectedVersion, "0 means a new session.");
}

function unsuitable(field: string, expected: string, got: string): Error {
  return storeFailed(
    "unsuitable",
    `Expected ${field} to be ${expected}, got ${got}. A store accepts nothing else.`,
  );
}
