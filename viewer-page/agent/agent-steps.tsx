import type { AttemptFold, CallFold, StepFold } from "../../src/read-model/step-fold.ts";
import type { AgentDetail, CallDetail } from "../../src/read-model/viewer-data.ts";
import { Link } from "../app/link.tsx";
import { tickMs } from "../data/page-clock.ts";
import { describeCost, formatDuration, formatShortCount } from "../../src/read-model/amounts.ts";
import { Icon, type Sign } from "../text/icon.tsx";
import { Code, Line } from "../text/shown-text.tsx";
import { AgentLink, type OnRun } from "./agent-link.tsx";

interface StepsProps extends OnRun {
  readonly detail: AgentDetail;
}

export function AgentSteps({ detail, state, route }: StepsProps) {
  if (detail.steps.length === 0) return <p class="muted">No steps yet.</p>;
  return (
    <ol class="steps">
      {detail.steps.map((step) => (
        <StepLine
          key={`${step.execution} ${step.number}`}
          step={step}
          detail={detail}
          state={state}
          route={route}
        />
      ))}
    </ol>
  );
}

/** Returns the key of a step in the list. `execution` is set for a step of an earlier execution. */
export function toStepKey(step: number, execution = ""): string {
  return `${execution} ${step}`;
}

function StepLine({ step, detail, state, route }: StepsProps & { readonly step: StepFold }) {
  const { number, execution, startedAtMs, endedAtMs, usage, error } = step;
  const isEarlier = execution < detail.executionCount;
  const to = {
    ...route,
    tab: "steps",
    step: number,
    execution: isEarlier ? String(execution) : undefined,
  } as const;
  return (
    <li>
      <Link to={to} class="step-line" step={toStepKey(number, to.execution)}>
        <span class="step-number">
          {number}
          {detail.executionCount > 1 && <span class="muted">/{execution}</span>}
        </span>
        <span>
          {endedAtMs === undefined
            ? `for ${formatDuration(Math.max(0, tickMs.value - startedAtMs))}`
            : formatDuration(endedAtMs - startedAtMs)}
        </span>
        {usage !== undefined && (
          <span class="muted">
            {formatShortCount(usage.inputTokens)} → {formatShortCount(usage.outputTokens)}
            {usage.cachedInputTokens > 0 &&
              ` · ${formatShortCount(usage.cachedInputTokens)} cached`}
            {` · ${describeCost(usage)}`}
          </span>
        )}
        {error !== undefined && (
          <span class="is-failed step-error">
            <Icon sign="failed" /> <Code text={error.code} />{" "}
            <Line text={error.message} most={500} />
          </span>
        )}
      </Link>
      <Attempts attempts={step.attempts} />
      <ul class="calls">
        {step.calls.map((call) => (
          <li key={call.callId}>
            <CallSummary call={call} state={state} route={route} />
          </li>
        ))}
      </ul>
    </li>
  );
}

/** Shows the failed attempts, without the attempt whose error ended the step. */
export function Attempts({
  attempts = [],
}: {
  readonly attempts?: readonly AttemptFold[] | undefined;
}) {
  if (attempts.length === 0) return null;
  return (
    <ul class="attempts" aria-label="Failed attempts">
      {attempts.map(({ attempt, code, message, delayMs, nextModel }, index) => (
        <li key={index} class="attempt">
          <Icon sign="tool-error" />
          <span>attempt {attempt}</span> <Code text={code} />{" "}
          {message !== "" && (
            <>
              <Line text={message} most={500} />{" "}
            </>
          )}
          <span class="muted">
            {nextModel === undefined ? (
              describeDelay(delayMs)
            ) : (
              <>
                then <Line text={nextModel} />
              </>
            )}
          </span>
        </li>
      ))}
    </ul>
  );
}

function describeDelay(delayMs: number | undefined): string {
  return delayMs === undefined ? "gave up" : `waited ${formatDuration(delayMs)}`;
}

const OUTCOME_SIGNS: Readonly<Record<CallFold["outcome"], Sign>> = {
  open: "working",
  succeeded: "completed",
  retry: "tool-error",
  failed: "failed",
  refused: "refused",
  not_executed: "cancelled",
  cancelled: "cancelled",
};

export function CallSummary({
  call,
  state,
  route,
}: OnRun & { readonly call: CallFold | CallDetail }) {
  const { toolName, outcome, error, durationMs } = call;
  const [child] = call.children ?? [];
  return (
    <span class="call">
      <Icon sign={OUTCOME_SIGNS[outcome]} />
      <Code text={toolName} />
      {outcome !== "succeeded" && (
        <span class={`outcome-${outcome}`}>{outcome.replaceAll("_", " ")}</span>
      )}
      {error !== undefined && (
        <span class="is-failed">
          <Code text={error.name === undefined ? error.code : `${error.code} (${error.name})`} />
        </span>
      )}
      {durationMs !== undefined && <span class="muted">{formatDuration(durationMs)}</span>}
      {child !== undefined && <AgentLink state={state} route={route} index={child} />}
      <Attempts attempts={call.attempts} />
      {error !== undefined && error.message !== "" && (
        <span class="is-failed">
          <Line text={error.message} most={500} />
        </span>
      )}
    </span>
  );
}
