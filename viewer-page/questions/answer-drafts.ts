// State of answers that a user is writing, from the question to the reply of the server. An answer
// contains the fingerprint of the call on screen, so it cannot apply to another call. It is never
// sent by a single key. An edited call is shown once more, as it will run, before it is sent.

import { batch, signal } from "@preact/signals";

import { isJsonObject } from "../../src/kernel/json.ts";
import type { Answer } from "../../src/protocol/question.ts";
import type { QuestionRow } from "../../src/read-model/viewer-data.ts";
import { announce } from "../app/announcer.tsx";
import { api, createKey, Problem, toProblem } from "../data/api.ts";
import { indentJson, readJson } from "../text/json-text.ts";

export type Draft =
  | { readonly at: "none" }
  | { readonly at: "reason"; readonly text: string }
  | { readonly at: "edit"; readonly text: string; readonly fault?: string | undefined }
  | { readonly at: "confirm"; readonly answer: Answer; readonly edited?: string | undefined }
  /** Sent together with the next answer of the run. */
  | { readonly at: "held"; readonly answer: Answer }
  | { readonly at: "sending"; readonly answer: Answer }
  /**
   * `lastRejected` is the number of the previous rejected answer. A different number later means
   * that this answer was rejected, too.
   */
  | { readonly at: "sent"; readonly text: string; readonly lastRejected: number | undefined }
  | { readonly at: "refused"; readonly problem: Problem };

/** An answer that was too late, or no longer fits its question, with the problem. */
export interface FailedAnswer {
  readonly question: QuestionRow;
  readonly problem: Problem;
}

const NONE: Draft = { at: "none" };
const CHANGED = new Problem(
  "arguments_changed",
  "The arguments of this call have changed. Read them before you answer.",
  0,
);
/** Time that a user needs to notice that another question has replaced the previous one. */
const NOTICE_MS = 500;

/** Owns the drafts of all questions, independent of the screen. */
class AnswerDrafts {
  readonly #drafts = signal<ReadonlyMap<string, Draft>>(new Map());
  /** The last rejected answer. Its question may no longer be on screen. */
  readonly failedAnswer = signal<FailedAnswer | undefined>(undefined);
  /** Idempotency keys of send attempts. The same answers are sent again under the same key. */
  readonly #keys = new Map<string, string>();
  #lostAtMs = -Infinity;

  getDraft(question: QuestionRow): Draft {
    const draft = this.#drafts.value.get(toDraftKey(question)) ?? NONE;
    return draft.at === "sent" && draft.lastRejected !== question.rejectedAnswer?.number
      ? NONE
      : draft;
  }

  set(question: QuestionRow, draft: Draft): void {
    this.#drafts.value = new Map(this.#drafts.value).set(toDraftKey(question), draft);
  }

  drop(question: QuestionRow): void {
    this.set(question, NONE);
  }

  noteGone(gone: readonly QuestionRow[]): void {
    const isLost = gone.some((question) => !isSent(this.getDraft(question)));
    if (isLost) this.#lostAtMs = performance.now();
  }

  /** Reports that the arguments of these questions have changed, and discards their drafts. */
  noteChanged(changed: readonly QuestionRow[]): void {
    for (const question of changed) this.set(question, { at: "refused", problem: CHANGED });
  }

  /**
   * Returns true for a moment after a question that was not answered on this page has disappeared.
   * A key or click in that moment may have been meant for it.
   */
  hasJustLost(): boolean {
    return performance.now() - this.#lostAtMs < NOTICE_MS;
  }

  approve(question: QuestionRow): void {
    if (question.kind !== "approval") return;
    this.set(question, { at: "confirm", answer: { type: "approved", ...toReference(question) } });
  }

  refuse(question: QuestionRow): void {
    this.set(question, { at: "reason", text: "" });
  }

  edit(question: QuestionRow): void {
    this.set(question, {
      at: "edit",
      text: question.kind === "approval" ? indentJson(getEditableArguments(question)) : "",
    });
  }

