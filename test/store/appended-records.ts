/** Records that appending-process.ts writes at once. */
export const BATCH_SIZE = 7;

/** The record of a number: of very different lengths, so that they end anywhere in pages and files. */
export function recordOf(number: number): string {
  return JSON.stringify({ number, text: "é".repeat((number * 7919) % 5_000) });
}
