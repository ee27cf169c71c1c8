// From what a schema has against arguments to what a model reads. Bounded: a long list does not help to correct a call.

import type { JsonObject, JsonValue } from "../../kernel/json.ts";
import { shortened } from "../../kernel/sentence.ts";
import {
  isList,
  partIssue,
  valueAt,
  valueIssue,
  type ValidationIssue,
  type PartIssue,
  type Path,
  type UnionIssue,
} from "./validation-issue.ts";
import { allowedWords, eitherWords, shownJson } from "./schema-words.ts";

/** One thing that is wrong with arguments. */
export interface ArgumentProblem {
  /** The parameter: `filter.tags[2]`; empty: the arguments as a whole. */
  readonly parameter: string;
  /** `an integer`, `one of "a", "b"`, `text of at most 10 characters`, `nothing: there is no such parameter`, … */
  readonly expected: string;
  /** What came, shortened and as JSON: `"x"`; undefined: it is missing. */
  readonly received: string | undefined;
}

/** Arguments that fit, as the tool gets them; or what is wrong with them. */
export type Checked<Value> =
  | {
      readonly type: "valid";
      readonly value: Value;
      /** The JSON from which the value was made: what came, after coercion. */
      readonly input: JsonValue;
    }
  | { readonly type: "invalid"; readonly problems: readonly ArgumentProblem[] };

/** What a tool takes: shown to the model as JSON Schema, and checked. */
export interface InputSchema<Value> {
  /** Frozen; without `$schema`. */
  readonly jsonSchema: JsonObject;
  /**
   * Pure; never throws. `parsed`: the value that the schema made of these arguments before. A copy
   * of that value is used, and nothing is parsed.
   */
  check(input: JsonValue, parsed?: JsonValue): Checked<Value>;
}

/** So many problems are found at most. */
const MOST_PROBLEMS = 50;
/** The model reads so many problems. */
const MOST_SHOWN = 10;
/** So many forms of a union are looked into. */
const MOST_FORMS = 20;
const MOST_OF_KEY = 60;
const MOST_OF_PARAMETER = 200;

/** What the model is asked to do about it. */
export function correctionAdvice(toolName: string): string {
  return `Correct them and call ${toolName} again.`;
}

/** What the model reads: each problem on a line, the first ten of them. */
export function problemsText(toolName: string, problems: readonly ArgumentProblem[]): string {
  return [
    `The arguments of ${toolName} do not fit its schema:`,
    ...problemLines("arguments", problems).map((line) => `- ${line}`),
    ...furtherProblems(problems.length),
    correctionAdvice(toolName),
  ].join("\n");
}

/** The first ten problems, one line each. `whole` is what has them. */
export function problemLines(
  whole: string,
  problems: readonly ArgumentProblem[],
): readonly string[] {
  return problems.slice(0, MOST_SHOWN).map(({ parameter, expected, received }) => {
    const came = received === undefined ? "but it is missing" : `got ${received}`;
    return `${parameter === "" ? whole : parameter}: expected ${expected}, ${came}`;
  });
}

function furtherProblems(count: number): readonly string[] {
  if (count <= MOST_SHOWN) return [];
  const least = count >= MOST_PROBLEMS ? "at least " : "";
  return [`… and ${least}${count - MOST_SHOWN} more`];
}

/** The problems behind issues about `value`, about what was written before coercion. At most 50, none twice. */
export function problemsOf(
  written: JsonValue,
  value: JsonValue,
  issues: readonly ValidationIssue[],
): readonly ArgumentProblem[] {
  const problems = new Map<string, ArgumentProblem>();
  const shown = new Map<JsonValue, string>();
  for (const issue of resolved(value, issues)) {
    const problem = problemOf(written, issue, shown);
    problems.set(JSON.stringify([issue.path, problem.expected]), problem);
    if (problems.size === MOST_PROBLEMS) break;
  }
  return [...problems.values()];
}

/** `shown`: the texts of parts with which other problems are, since listing many keys takes time. */
function problemOf(
  written: JsonValue,
  { path, expected }: PartIssue,
  shown: Map<JsonValue, string>,
): ArgumentProblem {
  const value = valueAt(written, path);
  const received = value === undefined ? undefined : (shown.get(value) ?? shownJson(value));
  if (value !== undefined && received !== undefined) shown.set(value, received);
  return { parameter: parameterName(written, path), expected: expected(), received };
}

