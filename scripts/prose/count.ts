// Counts the words and forms that make names, texts and documents hard to read. The counts are a thermometer. Writing rules:
// CONTRIBUTING.md.

import { readFileSync } from "node:fs";

import { readComments, readCommentLines } from "./read-comments.ts";
import { readCode, readTestTitles, type Code } from "./read-code.ts";

type Files = ReadonlyMap<string, string>;

/** The texts that are counted, by file. */
export interface ProseTexts {
  readonly sources: Files;
  readonly tests: Files;
  readonly documents: Files;
  readonly decisions: Files;
  readonly changelog: string;
  readonly readme: string;
}

export interface ProseCount {
  readonly name: string;
  readonly value: number;
  /** Granularity of the bound, so that a small edit elsewhere does not exceed it. */
  readonly grain: number;
  /** True if more is better. */
  readonly isMinimum?: true;
}

const MAX_COLUMNS = 100;
const MAX_WORDS = 30;
/** Per 1,000 words. */
const WORDS = {
  what: /\bwhat\b/gi,
  "of it, of them": /\bof (it|them|one|that|those|its own)\b/gi,
  "say, tell": /\b(say|says|said|tell|tells|told)\b/gi,
  stand: /\b(stand|stands|stood)\b/gi,
  "one that, those that": /\b(one|those|all) (that|who|which)\b/gi,
  "is none, is no": /\b(is|are|was) (none|no)\b/gi,
};
const BAD_START =
  /^(What|Who|Whose|Those|One|Of|So many|So much|The same|That|It|None|Nor|Also|Nothing of)\b/;
