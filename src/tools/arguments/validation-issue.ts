// The common form of the issues that zod and Ajv report. Coercion and the problems for the model
// are derived from it.

/** Keys from the root to a part. Indexes of lists are texts. */
export type Path = readonly string[];

/** A part of a value that violates a rule. */
export interface ValidationIssue {
  readonly path: Path;
  /** The rule, as a keyword of JSON Schema: `type`, `enum`, `required`, `anyOf`, … */
  readonly keyword: string;
  /** The allowed types. */
  readonly types?: readonly unknown[];
  /** The allowed values. */
  readonly values?: readonly unknown[];
  /** The value of another keyword, for example a bound. */
  readonly limit?: unknown;
  /** The value that the validator refused. If it is absent, the part is not coerced. */
  readonly refused?: unknown;
  /** Returns the message of the schema's author. */
  readonly note?: () => string;
  /**
   * Return the issues of the value with each form of a union. A form is read when its issues are
   * needed.
   */
  readonly forms?: readonly (() => Issues)[];
  /** The properties of the schema by name, if a name is missing or unknown. */
  readonly known?: object | undefined;
}

export type Issues = readonly ValidationIssue[];
