// The check of a JSON Schema by Ajv. Each schema has instances of its own, so that equal `$id`s do not
// meet. Nothing is loaded, filled in or converted. A schema is code to a degree: compiling it is bounded
// by its size (schema-size.ts), and evaluating it by a count of the work (check-work.ts).

import { Ajv } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";

import { EspalierError, messageOf } from "../../kernel/error.ts";
import { deepFreeze, type JsonObject, type JsonValue } from "../../kernel/json.ts";
import { AjvErrorReader, type AjvError } from "./ajv-issues.ts";
import { TooMuchWork, type CheckWork } from "./check-work.ts";
import { countRules } from "./counted-rules.ts";
import { NO_ENGINE, REGEXP_ENGINE, withoutPatterns } from "./schema-patterns.ts";
import { countParts, excessOf, isTooWide } from "./schema-size.ts";
import { lookUp, oneLine, thrownWords } from "./schema-words.ts";
import { partIssue, type Examine, type Path, type ValidationIssue } from "./validation-issue.ts";

export function unusable(
  field: string,
  reason: string,
  advice: string,
  cause?: unknown,
): EspalierError {
  return new EspalierError({
    code: "invalid_definition",
    message: `Expected ${field} to be a JSON Schema that can be checked, got one that cannot: ${oneLine(reason)}. ${advice}`,
    data: { field, reason: oneLine(reason) },
    cause,
  });
}

/** The name of the schema within its checker. */
const WHOLE = "input:";

/** The price of reading an error, and of a character of its path. */
const UNITS_PER_ERROR = 200;
const UNITS_PER_PATH_CHARACTER = 0.2;
/** The price of compiling a part of a form. */
const UNITS_PER_PART = 4_000;

/** Returns the errors of a value: the first one, or all. Empty if it fits. */
type Validate = (value: JsonValue) => readonly AjvError[];

/** A schema and its shared parts. */
interface Source {
  readonly schema: JsonObject;
  readonly Rules: Rules;
  readonly runsPatterns: boolean;
  readonly work: CheckWork;
}

/**
 * Returns the check of a schema. It spends units of `work`, which its caller begins. Throws
 * `invalid_definition` if the schema is not a JSON Schema, or refers to another document.
 * `runsPatterns`: false for a schema from a server.
 */
export function jsonSchemaExaminer(
  field: string,
  declared: JsonObject,
  work: CheckWork,
  runsPatterns = true,
): Examine {
  const { $schema: dialect, ...rest } = declared;
  const schema = deepFreeze(runsPatterns ? rest : withoutPatterns(rest));
  const excess = excessOf(schema);
  if (excess !== undefined) throw unusable(field, excess, "Give a smaller schema.");
  const source = { schema, Rules: rulesFor(field, schema, dialect), runsPatterns, work };
  try {
    const examine = new SchemaExaminer(source).whole();
    return lazily(() => examine);
  } catch (cause) {
    const advice = "Correct it; what it refers to must be within it.";
    throw unusable(field, reasonOf(cause), advice, cause);
  }
}

/**
 * Checks values in two passes. The first stops at the first error, so that a value that fits leaves no
 * errors behind. Only the second collects all errors, for coercion and for the model that corrects them.
 */
class SchemaExaminer {
  readonly #source: Source;
  readonly #reader: AjvErrorReader;
  readonly #parts = new Map<string, Examine>();
  readonly #findFirst: (reference: string) => Validate;
  readonly #isTooWide: boolean;
  #findAll: ((reference: string) => Validate) | undefined;

  constructor(source: Source) {
    this.#source = source;
    this.#reader = new AjvErrorReader(source.schema, (path) => this.#part(pointerTo(path)));
    this.#isTooWide = isTooWide(source.schema);
    this.#findFirst = compilerOf(source, this.#isTooWide);
  }

  whole(): Examine {
    const { work } = this.#source;
    const findFirst = this.#findFirst(WHOLE);
    work.begin({});
    findFirst({}); // A schema that refers to itself without end shows here, not at every call.
    return this.#at(WHOLE, findFirst);
  }

