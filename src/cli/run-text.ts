// A run as text: how it stands, why, its open questions, its tree and what is left of its budget; or only what went wrong. Pure.

import type { AgentFold, QuestionRow, RunFold, RunHead } from "espalier/view";

import { renderRun } from "../terminal/render-tree.ts";
import { painter, plainText, singleLine } from "../terminal/terminal-text.ts";
import { costText, durationText, numberOf, unpricedText } from "../view/amounts.ts";
import { joinSections } from "./head-of.ts";
import type { OutputStyle } from "./output-style.ts";
import { causeLines, LIMITS_HEADING } from "./rest-text.ts";
import { statusCell } from "./status-text.ts";

/** What is said of a run. */
export interface ShownRunParts {
  readonly fold: RunFold;
  readonly head: RunHead;
  /** What it asks still. */
  readonly questions: readonly QuestionRow[];
  readonly nowMs: number;
}

const MOST_ROWS = 50;

/** The report of a run. */
export function runText(parts: ShownRunParts, style: OutputStyle): string {
  const { fold, head, questions, nowMs } = parts;
  const { startedAtMs, budget, left, refusals, root, end } = fold;
  const tree = renderRun(
    { startedAtMs, time: head, budget, left, refusals, root, end, questions },
    { width: style.width, nowMs, hasColor: style.hasColor },
  );
  return joinSections([headLines(head, style), whyLines(fold), tree]);
}

/** What went wrong in a run: why, and every agent, call and spawn that came to nothing. */
export function errorsText({ fold, head }: ShownRunParts, style: OutputStyle): string {
  const sections = [
    headLines(head, style),
    whyLines(fold),
    section("Agents that did not complete", fold.agents.flatMap(agentLine)),
    section("Calls that failed", fold.agents.flatMap(callLines)),
    section("Spawns that were refused", refusalLines(fold)),
  ];
  const isWell = sections.slice(1).every((lines) => lines.length === 0);
  if (isWell) sections.push(["Nothing went wrong."]);
  return joinSections(sections);
}

function headLines(head: RunHead, { hasColor }: OutputStyle): readonly string[] {
  const { runId, status, reason, leader, title, spent, agents, forkedFrom } = head;
  // Of a run that waits for a process, the reason of the pause before is over.
  const isBrief = reason === undefined || status === "completed" || status === "waiting";
  const { text, style } = statusCell(status, isBrief ? "" : reason.code);
  const paint = painter(hasColor);
  const facts = [
    `began ${new Date(head.startedAtMs).toISOString()}`,
    `lasted ${durationText(head.durationMs)}${restText(head)}`,
    numberOf(agents, "agent"),
    numberOf(spent.totalTokens, "token"),
    `cost ${costText(spent)}${unpricedText(head.unpricedModels ?? [])}`,
    ...(leader === null ? [] : [`led by process ${leader.processId} on ${leader.hostname}`]),
    ...(forkedFrom === undefined
      ? []
      : [`fork of ${forkedFrom.runId} at step ${forkedFrom.stepNumber}`]),
  ];
  return [
    `${singleLine(runId)} ${paint(style, singleLine(text))}`,
    singleLine(title),
    ...(isBrief ? [] : [singleLine(reason.message)]),
    facts.map(singleLine).join(" · "),
  ];
}

/** A rest of less than a second goes unsaid. */
function restText({ restMs }: RunHead): string {
  return restMs < 1_000 ? "" : `, at rest for ${durationText(restMs)} of it`;
}

function whyLines(fold: RunFold): readonly string[] {
  const causes = fold.causes();
  if (causes.length === 0) return [];
  const isBroken = fold.end?.status === "failed" || fold.end?.status === "stopped";
  const isWell = !isBroken && causes.every(({ isLimit }) => isLimit);
  return [isWell ? LIMITS_HEADING : "Why, first cause first:", ...causeLines(causes)];
}

function agentLine({ agentPath, rest, step }: AgentFold): readonly string[] {
  if (rest === undefined || rest.status === "completed" || rest.status === "paused") return [];
  const { code, message } = rest.error ?? rest.reason;
  return [`${agentPath} · step ${step}: ${rest.status} (${code}): ${message}`];
}

function callLines({ agentPath, steps }: AgentFold): readonly string[] {
  return steps.flatMap(({ number, calls }) =>
    calls.flatMap(({ toolName, outcome, errorCode = "", message = "", durationMs }) => {
      if (outcome !== "failed" && outcome !== "retry") return [];
      const took = durationMs === undefined ? "" : `, after ${durationText(durationMs)}`;
      const why = message === "" ? "" : `: ${message}`;
      return [
        `${agentPath} · step ${number} · ${toolName}: ${outcome} (${errorCode})${took}${why}`,
      ];
    }),
  );
}

function refusalLines(fold: RunFold): readonly string[] {
  return fold.refusals.map(({ agent, role, code, message }) => {
    const path = fold.agents[agent]?.agentPath ?? "";
    return `${path} · ${role}: ${code}: ${message}`;
  });
}

function section(title: string, lines: readonly string[]): readonly string[] {
  if (lines.length === 0) return [];
  const more = lines.length > MOST_ROWS ? [`  … ${lines.length - MOST_ROWS} more`] : [];
  const shown = lines.slice(0, MOST_ROWS).map((line) => `  ${singleLine(plainText(line))}`);
  return [`${title} (${lines.length})`, ...shown, ...more];
}
