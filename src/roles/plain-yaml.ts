// Parses YAML to plain data with line numbers. Accepts the part of YAML 1.2 that JSON can express:
// no tags, no anchors, only string keys, no empty values, and few levels.

import {
  type ErrorCode,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type ParsedNode,
  parseDocument,
  type YAMLError,
} from "yaml";

import { describeReceived } from "../kernel/argument-checks.ts";
import { EspalierError } from "../kernel/error.ts";
import { isRecord } from "../kernel/json.ts";
import { completeSentence } from "../kernel/sentence.ts";

/** The values of front matter, and the line of each by its path: `.budget.steps`, `.tools[0]`. */
export interface PlainYaml {
  readonly values: Readonly<Record<string, unknown>>;
  readonly lines: ReadonlyMap<string, number>;
}

const MAX_CHARACTERS = 32_768;
const MAX_LEVELS = 20;
const STANDARD_TAGS = "tag:yaml.org,2002:";

/**
 * Parses front matter without its fences. Its first line is line 2 of the file. Throws the error of
 * `errorAt` for the first problem.
 */
export function parsePlainYaml(source: string, errorAt: FileErrorAt): PlainYaml {
  if (source.length > MAX_CHARACTERS) {
    const message = `Expected at most ${MAX_CHARACTERS} characters of front matter, got ${source.length}. Write the instructions below it.`;
    throw errorAt(1, message);
  }
  const counter = new LineCounter();
  const findLine = (offset: number): number => Math.max(counter.linePos(offset).line, 1) + 1;
  const document = parseDocument(source, {
    version: "1.2",
    lineCounter: counter,
    prettyErrors: false,
    stringKeys: true,
  });
  const [fault] = document.errors;
  if (fault !== undefined) throw errorAt(findLine(fault.pos[0]), describeYamlFault(fault));
  if (document.directives.docStart === true) throw errorAt(2, FAULT_TEXTS.MULTIPLE_DOCS);
  const { contents } = document;
  const lines = new Map<string, number>();
  if (contents === null) return { values: {}, lines };
  const line = findLine(contents.range[0]);
  checkYamlNode(contents, { path: "", line, level: 1 }, { lines, lineAt: findLine, errorAt });
  const [warning] = document.warnings;
  if (warning !== undefined) throw errorAt(findLine(warning.pos[0]), describeYamlFault(warning));
  const values: unknown = document.toJS();
  if (isMap(contents) && isRecord(values)) return { values, lines };
  const got = isSeq(contents) ? "a list" : describeReceived(values);
  throw errorAt(line, `Expected keys with values, got ${got}. Write lines such as model: fast.`);
}

const TOO_DEEP = `Expected at most ${MAX_LEVELS} levels of nesting, got more. Remove levels: no field of a role needs so many.`;

/** Messages for errors whose text from the parser is unclear. */
const FAULT_TEXTS = {
  DUPLICATE_KEY: "Expected every key once, got one twice. Remove the duplicate.",
  MULTIPLE_DOCS: "Expected one YAML document, got more. Leave out the line that ends the first.",
  NON_STRING_KEY:
    "Expected keys that are strings, got something else. Write lines such as model: fast.",
  RESOURCE_EXHAUSTION: TOO_DEEP,
} as const satisfies Partial<Record<ErrorCode, string>>;

function describeYamlFault({ code, message }: YAMLError): string {
  const texts: Partial<Record<ErrorCode, string>> = FAULT_TEXTS;
  return (
    texts[code] ??
    `Expected valid YAML, got an error: ${completeSentence(message)} Put text with a colon or a # in quotes.`
  );
}

interface NodePlace {
  readonly path: string;
  readonly line: number;
  readonly level: number;
}

interface LineContext {
  readonly lines: Map<string, number>;
  readonly lineAt: (offset: number) => number;
  readonly errorAt: FileErrorAt;
}

/**
 * Records the lines of a node and its descendants. Throws for a node that is not plain, or has no
 * value.
 */
function checkYamlNode(
  node: ParsedNode | null,
  { path, line, level }: NodePlace,
  reading: LineContext,
): void {
  const { lines, lineAt, errorAt } = reading;
  const findNodeLine = ({ range }: ParsedNode): number =>
    range === undefined ? line : lineAt(range[0]);
  if (level > MAX_LEVELS) throw errorAt(line, TOO_DEEP);
  checkPlain(node, line, errorAt);
  if (path !== "") lines.set(path, line);
  if (isMap(node)) {
    for (const { key, value } of node.items) {
      const at = findNodeLine(key);
      checkPlain(key, at, errorAt);
      const name = String(isScalar(key) ? key.value : key);
      checkYamlNode(value, { path: `${path}.${name}`, line: at, level: level + 1 }, reading);
    }
  } else if (isSeq(node)) {
    for (const [index, item] of node.items.entries())
      checkYamlNode(
        item,
        { path: `${path}[${index}]`, line: findNodeLine(item), level: level + 1 },
        reading,
      );
  } else if (!isScalar(node) || node.value === null) {
    const field = path === "" ? "the front matter" : path.replace(/^\./, "");
    const message = `Expected ${field} to have a value, got none. Give it one, or leave it out.`;
    throw errorAt(line, message);
  }
}

/** Throws for a node that is not written out: an alias, an anchor or a tag. */
function checkPlain(node: ParsedNode | null, line: number, errorAt: FileErrorAt): void {
  if (node === null) return;
  const mark = describeNodeMark(node);
  if (mark === undefined) return;
  throw errorAt(line, `Expected plain values, got ${mark}. Write the value out, without it.`);
}

function describeNodeMark(node: ParsedNode): string | undefined {
  if (isAlias(node)) return `the alias *${node.source}`;
  if (node.anchor !== undefined) return `the anchor &${node.anchor}`;
  if (node.tag !== undefined) return `the tag ${node.tag.replace(STANDARD_TAGS, "!!")}`;
  return undefined;
}

/** Creates the error for a line of a file. */
export type FileErrorAt = (line: number, message: string, cause?: unknown) => EspalierError;

/** Returns the function that creates the errors of a file. */
export function createFileErrorFactory(file: string): FileErrorAt {
  return (line, message, cause) =>
    new EspalierError({
      code: "invalid_role_file",
      message: `${file}:${line}: ${message}`,
      data: { file, line },
      cause,
    });
}
