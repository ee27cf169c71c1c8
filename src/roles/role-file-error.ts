import { EspalierError } from "../kernel/error.ts";

/** Makes the error for a line of one file; `message` says what was expected, what came and what to do. */
export type Complain = (line: number, message: string, cause?: unknown) => EspalierError;

/** What complains about a file. */
export function complaintsAbout(file: string): Complain {
  return (line, message, cause) =>
    new EspalierError({
      code: "invalid_role_file",
      message: `${file}:${line}: ${message}`,
      data: { file, line },
      ...(cause === undefined ? {} : { cause }),
    });
}
