// The stages of an answer. Ctrl Enter leads to the next stage, Escape back. Typed text contains
// neither, and the page never focuses the button that sends, so typing sends no answer.

import { useLayoutEffect, useRef } from "preact/hooks";

import type { Answer } from "../../src/protocol/question.ts";
import type { QuestionRow } from "../../src/read-model/viewer-data.ts";
import { formatQuantity } from "../../src/read-model/amounts.ts";
import { useKeys } from "../app/keys.ts";
import { isAllowed, getContentMode } from "../data/viewer-meta.ts";
import { announce } from "../app/announcer.tsx";
import { indentJson } from "../text/json-text.ts";
import { Changes } from "../text/text-changes.tsx";
import { formatCommand } from "../text/command.ts";
import { Code, Line } from "../text/shown-text.tsx";
import {
  DENIED,
  answerDrafts,
  getEditableArguments,
  createRefusal,
  type Draft,
} from "./answer-drafts.ts";

interface FormProps {
  readonly question: QuestionRow;
  readonly ofRun: readonly QuestionRow[];
  readonly isCurrent: boolean;
}

export function AnswerForm(props: FormProps) {
  const { question, isCurrent } = props;
  const draft = answerDrafts.getDraft(question);
  const isMine = isCurrent && isAllowed("answer");
  const isFree = isMine && (draft.at === "none" || draft.at === "refused" || draft.at === "held");
  const form = useRef<HTMLDivElement>(null);
  /** True from the key that opens a stage until the stage is rendered. */
  const isOpening = useRef(false);
  /** Returns the handler of a key that opens a stage, or returns to an open one. */
  const createKeyHandler = (stage: Draft["at"], open: () => void): (() => unknown) | undefined => {
    if (!isFree && !(isMine && draft.at === stage)) return undefined;
    return () => {
      if (answerDrafts.hasJustLost()) return;
      isOpening.current = isFree;
      if (isFree) open();
      else focusStage(form.current);
    };
  };
  const isStaged = isMine && STAGES.has(draft.at);
  useKeys("form", {
    a: isApprovable(question)
      ? createKeyHandler("confirm", () => answerDrafts.approve(question))
      : undefined,
    d: createKeyHandler("reason", () => answerDrafts.refuse(question)),
    m: isEditable(question)
      ? createKeyHandler("edit", () => answerDrafts.edit(question))
      : undefined,
    Escape: isMine && BACK.has(draft.at) ? () => answerDrafts.drop(question) : undefined,
    // Enter must not reach the rows of the screen while an answer is open.
    Enter: isStaged ? () => announce("Ctrl Enter sends the answer") : undefined,
  });
  const lastStage = useRef(draft.at);
  useLayoutEffect(() => {
    const last = lastStage.current;
    lastStage.current = draft.at;
    // Skipped when the form appears: a question that replaces another keeps its stage.
    if (last === draft.at) return;
    const isOwnKey = isOpening.current;
    isOpening.current = false;
    const card = form.current?.closest<HTMLElement>(".question");
    const { activeElement } = document;
    const isElsewhere = activeElement !== document.body && card?.contains(activeElement) !== true;
    if (isElsewhere && !isOwnKey) return;
    if (STAGES.has(draft.at)) focusStage(form.current);
    // The focused field or button was removed.
    else if (STAGES.has(last)) card?.focus();
  }, [draft.at]);
  const proceed = (): void => {
    if (answerDrafts.hasJustLost()) return;
    if (draft.at === "edit") answerDrafts.review(question, draft.text);
    const answer = toAnswer(question, draft);
    if (answer !== undefined) void answerDrafts.send(question, answer, props.ofRun);
  };
  return (
    <div
      class="answer"
      ref={form}
      onKeyDown={(event) => {
        const isOwnKey = event.target instanceof Element && event.target.matches("button, a");
        if (event.key !== "Enter" || event.repeat || isOwnKey) return;
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        proceed();
      }}
    >
      {renderStage(draft, props)}
    </div>
  );
}

/** Focuses the field of the open stage, or the stage itself, which is labelled with the answer. */
function focusStage(form: HTMLElement | null): void {
  const [field, stage] = [form?.querySelector("input, textarea"), form?.querySelector(".stage")];
  const element = field ?? stage;
  if (element instanceof HTMLElement) element.focus();
}

/** Returns the answer that a stage would send. `undefined` if it sends none. */
function toAnswer(question: QuestionRow, draft: Draft): Answer | undefined {
  if (draft.at === "confirm") return draft.answer;
  return draft.at === "reason" ? createRefusal(question, draft.text) : undefined;
}

const STAGES: ReadonlySet<Draft["at"]> = new Set(["reason", "edit", "confirm"]);
const BACK: ReadonlySet<Draft["at"]> = new Set(["reason", "edit", "confirm", "held", "refused"]);

