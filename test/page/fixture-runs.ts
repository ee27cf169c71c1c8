// Hand-made runs for the page, in every state that a run can be in.

import { parseId, type RunId } from "../../src/protocol/ids.ts";
import type { RunSnapshot } from "../../src/read-model/viewer-data.ts";
import {
  agentId,
  BEGUN_MS,
  NOW_MS,
  questionOf,
  snapshotFor,
  type AgentSketch,
} from "./run-sketch.ts";

const READ_ERROR = "ENOENT: no such file: src/orchestrator/model.ts. Use list first.";

/** A failed survey: the lead failed because a tool of one subagent failed. */
export function failedRun(): RunSnapshot {
  const runId = "audit-7f2c";
  const readers = Array.from({ length: 14 }, (_none, at): AgentSketch => {
    const fromMs = 12_000 + at * 4_000;
    return {
      parent: 0,
      name: `reader#${at + 1}`,
      task: `Read part ${at + 1} of the ledger and say what does not add up.`,
      activity: at === 9 ? "failed" : "completed",
      note: at === 9 ? "error" : "",
      fromMs,
      toMs: fromMs + 16_000 + (at % 5) * 3_000,
      step: 3,
      own: 9_000 + at * 700,
      toolErrors: at === 9 ? 3 : at === 4 ? 1 : 0,
      spans: [
        ["chat", fromMs, fromMs + 5_000, "ok", 1],
        ["tool", fromMs + 5_000, fromMs + 6_200, at === 9 || at === 4 ? "failed" : "ok", 1],
        ["chat", fromMs + 6_200, fromMs + 12_000, "ok", 2],
        ["tool", fromMs + 12_000, fromMs + 12_900, at === 9 ? "failed" : "ok", 2],
        [
          "chat",
          fromMs + 13_000,
          fromMs + 16_000 + (at % 5) * 3_000,
          at === 9 ? "failed" : "ok",
          3,
        ],
      ],
    };
  });
  return snapshotFor({
    runId,
    title: "lead: audit the ledger of the harbour",
    status: "failed",
    head: {
      reason: {
        code: "error",
        message: "The subagent reader#10 failed, and the role bears no failed subagent.",
      },
    },
    agents: [
      {
        parent: -1,
        name: "lead",
        task: "Audit the ledger of the harbour: find what does not add up, and why.",
        activity: "failed",
        note: "error",
        toMs: 92_000,
        step: 4,
        own: 21_000,
        tree: 231_000,
        refusals: 3,
        spans: [
          ["chat", 0, 11_000, "ok", 1],
          ["wait", 11_500, 86_000, "ok", 1],
          ["chat", 86_000, 92_000, "failed", 2],
        ],
      },
      ...readers,
    ],
    causes: [
      {
        agentId: agentId(runId, 10),
        agentPath: "lead/reader#10",
        step: 1,
        toolName: "read",
        code: "tool_error",
        message: READ_ERROR,
        atMs: BEGUN_MS + 54_200,
      },
      {
        agentId: agentId(runId, 10),
        agentPath: "lead/reader#10",
        step: 3,
        code: "error_budget",
        message: "3 calls failed.",
        atMs: BEGUN_MS + 70_000,
      },
      {
        agentId: agentId(runId, 0),
        agentPath: "lead",
        code: "subagent_failed",
        message: "reader#10 failed.",
        atMs: BEGUN_MS + 92_000,
      },
    ],
    refusals: Array.from({ length: 3 }, () => ({
      agent: 0,
      step: 1,
      atMs: BEGUN_MS + 60_000,
      role: "reader",
      code: "breadth_limit" as const,
      message: "At most 14 subagents may be started by one agent. Use what the others found.",
    })),
  });
}

/** Three questions of two agents; one concerns an external tool call. */
export function askingRun(): RunSnapshot {
  const runId = "pears-31d0";
  return snapshotFor({
    runId,
    title: "lead: order the pears",
    status: "input_required",
    questions: [
      questionOf(runId, 1),
      questionOf(runId, 2, {
        toolName: "mail",
        arguments: {
          to: "lehmann@example.com",
          subject: "Two crates of pears",
          body: "Dear Mr Lehmann,\nplease bring two crates on Saturday before seven.\nKind regards",
        },
        reason: "It writes to somebody outside.",
        deadlineAtMs: null,
        askedAtMs: NOW_MS - 95_000,
      }),
      questionOf(runId, 3, {
        kind: "external",
        agentId: agentId(runId, 2),
        agentPath: "lead/weigher#1",
        toolName: "weigh",
        arguments: { crate: 7 },
        reason: "The scales stand in the yard.",
        deadlineAtMs: null,
        askedAtMs: NOW_MS - 20_000,
        role: "weigher",
        task: "Weigh crate 7.",
      }),
    ],
    agents: [
      {
        parent: -1,
        name: "lead",
        task: "Order the pears for the market on Saturday.",
        activity: "delegating",
        note: "2 subagents",
        own: 9_000,
        tree: 61_000,
        step: 2,
        spans: [
          ["chat", 0, 9_000],
          ["wait", 9_500, -1],
        ],
      },
      {
        parent: 0,
        name: "buyer#1",
        task: "Order the pears, at most 420 EUR.",
        activity: "asking",
        note: "pay, mail",
        fromMs: 9_500,
        own: 31_000,
        step: 3,
        spans: [
          ["chat", 9_500, 60_000],
          ["tool", 60_000, 71_000],
          ["chat", 71_000, 120_000, "ok", 2],
          ["ask", 360_000, -1, "open", 3],
        ],
      },
      {
        parent: 0,
        name: "weigher#1",
        task: "Weigh crate 7.",
        activity: "asking",
        note: "weigh",
        fromMs: 300_000,
        own: 4_000,
        step: 1,
        spans: [
          ["queue", 300_000, 340_000],
          ["chat", 340_000, 380_000],
          ["ask", 580_000, -1],
        ],
      },
      {
        parent: 0,
        name: "scout#1",
        task: "Find out what pears cost today.",
        fromMs: 10_000,
        toMs: 190_000,
        own: 17_000,
        step: 4,
        toolErrors: 1,
        spans: [
          ["chat", 10_000, 40_000],
          ["tool", 40_000, 80_000, "failed"],
          ["retry", 80_000, 110_000],
          ["chat", 110_000, 190_000, "ok", 2],
        ],
      },
    ],
  });
}