  #part(pointer: string): Examine {
    const { schema, work } = this.#source;
    const known = this.#parts.get(pointer);
    if (known !== undefined) return known;
    const price = UNITS_PER_PART * countParts(lookUp(schema, pointer));
    let examine: Examine | undefined;
    const part = lazily(() => (value) => {
      // Spent in each check, so that it does not matter which values were checked before.
      work.spendOnce(pointer, price);
      examine ??= this.#at(`${WHOLE}${pointer}`);
      return examine(value);
    });
    this.#parts.set(pointer, part);
    return part;
  }

  #at(reference: string, findFirst = this.#findFirst(reference)): Examine {
    if (this.#isTooWide) return (value) => this.#issuesOf(findFirst(value));
    const { work } = this.#source;
    let findAll: Validate | undefined;
    const all: Examine = (value) => {
      this.#findAll ??= compilerOf(this.#source, true);
      findAll ??= this.#findAll(reference);
      return this.#issuesOf(findAll(value));
    };
    return (value) => {
      const errors = findFirst(value);
      if (errors.length === 0) return [];
      try {
        const issues = work.withHalf(() => all(value));
        if (issues.length > 0) return issues;
      } catch {
        // Too many errors, or a value that goes too deep for more than the first one.
      }
      return this.#issuesOf(errors);
    };
  }

  #issuesOf(errors: readonly AjvError[]): readonly ValidationIssue[] {
    const characters = errors.reduce((sum, { instancePath }) => sum + instancePath.length, 0);
    const units = UNITS_PER_ERROR * errors.length + UNITS_PER_PATH_CHARACTER * characters;
    this.#source.work.spend(units);
    return this.#reader.issuesOf(errors);
  }
}

/** Returns what compiles a schema, or the part of it that a reference names. */
function compilerOf(
  { schema, Rules, runsPatterns, work }: Source,
  allErrors: boolean,
): (reference: string) => Validate {
  const ajv = new Rules({
    ...QUIET,
    allErrors,
    verbose: true,
    inlineRefs: false,
    ownProperties: true,
    code: { regExp: runsPatterns ? REGEXP_ENGINE : NO_ENGINE },
  });
  const tracksEvaluated = JSON.stringify(schema).includes('"unevaluated');
  // Without it a union is done at its first form that fits.
  if (!tracksEvaluated) ajv.opts.unevaluated = false;
  countRules(ajv, { work, allErrors, tracksEvaluated });
  formats.default(ajv);
  ajv.addFormat("url", isUrl);
  ajv.addSchema(schema, WHOLE);
  return (reference) => {
    const validate = ajv.compile<JsonValue>({ $ref: reference });
    return (value) => (validate(value) ? [] : (validate.errors ?? []));
  };
}

/** In place of a pattern that goes back for each colon and each `@`, and knows no hosts without a dot. */
function isUrl(text: string): boolean {
  return /^(?:https?|ftp):\/\/\S+$/i.test(text) && URL.canParse(text);
}

/** What Ajv says, without the name that we gave the schema. */
function reasonOf(cause: unknown): string {
  if (cause instanceof TooMuchWork) return "checking any value takes too much work";
  const message = messageOf(cause);
  if (message.startsWith("Maximum call stack")) return "it refers to itself without end";
  return message.replaceAll(` from id ${WHOLE}`, "").replaceAll(WHOLE, "");
}

/** Makes the check when it is first used. Never throws: what cannot be checked does not fit. */
function lazily(make: () => Examine): Examine {
  let made: Examine | undefined;
  return (value): readonly ValidationIssue[] => {
    try {
      made ??= make();
      return made(value);
    } catch (cause) {
      return [partIssue([], () => thrownWords("a value", cause))];
    }
  };
}

function pointerTo(path: Path): string {
  const keys = path.map((key) => key.replaceAll("~", "~0").replaceAll("/", "~1"));
  return `#/${keys.map(encodeURIComponent).join("/")}`;
}

/** Nothing is loaded, logged or filled in; unknown keywords and formats are passed over, as JSON Schema asks. */
const QUIET = { strict: false, logger: false, meta: false, validateSchema: false } as const;

const EARLY_DRAFT = /draft-0[1-7]/;

type Rules = typeof Ajv | typeof Ajv2020;

/** The rules by which a schema is read: those of 2020-12, or those of draft 7, if it says so or is valid under no others. */
function rulesFor(field: string, schema: JsonObject, dialect: JsonValue | undefined): Rules {
  const isEarly = typeof dialect === "string" && EARLY_DRAFT.test(dialect);
  const rules = isEarly ? Ajv : Ajv2020;
  const fault = faultIn(rules, schema);
  if (fault === undefined) return rules;
  if (isEarly || faultIn(Ajv, schema) !== undefined) throw unusable(field, fault, "Correct it.");
  return Ajv;
}

/** What a schema itself must fulfil: costly to make, so made once, when the first schema comes. They keep nothing of what they check. */
const compilers = new Map<Rules, Ajv | Ajv2020>();

function faultIn(Compiler: Rules, schema: JsonObject): string | undefined {
  const compiler = compilers.get(Compiler) ?? new Compiler({ strict: false, logger: false });
  compilers.set(Compiler, compiler);
  if (compiler.validateSchema(schema) === true) return undefined;
  const [fault] = compiler.errors ?? [];
  return `${fault?.instancePath ?? ""} ${fault?.message ?? "is not valid"}`.trim();
}
