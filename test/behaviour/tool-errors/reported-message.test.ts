// Goal: a failed tool is reported with its message wherever it is listed.
// Method: one tool that throws a typed error with a secret.

import { expect } from "vitest";
import { z } from "zod";

import {
  defineAgent,
  defineTool,
  ModelError,
  Orchestrator,
  type EspalierEvent,
  type RunResult,
} from "../../../src/index.ts";
import { formatRunReport, terminalView } from "../../../src/terminal/terminal.ts";
import { asks, ManualClock, says, ScriptedModel } from "../../../src/testing/index.ts";
import { createAgentDetail } from "../../../src/read-model/agent-row.ts";
import { RunFold } from "../../../src/view.ts";
import { ShownContent } from "../../../src/viewer-server/shown-content.ts";
import { proves } from "../../harness/proves.ts";

const KEY = "sk-proj-1234567890abcdefghij";

interface Told {
  readonly events: readonly EspalierEvent[];
  readonly result: RunResult;
  readonly screen: string;
}

/** Runs an agent whose only tool throws, and which stops for it. */
async function toldOf(thrown: unknown): Promise<Told> {
  const burn = defineTool({
    name: "burn",
    description: "Writes.",
    inputSchema: z.object({}),
    execute: () => {
      throw thrown;
    },
  });
  const lead = defineAgent({
    name: "lead",
    instructions: "Work.",
    model: new ScriptedModel([asks("burn", {}), says("Never.")]),
    tools: [burn],
    errorBudget: { maxToolErrors: 0 },
  });
  const events: EspalierEvent[] = [];
  let screen = "";
  const stream = { write: (text: string) => (screen += text), on: () => {}, off: () => {} };
  const sinks = [
    terminalView({ stream, env: {} }),
    { emit: (event: EspalierEvent) => void events.push(event) },
  ];
  const orchestrator = new Orchestrator({ sinks, clock: new ManualClock() });
  const result = await orchestrator.start(lead, "Write.").result;
  return { events, result, screen };
}

function folded(events: readonly EspalierEvent[]): RunFold {
  const [first] = events;
  if (first === undefined) throw new Error("A run has events.");
  const fold = new RunFold(first.runId);
  for (const event of events) fold.apply(event);
  return fold;
}

const ended = (events: readonly EspalierEvent[]) =>
  events.find((event) => event.type === "tool.ended");

proves(["D521"], "reports the message of a tool that throws, without its secret", async () => {
  const said = "disk is on fire, api_key=[redacted]";
  const { events, result, screen } = await toldOf(new TypeError(`disk is on fire, api_key=${KEY}`));
  expect(ended(events)).toMatchObject({
    error: { code: "tool_error", name: "TypeError", message: said, severity: "recoverable" },
  });
  const fold = folded(events);
  expect(fold.causes()[0]).toMatchObject({ toolName: "burn", code: "tool_error", message: said });
  const [agent] = fold.agents;
  expect(agent && createAgentDetail(agent, []).steps[0]?.calls).toMatchObject([
    { toolName: "burn", error: { code: "tool_error", name: "TypeError", message: said } },
  ]);
  expect(screen).toContain(`burn failed (tool_error): ${said}`);
  expect(formatRunReport(result)).toContain(said);
  for (const text of [JSON.stringify(events), screen, formatRunReport(result)])
    expect(text).not.toContain(KEY);
});

proves(
  ["D521"],
  "truncates a message of 2,000 characters to 500, at a character boundary",
  async () => {
    const { events } = await toldOf(new Error("🔥".repeat(1_000)));
    const { message = "" } = ended(events)?.error ?? {};
    expect(message).toBe(`${"🔥".repeat(249)}…`);
    expect(message.length).toBeLessThanOrEqual(500);
  },
);

proves(
  ["D521"],
  "truncates a message after redaction, even if the secret crosses the limit",
  async () => {
    const { events } = await toldOf(new Error(`${"x".repeat(480)} ${KEY}`));
    expect(ended(events)?.error?.message).toBe(`${"x".repeat(480)} [redacted]`);
  },
);

proves(["D521"], "shows only name and code of the error without content", async () => {
  const { events } = await toldOf(new TypeError("disk is on fire"));
  const off = new ShownContent(false);
  const fold = folded(events.map((event) => off.showEvent(event)));
  const [agent] = fold.agents;
  const call = agent && createAgentDetail(agent, []).steps[0]?.calls[0];
  expect(call).toMatchObject({
    error: { code: "tool_error", name: "TypeError", message: "" },
  });
  expect(fold.causes()[0]?.message).toBe("The call failed. (TypeError)");
  expect(JSON.stringify(fold.snapshot())).not.toContain("fire");
});

proves(["D521"], "reports why a call did not run", async () => {
  const lead = defineAgent({
    name: "lead",
    instructions: "Work.",
    model: new ScriptedModel([asks("none", {}), says("Done.")], { allowUnknownTools: true }),
  });
  const events: EspalierEvent[] = [];
  const sinks = [{ emit: (event: EspalierEvent) => void events.push(event) }];
  await new Orchestrator({ sinks }).start(lead, "Work.").result;
  expect(events.find(({ type }) => type === "tool.rejected")).toMatchObject({
    error: {
      code: "unknown_tool",
      message: 'There is no tool named "none". You have no tools; answer in text.',
    },
  });
});

proves(["D521"], "reports the reason of a failed subagent as the message of its call", async () => {
  const error = new ModelError({ code: "model_unauthorized", message: "No key." });
  const broken = new ScriptedModel([{ error }]);
  const reader = defineAgent({
    name: "reader",
    description: "Reads.",
    instructions: "Read.",
    model: broken,
  });
  const lead = defineAgent({
    name: "lead",
    instructions: "Lead.",
    model: new ScriptedModel([
      asks("SpawnSubagent", { role: "reader", task: "Read." }),
      says("Done."),
    ]),
    subagents: [reader],
  });
  const events: EspalierEvent[] = [];
  const sinks = [{ emit: (event: EspalierEvent) => void events.push(event) }];
  await new Orchestrator({ sinks }).start(lead, "Work.").result;
  expect(ended(events)?.error).toEqual({
    code: "subagent_failed",
    message: "No key.",
    severity: "recoverable",
  });
});
