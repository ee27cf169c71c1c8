// Details of agents and their steps for the fixture server.

import { parseId } from "../../src/protocol/ids.ts";
import type { ToolFailure } from "../../src/protocol/tool-error-record.ts";
import { NO_USAGE } from "../../src/protocol/usage.ts";
import {
  ACTIVITIES,
  type AgentDetail,
  type AgentRow,
  type CallDetail,
  type RunSnapshot,
  type ShownMessage,
  type StepDetail,
} from "../../src/read-model/viewer-data.ts";
import type { CallFold, StepFold } from "../../src/read-model/step-fold.ts";
import { HOSTILE } from "./fixture-runs.ts";

function pathOf(snapshot: RunSnapshot, row: AgentRow): string {
  const parent = snapshot.agents[row[0]];
  return parent === undefined ? row[2] : `${pathOf(snapshot, parent)}/${row[2]}`;
}

function isHostileRow(row: AgentRow): boolean {
  return row[1].startsWith("hostile");
}

function createFailure(isHostile: boolean): ToolFailure {
  const text = isHostile ? HOSTILE : "ENOENT: no such file.";
  const name = isHostile ? { name: HOSTILE } : {};
  return { code: "tool_error", message: text, severity: "recoverable", ...name };
}

function callsOf(row: AgentRow, number: number): CallFold[] {
  if (number === row[10] && row[6] !== -1) return [];
  const hasFailed = row[18] >= number;
  return [
    {
      callId: parseId<"CallId">(`call-${number}`),
      kind: "tool",
      index: 0,
      startedAtMs: row[5] + (number - 1) * 6_000,
      toolName: isHostileRow(row) ? HOSTILE : "read",
      outcome: hasFailed ? "failed" : number === row[10] ? "open" : "succeeded",
      ...(hasFailed ? { error: createFailure(isHostileRow(row)) } : {}),
      durationMs: 40,
      children: [],
      attempts: [],
    },
  ];
}

function stepOf(row: AgentRow, number: number): StepFold {
  const startedAtMs = row[5] + (number - 1) * 6_000;
  const isOpen = number === row[10] && row[6] === -1;
  return {
    execution: 1,
    number,
    startedAtMs,
    ...(isOpen ? {} : { endedAtMs: startedAtMs + 5_200 }),
    calls: callsOf(row, number),
    attempts: [],
    ...(isOpen
      ? {}
      : {
          usage: {
            ...NO_USAGE,
            modelCalls: 1,
            steps: 1,
            toolCalls: 1,
            inputTokens: 8_010,
            cachedInputTokens: 6_100,
            outputTokens: 240,
            reasoningTokens: 64,
            totalTokens: 8_250,
            costUsd: 0.00214,
          },
        }),
  };
}

export function detailOf(
  snapshot: RunSnapshot,
  agentId: string,
  isShown: boolean,
): AgentDetail | undefined {
  const index = snapshot.agents.findIndex((row) => row[1] === agentId);
  const row = snapshot.agents[index];
  if (row === undefined) return undefined;
  const status = ACTIVITIES[row[7]] ?? "preparing";
  const agentPath = pathOf(snapshot, row);
  const steps = Array.from({ length: row[10] }, (_none, at) => stepOf(row, at + 1));
  const hasFailed = status === "failed";
  return {
    agentId: row[1],
    agentPath,
    depth: agentPath.split("/").length - 1,
    role: row[3],
    provider: "openai",
    model: "gpt-5-mini",
    task: isShown ? row[4] : "",
    status,
    ...(hasFailed
      ? {
          reason: {
            code: snapshot.causes[0]?.code ?? "error",
            message: "A call failed once more than its role bears.",
            data: {},
          },
        }
      : {}),
    ...(hasFailed
      ? {
          error: {
            code: snapshot.causes[0]?.code ?? "tool_error",
            message: snapshot.causes[0]?.message ?? "It failed.",
            data: {},
          },
        }
      : {}),
    executionCount: 1,
    startedAtMs: row[5],
    ...(row[6] === -1 ? {} : { endedAtMs: row[6] }),
    budget: { costUsd: 0.2, steps: 10 },
    remaining: { costUsd: 0.16, steps: 10 - row[10] },
    used: {},
    own: { totalTokens: row[11], costUsd: row[12], unpricedCalls: row[13] },
    subtree: { totalTokens: row[14], costUsd: row[15], unpricedCalls: row[16] },
    steps,
    ...(row[0] === -1 ? {} : { inherited: isHostileRow(row) ? HOSTILE_GIVEN : GIVEN }),
    refusals: snapshot.refusals.filter(({ agent }) => agent === index),
    ...(status === "completed" && isShown
      ? { text: "The ledger adds up, but for entry 14: it was booked twice on 3 May." }
      : {}),
  };
}

