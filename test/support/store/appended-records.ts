/** The number of records that appending-process.ts appends at once. */
export const BATCH_SIZE = 7;

/**
 * Returns the record of this number. Lengths differ widely, so that records end anywhere in pages
 * and files.
 */
export function recordOf(number: number): string {
  return JSON.stringify({ number, text: "é".repeat((number * 7919) % 5_000) });
}
