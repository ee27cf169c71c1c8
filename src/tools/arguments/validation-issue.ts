// One shape for what zod and Ajv have against a value. Coercion goes by issues, and so do the problems
// that a model reads.

/** Keys from the whole to a part; places in lists as text. */
export type Path = readonly string[];

/** A part of a value that breaks a rule. */
export interface ValidationIssue {
  readonly path: Path;
  /** The rule, as a keyword of JSON Schema: `type`, `enum`, `required`, `anyOf`, … */
  readonly keyword: string;
  /** The value of the keyword: the types for `type`, the values for `enum`, a bound. */
  readonly allowed: readonly unknown[];
  /** The value that the validator refused. Absent: coercion leaves the part alone. */
  readonly refused?: unknown;
  /** Whether a bound is one of integers. */
  readonly isInteger?: boolean;
  /** Returns a message that explains the rule. */
  readonly note?: () => string;
  /** Returns the words for a value that would have fitted. Absent: those of the rule. */
  readonly expected?: () => string;
  /** Return the issues with each form of a union. A form is read when its issues are needed. */
  readonly forms?: readonly (() => Issues)[];
  /** The properties of the schema by name, if a name is missing or unknown. */
  readonly known?: object | undefined;
}

export type Issues = readonly ValidationIssue[];

/** What a schema makes of a value, or has against it. */
export interface Reading {
  /** Empty if the value fits. */
  readonly issues: Issues;
  /** What the schema makes of a value that fits. */
  readonly value?: unknown;
}
