// Turns the issues of a schema with arguments into the problems that a model reads. Bounded: a long
// list does not help to correct a call.

import { isJsonObject, type JsonValue } from "../../kernel/json.ts";
import { isMisspelt } from "../../kernel/misspelt.ts";
import { shortened } from "../../kernel/sentence.ts";
import { shownJson } from "../../kernel/shown-json.ts";
import { selectIssues } from "./select-issues.ts";
import {
  isList,
  valueAt,
  type Issues,
  type Path,
  type ValidationIssue,
} from "./validation-issue.ts";

/** One thing that is wrong with arguments. */
export interface ArgumentProblem {
  /** The parameter: `filter.tags[2]`; empty: the arguments as a whole. */
  readonly parameter: string;
  /** `an integer`, `one of "a", "b"`, `text of at most 10 characters`, `nothing: there is no such parameter`, … */
  readonly expected: string;
  /** What came, shortened and as JSON: `"x"`; undefined: it is missing. */
  readonly received: string | undefined;
  /** The name that was probably meant, or written in its place: `Did you mean "count"?` */
  readonly hint?: string | undefined;
}

const MAX_PROBLEMS = 50;
/** Problems that the model reads. */
const MAX_SHOWN = 10;
/** Names of which one may be misspelt. */
const MAX_NAMES = 1_000;
/** Characters of the name of a parameter. */
const MAX_NAME = 200;

/** What the model is asked to do about it. */
export function correctionAdvice(toolName: string): string {
  return `Correct them and call ${toolName} again.`;
}

/** Returns the text for the model: the first ten problems, one line each. */
export function problemsText(toolName: string, problems: readonly ArgumentProblem[]): string {
  const rest = problems.length - MAX_SHOWN;
  const least = problems.length >= MAX_PROBLEMS ? "at least " : "";
  return [
    `The arguments of ${toolName} do not fit its schema:`,
    ...problemLines("arguments", problems).map((line) => `- ${line}`),
    ...(rest > 0 ? [`… and ${least}${rest} more`] : []),
    correctionAdvice(toolName),
  ].join("\n");
}

/** Returns the first ten problems, one line each. `whole`: the name of the value that has them. */
export function problemLines(whole: string, problems: readonly ArgumentProblem[]) {
  return problems.slice(0, MAX_SHOWN).map(({ parameter, expected, received, hint }) => {
    const came = received === undefined ? "but it is missing" : `got ${received}`;
    const line = `${parameter || whole}: expected ${expected}, ${came}`;
    return hint === undefined ? line : `${line}. ${hint}`;
  });
}

/**
 * Returns the problems behind issues with `value`, which coercion made of the `written` value. The
 * problems name parts of the written value. At most 50, no two of them equal.
 */
export function problemsOf(
  written: JsonValue,
  value: JsonValue,
  issues: Issues,
): readonly ArgumentProblem[] {
  const problems = new Map<string, ArgumentProblem>();
  // Listing the keys of a large part takes time, and many problems can be with the same part.
  const texts = new Map<JsonValue, string>();
  for (const issue of selectIssues(value, issues)) {
    const part = valueAt(written, issue.path);
    const received = part === undefined ? undefined : (texts.get(part) ?? shownJson(part));
    if (part !== undefined && received !== undefined) texts.set(part, received);
    const expected = issue.expected();
    const hint = problems.size < MAX_SHOWN ? findHint(written, issue) : undefined;
    const parameter = parameterName(written, issue.path);
    problems.set(JSON.stringify([issue.path, expected]), { parameter, expected, received, hint });
    if (problems.size === MAX_PROBLEMS) break;
  }
  return [...problems.values()];
}

/** Returns the name of a parameter: `filter.tags[2]`, `headers["x y"]`. */
function parameterName(written: JsonValue, path: Path): string {
  let name = "";
  let owner: JsonValue = written;
  for (const key of path) {
    if (isList(owner)) name += `[${key}]`;
    else name += PLAIN_KEY.test(key) ? `.${key}` : `[${shownJson(key)}]`;
    owner = valueAt(owner, [key]) ?? null;
  }
  return shortened(name.replace(/^\./, ""), MAX_NAME);
}

const PLAIN_KEY = /^[\p{L}_$][\p{L}\p{N}_$-]{0,59}$/u;

/** Suggests the known name for one that is unknown, and the written name for one that is missing. */
function findHint(
  written: JsonValue,
  { path, keyword, known = {} }: ValidationIssue,
): string | undefined {
  const owner = valueAt(written, path.slice(0, -1));
  const key = path.at(-1);
  if (key === undefined || !isJsonObject(owner)) return undefined;
  const isMissing = !Object.hasOwn(owner, key);
  if (!isMissing && keyword !== "additionalProperties") return undefined;
  const [names, taken] = isMissing ? [owner, known] : [known, owner];
  const few = Object.keys(names).slice(0, MAX_NAMES);
  const name = few.find((one) => isMisspelt(one, key) && !Object.hasOwn(taken, one));
  if (name === undefined) return undefined;
  return isMissing ? `Is ${shownJson(name)} meant for it?` : `Did you mean ${shownJson(name)}?`;
}
