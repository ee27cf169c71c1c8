// Reports of subagents in fewer characters, where there is no room for the whole: each stays JSON.

import { stringifyCanonical, isRecord, parseJson } from "../kernel/json.ts";
import { memoize } from "../kernel/memoized.ts";
import { shortenText, type ShortenedText } from "./shorten-text.ts";

type Report = Readonly<Record<string, unknown>>;

/** What says whose report it is and how the subagent ended: it is never left out. */
const IDS: ReadonlySet<string> = new Set(["subagent", "outcome", "status"]);
const CODES: ReadonlySet<string> = new Set([...IDS, "reason", "error"]);
const COUNTS: ReadonlySet<string> = new Set(["steps", "totalTokens"]);
/** What may be shown in part. */
const WORDS: ReadonlySet<string> = new Set(["text", "output", "explanation"]);

/** Which fields are kept; each row is tried where the one before it has no room. The last one is the floor. */
const DETAILS: readonly ((field: string) => boolean)[] = [
  () => true,
  (field) => !COUNTS.has(field),
  (field) => CODES.has(field),
  (field) => IDS.has(field),
];

/**
 * The same reports, one a line, in at most `maxCharacters` UTF-16 code units with all notices: each stays JSON with `subagent` and `outcome`
 * (or `status`). `text`, `output` and `explanation` are shortened inside it, as `shortenText` does; of an `output` that is no text the beginning
 * of its JSON is left, as a text. Where that is not enough the counts go, then these fields, then the codes. What is left then,
 * `{"outcome":"completed","subagent":"writer#1"}`, is given whatever the bound is.
 *
 * @returns Undefined if the text is not made of such reports.
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
    stringifyCanonical(reports); // Throws for what is nested beyond reason.
    return reports.every(isSubagentReport) ? reports : undefined;
  } catch {
    return undefined;
  }
}

/** Names and outcomes are shorter; a text under such a name is none. */
const LONGEST_ID = 200;

function isSubagentReport(value: unknown): value is Report {
  if (!isRecord(value)) return false;
  const { subagent, outcome, status } = value;
  const ends = [outcome, status].filter((end) => end !== undefined);
  return isShortId(subagent) && ends.length > 0 && ends.every(isShortId);
}

function isShortId(value: unknown): boolean {
  return typeof value === "string" && value.length <= LONGEST_ID;
}

function fitReports(reports: readonly Report[], maxCharacters: number): string {
  const write = memoize(stringifyCanonical);
  let floor = "";
  for (const isShown of DETAILS) {
    const rows = reports.map((report) => Object.entries(report).filter(([name]) => isShown(name)));
    floor = writeRows(rows, 0, write);
    if (floor.length > maxCharacters) continue;
    // As many characters of each text as there is room for: n characters take at least n in JSON.
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

/** A row of fields for each report. */
type Rows = readonly (readonly (readonly [name: string, value: unknown])[])[];

/** Returns the rows as text, with so many characters of each text in them. */
function writeRows(rows: Rows, maxCharacters: number, write: typeof stringifyCanonical): string {
  const lines = rows.map((row) => {
    const fields = row.map(([name, value]) => {
      if (!WORDS.has(name)) return [name, value] as const;
      const json = write(value);
      const words = typeof value === "string" ? value : json;
      const { text } = shortenText(words, maxCharacters);
      // The whole value, if a notice would take more room than it saves.
      return [name, JSON.stringify(text).length < json.length ? text : value] as const;
    });
    return stringifyCanonical(Object.fromEntries(fields));
  });
  return lines.join("\n");
}
