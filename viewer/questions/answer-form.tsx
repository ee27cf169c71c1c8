// The stages of an answer. The next step of each is the button or field that has the focus, so Enter leads to the next stage and Escape goes back.

import { useLayoutEffect, useRef } from "preact/hooks";

import type { Answer } from "../../src/protocol/question.ts";
import type { QuestionRow } from "../../src/view/viewer-data.ts";
import { numberOf } from "../../src/view/amounts.ts";
import { useKeys } from "../app/keys.ts";
import { indented } from "../text/json-text.ts";
import { focused } from "../app/focused.ts";
import { Changes } from "../text/changes.tsx";
import { commandText } from "../text/command.ts";
import { Code } from "../text/shown-text.tsx";
import { DENIED, answerDrafts, editable, refusalOf, type Draft } from "./answer-drafts.ts";

interface FormProps {
  readonly question: QuestionRow;
  readonly ofRun: readonly QuestionRow[];
  readonly isCurrent: boolean;
  readonly canAnswer: boolean;
  readonly hasContent: boolean;
}

export function AnswerForm(props: FormProps) {
  const { question, isCurrent, canAnswer, hasContent } = props;
  const draft = answerDrafts.draftOf(question);
  const isMine = isCurrent && canAnswer;
  const isFree = isMine && (draft.at === "none" || draft.at === "refused" || draft.at === "held");
  useKeys("form", {
    a:
      isFree && hasContent && question.kind === "approval"
        ? () => answerDrafts.approve(question)
        : undefined,
    d: isFree ? () => answerDrafts.refuse(question) : undefined,
    m: isFree && hasContent ? () => answerDrafts.edit(question) : undefined,
    Escape: isMine && BACK.has(draft.at) ? () => answerDrafts.drop(question) : undefined,
  });
  const form = useRef<HTMLDivElement>(null);
  const lastStage = useRef(draft.at);
  useLayoutEffect(() => {
    const hasLeft = FOCUSED.has(lastStage.current) && !FOCUSED.has(draft.at);
    lastStage.current = draft.at;
    // The field or button that had the focus is gone.
    if (hasLeft && document.activeElement === document.body)
      form.current?.closest<HTMLElement>(".question")?.focus();
  }, [draft.at]);
  return (
    <div class="answer" ref={form}>
      {stageOf(draft, props)}
    </div>
  );
}

/** Stages that take the focus. */
const FOCUSED: ReadonlySet<Draft["at"]> = new Set(["reason", "edit", "confirm"]);
/** Stages that Escape leaves. */
const BACK: ReadonlySet<Draft["at"]> = new Set(["reason", "edit", "confirm", "held", "refused"]);

function stageOf(draft: Draft, props: FormProps) {
  switch (draft.at) {
    case "none":
      return <Choices {...props} />;
    case "reason":
      return <Reason {...props} text={draft.text} />;
    case "edit":
      return <Edit {...props} text={draft.text} fault={draft.fault} />;
    case "confirm":
      return <Confirm {...props} answer={draft.answer} edited={draft.edited} />;
    case "held":
      return (
        <p class="said-back">
          <span>
            {ANSWER_TEXTS[draft.answer.type].held}: goes with the next answer of this run.
          </span>
          <button type="button" onClick={() => answerDrafts.drop(props.question)}>
            Take back
          </button>
        </p>
      );
    case "sending":
      return <p class="said-back muted">Sending…</p>;
    case "sent":
      return (
        <p class="said-back is-completed" role="status">
          {draft.text}
        </p>
      );
    case "refused":
      return (
        <>
          <p class="said-back is-failed" role="alert">
            {draft.problem.message}
          </p>
          <Choices {...props} />
        </>
      );
  }
}

const ANSWER_TEXTS: Readonly<
  Record<Answer["type"], { readonly send: string; readonly held: string }>
> = {
  approved: { send: "Approve this call", held: "Approved" },
  denied: { send: "Deny this call", held: "Denied" },
  result: { send: "Give this result", held: "Result" },
  failure: { send: "Report this failure", held: "Failure" },
};

function Choices({ question, canAnswer, hasContent }: FormProps) {
  const isApproval = question.kind === "approval";
  if (!canAnswer) {
    const ways = isApproval ? ["approve", "deny"] : ["answer"];
    return (
      <p class="muted">
        This viewer only reads. Answer:{" "}
        {ways.map((way, nth) => (
          <>
            {nth > 0 && ", or "}
            <Code text={commandText(`${way} ${question.questionId}`)} />
          </>
        ))}
      </p>
    );
  }
  return (
    <p class="choices">
      {isApproval && hasContent && (
        <button type="button" onClick={() => answerDrafts.approve(question)}>
          Approve… <kbd>a</kbd>
        </button>
      )}
      <button type="button" onClick={() => answerDrafts.refuse(question)}>
        {isApproval ? "Deny…" : "Failed…"} <kbd>d</kbd>
      </button>
      {hasContent && (
        <button type="button" onClick={() => answerDrafts.edit(question)}>
          {isApproval ? "Modify…" : "Give its result…"} <kbd>m</kbd>
        </button>
      )}
    </p>
  );
}

