/** What was asked for makes no sense, or cannot be done here: the message says what was expected, what came and what to do. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly code = "usage";
}
