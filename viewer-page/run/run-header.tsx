import type { RunHead } from "../../src/read-model/viewer-data.ts";
import type { FollowedRun } from "../data/followed-run.ts";
import { isAllowed, meta } from "../data/viewer-meta.ts";
import type { RunState } from "../data/run-state.ts";
import {
  describeCost,
  formatFullCount,
  formatDuration,
  formatQuantity,
  formatShortCount,
  describeUnpricedModels,
} from "../../src/read-model/amounts.ts";
import { Since } from "../text/relative-time.tsx";
import { Icon } from "../text/icon.tsx";
import { formatCommand } from "../text/command.ts";
import { Code, Line, toLine } from "../text/shown-text.tsx";
import { describeStatus } from "../text/status-words.ts";
import { Link } from "../app/link.tsx";
import { Turn } from "../app/turn-button.tsx";
import { BudgetBar } from "./budget-bar.tsx";
import type { ErrorStop } from "./error-stops.ts";
import { RunActions } from "./run-actions.tsx";
import { computeTime } from "./run-time.ts";

interface HeaderProps {
  readonly live: FollowedRun;
  readonly state: RunState;
  readonly errors: readonly ErrorStop[];
  readonly errorAt: number;
  readonly onError: (by: 1 | -1) => void;
}

export function RunHeader({ live, state, errors, errorAt, onError }: HeaderProps) {
  const run = state.head.value;
  return (
    <header class="run-header">
      <div class="run-title">
        <span class={`status is-${run.status}`}>
          <Icon sign={run.status} />
          {describeStatus(run.status)}
        </span>
        <h1 tabIndex={-1}>
          <Line text={run.title === "" ? run.runId : run.title} />
        </h1>
        <RunActions run={run} />
      </div>
      <div class="run-facts">
        <Why run={run} live={live} />
        {needsLeader(run) && meta.value !== undefined && !isAllowed("resume") && (
          <span class="fact">
            resume it: <Code text={formatCommand(`resume ${run.runId}`)} />
          </span>
        )}
        <RunFacts run={run} />
        {errors.length > 0 && (
          <ErrorStops state={state} errors={errors} errorAt={errorAt} onError={onError} />
        )}
      </div>
    </header>
  );
}

function Why({ run, live }: { readonly run: RunHead; readonly live: FollowedRun }) {
  const { status, reason, owner: leader } = run;
  if (status === "working" || status === "input_required")
    return (
      <span class="fact">
        {leader === null ? (
          <>
            no owner, last event <Since atMs={run.lastAtMs} /> ago
          </>
        ) : (
          <>
            {leader.isThisProcess ? "run by this server" : `run by process ${leader.processId}`}
            {!leader.isThisProcess && leader.hostname !== "" && (
              <>
                {" "}
                on <Line text={leader.hostname} />
              </>
            )}
            {live.liveness.value === "resting" && ", not followed while the tab was hidden"}
          </>
        )}
      </span>
    );
  if (status === "lost")
    return (
      <span class="fact is-failed">
        process {leader?.processId} not responding for <Since atMs={run.updatedAtMs} />
      </span>
    );
  if (status === "waiting")
    return (
      <span class="fact">
        no owner since <Since atMs={run.updatedAtMs} />
      </span>
    );
  if (reason === undefined || reason.code === "completed") return null;
  return (
    <span class="fact reason" title={toLine(`${reason.code}: ${reason.message}`)}>
      <Code text={reason.code} /> <Line text={reason.message} />
    </span>
  );
}

/** True if no process owns the run and no answer is needed. */
function needsLeader({ status }: RunHead): boolean {
  return status === "waiting" || status === "lost" || status === "paused";
}

function RunFacts({ run }: { readonly run: RunHead }) {
  const { spent } = run;
  const isAtWork = run.owner !== null && !needsLeader(run);
  const { durationMs, idleMs } = computeTime(run);
  return (
    <>
      <span class="fact" title={formatQuantity(spent.totalTokens, "token")}>
        {describeCost(spent)}
        {describeUnpricedModels(run.unpricedModels ?? [])} · {formatShortCount(spent.totalTokens)}{" "}
        tokens
        {spent.unpricedCalls > 0 && (
          <span class="muted">
            {" "}
            · {formatQuantity(spent.unpricedCalls, "call")} without a price
          </span>
        )}
      </span>
      <BudgetBar run={run} />
      <span class="fact">
        {formatQuantity(run.agentCount, "agent")}
        {isAtWork &&
          run.running > run.awaitingBudget &&
          `, ${formatFullCount(run.running - run.awaitingBudget)} running`}
        {isAtWork &&
          run.awaitingBudget > 0 &&
          `, ${formatFullCount(run.awaitingBudget)} waiting for budget`}
      </span>
      <span class="fact">
        {formatDuration(durationMs)}
        {idleMs >= 1_000 && <span class="muted"> ({formatDuration(idleMs)} at rest)</span>}
      </span>
      {run.refusalCount > 0 && (
        <span class="fact mark">
          <Icon sign="refused" /> {formatFullCount(run.refusalCount)} refused
        </span>
      )}
      {run.toolErrorCount > 0 && (
        <span class="fact mark">
          <Icon sign="tool-error" /> {formatQuantity(run.toolErrorCount, "failed call")}
        </span>
      )}
      {run.forkedFrom !== undefined && (
        <span class="fact">
          fork of{" "}
          <Link to={{ screen: "run", runId: run.forkedFrom.runId }}>
            <Code text={run.forkedFrom.runId} />
          </Link>{" "}
          at step {run.forkedFrom.stepNumber}
        </span>
      )}
    </>
  );
}

function ErrorStops({ state, errors, errorAt: at, onError }: Omit<HeaderProps, "live">) {
  const hasCompleted = state.head.value.status === "completed";
  const shown = errors[Math.max(0, at)];
  const word = errors.every(({ isLimit }) => isLimit) ? "limit" : "error";
  const errorSign = hasCompleted ? "tool-error" : "failed";
  return (
    <span class={hasCompleted ? "fact errors in-completed" : "fact errors"}>
      <Icon sign={word === "limit" ? "stopped" : errorSign} />
      <span>
        {at < 0 ? formatQuantity(errors.length, word) : `${word} ${at + 1} of ${errors.length}`}
      </span>
      <Turn to={`Previous ${word}`} by="E" onClick={() => onError(-1)} />
      <Turn to={`Next ${word}`} by="e" onClick={() => onError(1)} />
      {shown !== undefined && (
        <button class="cause" onClick={() => onError(1)} title={toLine(shown.text)}>
          <span>{at <= 0 && (shown.isCause ? "first cause: " : "first: ")}</span>
          <Line text={shown.text} most={2_000} />
        </button>
      )}
    </span>
  );
}
