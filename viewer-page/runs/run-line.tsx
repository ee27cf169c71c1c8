import type { RunRow } from "../../src/read-model/viewer-data.ts";
import { Link } from "../app/link.tsx";
import {
  describeCost,
  formatFullCount,
  formatDuration,
  formatQuantity,
} from "../../src/read-model/amounts.ts";
import { BudgetBar } from "../run/budget-bar.tsx";
import { readTime, computeTime } from "../run/run-time.ts";
import { Since, Until } from "../text/relative-time.tsx";
import { Icon } from "../text/icon.tsx";
import { Code, Line, toLine } from "../text/shown-text.tsx";
import { describeStatus } from "../text/status-words.ts";

export function RunLine({ run, isCursor }: { readonly run: RunRow; readonly isCursor: boolean }) {
  return (
    <li class={`run-line${isCursor ? " cursor" : ""}`} data-run={run.runId}>
      <Link to={{ screen: "run", runId: run.runId }} class="run-link">
        <Icon sign={run.status} />
        <span class="run-name">
          <Line text={run.title === "" ? run.runId : run.title} />
        </span>
        <span class={`run-state is-${run.status}`} title={formatReason(run)}>
          <StatusText run={run} />
        </span>
      </Link>
      <span class="run-budget">
        <BudgetBar run={run} />
      </span>
      <span class="number run-agents">{run.agentCount === undefined ? "" : formatAgents(run)}</span>
      <span class="number run-cost">{run.spent === undefined ? "" : describeCost(run.spent)}</span>
      <span class="number run-time">
        <RunTime run={run} />
      </span>
      <span class="number run-when">
        <Since atMs={run.updatedAtMs} /> ago
      </span>
    </li>
  );
}

/** Shows the time of the run, as its header does. Empty for an ended run that was not read yet. */
function RunTime({ run }: { readonly run: RunRow }) {
  const { status, createdAtMs } = run;
  const known = readTime(run);
  if (known === undefined) return status === "ended" ? null : <Since atMs={createdAtMs} />;
  const time = computeTime(known);
  const atRest = time.idleMs < 1_000 ? undefined : `${formatDuration(time.idleMs)} at rest`;
  return <span title={atRest}>{formatDuration(time.durationMs)}</span>;
}

/** Returns the full reason, for a line that cuts it off. */
function formatReason({ reason, status }: RunRow): string | undefined {
  if (reason === undefined || reason.code === status) return undefined;
  return toLine(`${reason.code}: ${reason.message}`, 500);
}

function formatAgents({
  agentCount: agents = 0,
  running = 0,
  failedAgents = 0,
  ...run
}: RunRow): string {
  const isAtWork = run.owner !== null && run.status !== "lost";
  const failed = failedAgents > 0 ? ` · ${formatFullCount(failedAgents)} failed` : "";
  return running > 0 && isAtWork
    ? `${formatFullCount(running)} of ${formatQuantity(agents, "agent")}${failed}`
    : `${formatQuantity(agents, "agent")}${failed}`;
}

function StatusText({ run }: { readonly run: RunRow }) {
  const { status, reason, owner: leader, updatedAtMs } = run;
  const [question] = run.questions ?? [];
  switch (status) {
    case "input_required":
      if (question === undefined) return <>input required</>;
      return (
        <>
          <Line text={question.agentPath} most={80} /> asks <Code text={question.toolName} /> ·
          waits <Since atMs={question.askedAtMs} />
          {question.deadlineAtMs !== null && (
            <>
              {" "}
              · <Until atMs={question.deadlineAtMs} />
            </>
          )}
          {(run.questions?.length ?? 0) > 1 && ` · ${(run.questions?.length ?? 0) - 1} more`}
        </>
      );
    case "lost":
      return (
        <>
          lost: process {leader?.processId} not responding for <Since atMs={updatedAtMs} />
        </>
      );
    case "waiting":
      return (
        <>
          waits for a process since <Since atMs={updatedAtMs} />
        </>
      );
    case "paused":
      return (
        <>
          paused <Since atMs={updatedAtMs} />
          {reason !== undefined && (
            <>
              {" "}
              · <Code text={reason.code} />
            </>
          )}
        </>
      );
    case "working":
      return (
        <>
          {leader === null || leader.isThisProcess
            ? "working"
            : `working, process ${leader.processId}`}
        </>
      );
    default:
      return (
        <>
          {describeStatus(status)}
          {reason !== undefined && reason.code !== status && (
            <>
              {" "}
              · <Code text={reason.code} /> <Line text={reason.message} most={500} />
            </>
          )}
        </>
      );
  }
}
