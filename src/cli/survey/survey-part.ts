// A part of a survey, and the task in words that hands it to a surveyor. Written as the
// instructions of the lead say, and read back the same way: the agent that gets the task knows no more
// than its text.

/** Folders and files to survey, and what to look for in them. */
export interface SurveyPart {
  readonly folders: readonly string[];
  readonly files: readonly string[];
  readonly question: string;
  /** How many subagents may be started for it; Infinity: the task does not say. */
  readonly maxSubagents: number;
}

const QUESTION = "Question: ";
const SUBAGENTS = "Subagents: at most ";
/** Names that would not survive as they are. */
const UNSAFE = /^[\s"-]|\s$|["\\\n\r]/;

/** The task for a surveyor. */
export function taskFor({ folders, files, question, maxSubagents }: SurveyPart): string {
  const bullets = (title: string, paths: readonly string[]): readonly string[] =>
    paths.length === 0 ? [] : [title, ...paths.map((path) => `- ${written(path)}`)];
  return [
    `Survey ${[...folders, ...files].map(written).join(", ")}.`,
    ...bullets("Folders:", folders),
    ...bullets("Files:", files),
    ...(maxSubagents === Infinity ? [] : [SUBAGENTS + maxSubagents]),
    QUESTION + question.replace(/\s+/g, " "),
  ].join("\n");
}

/** The part that a task hands over. A task that names none is about the whole folder. */
export function partOf(task: string): SurveyPart {
  const folders: string[] = [];
  const files: string[] = [];
  let question = task;
  let maxSubagents = Infinity;
  let list: string[] | undefined;
  for (const line of task.split("\n")) {
    if (line === "Folders:") list = folders;
    else if (line === "Files:") list = files;
    else if (line.startsWith(QUESTION)) question = line.slice(QUESTION.length);
    else if (line.startsWith(SUBAGENTS)) maxSubagents = countIn(line.slice(SUBAGENTS.length));
    else if (line.startsWith("- ")) list?.push(read(line.slice(2)));
  }
  const isNamed = folders.length + files.length > 0;
  return { folders: isNamed ? folders : ["."], files, question, maxSubagents };
}

function countIn(text: string): number {
  const count = Number.parseInt(text, 10);
  return Number.isNaN(count) ? Infinity : count;
}

/** Words in quotation marks: what a question asks to look for. */
export function wordsToFind(question: string): readonly string[] {
  const quoted = [...question.matchAll(/"([^"\n]+)"|“([^“”\n]+)”|`([^`\n]+)`/g)];
  return [
    ...new Set(quoted.map(([, straight, curly, code]) => straight ?? curly ?? code ?? "")),
  ].slice(0, MAX_WORDS);
}

const MAX_WORDS = 3;

function written(path: string): string {
  return UNSAFE.test(path) ? JSON.stringify(path) : path;
}

function read(bullet: string): string {
  const path = unquoted(bullet).replace(/^(?:\.\/+)+|(?<!\/)\/+$/g, "");
  return path === "" ? "." : path;
}

function unquoted(bullet: string): string {
  if (!bullet.startsWith('"')) return bullet;
  try {
    return String(JSON.parse(bullet));
  } catch {
    return bullet;
  }
}
