// An agent in short: why it ended as it did, its task, what it has used of what it was given, and its last text.

import type { AgentDetail, ViewerMeta } from "../../src/view/viewer-data.ts";
import type { RunRoute } from "../app/route.ts";
import { tickMs } from "../data/page-clock.ts";
import type { RunState } from "../data/run-state.ts";
import { costText, countText, durationText, numberOf } from "../../src/view/amounts.ts";
import { Meter, usesOf } from "../run/budget-bar.tsx";
import { momentText } from "../text/ago.tsx";
import { Icon } from "../text/icon.tsx";
import { JsonBlock } from "../text/json-block.tsx";
import { Block, Code, Line } from "../text/shown-text.tsx";
import { Words } from "../text/words.tsx";
import { AgentLink } from "./agent-link.tsx";
import { ContentOff } from "./content-off.tsx";
import { Facts } from "./facts.tsx";

interface OverviewProps {
  readonly detail: AgentDetail;
  readonly state: RunState;
  readonly route: RunRoute;
  readonly meta: ViewerMeta | undefined;
}

export function AgentOverview({ detail, state, route, meta }: OverviewProps) {
  const { reason, error, text, output } = detail;
  // The page has no open question of a run whose questions are all answered.
  const isAnswered = reason?.code === "answers_needed" && state.questions.value.length === 0;
  const isOver = reason?.code === "completed" || isAnswered;
  const isContentOff = meta?.content === false;
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
      {isContentOff ? <ContentOff /> : <Words text={detail.task} />}
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
      <Amounts detail={detail} isCalm={reason?.code === "completed"} />
      <Origin detail={detail} state={state} route={route} />
      {detail.refusals.length > 0 && (
        <>
          <h3>{numberOf(detail.refusals.length, "refused subagent")}</h3>
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

interface AmountsProps {
  readonly detail: AgentDetail;
  /** True if the agent has completed: then a limit that is used up is no trouble. */
  readonly isCalm: boolean;
}

function Amounts({ detail, isCalm }: AmountsProps) {
  const { budget, used } = detail;
  const left = Object.fromEntries(
    Object.entries(budget).map(([axis, limit]) => [axis, limit - (used[axis] ?? 0)]),
  );
  const uses = usesOf(budget, left);
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
            <td>{countText(detail.own.totalTokens)}</td>
            <td>{costText(detail.own)}</td>
          </tr>
          <tr>
            <th scope="row">with all below it</th>
            <td>{countText(detail.subtree.totalTokens)}</td>
            <td>{costText(detail.subtree)}</td>
          </tr>
        </tbody>
      </table>
      {detail.subtree.unpricedCalls > 0 && (
        <p class="muted">
          {numberOf(detail.subtree.unpricedCalls, "model call")} of these without a known price.
        </p>
      )}
      {uses.length > 0 && (
        <p class="muted limits-head">Used by itself, without its subagents, of its limits:</p>
      )}
      {uses.length > 0 && (
        <ul class="plain limits">
          {uses.map(({ label, used, limit, share }) => (
            <li key={label}>
              <span class="axis-name">{label}</span>
              <Meter share={share} label={`${label}: ${used} of ${limit}`} isCalm={isCalm} />
              <span>
                {used} of {limit}
              </span>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function Origin({ detail, state, route }: Omit<OverviewProps, "meta">) {
  const { startedAtMs, endedAtMs } = detail;
  const index = state.indexOf(detail.agentId) ?? -1;
  const parent = state.agents[index]?.[0] ?? -1;
  const lastMs = endedAtMs ?? tickMs.value;
  const children = state.childrenOf(index).length;
  return (
    <>
      <h3>Agent</h3>
      <Facts
        facts={[
          ["role", <Line text={detail.role} />],
          ["model", <Line text={`${detail.provider} · ${detail.model}`} />],
          ["started", momentText(startedAtMs, lastMs)],
          [
            endedAtMs === undefined ? "for" : "took",
            durationText(Math.max(0, lastMs - startedAtMs)),
          ],
          ["steps", countText(detail.steps.length)],
          detail.executions > 1 ? ["executions", countText(detail.executions)] : undefined,
          parent >= 0
            ? ["started by", <AgentLink state={state} route={route} index={parent} />]
            : undefined,
          children > 0 ? ["subagents", countText(children)] : undefined,
          ["id", <Code text={detail.agentId} />],
        ]}
      />
    </>
  );
}
