// The question that shortcuts apply to. It stays the same when other questions appear and
// disappear.

import { useLayoutEffect, useRef, useState } from "preact/hooks";

import type { QuestionRow } from "../../src/read-model/viewer-data.ts";
import { answerDrafts, toDraftKey } from "./answer-drafts.ts";
import { toCardId } from "./question-card.tsx";

/** Returns the current question. If it disappears, its successor in the list becomes current. */
export function useCurrentQuestion(questions: readonly QuestionRow[]) {
  const current = useRef({ id: "", at: 0 });
  const [, redraw] = useState({});
  const last = useRef(questions);
  useLayoutEffect(() => {
    const [before, keys] = [last.current, new Set(questions.map(toDraftKey))];
    last.current = questions;
    const gone = before.filter((question) => !keys.has(toDraftKey(question)));
    if (gone.length === 0) return;
    answerDrafts.noteGone(gone);
    const goneIds = new Set(gone.map(toCardId));
    answerDrafts.noteChanged(questions.filter((question) => goneIds.has(toCardId(question))));
  }, [questions]);
  const { length } = questions;
  const select = (at: number): void => {
    const question = questions[at];
    current.current = { id: question === undefined ? "" : toCardId(question), at };
  };
  const index = questions.findIndex((question) => toCardId(question) === current.current.id);
  select(index === -1 ? Math.min(Math.max(0, current.current.at), length - 1) : index);
  return {
    at: current.current.at,
    /** Selects another question. Positions beyond the ends of the list wrap around. */
    moveTo: (at: number): void => {
      select(length === 0 ? -1 : (at + length) % length);
      redraw({});
    },
  };
}
