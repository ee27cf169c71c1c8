// One shape for what zod and Ajv have against a value. Coercion goes by issues, and so do the problems
// that a model reads.

/** Keys from the whole to a part; places in lists as text. */
export type Path = readonly string[];

/** A part of a value that breaks a rule. */
export interface ValidationIssue {
  readonly path: Path;
  /** The rule, as a keyword of JSON Schema: `type`, `enum`, `required`, `anyOf`, … */
  readonly keyword: string;
  /** The types that would have fitted. */
  readonly types?: readonly unknown[];
  /** The values that would have fitted. */
  readonly values?: readonly unknown[];
  /** The value of any other keyword: a bound, for example. */
  readonly limit?: unknown;
  /** The value that the validator refused. Absent: coercion leaves the part alone. */
  readonly refused?: unknown;
  /** Returns the message of the schema's author. */
  readonly note?: () => string;
  /** Return the issues with each form of a union. A form is read when its issues are needed. */
  readonly forms?: readonly (() => Issues)[];
  /** The properties of the schema by name, if a name is missing or unknown. */
  readonly known?: object | undefined;
}

export type Issues = readonly ValidationIssue[];
