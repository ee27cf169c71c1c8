// Shortens reports of subagents that exceed a limit. Each stays valid JSON.

import { stringifyCanonical, isRecord, parseJson } from "../kernel/json.ts";
import { memoize } from "../kernel/memoize.ts";
import { shortenText, type ShortenedText } from "./shorten-text.ts";

type Report = Readonly<Record<string, unknown>>;

/** The name and the outcome of the subagent, which are never omitted. */
const ID_FIELDS: ReadonlySet<string> = new Set(["subagent", "outcome", "status"]);
const CODE_FIELDS: ReadonlySet<string> = new Set([...ID_FIELDS, "reason", "error"]);
const COUNT_FIELDS: ReadonlySet<string> = new Set(["steps", "totalTokens"]);
/** Fields that may be truncated. */
const TEXT_FIELDS: ReadonlySet<string> = new Set(["text", "output", "explanation"]);

/**
 * Filters of fields, from all to the minimum. Each is tried if the result of the previous one is
 * too long.
 */
const DETAILS: readonly ((field: string) => boolean)[] = [
  () => true,
  (field) => !COUNT_FIELDS.has(field),
  (field) => CODE_FIELDS.has(field),
  (field) => ID_FIELDS.has(field),
];

/**
 * Shortens reports, one per line, to at most `maxCharacters` UTF-16 code units including all
 * notices. Each stays valid JSON with `subagent` and `outcome` (or `status`). Truncates `text`,
 * `output` and `explanation` with `shortenText`. An `output` that is not a text becomes the
 * beginning of its JSON. If that is not enough, omits the counts, then these fields, then the
 * codes. The rest, `{"outcome":"completed","subagent":"writer#1"}`, is returned whatever the limit
 * is.
 *
 * @returns `undefined` if the text does not consist of such reports.
 */
export function shortenReports(text: string, maxCharacters: number): ShortenedText | undefined {
  const reports = parseReports(text);
  if (reports === undefined) return undefined;
  const { length: totalCharacters } = text;
  const fitting = totalCharacters <= maxCharacters ? text : fitReports(reports, maxCharacters);
  const isShortened = fitting.length < totalCharacters;
  const shown = isShortened ? fitting : text;
  return { text: shown, isShortened, totalCharacters, shownCharacters: shown.length };
}

function parseReports(text: string): readonly Report[] | undefined {
  try {
    const reports: readonly unknown[] = text.split("\n").map(parseJson);
    stringifyCanonical(reports); // Throws for a value that is nested too deeply.
    return reports.every(isSubagentReport) ? reports : undefined;
  } catch {
    return undefined;
  }
}

/** Names and outcomes are shorter. A longer value is not a report's. */
const MAX_ID_LENGTH = 200;

function isSubagentReport(value: unknown): value is Report {
  if (!isRecord(value)) return false;
  const { subagent, outcome, status } = value;
  const ends = [outcome, status].filter((end) => end !== undefined);
  return isShortId(subagent) && ends.length > 0 && ends.every(isShortId);
}

function isShortId(value: unknown): boolean {
  return typeof value === "string" && value.length <= MAX_ID_LENGTH;
}

function fitReports(reports: readonly Report[], maxCharacters: number): string {
  const write = memoize(stringifyCanonical);
  let floor = "";
  for (const isShown of DETAILS) {
    const rows = reports.map((report) => Object.entries(report).filter(([name]) => isShown(name)));
    floor = writeRows(rows, 0, write);
    if (floor.length > maxCharacters) continue;
    // Binary search for the most characters of each text: n characters take at least n in JSON.
    let fits = 0;
    let tooMany = maxCharacters + 1;
    while (tooMany - fits > 1) {
      const middle = Math.floor((fits + tooMany) / 2);
      if (writeRows(rows, middle, write).length <= maxCharacters) fits = middle;
      else tooMany = middle;
    }
    return writeRows(rows, fits, write);
  }
  return floor;
}

/** The fields of each report. */
type Rows = readonly (readonly (readonly [name: string, value: unknown])[])[];

/** Writes the rows, with at most this many characters of each text. */
function writeRows(rows: Rows, maxCharacters: number, write: typeof stringifyCanonical): string {
  const lines = rows.map((row) => {
    const fields = row.map(([name, value]) => {
      if (!TEXT_FIELDS.has(name)) return [name, value] as const;
      const json = write(value);
      const words = typeof value === "string" ? value : json;
      const { text } = shortenText(words, maxCharacters);
      // Keeps the whole value if a notice would take more room than it saves.
      return [name, JSON.stringify(text).length < json.length ? text : value] as const;
    });
    return stringifyCanonical(Object.fromEntries(fields));
  });
  return lines.join("\n");
}
