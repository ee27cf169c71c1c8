// Asks the person at the terminal the questions of a run: one at a time, in full, and never
// answered by a single key. An edited call is shown again before it is approved.

import * as prompts from "@clack/prompts";
import {
  approve,
  deny,
  provideResult,
  provideError,
  type Answer,
  type Approver,
  type JsonValue,
  type Question,
} from "espalier";
import { stripControlCharacters } from "espalier/terminal";

import { formatShortLine } from "../terminal/terminal-text.ts";
import { formatJsonLine, parseJsonOrText, formatJson, parseJsonObject } from "./json-text.ts";
import { printNotice, readAuthor, type Shell } from "./shell.ts";

/** Environment of a prompt. */
export interface PromptPlace {
  readonly shell: Shell;
  /** Clears the terminal for a prompt. The returned function restores it. */
  readonly makeRoom: () => () => void;
  /** Handles Ctrl-C, which a prompt receives in place of the process. */
  readonly interrupt: () => void;
}

/** Returns an approver that asks at the terminal. A question that is left open pauses the run. */
export function createTerminalApprover(place: PromptPlace): Approver {
  let last: Promise<unknown> = Promise.resolve();
  return (question, { signal }) => {
    const answer = last.then(async () => {
      if (signal.aborted) return undefined;
      const putBack = place.makeRoom();
      try {
        return await new Asking(place, question, signal).answer();
      } finally {
        putBack();
      }
    });
    last = answer.catch(() => {});
    return answer;
  };
}

interface Choice<Value extends string> {
  readonly value: Value;
  readonly label: string;
}

// Enter alone selects the first choice.
const APPROVALS: readonly Choice<"leave" | "approve" | "deny" | "edit">[] = [
  { value: "leave", label: "Leave it open and pause the run" },
  { value: "approve", label: "Approve" },
  { value: "deny", label: "Deny, with a reason" },
  { value: "edit", label: "Edit the arguments, then approve" },
];
const CONFIRMATIONS: readonly Choice<"leave" | "approve">[] = [
  { value: "leave", label: "No: leave the question open" },
  { value: "approve", label: "Yes, with these arguments" },
];
const RESULTS: readonly Choice<"leave" | "result" | "failure">[] = [
  { value: "leave", label: "Leave it open and pause the run" },
  { value: "result", label: "Provide its result" },
  { value: "failure", label: "Report a failure" },
];

/** Maximum length of a text in a prompt, which lays out each character at every key press. */
const LONGEST_IN_PROMPT = 10_000;
const LONGEST_NAME = 100;

/** Asks one question at the terminal. */
class Asking {
  readonly #place: PromptPlace;
  readonly #question: Question;
  readonly #signal: AbortSignal;
  readonly #author: { readonly by?: string };

  constructor(place: PromptPlace, question: Question, signal: AbortSignal) {
    this.#place = place;
    this.#question = question;
    this.#signal = signal;
    this.#author = readAuthor(place.shell);
  }

  /** Returns the answer. `undefined` if the question is left open or was withdrawn. */
  async answer(): Promise<Answer | undefined> {
    const { agentPath, toolName, reason, kind } = this.#question;
    this.#show(`${agentPath} asks: ${toolName}`, this.#question.arguments);
    if (reason.length > LONGEST_IN_PROMPT)
      printNotice(this.#place.shell, stripControlCharacters(reason));
    else prompts.log.message(stripControlCharacters(reason), { output: this.#place.shell.stderr });
    return kind === "approval" ? await this.#askForApproval() : await this.#askForResult();
  }

  async #askForApproval(): Promise<Answer | undefined> {
    const question = this.#question;
    const isEditable = formatJsonLine(question.arguments).length <= LONGEST_IN_PROMPT;
    const choices = APPROVALS.filter(({ value }) => isEditable || value !== "edit");
    const choice = await this.#choose(`May ${shortenToolName(question)} run?`, choices);
    if (choice === "approve") return approve(question, this.#author);
    if (choice === "edit") return await this.#askForArguments();
    if (choice !== "deny") return undefined;
    const why = await this.#readText("Reason for the denial (the model reads it):");
    return why === undefined ? undefined : deny(question, why, this.#author);
  }

  async #askForArguments(): Promise<Answer | undefined> {
    const { arguments: shown, writtenArguments = shown } = this.#question;
    const before = formatJsonLine(writtenArguments);
    const text = await this.#readText("Arguments as JSON", before, (input) =>
      parseJsonObject(input) === undefined
        ? 'Write a JSON object, for example {"path": "a.txt"}.'
        : undefined,
    );
    const input = text === undefined ? undefined : parseJsonObject(text);
    if (input === undefined) return undefined;
    this.#show(`${this.#question.toolName}, edited`, input);
    const choice = await this.#choose("Run it with these arguments?", CONFIRMATIONS);
    return choice === "approve"
      ? approve(this.#question, { arguments: input, ...this.#author })
      : undefined;
  }

  async #askForResult(): Promise<Answer | undefined> {
    const question = this.#question;
    const choice = await this.#choose(
      `What is the outcome of ${shortenToolName(question)}?`,
      RESULTS,
    );
    if (choice === "result") {
      const text = await this.#readText("Result (JSON or text):");
      return text === undefined
        ? undefined
        : provideResult(question, parseJsonOrText(text), this.#author);
    }
    if (choice !== "failure") return undefined;
    const why = await this.#readText("Failure message (the model reads it):");
    return why === undefined ? undefined : provideError(question, why, this.#author);
  }

  #show(title: string, value: JsonValue): void {
    const { shell } = this.#place;
    const text = formatJson(value);
    const heading = formatShortLine(title);
    if (text.length > LONGEST_IN_PROMPT) printNotice(shell, `${heading}\n${text}`);
    else prompts.note(text, heading, { output: shell.stderr });
  }

  async #choose<Value extends string>(
    message: string,
    choices: readonly Choice<Value>[],
  ): Promise<Value | undefined> {
    const options: { value: string; label: string }[] = choices.map((choice) => ({ ...choice }));
    const value = await this.#prompt((common) =>
      prompts.select<string>({ message, options, ...common }),
    );
    return choices.find((choice) => choice.value === value)?.value;
  }

  async #readText(
    message: string,
    initialValue = "",
    problemWith: (text: string) => string | undefined = requireText,
  ): Promise<string | undefined> {
    const validate = (text: string | undefined): string | undefined => problemWith(text ?? "");
    return await this.#prompt((common) =>
      prompts.text({ message, initialValue, validate, ...common }),
    );
  }

  /**
   * Returns the value of a prompt, or `undefined` if the prompt was withdrawn or left by Ctrl-C.
   * Ctrl-C is passed on to the run.
   */
  async #prompt(
    open: (common: prompts.CommonOptions) => Promise<string | symbol>,
  ): Promise<string | undefined> {
    const { stdin, stderr } = this.#place.shell;
    // A prompt listens to its signal after its end, and closes the terminal of the next prompt.
    const withdrawal = new AbortController();
    const withdraw = (): void => withdrawal.abort();
    if (this.#signal.aborted) return undefined;
    this.#signal.addEventListener("abort", withdraw);
    const value = await open({ input: stdin, output: stderr, signal: withdrawal.signal });
    this.#signal.removeEventListener("abort", withdraw);
    if (typeof value === "string") return value;
    if (!this.#signal.aborted) this.#place.interrupt();
    return undefined;
  }
}

function shortenToolName({ toolName }: Question): string {
  return formatShortLine(toolName, LONGEST_NAME);
}

function requireText(text: string): string | undefined {
  return text.trim() === "" ? "Enter some text." : undefined;
}
