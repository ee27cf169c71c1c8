import { EspalierError } from "../kernel/error.ts";

/** Makes the error for a line of one file; `message` says what was expected, what came and what to do. */
export type FileErrorAt = (line: number, message: string, cause?: unknown) => EspalierError;

/** Makes the errors of one file. */
export function errorsIn(file: string): FileErrorAt {
  return (line, message, cause) =>
    new EspalierError({
      code: "invalid_role_file",
      message: `${file}:${line}: ${message}`,
      data: { file, line },
      cause,
    });
}
