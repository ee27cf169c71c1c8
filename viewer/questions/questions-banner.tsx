// The open questions of the run on screen, above its tree: one is shown whole, and how many there are.

import { useEffect, useState } from "preact/hooks";

import type { QuestionRow, ViewerMeta } from "../../src/view/viewer-data.ts";
import { announceNow } from "../app/announcer.tsx";
import { focusQuestion } from "../app/focused.ts";
import { useKeys } from "../app/keys.ts";
import { countText } from "../../src/view/amounts.ts";
import { lineOf } from "../text/shown-text.tsx";
import { draftKey } from "./answer-drafts.ts";
import { QuestionCard } from "./question-card.tsx";
import { useCurrentQuestion } from "./use-current-question.ts";

interface BannerProps {
  readonly questions: readonly QuestionRow[];
  readonly canAnswer: boolean;
  readonly content: ViewerMeta["content"];
}

export function QuestionsBanner({ questions, canAnswer, content }: BannerProps) {
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
          <b>{countText(questions.length)} questions</b>
          <button
            type="button"
            class="small"
            aria-label="Previous question"
            onClick={() => moveTo(shown - 1)}
          >
            ‹
          </button>
          <span>
            {shown + 1} of {questions.length}
          </span>
          <button
            type="button"
            class="small"
            aria-label="Next question"
            title="Next question: n"
            onClick={() => moveTo(shown + 1)}
          >
            ›
          </button>
        </p>
      )}
      <QuestionCard
        key={draftKey(question)}
        question={question}
        ofRun={questions}
        isCurrent
        canAnswer={canAnswer}
        content={content}
        hasRunLink={false}
      />
    </section>
  );
}

/** Says at once who asks what, when a question is new. */
export function useNews(questions: readonly QuestionRow[]): void {
  const [known] = useState(() => new Set<string>());
  useEffect(() => {
    for (const question of questions) {
      const { agentPath, toolName } = question;
      if (known.has(draftKey(question))) continue;
      known.add(draftKey(question));
      announceNow(lineOf(`${agentPath} asks: ${toolName}`));
    }
  }, [questions]);
}
