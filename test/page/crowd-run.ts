// Generates a run of thousands of agents.

import type { RunSnapshot } from "../../src/read-model/viewer-data.ts";
import { snapshotFor, type AgentSketch, type SpanSketch } from "./run-sketch.ts";

/** Returns `count` agents in a tree of three levels, with ten spans each; some are working. */
export function crowdRun(count: number): RunSnapshot {
  const agents: AgentSketch[] = [
    {
      parent: -1,
      name: "lead",
      task: "Survey the code.",
      activity: "delegating",
      note: "37 subagents",
      own: 11_000,
      tree: 9_100_000,
      step: 3,
      spans: [
        ["chat", 0, 9_000],
        ["wait", 9_000, -1],
      ],
    },
  ];
  const surveyors = Math.max(1, Math.floor(count / 50));
  for (let at = 0; at < surveyors && agents.length < count; at += 1)
    agents.push(crowdAgent(0, "surveyor", at, surveyors));
  for (let at = 0; agents.length < count; at += 1)
    agents.push(crowdAgent(1 + (at % surveyors), "reader", at, count));
  return snapshotFor({
    runId: "crowd-5000",
    title: "lead: survey the code",
    status: "working",
    agents,
  });
}

function crowdAgent(parent: number, role: string, at: number, of: number): AgentSketch {
  const fromMs = 9_000 + Math.floor((at / of) * 480_000);
  const isOpen = at % 29 === 0;
  const hasFailed = at % 211 === 7;
  const length = 30_000 + (at % 7) * 8_000;
  const slice = length / 10;
  const spans = Array.from({ length: 10 }, (_none, place): SpanSketch => {
    const begin = Math.floor(fromMs + place * slice);
    const kind =
      (["queue", "chat", "tool", "chat", "tool", "chat", "retry", "chat", "tool", "chat"] as const)[
        place
      ] ?? "chat";
    const isLast = place === 9;
    return [
      kind,
      begin,
      isOpen && isLast ? -1 : Math.floor(begin + slice * 0.9),
      isLast && hasFailed ? "failed" : isOpen && isLast ? "open" : "ok",
      Math.ceil((place + 1) / 2),
    ];
  });
  return {
    parent,
    name: `${role}#${at + 1}`,
    task: `Survey part ${at + 1} of the code, and say what it is for.`,
    activity: hasFailed
      ? "failed"
      : isOpen
        ? at % 58 === 0
          ? "thinking"
          : "calling"
        : "completed",
    note: hasFailed ? "error" : isOpen && at % 58 !== 0 ? "read" : "",
    fromMs,
    ...(isOpen && !hasFailed ? {} : { toMs: fromMs + length }),
    step: 5,
    own: 1_500 + (at % 11) * 90,
    tree: role === "surveyor" ? 90_000 : 1_500 + (at % 11) * 90,
    toolErrors: hasFailed ? 1 : 0,
    spans,
  };
}
