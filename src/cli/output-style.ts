// How text stands on stdout: how wide, and whether in colour.

import type { Shell } from "./shell.ts";

export interface OutputStyle {
  /** Cells per line; no line of a table is wider. */
  readonly width: number;
  readonly hasColor: boolean;
}

const USUAL_COLUMNS = 80;
/** Of what goes into a file or a pipe. */
const WIDTH_ELSEWHERE = 160;

export function outputStyle({ stdout, env }: Shell): OutputStyle {
  const isTTY = stdout.isTTY === true;
  const width = isTTY ? Math.max(1, (stdout.columns || USUAL_COLUMNS) - 1) : WIDTH_ELSEWHERE;
  const forced = env["FORCE_COLOR"] ?? "";
  if (forced !== "") return { width, hasColor: forced !== "0" };
  const isPlain = (env["NO_COLOR"] ?? "") !== "" || env["TERM"] === "dumb";
  return { width, hasColor: isTTY && !isPlain };
}
