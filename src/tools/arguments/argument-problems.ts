// Converts the issues of arguments to the problems that a model reads. Bounded, since a long list
// does not help to correct a call.

import { isJsonList, isJsonObject, findValueAtPath, type JsonValue } from "../../kernel/json.ts";
import { memoize } from "../../kernel/memoize.ts";
import { isMisspelt } from "../../kernel/misspelling.ts";
import { collapseLines, truncateText, formatShortJson } from "../../kernel/sentence.ts";
import type { Issues, Path, ValidationIssue } from "./validation-issue.ts";

/**
 * A problem of arguments that do not fit their schema.
 *
 * @example
 * ```ts
 * const problem: ArgumentProblem = {
 *   parameter: "filter.count",
 *   expected: "an integer",
 *   received: '"many"',
 * };
 * ```
 */
export interface ArgumentProblem {
  /** Path of the parameter, such as `filter.tags[2]`. Empty for the arguments as a whole. */
  readonly parameter: string;
  /**
   * Description of valid values, such as `an integer`, `one of "a", "b"`, or `nothing: there is no
   * such parameter`.
   */
  readonly expected: string;
  /**
   * The received value as shortened JSON, such as `"x"`. `undefined` if the parameter is missing.
   */
  readonly received: string | undefined;
  /** A suggestion, such as `Did you mean "count"?` */
  readonly hint?: string | undefined;
}

const MAX_PROBLEMS = 50;
/** Maximum number of problems that the model reads. */
const MAX_SHOWN = 10;
/** Maximum number of names among which a misspelt one is searched. */
const MAX_NAMES = 1_000;
/** Maximum length of a parameter's name. */
const MAX_NAME = 200;

/** Maximum number of allowed values that are listed. */
const MAX_VALUES = 20;
/** Maximum number of forms of a union that are compared with the value. */
const MAX_FORMS = 20;

/** Weights of how strongly an issue indicates that another form of the union was meant. */
const OTHER_TYPE = 1e9;
const OTHER_TAG = 1e6;
const OTHER_FIELD = 1e3;

/** Returns the request to the model to correct its arguments. */
export function adviseCorrection(toolName: string): string {
  return `Correct them and call ${toolName} again.`;
}

/** Returns the text for the model: the first ten problems, one line each. */
export function describeProblems(toolName: string, problems: readonly ArgumentProblem[]): string {
  const rest = problems.length - MAX_SHOWN;
  const least = problems.length >= MAX_PROBLEMS ? "at least " : "";
  return [
    `The arguments of ${toolName} do not fit its schema:`,
    ...describeProblemLines("arguments", problems).map((line) => `- ${line}`),
    ...(rest > 0 ? [`… and ${least}${rest} more`] : []),
    adviseCorrection(toolName),
  ].join("\n");
}

/** Returns the first ten problems, one line each. `whole`: the name of the value that has them. */
export function describeProblemLines(whole: string, problems: readonly ArgumentProblem[]) {
  return problems.slice(0, MAX_SHOWN).map(({ parameter, expected, received, hint }) => {
    const got = received === undefined ? "but it is missing" : `got ${received}`;
    const line = `${parameter || whole}: expected ${expected}, ${got}`;
    return hint === undefined ? line : `${line}. ${hint}`;
  });
}

/** Returns the problems of the written value: at most 50, each different. */
export function collectArgumentProblems(
  written: JsonValue,
  issues: Issues,
): readonly ArgumentProblem[] {
  const problems = new Map<string, ArgumentProblem>();
  // Listing the keys of a large part takes time, and many problems can be with the same part.
  const show = memoize(formatShortJson);
  const listNames = memoize((owner: object) => Object.keys(owner).slice(0, MAX_NAMES));
  for (const issue of selectIssues(issues)) {
    const expected = describeExpected(issue);
    const key = JSON.stringify([issue.path, expected]);
    if (problems.has(key)) continue;
    const parameter = formatParameterName(written, issue.path);
    const part = findValueAtPath(written, issue.path);
    const received = part === undefined ? undefined : show(part);
    const hint = problems.size < MAX_SHOWN ? findHint(written, issue, listNames) : undefined;
    problems.set(key, { parameter, expected, received, hint });
    if (problems.size === MAX_PROBLEMS) break;
  }
  return [...problems.values()];
}

/** Returns the name of a parameter: `filter.tags[2]`, `headers["x y"]`. */
function formatParameterName(written: JsonValue, path: Path): string {
  const name = path.map((key, level) => {
    if (isJsonList(findValueAtPath(written, path.slice(0, level)))) return `[${key}]`;
    return PLAIN_KEY.test(key) ? `.${key}` : `[${formatShortJson(key)}]`;
  });
  return truncateText(name.join("").replace(/^\./, ""), MAX_NAME);
}

const PLAIN_KEY = /^[\p{L}_$][\p{L}\p{N}_$-]{0,59}$/u;

