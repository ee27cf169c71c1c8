// Asks the person at the terminal what a run asks: one question at a time, whole, and never answered by one key. What a call was edited to is
// shown again before it goes.

import type { Writable } from "node:stream";

import {
  approve,
  deny,
  giveResult,
  reportFailure,
  type Answer,
  type Approver,
  type Question,
} from "espalier";
import { plainText } from "espalier/terminal";

import { jsonOrText, objectIn } from "./json-text.ts";
import type { Shell } from "./shell.ts";

type Prompts = typeof import("@clack/prompts");

/** What stands around a prompt. */
interface PromptPlace {
  readonly shell: Shell;
  /** Clears the terminal for a prompt, and gives what puts things back. */
  readonly makeRoom: () => () => void;
  /** Ctrl-C, which a prompt gets in place of the process. */
  readonly interrupt: () => void;
}

/** An approver that asks at the terminal. A question that is left open pauses the run. */
export function askingPerson(place: PromptPlace): Approver {
  let last: Promise<unknown> = Promise.resolve();
  return (question, { signal }) => {
    const answer = last.then(async () => {
      if (signal.aborted) return undefined;
      const putBack = place.makeRoom();
      try {
        return await askOne(question, { ...place, signal });
      } finally {
        putBack();
      }
    });
    last = answer.catch(() => {});
    return answer;
  };
}

interface Asking extends PromptPlace {
  readonly signal: AbortSignal;
}

async function askOne(question: Question, asking: Asking): Promise<Answer | undefined> {
  const prompts = await import("@clack/prompts");
  const { agentPath, toolName, reason } = question;
  const output: Writable = asking.shell.stderr;
  prompts.note(
    plainText(JSON.stringify(question.arguments, null, 2)),
    plainText(`${agentPath} asks: ${toolName}`),
    { output },
  );
  prompts.log.message(plainText(reason), { output });
  return question.kind === "approval"
    ? await approval(question, asking, prompts)
    : await resultFor(question, asking, prompts);
}

/** `undefined`: the question was withdrawn, or left open. */
async function chosen<Value extends string>(
  message: string,
  options: readonly { readonly value: Value; readonly label: string }[],
  { shell, signal, interrupt }: Asking,
  prompts: Prompts,
): Promise<Value | undefined> {
  const value: unknown = await prompts.select<string>({
    message,
    options: options.map(({ value, label }) => ({ value, label })),
    ...{ input: shell.stdin, output: shell.stderr, signal },
  });
  if (prompts.isCancel(value) && !signal.aborted) interrupt();
  return options.find((option) => option.value === value)?.value;
}

async function written(
  message: string,
  initialValue: string,
  check: (text: string) => string | undefined,
  { shell, signal, interrupt }: Asking,
  prompts: Prompts,
): Promise<string | undefined> {
  const text: unknown = await prompts.text({
    message,
    initialValue,
    validate: (value) => check(value ?? ""),
    ...{ input: shell.stdin, output: shell.stderr, signal },
  });
  if (typeof text === "string") return text;
  if (!signal.aborted) interrupt();
  return undefined;
}

// The first of each is what Enter alone does.
const APPROVALS = [
  { value: "leave", label: "Leave it open: the run pauses" },
  { value: "approve", label: "Approve" },
  { value: "deny", label: "Deny, with a reason" },
  { value: "edit", label: "Edit the arguments, then approve" },
] as const;

async function approval(
  question: Question,
  asking: Asking,
  prompts: Prompts,
): Promise<Answer | undefined> {
  const choice = await chosen(`May ${question.toolName} run?`, APPROVALS, asking, prompts);
  switch (choice) {
    case "approve":
      return approve(question);
    case "deny": {
      const why = await written("Why not? The model reads it.", "", isSaid, asking, prompts);
      return why === undefined ? undefined : deny(question, why);
    }
    case "edit":
      return await edited(question, asking, prompts);
    default:
      return undefined;
  }
}

async function edited(
  question: Question,
  asking: Asking,
  prompts: Prompts,
): Promise<Answer | undefined> {
  const before = JSON.stringify(question.arguments);
  const text = await written("Arguments as JSON", before, isJsonObject, asking, prompts);
  const input = text === undefined ? undefined : objectIn(text);
  if (input === undefined) return undefined;
  prompts.note(plainText(JSON.stringify(input, null, 2)), `${question.toolName}, edited`, {
    output: asking.shell.stderr,
  });
  const choice = await chosen(
    `Run ${question.toolName} with these?`,
    [
      { value: "leave", label: "No, leave the question open" },
      { value: "approve", label: "Yes, with these arguments" },
    ],
    asking,
    prompts,
  );
  return choice === "approve" ? approve(question, { arguments: input }) : undefined;
}

async function resultFor(
  question: Question,
  asking: Asking,
  prompts: Prompts,
): Promise<Answer | undefined> {
  const choice = await chosen(
    `What came of ${question.toolName}?`,
    [
      { value: "leave", label: "Leave it open: the run pauses" },
      { value: "result", label: "Give its result" },
      { value: "failure", label: "It failed" },
    ],
    asking,
    prompts,
  );
  if (choice === "result") {
    const text = await written("Its result: JSON, or text", "", isSaid, asking, prompts);
    return text === undefined ? undefined : giveResult(question, jsonOrText(text));
  }
  if (choice !== "failure") return undefined;
  const why = await written("What went wrong? The model reads it.", "", isSaid, asking, prompts);
  return why === undefined ? undefined : reportFailure(question, why);
}

function isSaid(text: string): string | undefined {
  return text.trim() === "" ? "Say it in words." : undefined;
}

function isJsonObject(text: string): string | undefined {
  return objectIn(text) === undefined ? 'Write a JSON object, as {"path": "a.txt"}.' : undefined;
}