  /** Shows an edited answer as it will be sent, or the problem with it. */
  review(question: QuestionRow, text: string): void {
    const read = readJson(text);
    if ("fault" in read) {
      this.set(question, { at: "edit", text, fault: `This is not valid JSON: ${read.fault}` });
      return;
    }
    if (question.kind === "external") {
      const answer: Answer = { type: "result", ...toReference(question), result: read.value };
      this.set(question, { at: "confirm", answer, edited: indentJson(read.value) });
    } else if (isJsonObject(read.value)) {
      const answer: Answer = { type: "approved", ...toReference(question), arguments: read.value };
      this.set(question, { at: "confirm", answer, edited: indentJson(read.value) });
    } else this.set(question, { at: "edit", text, fault: "Arguments must be an object: { … }." });
  }

  hold(question: QuestionRow, answer: Answer): void {
    this.set(question, { at: "held", answer });
  }

  async send(question: QuestionRow, answer: Answer, ofRun: readonly QuestionRow[]): Promise<void> {
    const heldAnswers = ofRun.flatMap((other) => {
      const draft = this.getDraft(other);
      return draft.at === "held" && toDraftKey(other) !== toDraftKey(question)
        ? [{ question: other, answer: draft.answer }]
        : [];
    });
    const all = [{ question, answer }, ...heldAnswers];
    this.#setAll(all, (entry) => ({ at: "sending", answer: entry.answer }));
    const answers = all.map((entry) => entry.answer);
    const about = JSON.stringify(answers);
    const key = this.#keys.get(about) ?? createKey();
    this.#keys.set(about, key);
    try {
      const { hasOwner, openQuestions: open } = await api.act(question.runId, {
        key,
        type: "answer",
        answers,
      });
      // Sending the same answer later is a new request.
      this.#keys.delete(about);
      const text = describeReceipt(hasOwner, open?.length ?? 0);
      this.#setAll(all, (entry) => ({
        at: "sent",
        text,
        lastRejected: entry.question.rejectedAnswer?.number,
      }));
      announce(text);
    } catch (error) {
      const problem = toProblem(error);
      this.#setAll(all, ({ answer: refused }) => createRefusedDraft(refused, problem));
      if (problem.code === "invalid_answer") this.failedAnswer.value = { question, problem };
    }
  }

  #setAll<One extends { readonly question: QuestionRow }>(
    all: readonly One[],
    draftFor: (entry: One) => Draft,
  ): void {
    batch(() => all.forEach((entry) => this.set(entry.question, draftFor(entry))));
  }
}

function isSent({ at }: Draft): boolean {
  return at === "sending" || at === "sent";
}

/** Returns the editor with the refused arguments, so that they can be corrected. */
function createRefusedDraft(answer: Answer, problem: Problem): Draft {
  const edited = answer.type === "approved" ? answer.arguments : undefined;
  return edited === undefined || problem.code !== "invalid_answer"
    ? { at: "refused", problem }
    : { at: "edit", text: indentJson(edited), fault: problem.message };
}

export const answerDrafts = new AnswerDrafts();

/** Text of a denial without a reason. */
export const DENIED = "The call was not approved.";

export function createRefusal(question: QuestionRow, text: string): Answer {
  const words = text.trim();
  return question.kind === "approval"
    ? { type: "denied", ...toReference(question), reason: words === "" ? DENIED : words }
    : { type: "failure", ...toReference(question), message: words === "" ? "It failed." : words };
}

function describeReceipt(hasOwner: boolean, open: number): string {
  if (!hasOwner) return "Answered. The run continues once a process owns it.";
  return open === 0
    ? "Answered. The run continues."
    : `Answered. ${open} more of this run ${open === 1 ? "is" : "are"} open.`;
}

/** The identity of a question. A question whose arguments have changed is another question. */
export function toDraftKey({ runId, questionId, argumentsHash }: QuestionRow): string {
  return `${runId} ${questionId} ${argumentsHash}`;
}

/** Returns the arguments to edit: as the model wrote them, before parsing by the schema. */
export function getEditableArguments({ arguments: shown, writtenArguments = shown }: QuestionRow) {
  return writtenArguments;
}

function toReference({ questionId, argumentsHash }: QuestionRow) {
  return { questionId, argumentsHash };
}
