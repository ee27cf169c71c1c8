// Selects the issues that help to correct a value. Of a part whose type and value are both wrong, the
// value is told, and of a union the form that was most likely meant.

import type { JsonValue } from "../../kernel/json.ts";
import { eitherWords, ruleWords } from "./schema-words.ts";
import { valueAt, type Issues, type ValidationIssue } from "./validation-issue.ts";

/** Forms of a union that are compared with the value. */
const MAX_FORMS = 20;

/** Yields the issues of which a model is told. */
export function* selectIssues(value: JsonValue, issues: Issues): Generator<ValidationIssue> {
  const places = new Set(issues.filter(({ keyword }) => keyword === "enum").map(placeOf));
  for (const issue of issues) {
    const { keyword, forms } = issue;
    if (forms === undefined && keyword !== "type") yield issue;
    else if (!places.has(placeOf(issue)))
      yield* forms ? issuesOfForms(value, issue, forms) : [issue];
  }
}

const placeOf = ({ path }: ValidationIssue): string => JSON.stringify(path);

/** Yields the issues with the form that was most likely meant, or the issue that no form is it. */
function* issuesOfForms(
  value: JsonValue,
  union: ValidationIssue,
  all: readonly Issues[],
): Generator<ValidationIssue> {
  const costOf = ({ path, keyword, allowed }: ValidationIssue): number => {
    const depth = path.length - union.path.length;
    if (depth === 0 && (keyword === "type" || keyword === "enum")) return OTHER_TYPE;
    if (depth !== 1) return 1;
    if (keyword === "enum" && allowed.length === 1) return OTHER_TAG;
    const isPresence = keyword === "additionalProperties" || valueAt(value, path) === undefined;
    return isPresence ? OTHER_FIELD : 1;
  };
  const sumOf = (form: Issues): number => form.reduce((sum, issue) => sum + costOf(issue), 0);
  // The forms of a union within the union are forms like the others.
  const flatten = (form: Issues): readonly Issues[] => {
    const [first, ...others] = form;
    const isUnion = first?.path.length === union.path.length && others.length === 0;
    return (isUnion ? first.forms?.flatMap(flatten) : undefined) ?? [form];
  };
  const forms = all.flatMap(flatten).slice(0, MAX_FORMS);
  const [meant = []] = forms.toSorted((a, b) => sumOf(a) - sumOf(b));
  const decisive = meant.find((issue) => costOf(issue) >= OTHER_TAG);
  if (decisive === undefined) {
    yield* selectIssues(value, meant);
    return;
  }
  // No form has this type or tag: each form that has another one here is named.
  const isSame = ({ path }: ValidationIssue): boolean =>
    path.length === decisive.path.length && path.at(-1) === decisive.path.at(-1);
  const same = forms.flatMap((form) => {
    const here = form.filter(isSame);
    const byKeyword = (name: string) => here.find(({ keyword }) => keyword === name);
    return byKeyword("enum") ?? byKeyword("type") ?? [];
  });
  const isTag = same.every(({ keyword }) => keyword === "enum");
  const expected = (): string =>
    isTag
      ? ruleWords("enum", [...new Set(same.flatMap(({ allowed }) => allowed))])
      : eitherWords(same.map((issue) => issue.expected()));
  yield { ...decisive, expected };
}

/** What is wrong with a form, by how much it shows that another one was meant. */
const OTHER_TYPE = 1e9;
const OTHER_TAG = 1e6;
const OTHER_FIELD = 1e3;