function renderStage(draft: Draft, props: FormProps) {
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
          <button onClick={() => answerDrafts.drop(props.question)}>Take back</button>
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
            <Line text={draft.problem.message} most={2_000} />
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
  result: { send: "Provide this result", held: "Result" },
  failure: { send: "Report this failure", held: "Failure" },
};

/** Returns false if the arguments are not on screen. */
function isApprovable({ kind }: QuestionRow): boolean {
  return getContentMode() !== false && kind === "approval";
}

/** Returns false for redacted arguments, because the redaction would be sent as the arguments. */
function isEditable({ kind }: QuestionRow): boolean {
  const content = getContentMode();
  return content === true || (content === "redacted" && kind === "external");
}

function Choices({ question }: FormProps) {
  const isApproval = question.kind === "approval";
  if (!isAllowed("answer")) {
    const ways = isApproval ? ["approve", "deny"] : ["answer"];
    return (
      <p class="muted">
        This viewer is read-only. Answer with:{" "}
        {ways.map((way, nth) => (
          <>
            {nth > 0 && ", or "}
            <Code text={formatCommand(`${way} ${question.questionId}`)} />
          </>
        ))}
      </p>
    );
  }
  return (
    <p class="choices">
      {isApprovable(question) && (
        <button onClick={() => answerDrafts.approve(question)}>
          Approve… <kbd>a</kbd>
        </button>
      )}
      <button onClick={() => answerDrafts.refuse(question)}>
        {isApproval ? "Deny…" : "Failed…"} <kbd>d</kbd>
      </button>
      {isEditable(question) && (
        <button onClick={() => answerDrafts.edit(question)}>
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
    <div class="stage">
      <label for={id}>
        {isApproval
          ? "Reason for the denial (the model reads it)"
          : "Failure message (the model reads it)"}
      </label>
      <input
        id={id}
        value={text}
        placeholder={isApproval ? DENIED : "It failed."}
        autocomplete="off"
        onInput={(event) =>
          answerDrafts.set(question, { at: "reason", text: event.currentTarget.value })
        }
      />
      <Buttons question={question} ofRun={ofRun} answer={createRefusal(question, text)} />
    </div>
  );
}

function Edit({
  question,
  text,
  fault,
}: FormProps & { readonly text: string; readonly fault: string | undefined }) {
  const id = `edit-${question.questionId}`;
  return (
    <div class="stage">
      <label for={id}>
        {question.kind === "approval" ? "Arguments, as JSON" : "Result, as JSON"}
      </label>
      <textarea
        id={id}
        rows={Math.min(16, Math.max(4, text.split("\n").length))}
        spellcheck={false}
        value={text}
        aria-invalid={fault !== undefined}
        aria-describedby={`${id}-fault`}
        onInput={(event) =>
          answerDrafts.set(question, { at: "edit", text: event.currentTarget.value })
        }
      />
      <p id={`${id}-fault`} class="is-failed" role="alert">
        {fault !== undefined && <Line text={fault} most={2_000} />}
      </p>
      <p class="choices">
        <button class="primary" onClick={() => answerDrafts.review(question, text)}>
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
  const { send } = ANSWER_TEXTS[answer.type];
  return (
    <div class="stage" role="group" tabIndex={-1} aria-label={`${send}: Ctrl Enter sends it`}>
      {edited !== undefined && (
        <>
          <p class="label">
            {question.kind === "approval"
              ? "The call will run with these arguments:"
              : "The model will read this result:"}
          </p>
          {question.kind === "approval" ? (
            <Changes from={indentJson(getEditableArguments(question))} to={edited} />
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
}

function Buttons({ question, ofRun, answer }: ButtonsProps) {
  const others = ofRun.filter((other) => other.questionId !== question.questionId);
  const heldCount = others.filter((other) => answerDrafts.getDraft(other).at === "held").length;
  const more = heldCount === 0 ? "" : `, and send ${formatQuantity(heldCount, "held answer")}`;
  return (
    <p class="choices">
      <button
        class={`primary${answer.type === "denied" || answer.type === "failure" ? " danger" : ""}`}
        onClick={({ detail }) => {
          // The second click of a double click was meant for the button that opened the stage.
          if (detail > 1 || answerDrafts.hasJustLost()) return;
          void answerDrafts.send(question, answer, ofRun);
        }}
      >
        {ANSWER_TEXTS[answer.type].send}
        {more} <kbd>Ctrl Enter</kbd>
      </button>
      {others.length > 0 && (
        <button
          onClick={({ detail }) => {
            if (detail > 1 || answerDrafts.hasJustLost()) return;
            answerDrafts.hold(question, answer);
          }}
          title="Sent together with the next answer of this run"
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
    <button onClick={() => answerDrafts.drop(question)}>
      Back <kbd>Esc</kbd>
    </button>
  );
}