const GIVEN = {
  messages: { count: 4, hash: "9f3c" },
  injections: { count: 1, hash: "0a1b" },
  metadataKeys: ["tenant"],
  siblingResults: [],
  results: ["reader#1"],
  failedAttempts: 1,
  parentConstraints: true,
  removedTools: [
    { toolName: "SpawnSubagent", rule: "no_depth_left" as const, source: "lead" },
    { toolName: "mail", rule: "denied" as const, source: "lead" },
  ],
  tightened: [{ field: "steps", requested: 40, granted: 10, source: "lead" }],
};

const HOSTILE_GIVEN = {
  ...GIVEN,
  metadataKeys: [HOSTILE],
  results: [HOSTILE],
  removedTools: [{ toolName: HOSTILE, rule: "denied" as const, source: HOSTILE }],
  tightened: [{ field: HOSTILE, requested: 2, granted: 1, source: HOSTILE }],
};

export function stepDetailOf(
  snapshot: RunSnapshot,
  agentId: string,
  number: number,
): StepDetail | undefined {
  const row = snapshot.agents.find((one) => one[1] === agentId);
  if (row === undefined || number < 1 || number > row[10]) return undefined;
  const isHostile = agentId.startsWith("hostile");
  const step = stepOf(row, number);
  const messages = requestOf(row, number, isHostile);
  return {
    ...step,
    agentId: row[1],
    stepCount: row[10],
    context: {
      number,
      model: { provider: "openai", id: isHostile ? HOSTILE : "gpt-5-mini" },
      toolNames: isHostile ? [HOSTILE] : ["list", "read", "search"],
      promptHash: "9f3c2b1a0d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8",
      toolsHash: "77",
      budget: { steps: 10 },
      parameters: { maxOutputTokens: 4_096, temperature: 0.2 },
    },
    timing: { inferenceMs: 4_900, toolsMs: 40, toolsSumMs: 40, hooksMs: 3, formattingMs: 1 },
    request: {
      messages,
      sameAsBefore: number === 1 ? 0 : requestOf(row, number - 1, isHostile).length,
      toolNames: ["list", "read", "search"],
    },
    text: isHostile
      ? HOSTILE
      : number === row[10]
        ? "The ledger adds up, but for entry 14."
        : "I will read the file first.",
    finishReason: isHostile ? HOSTILE : step.calls.length > 0 ? "tool_calls" : "stop",
    ...(isHostile
      ? { error: { code: HOSTILE, message: HOSTILE, data: {} }, refusal: HOSTILE }
      : {}),
    callDetails: step.calls.map((call): CallDetail => ({
      ...call,
      argumentsText: isHostile ? HOSTILE : `{"path":"ledger/part-${number}.csv","lines":[1,400]}`,
      ...(call.outcome === "open"
        ? {}
        : {
            result: isHostile
              ? HOSTILE
              : call.outcome === "failed"
                ? (snapshot.causes[0]?.message ?? "It failed.")
                : CSV,
          }),
      ...(call.outcome === "succeeded" ? { resultCharacters: 12_345 } : {}),
    })),
  };
}

const CSV = Array.from(
  { length: 12 },
  (_none, at) => `2026-05-0${(at % 9) + 1};berth ${at + 3};${(at + 1) * 130}.00 EUR`,
).join("\n");

function requestOf(row: AgentRow, number: number, isHostile: boolean): readonly ShownMessage[] {
  const said = (text: string): string => (isHostile ? HOSTILE : text);
  const start: readonly ShownMessage[] = [
    {
      message: {
        role: "system",
        text: said(
          "You audit ledgers. Read what you are given, add it up, and name each entry that does not fit. Be brief.",
        ),
        origin: "instructions",
      },
    },
    {
      message: {
        role: "user",
        text: said("Audit the ledger of the harbour: find what does not add up, and why."),
        origin: "inherited",
      },
      from: "lead",
    },
    {
      message: {
        role: "assistant",
        text: said("I will have each part read by itself."),
        toolCalls: [],
      },
      from: "lead",
    },
    { message: { role: "user", text: said(row[4]), origin: "task" } },
  ];
  const rounds = Array.from({ length: number - 1 }, (_none, at): readonly ShownMessage[] => {
    const callId = parseId<"CallId">(`call-${at + 1}`);
    const toolName = isHostile ? HOSTILE : "read";
    return [
      {
        message: {
          role: "assistant",
          text: said("I will read the file first."),
          toolCalls: [
            {
              callId,
              toolName,
              argumentsText: said(`{"path":"ledger/part-${at + 1}.csv","lines":[1,400]}`),
            },
          ],
        },
      },
      { message: { role: "tool", callId, toolName, text: said(CSV) } },
    ];
  });
  return [...start, ...rounds.flat()];
}