function Reason({ question, ofRun, text }: FormProps & { readonly text: string }) {
  const isApproval = question.kind === "approval";
  const id = `reason-${question.questionId}`;
  return (
    <form
      class="stage"
      onSubmit={(event) => {
        event.preventDefault();
        void answerDrafts.send(question, refusalOf(question, text), ofRun);
      }}
    >
      <label for={id}>
        {isApproval ? "Why not? The model reads it." : "What failed? The model reads it."}
      </label>
      <input
        id={id}
        ref={focused}
        value={text}
        placeholder={isApproval ? DENIED : "It failed."}
        autocomplete="off"
        onInput={(event) =>
          answerDrafts.set(question, { at: "reason", text: event.currentTarget.value })
        }
      />
      <Buttons question={question} ofRun={ofRun} answer={refusalOf(question, text)} isSubmit />
    </form>
  );
}

function Edit({
  question,
  text,
  fault,
}: FormProps & { readonly text: string; readonly fault: string | undefined }) {
  const id = `edit-${question.questionId}`;
  const review = (): void => answerDrafts.review(question, text);
  return (
    <div class="stage">
      <label for={id}>
        {question.kind === "approval" ? "Arguments, as JSON" : "Result, as JSON"}
      </label>
      <textarea
        id={id}
        ref={focused}
        rows={Math.min(16, Math.max(4, text.split("\n").length))}
        spellcheck={false}
        value={text}
        aria-invalid={fault !== undefined}
        aria-describedby={`${id}-fault`}
        onInput={(event) =>
          answerDrafts.set(question, { at: "edit", text: event.currentTarget.value })
        }
        onKeyDown={(event) => {
          if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          review();
        }}
      />
      <p id={`${id}-fault`} class="is-failed" role="alert">
        {fault}
      </p>
      <p class="choices">
        <button type="button" class="primary" onClick={review}>
          Review <kbd>Ctrl Enter</kbd>
        </button>
        <Back question={question} />
      </p>
    </div>
  );
}

function Confirm({
  question,
  ofRun,
  answer,
  edited,
}: FormProps & { readonly answer: Answer; readonly edited: string | undefined }) {
  return (
    <div class="stage">
      {edited !== undefined && (
        <>
          <p class="label">
            {question.kind === "approval"
              ? "The call will run with these arguments:"
              : "The model will read this result:"}
          </p>
          {question.kind === "approval" ? (
            <Changes from={indented(editable(question))} to={edited} />
          ) : (
            <Changes from="" to={edited} />
          )}
        </>
      )}
      <Buttons question={question} ofRun={ofRun} answer={answer} />
    </div>
  );
}

interface ButtonsProps {
  readonly question: QuestionRow;
  readonly ofRun: readonly QuestionRow[];
  readonly answer: Answer;
  /** Within a form, whose field has the focus. */
  readonly isSubmit?: boolean;
}

function Buttons({ question, ofRun, answer, isSubmit = false }: ButtonsProps) {
  const others = ofRun.filter((other) => other.questionId !== question.questionId);
  const held = others.filter((other) => answerDrafts.draftOf(other).at === "held").length;
  const more = held === 0 ? "" : `, and send ${numberOf(held, "held answer")}`;
  return (
    <p class="choices">
      <button
        type={isSubmit ? "submit" : "button"}
        class={`primary${answer.type === "denied" || answer.type === "failure" ? " danger" : ""}`}
        ref={isSubmit ? null : focused}
        onClick={isSubmit ? undefined : () => void answerDrafts.send(question, answer, ofRun)}
      >
        {ANSWER_TEXTS[answer.type].send}
        {more} <kbd>Enter</kbd>
      </button>
      {others.length > 0 && (
        <button
          type="button"
          onClick={() => answerDrafts.hold(question, answer)}
          title="It goes together with the next answer of this run"
        >
          Hold, to send together
        </button>
      )}
      <Back question={question} />
    </p>
  );
}

function Back({ question }: { readonly question: QuestionRow }) {
  return (
    <button type="button" onClick={() => answerDrafts.drop(question)}>
      Back <kbd>Esc</kbd>
    </button>
  );
}
