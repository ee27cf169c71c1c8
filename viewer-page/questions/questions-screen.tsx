import { useKeys } from "../app/keys.ts";
import { Link } from "../app/link.tsx";
import { Pending } from "../app/problem-notice.tsx";
import type { Inbox } from "../../src/read-model/viewer-data.ts";
import type { Loaded } from "../data/use-loaded.ts";
import { formatQuantity } from "../../src/read-model/amounts.ts";
import { focusQuestion } from "../app/focus.ts";
import { toDraftKey } from "./answer-drafts.ts";
import { QuestionCard } from "./question-card.tsx";
import { useCurrentQuestion } from "./use-current-question.ts";

export function QuestionsScreen({ inbox }: { readonly inbox: Loaded<Inbox> }) {
  const questions = (inbox.value?.questions ?? []).toSorted(
    (left, right) => left.askedAtMs - right.askedAtMs,
  );
  const current = useCurrentQuestion(questions);
  const focusAt = (at: number): void => {
    current.moveTo(at);
    // The focus also scrolls the card into view.
    focusQuestion();
  };
  const moveDown = (): void => focusAt(Math.min(questions.length - 1, current.at + 1));
  const moveUp = (): void => focusAt(Math.max(0, current.at - 1));
  useKeys("screen", {
    j: moveDown,
    ArrowDown: moveDown,
    k: moveUp,
    ArrowUp: moveUp,
    n: () => focusAt(current.at + 1),
  });
  if (inbox.value === undefined)
    return (
      <main class="questions-screen">
        <h1 class="read-aloud" tabIndex={-1}>
          Questions
        </h1>
        <Pending problem={inbox.problem} rows={4} />
      </main>
    );
  const byRun = Map.groupBy(questions, ({ runId }) => runId);
  return (
    <main class="questions-screen">
      <h1 tabIndex={-1}>
        {questions.length === 0
          ? "No open questions"
          : formatQuantity(questions.length, "open question")}
      </h1>
      {questions.length === 0 && (
        <div class="empty">
          <p>
            Calls that need approval or an external result appear here, for all runs of the store.
          </p>
          <p>
            <Link to={{ screen: "runs" }}>All runs</Link>
          </p>
        </div>
      )}
      {inbox.value.isCut && (
        <p class="muted">
          Only the newest active and paused runs were checked. Older runs may have questions, too:
          see their pages.
        </p>
      )}
      {questions.map((question, index) => (
        <QuestionCard
          key={toDraftKey(question)}
          question={question}
          ofRun={byRun.get(question.runId) ?? []}
          isCurrent={index === current.at}
          onFocus={() => current.moveTo(index)}
          hasRunLink
        />
      ))}
    </main>
  );
}
