// One question: who asks, for which call, with all its arguments, and the answer from the first key to what the server said.

import type { QuestionRow } from "../../src/view/viewer-data.ts";
import { Since, Until } from "../text/ago.tsx";
import { Icon } from "../text/icon.tsx";
import { indented } from "../text/json-text.ts";
import { Block, Line, lineOf } from "../text/shown-text.tsx";
import { Link } from "../app/link.tsx";
import { ContentOff } from "../agent/content-off.tsx";
import { AnswerForm } from "./answer-form.tsx";

export interface QuestionCardProps {
  readonly question: QuestionRow;
  /** All open ones of its run, this one included. */
  readonly ofRun: readonly QuestionRow[];
  /** Keys act on it. */
  readonly isCurrent: boolean;
  readonly canAnswer: boolean;
  /** False: its arguments are not sent, and a user cannot approve what is not on the screen. */
  readonly hasContent: boolean;
  /** False: the run is on screen already. */
  readonly hasRunLink: boolean;
}

export function QuestionCard({
  question,
  ofRun,
  isCurrent,
  canAnswer,
  hasContent,
  hasRunLink,
}: QuestionCardProps) {
  const { runId, agentId, agentPath, toolName, reason, askedAtMs, deadlineAtMs } = question;
  return (
    <article
      class={`question${isCurrent ? " current" : ""}`}
      id={cardId(question)}
      tabIndex={-1}
      aria-label={lineOf(`${agentPath} asks: ${toolName}`)}
    >
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
      {reason !== "" && (
        <p class="why">
          <Line text={reason} most={2_000} />
        </p>
      )}
      {hasContent ? <ShownArguments question={question} /> : <ContentOff />}
      {question.vainAnswer !== undefined && (
        <p class="why is-failed" role="alert">
          The last answer came to nothing. <Line text={question.vainAnswer.problem} most={2_000} />
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
      <AnswerForm
        question={question}
        ofRun={ofRun}
        isCurrent={isCurrent}
        canAnswer={canAnswer}
        hasContent={hasContent}
      />
    </article>
  );
}

export function cardId({ runId, questionId }: QuestionRow): string {
  return `question-${runId}-${questionId}`;
}

/** The arguments with which the call runs, and those that the model wrote if these are others. */
function ShownArguments({ question }: { readonly question: QuestionRow }) {
  const { arguments: shown, writtenArguments } = question;
  return (
    <>
      <Block text={indented(shown)} />
      {writtenArguments !== undefined && (
        <>
          <p class="label">The schema of the tool made this of:</p>
          <Block text={indented(writtenArguments)} />
        </>
      )}
    </>
  );
}
