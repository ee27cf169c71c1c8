import { useLayoutEffect, useRef } from "preact/hooks";

import type { QuestionRow } from "../../src/read-model/viewer-data.ts";
import { getContentMode } from "../data/viewer-meta.ts";
import { Since, Until } from "../text/relative-time.tsx";
import { Icon } from "../text/icon.tsx";
import { JsonBlock } from "../text/json-block.tsx";
import { Line, toLine } from "../text/shown-text.tsx";
import { focusQuestion } from "../app/focus.ts";
import { Link } from "../app/link.tsx";
import { ContentOff } from "../agent/content-off.tsx";
import { AnswerForm } from "./answer-form.tsx";

export interface QuestionCardProps {
  readonly question: QuestionRow;
  readonly ofRun: readonly QuestionRow[];
  readonly isCurrent: boolean;
  readonly onFocus?: () => void;
  /** False if the run is already on screen. */
  readonly hasRunLink: boolean;
}

export function QuestionCard({
  question,
  ofRun,
  isCurrent,
  onFocus,
  hasRunLink,
}: QuestionCardProps) {
  const card = useRef<HTMLElement>(null);
  // When an answered question disappears with the focus, the next question gets the focus.
  useLayoutEffect(
    () => () => {
      if (card.current?.contains(document.activeElement) === true) focusQuestion();
    },
    [],
  );
  const { agentPath, toolName, reason } = question;
  return (
    <article
      ref={card}
      onFocusIn={isCurrent ? undefined : onFocus}
      class={`question${isCurrent ? " current" : ""}`}
      id={toCardId(question)}
      tabIndex={-1}
      aria-label={toLine(`${agentPath} asks: ${toolName}`)}
    >
      {hasRunLink && <OfRun question={question} />}
      <CardHeader question={question} />
      {reason !== "" && (
        <p class="why">
          <Line text={reason} most={2_000} />
        </p>
      )}
      {getContentMode() !== false ? <ShownArguments question={question} /> : <ContentOff />}
      {question.rejectedAnswer !== undefined && (
        <p class="why is-failed" role="alert">
          The last answer was rejected. <Line text={question.rejectedAnswer.problem} most={2_000} />
        </p>
      )}
      {hasRunLink && (
        <p class="about">
          <span class="muted">
            task of <Line text={question.role} />:{" "}
          </span>
          <Line text={question.task} most={300} />
        </p>
      )}
      <AnswerForm question={question} ofRun={ofRun} isCurrent={isCurrent} />
    </article>
  );
}

function CardHeader({ question }: Pick<QuestionCardProps, "question">) {
  const { runId, agentId, agentPath, toolName, askedAtMs, deadlineAtMs } = question;
  return (
    <header>
      <Icon sign="asking" />
      <Link to={{ screen: "run", runId, agent: agentId }} class="path">
        <Line text={agentPath} />
      </Link>
      <span class="muted">
        {question.kind === "approval" ? "asks to call" : "waits for the result of"}
      </span>
      <code class="tool-name">
        <Line text={toolName} />
      </code>
      <span class="spacer" />
      <span class="muted">
        waits <Since atMs={askedAtMs} />
      </span>
      {deadlineAtMs !== null && (
        <span class="deadline">
          <Icon sign="waiting" />
          <Until atMs={deadlineAtMs} />
        </span>
      )}
    </header>
  );
}

function OfRun({ question }: { readonly question: QuestionRow }) {
  const { runId, runTitle } = question;
  if (runTitle === undefined) return null;
  return (
    <p class="of-run">
      <span class="muted">run </span>
      <Link to={{ screen: "run", runId }}>
        <Line text={runTitle === "" ? runId : runTitle} />
      </Link>
    </p>
  );
}

export function toCardId({ runId, questionId }: QuestionRow): string {
  return `question-${runId}-${questionId}`;
}

/** Shows the arguments of the call, and the arguments that the model wrote if they differ. */
function ShownArguments({ question }: { readonly question: QuestionRow }) {
  const { arguments: shown, writtenArguments } = question;
  return (
    <>
      <JsonBlock value={shown} />
      {writtenArguments !== undefined && (
        <>
          <p class="label">The schema of the tool transformed this from:</p>
          <JsonBlock value={writtenArguments} />
        </>
      )}
    </>
  );
}