/** `filter.tags[2]`, `headers["x y"]`. */
function parameterName(written: JsonValue, path: Path): string {
  let name = "";
  for (const [index, key] of path.entries()) {
    const owner = valueAt(written, path.slice(0, index));
    const isPlace = owner !== undefined && isList(owner);
    if (isPlace) name += `[${key}]`;
    else if (key.length <= MOST_OF_KEY && PLAIN_KEY.test(key))
      name += name === "" ? key : `.${key}`;
    else name += `[${shownJson(key)}]`;
    if (name.length > MOST_OF_PARAMETER) return shortened(name, MOST_OF_PARAMETER);
  }
  return name;
}

const PLAIN_KEY = /^[\p{L}_$][\p{L}\p{N}_$-]*$/u;

/** The issues worth telling, with unions resolved. */
function* resolved(value: JsonValue, issues: readonly ValidationIssue[]): Generator<PartIssue> {
  const about = new Map<string, Set<string>>();
  for (const issue of issues) {
    if (issue.type === "union") continue;
    const place = placeOf(issue);
    about.set(place, (about.get(place) ?? new Set()).add(issue.about));
  }
  for (const issue of issues) {
    const here = about.get(placeOf(issue)) ?? new Set();
    if (issue.type === "union") {
      if (!here.has("type") && !here.has("values")) yield* factsOfUnion(value, issue);
    } else if (issue.about !== "type" || !here.has("values")) {
      yield issue;
    }
  }
}

const placeOf = ({ path }: ValidationIssue): string => JSON.stringify(path);

/** Of the forms that a part may have: what is wrong with the one that was most likely meant. */
function* factsOfUnion(value: JsonValue, union: UnionIssue): Generator<PartIssue> {
  const { path, expected, options } = union;
  const at = valueAt(value, path);
  if (at === undefined) {
    yield partIssue(path, expected);
    return;
  }
  const forms = options.slice(0, MOST_FORMS).map((examine) => examine(at));
  const deep = forms.filter((form) => rootOf(form) === undefined);
  if (deep.length === 0) {
    yield partIssue(path, () =>
      eitherWords(forms.flatMap((form) => rootOf(form)?.expected() ?? [])),
    );
    return;
  }
  const key = commonTag(deep);
  if (key !== undefined) {
    yield tagIssue(
      [...path, key],
      deep.flatMap((form) => tagOf(form, key) ?? []),
    );
    return;
  }
  const [meant] = deep.toSorted(
    (a, b) =>
      wrongTags(a) - wrongTags(b) || wrongFields(at, a) - wrongFields(at, b) || a.length - b.length,
  );
  if (meant === undefined || meant.length === 0) yield partIssue(path, expected);
  else for (const issue of resolved(at, meant)) yield { ...issue, path: [...path, ...issue.path] };
}

/** What shows that a form was not meant at all: the whole is of another type, or another value. */
function rootOf(form: readonly ValidationIssue[]): PartIssue | undefined {
  return form.find((part): part is PartIssue => isAbout(part, 0) && part.about !== "other");
}

/** A field whose values distinguish all forms, and that has the value of none. */
function commonTag(forms: readonly (readonly ValidationIssue[])[]): string | undefined {
  const [first, ...others] = forms;
  const keys = (first ?? []).flatMap((part) => (isTag(part) ? part.path : []));
  return keys.find((key) => others.every((form) => tagOf(form, key) !== undefined));
}

function tagOf(form: readonly ValidationIssue[], key: string): PartIssue | undefined {
  return form.find((part): part is PartIssue => isTag(part) && part.path[0] === key);
}

function isTag(part: ValidationIssue): part is PartIssue {
  return isAbout(part, 1) && part.about === "values";
}

/** How many fields say that another form was meant: each may have one value only, and has not. */
function wrongTags(form: readonly ValidationIssue[]): number {
  return form.filter((part) => isTag(part) && part.target.values.length === 1).length;
}

/** How many fields are missing, or should not be there. */
function wrongFields(value: JsonValue, form: readonly ValidationIssue[]): number {
  return form.filter(
    (part) =>
      isAbout(part, 1) && (part.about === "presence" || valueAt(value, part.path) === undefined),
  ).length;
}

/** None of the values that the forms have here. */
function tagIssue(path: Path, tags: readonly PartIssue[]): PartIssue {
  const allowed = [...new Set(tags.flatMap((tag) => tag.target.values))];
  return valueIssue(path, allowed, () => allowedWords(allowed));
}

function isAbout(part: ValidationIssue, depth: number): part is PartIssue {
  return part.type === "part" && part.path.length === depth;
}
