import type { AgentDetail } from "../../src/read-model/viewer-data.ts";
import { getContentMode } from "../data/viewer-meta.ts";
import { tickMs } from "../data/page-clock.ts";
import {
  formatCost,
  formatFullCount,
  formatDuration,
  formatQuantity,
} from "../../src/read-model/amounts.ts";
import { Meter, computeUses } from "../run/budget-bar.tsx";
import { formatMoment } from "../text/relative-time.tsx";
import { Icon } from "../text/icon.tsx";
import { JsonBlock } from "../text/json-block.tsx";
import { Block, Code, Line, Words } from "../text/shown-text.tsx";
import { AgentLink, type OnRun } from "./agent-link.tsx";
import { ContentOff } from "./content-off.tsx";
import { Facts } from "./facts.tsx";

interface OverviewProps extends OnRun {
  readonly detail: AgentDetail;
}

export function AgentOverview({ detail, state, route }: OverviewProps) {
  const { reason, error, text, output } = detail;
  // If all questions are answered, the page has no open question of the run.
  const isAnswered = reason?.code === "input_required" && state.questions.value.length === 0;
  const isOver = reason?.code === "completed" || isAnswered;
  return (
    <>
      {error !== undefined && (
        <div class="notice bad">
          <p>
            <Code text={error.code} />
          </p>
          <Block text={error.message} isProse />
        </div>
      )}
      {error === undefined && reason !== undefined && !isOver && (
        <div class="notice">
          <p>
            <Code text={reason.code} /> <Line text={reason.message} most={2_000} />
          </p>
        </div>
      )}
      <h3>Task</h3>
      {getContentMode() === false ? <ContentOff /> : <Words text={detail.task} />}
      {output !== undefined && (
        <>
          <h3>Result</h3>
          <JsonBlock value={output} />
        </>
      )}
      {text !== undefined && text !== "" && (
        <>
          <h3>Last text</h3>
          <Words text={text} />
        </>
      )}
      <Amounts detail={detail} />
      <Origin detail={detail} state={state} route={route} />
      {detail.refusals.length > 0 && (
        <>
          <h3>{formatQuantity(detail.refusals.length, "refused subagent")}</h3>
          <ul class="plain">
            {detail.refusals.map((refusal, index) => (
              <li key={index}>
                <Icon sign="refused" /> <Line text={refusal.role} /> <Code text={refusal.code} />{" "}
                <Line text={refusal.message} />
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

function Amounts({ detail }: Pick<OverviewProps, "detail">) {
  const { budget, used, reason } = detail;
  // A used-up limit is not a problem for an agent that has completed.
  const isCalm = reason?.code === "completed";
  const left = Object.fromEntries(
    Object.entries(budget).map(([axis, limit]) => [axis, limit - (used[axis] ?? 0)]),
  );
  const uses = computeUses(budget, left);
  return (
    <>
      <h3>Used</h3>
      <table class="amounts">
        <thead>
          <tr>
            <td />
            <th scope="col">tokens</th>
            <th scope="col">cost</th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row">its own</th>
            <td>{formatFullCount(detail.own.totalTokens)}</td>
            <td>{formatCost(detail.own)}</td>
          </tr>
          <tr>
            <th scope="row">with all below it</th>
            <td>{formatFullCount(detail.subtree.totalTokens)}</td>
            <td>{formatCost(detail.subtree)}</td>
          </tr>
        </tbody>
      </table>
      {detail.subtree.unpricedCalls > 0 && (
        <p class="muted">
          {formatQuantity(detail.subtree.unpricedCalls, "model call")} of these without a known
          price.
        </p>
      )}
      {uses.length > 0 && (
        <>
          <p class="muted limits-head">Own use of its limits, without subagents:</p>
          <ul class="plain limits">
            {uses.map(({ label, used, limit, share }) => (
              <li key={label}>
                <span class="muted">{label}</span>
                <Meter share={share} label={`${label}: ${used} of ${limit}`} isCalm={isCalm} />
                <span>{`${used} of ${limit}`}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

function Origin({ detail, state, route }: OverviewProps) {
  const { startedAtMs, endedAtMs } = detail;
  const index = state.findIndex(detail.agentId) ?? -1;
  const parent = state.agents[index]?.[0] ?? -1;
  const lastMs = endedAtMs ?? tickMs.value;
  const children = state.getChildren(index).length;
  return (
    <>
      <h3>Agent</h3>
      <Facts
        facts={[
          ["role", <Line text={detail.role} />],
          ["model", <Line text={`${detail.provider} · ${detail.model}`} />],
          ["started", formatMoment(startedAtMs, lastMs)],
          [
            endedAtMs === undefined ? "for" : "took",
            formatDuration(Math.max(0, lastMs - startedAtMs)),
          ],
          ["steps", formatFullCount(detail.steps.length)],
          detail.executionCount > 1
            ? ["executions", formatFullCount(detail.executionCount)]
            : undefined,
          parent >= 0
            ? ["started by", <AgentLink state={state} route={route} index={parent} />]
            : undefined,
          children > 0 ? ["subagents", formatFullCount(children)] : undefined,
          ["id", <Code text={detail.agentId} />],
        ]}
      />
    </>
  );
}
