/** What was asked for makes no sense, or cannot be done here: the message says what was expected, what came and what to do. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly code = "usage";
}

/** Returns the words of anything that was thrown. */
export function describeCause(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

/** Returns the code of an error, such as `ENOENT`. `undefined` if it has none. */
export function codeOf(cause: unknown): string | undefined {
  const code: unknown = cause instanceof Error ? Reflect.get(cause, "code") : undefined;
  return typeof code === "string" ? code : undefined;
}