const SENTENCE_END =
  /(?<=[.!?:;])["')*`_]*\s+|\n{2,}|<br>|\n\s*(?=[-*#|>\d])|\s[|·]\s|\s(?=[-*@]\s?\w)/;
/** `xOf`, `xOfY`, `xIn`, `xFor`, unless a verb comes first. */
const PREPOSITION = /[a-z](Of|In|At|On|By)([A-Z]|$)|(For|From)$/;
const PARTICIPLE = /(ed|ught|wn|ade|eld|ept)$/;
const PREDICATE = /^(is|has|can|should)[A-Z]/;
const INVARIANT = /^\/\/ ([A-Z]\d{1,2})\. /gm;

const VERBS: ReadonlySet<string> = new Set(
  readFileSync(`${import.meta.dirname}/verbs.txt`, "utf8").split(/\s+/),
);

/** Returns the counts, in the order in which they are printed. */
export function countProse(prose: ProseTexts): readonly ProseCount[] {
  const { sources, tests, documents, decisions, changelog, readme } = prose;
  const code = [...sources].map(([file, source]) => readCode(file, source));
  const comments = readAll(sources, readComments);
  const commentLines = readAll(sources, readCommentLines);
  const titles = readAll(tests, readTestTitles);
  return [
    ...countWords("comments", comments, 0.5),
    countShare("comments that begin with a pronoun, %", comments, beginsBadly),
    countShare("comment lines over 100 columns, %", commentLines, isLongLine),
    ...countWords(
      "messages",
      code.flatMap(({ texts }) => texts),
      0.5,
    ),
    ...countWords("test titles", titles, 0.25),
    countShare("test titles that begin with a pronoun, %", titles, beginsBadly),
    ...countWords("documents", [...documents.values()].map(readMarkdown), 0.25),
    ...countWords("decisions", [...decisions.values()].map(readMarkdown), 0.5),
    ...countWords("CHANGELOG", [readMarkdown(changelog)], 0.5),
    ...countNames(code),
    {
      name: "invariants stated in several files",
      value: countRepeated([...sources.values()].map(readInvariants)),
      grain: 1,
    },
    {
      name: "examples in docstrings",
      value: readAll(sources, (source) => source.match(/@example/g) ?? []).length,
      grain: 25,
      isMinimum: true,
    },
    { name: "README: words", value: countAllWords(readme), grain: 50 },
    { name: "README: line of the first npm install", value: findInstallLine(readme), grain: 5 },
  ];
}

function readAll(files: Files, read: (text: string) => readonly string[]): readonly string[] {
  return [...files.values()].flatMap(read).filter((text) => text !== "");
}

/** Counts the hard words per 1,000 words, and the sentences that are too long. */
function countWords(kind: string, texts: readonly string[], grain: number): readonly ProseCount[] {
  const all = texts.join(" \n ");
  const thousands = countAllWords(all) / 1000;
  const long = texts.flatMap((text) => text.split(SENTENCE_END)).filter(isLongSentence);
  return [
    ...Object.entries(WORDS).map(([name, pattern]) => ({
      name: `${kind}: ${name}`,
      value: roundToTenth((all.match(pattern) ?? []).length / thousands),
      grain,
    })),
    { name: `${kind}: sentences over ${MAX_WORDS} words`, value: long.length, grain: 1 },
  ];
}

function countShare(
  name: string,
  texts: readonly string[],
  isBad: (text: string) => boolean,
): ProseCount {
  return { name, value: getPercent(texts.filter(isBad).length, texts.length), grain: 0.5 };
}

/** Counts names as other projects do: verbs first, no prepositions, one name for one thing. */
function countNames(code: readonly Code[]): readonly ProseCount[] {
  const functions = code.map((file) => file.functions);
  const names = [...new Set(functions.flat())].filter(
    (name) => !/^[A-Z]/.test(name) && !PREDICATE.test(name),
  );
  const prepositional = names.filter(hasPreposition);
  const verbal = names.filter((name) => startsWithVerb(name) && !prepositional.includes(name));
  const ofNames = (list: readonly string[]): number => getPercent(list.length, names.length);
  return [
    { name: "functions named by a preposition, %", value: ofNames(prepositional), grain: 0.5 },
    {
      name: "functions named by a participle, %",
      value: ofNames(names.filter(isParticiple)),
      grain: 0.5,
    },
    {
      name: "functions that begin with a verb, %",
      value: ofNames(verbal),
      grain: 1,
      isMinimum: true,
    },
    { name: "function names in several files", value: countRepeated(functions), grain: 5 },
    {
      name: "type names in several files",
      value: countRepeated(code.map(({ types }) => types)),
      grain: 1,
    },
  ];
}

function hasPreposition(name: string): boolean {
  return PREPOSITION.test(name) && !(splitName(name).length > 2 && startsWithVerb(name));
}

function isParticiple(name: string): boolean {
  const words = splitName(name);
  return words.length <= 2 && PARTICIPLE.test(words.at(-1) ?? "") && !startsWithVerb(name);
}

function startsWithVerb(name: string): boolean {
  return VERBS.has(splitName(name)[0] ?? "");
}

function splitName(name: string): readonly string[] {
  return name
    .replaceAll(/([A-Z])/g, " $1")
    .toLowerCase()
    .split(" ");
}

function readInvariants(source: string): readonly string[] {
  return [...source.matchAll(INVARIANT)].map(([, code = ""]) => code);
}

function countRepeated(namesByFile: readonly (readonly string[])[]): number {
  const all = namesByFile.flatMap((names) => [...new Set(names)]);
  return new Set(all.filter((name, index) => all.indexOf(name) !== index)).size;
}

/** Returns the prose of a Markdown text, without code, addresses and hidden comments. */
function readMarkdown(text: string): string {
  return text
    .replaceAll(/```[\s\S]*?```/g, "\n\n")
    .replaceAll(/<!--[\s\S]*?-->/g, "\n\n")
    .replaceAll(/\]\([^)]*\)/g, "]");
}

function beginsBadly(text: string): boolean {
  return BAD_START.test(text);
}

function isLongLine(line: string): boolean {
  return line.length > MAX_COLUMNS;
}

function isLongSentence(sentence: string): boolean {
  return countAllWords(sentence.trim()) > MAX_WORDS;
}

function findInstallLine(readme: string): number {
  const lines = readme.split("\n");
  const index = lines.findIndex((line) => /npm (install|i|add) espalier/.test(line));
  return (index === -1 ? lines.length : index) + 1;
}

function countAllWords(text: string): number {
  return text.split(/\s+/).length;
}

function getPercent(part: number, whole: number): number {
  return whole === 0 ? 0 : roundToTenth((100 * part) / whole);
}

function roundToTenth(value: number): number {
  return Math.round(10 * value) / 10;
}
