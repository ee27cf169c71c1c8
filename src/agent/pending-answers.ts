// PendingAnswers: answers that come from outside while the run goes on and its approver is being asked. Owns the questions for which somebody waits.

import type { QuestionId } from "../protocol/ids.ts";
import type { Answer } from "../protocol/question.ts";

interface Waiting {
  /** What is wrong with an answer; undefined: it fits. */
  readonly problemWith: (answer: Answer) => string | undefined;
  readonly resolve: (answer: Answer) => void;
}

export class PendingAnswers {
  /** Made when somebody first waits: most runs ask nothing. */
  #waiting: Map<QuestionId, Waiting> | undefined;
  #onWait: (() => void) | undefined;

  /** True while somebody waits for an answer. */
  get isWaitedAt(): boolean {
    return this.#waiting !== undefined && this.#waiting.size > 0;
  }

  /** Calls `onWait` whenever somebody begins to wait. */
  onWait(onWait: () => void): void {
    this.#onWait = onWait;
  }

  /** An answer to this question. Call `leave` once none is needed any more. */
  wait(
    questionId: QuestionId,
    problemWith: Waiting["problemWith"],
  ): { readonly answer: Promise<Answer>; readonly leave: () => void } {
    const { promise: answer, resolve } = Promise.withResolvers<Answer>();
    const waiting = (this.#waiting ??= new Map<QuestionId, Waiting>());
    waiting.set(questionId, { problemWith, resolve });
    this.#onWait?.();
    return { answer, leave: () => void waiting.delete(questionId) };
  }

  /** Hands an answer to who waits for it. A text: why it is of no use; false: nobody waits for it. */
  give(answer: Answer): string | boolean {
    const waiting = this.#waiting?.get(answer.questionId);
    if (waiting === undefined) return false;
    const problem = waiting.problemWith(answer);
    if (problem !== undefined) return problem;
    waiting.resolve(answer);
    return true;
  }
}
