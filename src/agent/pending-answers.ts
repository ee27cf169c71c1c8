// PendingAnswers: answers from outside while the run continues and its approver is asked. Owns the
// questions whose callers wait.

import type { QuestionId } from "../protocol/ids.ts";
import type { Answer } from "../protocol/question.ts";

interface Waiting {
  /** Returns the problem of an answer. `undefined` if it fits. */
  readonly findProblem: (answer: Answer) => string | undefined;
  readonly resolve: (answer: Answer) => void;
}

export class PendingAnswers {
  /** Created with the first wait, because most runs ask nothing. */
  #waiting: Map<QuestionId, Waiting> | undefined;
  #askedIds: Set<QuestionId> | undefined;
  #onWait: (() => void) | undefined;

  /** True while a question waits for an answer. */
  get isWaiting(): boolean {
    return this.#waiting !== undefined && this.#waiting.size > 0;
  }

  /** Returns true if the question has waited for an answer since the run began or was resumed. */
  wasAsked(questionId: QuestionId): boolean {
    return this.#askedIds?.has(questionId) === true;
  }

  /** Registers a function that is called whenever a wait begins. */
  onWait(onWait: () => void): void {
    this.#onWait = onWait;
  }

  /** Waits for an answer to this question. Call `leave` once the answer is not needed any more. */
  wait(
    questionId: QuestionId,
    findProblem: Waiting["findProblem"],
  ): { readonly answer: Promise<Answer>; readonly leave: () => void } {
    const { promise: answer, resolve } = Promise.withResolvers<Answer>();
    this.#waiting ??= new Map();
    this.#waiting.set(questionId, { findProblem, resolve });
    this.#askedIds ??= new Set();
    this.#askedIds.add(questionId);
    this.#onWait?.();
    return { answer, leave: () => void this.#waiting?.delete(questionId) };
  }

  /**
   * Resolves the wait for this answer. Returns the problem of an answer that does not fit, and
   * false if nothing waits for it.
   */
  submit(answer: Answer): string | boolean {
    const waiting = this.#waiting?.get(answer.questionId);
    if (waiting === undefined) return false;
    const problem = waiting.findProblem(answer);
    if (problem !== undefined) return problem;
    waiting.resolve(answer);
    return true;
  }
}
