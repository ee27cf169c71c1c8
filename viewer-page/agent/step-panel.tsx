import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import type { AgentDetail, StepDetail } from "../../src/read-model/viewer-data.ts";
import { announce } from "../app/announcer.tsx";
import { useLostFocus } from "../app/focus.ts";
import { useKeys } from "../app/keys.ts";
import { Panel } from "../app/panel.tsx";
import { Pending } from "../app/problem-notice.tsx";
import { Turn } from "../app/turn-button.tsx";
import { replaceRoute, type RunRoute } from "../app/route.ts";
import { api } from "../data/api.ts";
import { useLoaded } from "../data/use-loaded.ts";
import {
  formatFullCount,
  formatDuration,
  formatQuantity,
  formatCost,
} from "../../src/read-model/amounts.ts";
import { Block, Code, Line, Words } from "../text/shown-text.tsx";
import type { OnRun } from "./agent-link.tsx";
import { Attempts } from "./agent-steps.tsx";
import { Facts } from "./facts.tsx";
import { StepCalls } from "./step-calls.tsx";
import { StepRequest } from "./step-request.tsx";

interface StepPanelProps extends OnRun {
  readonly route: RunRoute & { readonly agent: string; readonly step: number };
  readonly detail: AgentDetail;
  readonly version: string;
}

export function StepPanel({ state, route, detail, version }: StepPanelProps) {
  const { runId, agent: agentId, step, execution } = route;
  const [isWhole, setIsWhole] = useState(false);
  const place = { runId, agentId, step, execution };
  const loaded = useLoaded(
    { key: `${runId} ${agentId} ${execution ?? ""} ${step}`, version },
    (signal) => api.step(place, signal),
  );
  const shown = loaded.value;
  const stepCount = shown?.stepCount ?? findLastStep(detail);
  const openStep = (to: number): void => {
    if (to < 1 || to > stepCount) return;
    replaceRoute({ ...route, step: to });
    announce(`step ${to} of ${stepCount}`);
  };
  useKeys("panel", {
    "[": () => openStep(step - 1),
    "]": () => openStep(step + 1),
    w: () => setIsWhole(!isWhole),
    Escape: () => replaceRoute({ ...route, tab: "steps", step: undefined, execution: undefined }),
  });
  return (
    <>
      <Pager step={step} stepCount={stepCount} onGo={openStep}>
        {detail.executionCount > 1 && (
          <span class="muted">
            execution {shown?.execution ?? execution ?? detail.executionCount}
          </span>
        )}
      </Pager>
      {shown === undefined ? (
        <Pending problem={loaded.problem} rows={8} />
      ) : (
        <Panel key={step} name="step">
          <StepBody
            step={shown}
            state={state}
            route={route}
            isWhole={isWhole}
            onWhole={setIsWhole}
          />
        </Panel>
      )}
    </>
  );
}

interface PagerProps {
  readonly step: number;
  readonly stepCount: number;
  readonly onGo: (to: number) => void;
  readonly children: ComponentChildren;
}

function Pager({ step, stepCount, onGo, children }: PagerProps) {
  useLostFocus(".agent-panel .pager", () => document.getElementById("step-title"));
  return (
    <p class="pager">
      <Turn to="Previous step" by="[" disabled={step <= 1} onClick={() => onGo(step - 1)} />
      <b id="step-title" role="heading" aria-level={3} tabIndex={-1}>
        step {step} of {stepCount}
      </b>
      <Turn to="Next step" by="]" disabled={step >= stepCount} onClick={() => onGo(step + 1)} />
      {children}
    </p>
  );
}

function findLastStep({ steps, executionCount: executions }: AgentDetail): number {
  return steps.findLast(({ execution }) => execution === executions)?.number ?? 1;
}

interface StepBodyProps extends OnRun {
  readonly step: StepDetail;
  readonly isWhole: boolean;
  readonly onWhole: (isWhole: boolean) => void;
}

function StepBody({ step, state, route, isWhole, onWhole }: StepBodyProps) {
  return (
    <>
      <StepFacts step={step} />
      <Attempts attempts={step.attempts} />
      {step.error !== undefined && (
        <div class="notice bad">
          <p>
            <Code text={step.error.code} />
          </p>
          <Block text={step.error.message} isProse />
        </div>
      )}
      {step.request !== undefined && (
        <StepRequest
          request={step.request}
          step={step}
          route={route}
          isWhole={isWhole}
          onWhole={onWhole}
        />
      )}
      <h3>Reply</h3>
      {step.refusal !== undefined && (
        <p class="notice">
          The model declined: <Line text={step.refusal} most={4_000} />
        </p>
      )}
      {step.text === "" ? (
        <p class="muted">
          {step.endedAtMs === undefined && step.callDetails.length === 0
            ? "No answer yet."
            : "No text."}
        </p>
      ) : (
        <Words text={step.text} />
      )}
      <StepCalls step={step} state={state} route={route} />
    </>
  );
}

function StepFacts({ step }: { readonly step: StepDetail }) {
  const { usage, timing, context } = step;
  const { parameters } = context;
  const durationMs = step.endedAtMs === undefined ? undefined : step.endedAtMs - step.startedAtMs;
  return (
    <Facts
      facts={[
        ["model", <Line text={`${context.model.provider} · ${context.model.id}`} />],
        usage && ["tokens", formatUsage(usage)],
        usage && ["cost", formatCost(usage)],
        ["time", durationMs === undefined ? "under way" : describeTiming(durationMs, timing)],
        step.finishReason === undefined
          ? undefined
          : ["ended with", <Line text={step.finishReason} />],
        [
          "asked for",
          `at most ${formatQuantity(parameters.maxOutputTokens, "token")}${parameters.temperature === undefined ? "" : `, temperature ${parameters.temperature}`}`,
        ],
        [
          "tools",
          context.toolNames.length === 0 ? (
            "none"
          ) : (
            <Line
              text={`${context.toolNames.length}: ${context.toolNames.join(", ")}`}
              most={600}
            />
          ),
        ],
        ["prompt", <code title="Hash of the instructions">{context.promptHash.slice(0, 12)}</code>],
      ]}
    />
  );
}

function formatUsage(usage: NonNullable<StepDetail["usage"]>): string {
  const cached =
    usage.cachedInputTokens === 0 ? "" : ` (${formatFullCount(usage.cachedInputTokens)} cached)`;
  const thought =
    usage.reasoningTokens === 0 ? "" : ` (${formatFullCount(usage.reasoningTokens)} of reasoning)`;
  const estimated =
    usage.estimatedCalls === 0 ? "" : `, ${formatQuantity(usage.estimatedCalls, "call")} estimated`;
  return `${formatFullCount(usage.inputTokens)} in${cached} · ${formatFullCount(usage.outputTokens)} out${thought}${estimated}`;
}

function describeTiming(durationMs: number, timing: StepDetail["timing"]): string {
  if (timing === undefined) return formatDuration(durationMs);
  const parts = [
    ["model", timing.inferenceMs],
    ["tools", timing.toolsMs],
    ["hooks", timing.hooksMs],
    ["formatting", timing.formattingMs],
  ] as const;
  const spent = parts
    .filter(([, ms]) => ms > 0)
    .map(([name, ms]) => `${name} ${formatDuration(ms)}`);
  return [formatDuration(durationMs), ...spent].join(" · ");
}
