import { useEffect, useState } from "preact/hooks";

import type { QuestionRow } from "../../src/read-model/viewer-data.ts";
import { announceNow } from "../app/announcer.tsx";
import { focusQuestion } from "../app/focus.ts";
import { Turn } from "../app/turn-button.tsx";
import { useKeys } from "../app/keys.ts";
import { formatFullCount } from "../../src/read-model/amounts.ts";
import { toLine } from "../text/shown-text.tsx";
import { toDraftKey } from "./answer-drafts.ts";
import { QuestionCard } from "./question-card.tsx";
import { useCurrentQuestion } from "./use-current-question.ts";

export function QuestionsBanner({ questions }: { readonly questions: readonly QuestionRow[] }) {
  useNews(questions);
  const { at: shown, moveTo } = useCurrentQuestion(questions);
  const focusNext = (): void => {
    moveTo(shown + 1);
    focusQuestion();
  };
  useKeys("screen", { n: questions.length > 0 ? focusNext : undefined });
  const question = questions[shown];
  if (question === undefined) return null;
  return (
    <section class="banner" aria-label="Open questions">
      {questions.length > 1 && (
        <p class="pager">
          <b>{formatFullCount(questions.length)} questions</b>
          <Turn to="Previous question" onClick={() => moveTo(shown - 1)} />
          <span>
            {shown + 1} of {questions.length}
          </span>
          <Turn to="Next question" by="n" onClick={() => moveTo(shown + 1)} />
        </p>
      )}
      <QuestionCard
        key={toDraftKey(question)}
        question={question}
        ofRun={questions}
        isCurrent
        hasRunLink={false}
      />
    </section>
  );
}

/** Announces each new question at once. */
export function useNews(questions: readonly QuestionRow[]): void {
  const [known] = useState(() => new Set<string>());
  useEffect(() => {
    for (const question of questions) {
      const { agentPath, toolName } = question;
      if (known.has(toDraftKey(question))) continue;
      known.add(toDraftKey(question));
      announceNow(toLine(`${agentPath} asks: ${toolName}`));
    }
  }, [questions]);
}
