// Turns the issues of a schema with arguments into the problems that a model reads. Bounded: a long
// list does not help to correct a call.

import { isJsonList, isJsonObject, valueAt, type JsonValue } from "../../kernel/json.ts";
import { memoized } from "../../kernel/memoized.ts";
import { isMisspelt } from "../../kernel/misspelt.ts";
import { shortened, shownJson } from "../../kernel/sentence.ts";
import { eitherWords, expectedWords } from "./schema-words.ts";
import type { Issues, Path, ValidationIssue } from "./validation-issue.ts";

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

/** Forms of a union that are compared with the value. */
const MAX_FORMS = 20;

/** How much an issue with a form shows that another form was meant. */
const OTHER_TYPE = 1e9;
const OTHER_TAG = 1e6;
const OTHER_FIELD = 1e3;

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

/** Returns the problems of the written value: at most 50, no two of them equal. */
export function problemsOf(written: JsonValue, issues: Issues): readonly ArgumentProblem[] {
  const problems = new Map<string, ArgumentProblem>();
  // Listing the keys of a large part takes time, and many problems can be with the same part.
  const show = memoized(shownJson);
  const listNames = memoized((owner: object) => Object.keys(owner).slice(0, MAX_NAMES));
  for (const issue of selectIssues(issues)) {
    const part = valueAt(written, issue.path);
    const received = part === undefined ? undefined : show(part);
    const expected = expectedWords(issue);
    const hint = problems.size < MAX_SHOWN ? findHint(written, issue, listNames) : undefined;
    const parameter = parameterName(written, issue.path);
    problems.set(JSON.stringify([issue.path, expected]), { parameter, expected, received, hint });
    if (problems.size === MAX_PROBLEMS) break;
  }
  return [...problems.values()];
}

/** Returns the name of a parameter: `filter.tags[2]`, `headers["x y"]`. */
function parameterName(written: JsonValue, path: Path): string {
  const name = path.map((key, level) => {
    if (isJsonList(valueAt(written, path.slice(0, level)))) return `[${key}]`;
    return PLAIN_KEY.test(key) ? `.${key}` : `[${shownJson(key)}]`;
  });
  return shortened(name.join("").replace(/^\./, ""), MAX_NAME);
}

const PLAIN_KEY = /^[\p{L}_$][\p{L}\p{N}_$-]{0,59}$/u;

/** Suggests the known name for one that is unknown, and the written name for one that is missing. */
function findHint(
  written: JsonValue,
  { path, keyword, known = {} }: ValidationIssue,
  listNames: (owner: object) => readonly string[],
): string | undefined {
  const owner = valueAt(written, path.slice(0, -1));
  const key = path.at(-1);
  if (key === undefined || !isJsonObject(owner)) return undefined;
  const isMissing = !Object.hasOwn(owner, key);
  if (!isMissing && keyword !== "additionalProperties") return undefined;
  const [names, taken] = isMissing ? [owner, known] : [known, owner];
  const isMeant = (name: string) => isMisspelt(name, key) && !Object.hasOwn(taken, name);
  const name = listNames(names).find(isMeant);
  if (name === undefined) return undefined;
  return isMissing ? `Is ${shownJson(name)} meant for it?` : `Did you mean ${shownJson(name)}?`;
}

/** Yields the issues of which a model is told. */
function* selectIssues(issues: Issues): Generator<ValidationIssue> {
  for (const issue of issues) {
    if (issue.forms === undefined) yield issue;
    else yield* issuesOfForm(issue);
  }
}

/** Yields the issues with the form that was most likely meant, or the issue that no form is it. */
function* issuesOfForm(union: ValidationIssue): Generator<ValidationIssue> {
  const costOf = ({ path, keyword, allowed, refused }: ValidationIssue): number => {
    const depth = path.length - union.path.length;
    if (depth === 0 && (keyword === "type" || keyword === "enum")) return OTHER_TYPE;
    if (depth !== 1) return 1;
    if (keyword === "enum" && allowed.length === 1) return OTHER_TAG;
    // The name is missing, or unknown.
    return refused === undefined ? OTHER_FIELD : 1;
  };
  const sumOf = (form: Issues): number => form.reduce((sum, issue) => sum + costOf(issue), 0);
  const forms = formsOf(union);
  const [meant = []] = forms.toSorted((a, b) => sumOf(a) - sumOf(b));
  const decisive = meant.find((issue) => costOf(issue) >= OTHER_TAG);
  if (decisive === undefined) {
    yield* selectIssues(meant);
    return;
  }
  // No form has this type or tag: each form that has another one here is named.
  const { path, known } = decisive;
  const isSame = (issue: ValidationIssue): boolean =>
    costOf(issue) >= OTHER_TAG && String(issue.path) === String(path);
  const same = forms.flatMap((form) => form.find(isSame) ?? []);
  const [keyword = "", ...others] = new Set(same.map((issue) => issue.keyword));
  const allowed = [...new Set(same.flatMap((issue) => issue.allowed))];
  const expected = (): string => eitherWords(same.map(expectedWords));
  yield { path, keyword, allowed, known, ...(others.length > 0 ? { expected } : {}) };
}

/** Returns the issues with the first forms of a union, and with the forms of a union in its place. */
function formsOf({ path, forms = [] }: ValidationIssue): readonly Issues[] {
  const read = forms.slice(0, MAX_FORMS).map((form) => form());
  const flat = read.flatMap((form) => {
    const [first, ...others] = form;
    const isUnion = first?.forms !== undefined && first.path.length === path.length;
    return isUnion && others.length === 0 ? formsOf(first) : [form];
  });
  return flat.slice(0, MAX_FORMS);
}