/** Suggests the known name for an unknown one, and the written name for a missing one. */
function findHint(
  written: JsonValue,
  { path, known = {} }: ValidationIssue,
  listNames: (owner: object) => readonly string[],
): string | undefined {
  const owner = findValueAtPath(written, path.slice(0, -1));
  const key = path.at(-1);
  if (key === undefined || !isJsonObject(owner)) return undefined;
  const isMissing = !Object.hasOwn(owner, key);
  const [names, taken] = isMissing ? [owner, known] : [known, owner];
  const isMeant = (name: string) => isMisspelt(name, key) && !Object.hasOwn(taken, name);
  const name = listNames(names).find(isMeant);
  if (name === undefined) return undefined;
  return isMissing
    ? `Is ${formatShortJson(name)} meant for it?`
    : `Did you mean ${formatShortJson(name)}?`;
}

/**
 * Yields the issues that the model reads. For a union these are the issues of the intended form.
 */
function* selectIssues(issues: Issues): Generator<ValidationIssue, void> {
  for (const issue of issues) {
    if (issue.forms === undefined) yield issue;
    else yield* selectForm(collectForms(issue), issue.path.length);
  }
}

/** Yields the issues of the form that was most likely meant, or one issue if no form was. */
function* selectForm(forms: readonly Issues[], level: number): Generator<ValidationIssue, void> {
  const scoreIssue = ({ path, types, values, refused }: ValidationIssue): number => {
    if (path.length === level && (types ?? values) !== undefined) return OTHER_TYPE;
    if (path.length !== level + 1) return 1;
    if (values?.length === 1) return OTHER_TAG;
    // The name is missing, or unknown.
    return refused === undefined ? OTHER_FIELD : 1;
  };
  const scoreForm = (form: Issues): number =>
    form.reduce((sum, issue) => sum + scoreIssue(issue), 0);
  const [meant = []] = forms.toSorted((a, b) => scoreForm(a) - scoreForm(b));
  const decisive = meant.find((issue) => scoreIssue(issue) >= OTHER_TAG);
  if (decisive === undefined) return yield* selectIssues(meant);
  // No form has this type or tag, so each form with another one is listed.
  const place = String(decisive.path);
  const same = forms
    .flat()
    .filter((issue) => scoreIssue(issue) >= OTHER_TAG && String(issue.path) === place);
  const types = same.flatMap((issue) => issue.types ?? []);
  const values = same.flatMap((issue) => issue.values ?? []);
  const note = (): string => [...new Set(same.map((issue) => issue.note?.()))].join(" ");
  yield { ...decisive, types, values, note };
}

/** Adds the issues with the forms of a union, and with the forms of a union in its place. */
function collectForms({ path, forms = [] }: ValidationIssue, collected: Issues[] = []): Issues[] {
  for (const form of forms) {
    if (collected.length >= MAX_FORMS) break;
    const issues = form();
    const [first, ...others] = issues;
    if (others.length > 0 || first?.forms === undefined || first.path.length !== path.length)
      collected.push(issues);
    else collectForms(first, collected);
  }
  return collected;
}

const NOTHING = "nothing: there is no such parameter";

/** Descriptions of types, and of the keywords that models often violate. */
const WORDS: ReadonlyMap<unknown, string> = new Map([
  ["string", "text"],
  ["number", "a number"],
  ["integer", "an integer"],
  ["boolean", "true or false"],
  ["null", "null"],
  ["array", "an array"],
  ["tuple", "an array"],
  ["object", "an object"],
  ["record", "an object"],
  ["minLength", "a length of at least #"],
  ["maxLength", "a length of at most #"],
  ["minItems", "a length of at least #"],
  ["maxItems", "a length of at most #"],
  ["minimum", "at least #"],
  ["maximum", "at most #"],
  ["oneOf", "a value that fits exactly one of its forms"],
  ["required", "a value"],
  ["propertyNames", "another name: its schema does not accept this one"],
  ["additionalProperties", NOTHING],
  ["unevaluatedProperties", NOTHING],
  ["false schema", NOTHING],
  ["custom", "a value that its check accepts"],
]);

/**
 * Returns the description of a value that satisfies the violated rule: one line of bounded length.
 */
export function describeExpected(issue: ValidationIssue): string {
  const { keyword, types = [], values = [], limit, note } = issue;
  const forms = new Set(types.map((type) => WORDS.get(type) ?? "a value"));
  if (keyword === "enum" || values.length > 0) forms.add(describeValues([...new Set(values)]));
  const shown = typeof limit === "string" ? collapseLines(limit) : formatShortJson(limit);
  const rule = WORDS.get(keyword) ?? `a value that fits ${keyword}: #`;
  const words = [...forms].join(" or ") || rule.replace("#", () => shown);
  const line = collapseLines(note?.() ?? "");
  return line === "" ? words : `${words} (${line})`;
}

function describeValues(values: readonly unknown[]): string {
  const listed = values.slice(0, MAX_VALUES).map(formatShortJson).join(", ");
  if (values.length < 2) return listed || "nothing";
  const rest = values.length - MAX_VALUES;
  return `one of ${listed}${rest > 0 ? ` … and ${rest} more` : ""}`;
}