/** Parked overnight and running again. */
export function parkedRun(): RunSnapshot {
  const hour = 3_600_000;
  return snapshotFor({
    runId: "night-5b11",
    title: "lead: nightly report",
    status: "working",
    head: {
      startedAtMs: NOW_MS - 9 * hour,
      createdAtMs: NOW_MS - 9 * hour,
      idleMs: 8 * hour,
      durationMs: 9 * hour,
    },
    agents: [
      {
        parent: -1,
        name: "lead",
        task: "Write the report of the night.",
        activity: "thinking",
        fromMs: -9 * hour + 600_000,
        own: 8_000,
        tree: 8_000,
        step: 3,
        spans: [
          ["chat", 0, hour / 2],
          ["park", hour / 2, 8.5 * hour, "ok", 0],
          ["chat", 8.5 * hour, -1, "open", 3],
        ],
      },
    ],
  });
}

/** Hostile text that must be shown without any effect. */
export const HOSTILE = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script> \u202Eevil\u202C [link](javascript:alert(1)) https://example.com \u0007\u2028\uFEFFend`;

/** Characters that must not reach the screen unmarked. */
// oxlint-disable-next-line no-control-regex
export const UNSEEN = /[\u202a-\u202e\u2066-\u2069\u0007\u2028\ufeff]/;

/** `failed`: the failure also ended the agent. */
export function hostileRun(status: "input_required" | "failed" = "input_required"): RunSnapshot {
  const runId = status === "failed" ? "hostile-dead" : "hostile-0bad";
  return snapshotFor({
    runId,
    title: HOSTILE,
    status,
    head: { reason: { code: HOSTILE, message: HOSTILE } },
    questions:
      status === "failed"
        ? []
        : [
            questionOf(runId, 1, {
              agentPath: `lead/${HOSTILE}`,
              toolName: HOSTILE,
              reason: HOSTILE,
              arguments: { [HOSTILE]: HOSTILE },
              role: HOSTILE,
              task: HOSTILE,
            }),
          ],
    agents: [
      {
        parent: -1,
        name: "lead",
        task: HOSTILE,
        activity: "delegating",
        note: HOSTILE,
        own: 10,
        tree: 30,
        toolErrors: 1,
      },
      { parent: 0, name: HOSTILE, task: HOSTILE, activity: "asking", note: HOSTILE, own: 10 },
      {
        parent: 0,
        name: `${HOSTILE}#2`,
        task: "x".repeat(200),
        activity: "failed",
        note: HOSTILE,
        toMs: 10,
        own: 10,
      },
    ],
    causes: [
      {
        agentId: agentId(runId, 2),
        agentPath: HOSTILE,
        step: 1,
        toolName: HOSTILE,
        code: HOSTILE,
        message: HOSTILE,
        atMs: BEGUN_MS,
      },
    ],
    refusals: [
      { agent: 0, step: 1, atMs: BEGUN_MS, role: HOSTILE, code: "depth_limit", message: HOSTILE },
    ],
  });
}

/** A run that completed without any failure. */
export function calmRun(number: number): RunSnapshot {
  const runId = `calm-${number.toString(16).padStart(4, "0")}`;
  return snapshotFor({
    runId,
    title:
      [
        "lead: what is this project",
        "planner: week 19",
        "lead: survey the code (fork)",
        "writer: letter to the harbour",
      ][number % 4] ?? "",
    status:
      (["completed", "completed", "stopped", "cancelled", "completed"] as const)[number % 5] ??
      "completed",
    head: {
      ...(number % 5 === 2
        ? { reason: { code: "step_limit", message: "120 of 120 steps are used." } }
        : {}),
      ...(number % 4 === 2
        ? { forkedFrom: { runId: parseId<"RunId">("crowd-5000") satisfies RunId, stepNumber: 2 } }
        : {}),
      createdAtMs: NOW_MS - (number + 1) * 5_400_000,
      updatedAtMs: NOW_MS - (number + 1) * 5_400_000 + 90_000,
    },
    agents: [
      {
        parent: -1,
        name: "lead",
        task: "Say what this project is.",
        toMs: 84_000,
        own: 12_000,
        tree: 38_000 + number * 1_000,
        step: 3,
        spans: [
          ["chat", 0, 20_000],
          ["wait", 20_000, 70_000],
          ["chat", 70_000, 84_000, "ok", 2],
        ],
      },
      {
        parent: 0,
        name: "reader#1",
        task: "Read the README.",
        fromMs: 20_000,
        toMs: 70_000,
        own: 26_000,
        step: 4,
        spans: [
          ["chat", 20_000, 41_000],
          ["tool", 41_000, 44_000],
          ["chat", 44_000, 70_000, "ok", 2],
        ],
      },
    ],
  });
}
