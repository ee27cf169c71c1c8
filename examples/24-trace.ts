// A trace with all kinds of spans: three levels, retries, refusals, approvals, background work and
// a nearly exhausted budget. To see it in the Jaeger of examples/jaeger, set
// `OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318`.

import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";

import { z } from "zod";

import {
  approve,
  defineAgent,
  defineTool,
  Orchestrator,
  withRetries,
  type EspalierEvent,
} from "espalier";
import type { ModelRequest } from "espalier/extend";
import { formatEventTree, says, ScriptedModel, type ScriptedReply } from "espalier/testing";
import { jaegerLinks, formatRunReport } from "espalier/terminal";

/** What an agent says in one step of its own, after so many milliseconds; `task` is its task. */
type Thought = readonly [ms: number, reply: (task: string) => ScriptedReply];

/** A model that takes its time. */
const thinker = (id: string, ...script: readonly Thought[]) =>
  new ScriptedModel(
    ({ messages }: ModelRequest) => {
      const step = messages.filter(({ role }) => role === "assistant").length;
      const task = messages.find(({ role }) => role === "user")?.text ?? "";
      const [ms, reply] = script[step] ?? [0, () => says("Nothing further.")];
      return { ...reply(task), after: pause(ms) };
    },
    { id, price: { inputUsdPerMillion: 200, outputUsdPerMillion: 800 } },
  );
const uses = (name: string, input: object = {}) => ({ toolName: name, arguments: input });
const spawns = (role: string, task: string, more: object = {}) =>
  uses("SpawnSubagent", { role, task, ...more });

// Tools: one that fails once and is tried again, one that always fails, and one that needs approval.
let downloads = 0;
const download = withRetries(
  defineTool({
    name: "download",
    description: "Downloads a source.",
    inputSchema: z.object({}),
    execute: async () => {
      downloads += 1;
      const isFirst = downloads === 1;
      await pause(30);
      if (isFirst) throw new Error("the connection broke");
      return "a page of text";
    },
  }),
  { maxAttempts: 3, initialDelayMs: 40 },
);
const scan = defineTool({
  name: "scan",
  description: "Reads a scanned page.",
  inputSchema: z.object({}),
  execute: async () => {
    await pause(20);
    throw new Error("the page is blank");
  },
});
const publish = defineTool({
  name: "publish",
  description: "Publishes a report.",
  inputSchema: z.object({}),
  needsApproval: () => "Everybody can read it.",
  execute: () => pause(30, "published"),
});

// Roles: a lead has researchers, a researcher has readers, a reader has checkers. Short replies leave room in the budget for several at once.
const checker = defineAgent({
  name: "checker",
  maxOutputTokens: 20,
  description: "Checks one claim",
  instructions: "Check the claim.",
  model: thinker("small", [60, () => says("It holds.")]),
});
const reader = defineAgent({
  name: "reader",
  maxOutputTokens: 20,
  description: "Reads one source",
  instructions: "Read the source.",
  model: thinker(
    "small",
    [80, () => ({ calls: [uses("download"), uses("scan")] })],
    [60, (task) => ({ calls: [spawns("checker", `${task} Is it true?`)] })],
    [60, () => says("Read and checked.")],
  ),
  tools: [download, scan],
  subagents: [checker],
});
const researcher = defineAgent({
  name: "researcher",
  maxOutputTokens: 20,
  description: "Researches one topic",
  instructions: "Research the topic.",
  model: thinker(
    "large",
    [150, (task) => ({ calls: [spawns("reader", `A book on ${task}.`)] })],
    [120, () => says("The topic is clear.")],
  ),
  subagents: [reader],
});
const archivist = defineAgent({
  name: "archivist",
  maxOutputTokens: 20,
  description: "Keeps the sources",
  instructions: "Keep the sources.",
  model: thinker("small", [400, () => says("All is kept.")]),
});
const lead = defineAgent({
  name: "lead",
  maxOutputTokens: 20,
  instructions: "Let others research, then publish.",
  model: thinker(
    "large",
    [
      100,
      () => ({
        calls: [
          spawns("archivist", "Keep what they find.", { background: true }),
          ...["pears", "apples", "quinces", "medlars"].map((topic) => spawns("researcher", topic)),
        ],
      }),
    ],
    [120, () => ({ calls: [uses("publish")] })],
    [80, () => says("The report is out.")],
  ),
  tools: [publish],
  subagents: [researcher, archivist],
  delegation: { background: true },
});

// OpenTelemetry is loaded only where spans have somewhere to go.
const endpoint = process.env["OTEL_EXPORTER_OTLP_ENDPOINT"];
const node =
  endpoint === undefined
    ? undefined
    : (await import("espalier/otel/node")).setUpNodeTracing({ serviceName: "garden" });

const events: EspalierEvent[] = [];
const orchestrator = new Orchestrator({
  limits: { maxDepth: 3, maxBreadthPerParent: 4, maxTotalSubagents: 12 }, // the fourth researcher is refused
  concurrency: { modelCalls: 2 }, // so that model calls wait for each other
  approver: async (question) => {
    await pause(250); // a person thinks about it
    return approve(question);
  },
  sinks: [{ emit: (event) => void events.push(event) }],
  ...(node === undefined ? {} : { tracing: node.tracing }),
});
const result = await orchestrator.start(lead, "Which fruit shall we plant?", {
  budget: { totalTokens: 400, steps: 60, costUsd: 1 },
}).result;

console.log(formatEventTree(events));
console.log(formatRunReport(result));

// Where to look for it.
const { ESPALIER_JAEGER_URL = "http://localhost:16686" } = process.env;
const links = jaegerLinks(ESPALIER_JAEGER_URL);
const pages = {
  "the whole run": links.trace(result.traceId),
  "what failed": links.failures(result.traceId),
  "one agent and its subtree": links.agent(result.traceId, "lead/researcher#2"),
  "refusals of the last hour": links.search({
    service: "garden",
    tags: { "espalier.refusal.code": "breadth_limit" },
  }),
};
if (node === undefined)
  console.log("No trace was sent: set OTEL_EXPORTER_OTLP_ENDPOINT, as examples/jaeger says.");
else console.log("Sent:", await node.shutdown(), pages);

const seen = events.map((event) => {
  switch (event.type) {
    case "tool.retried":
      return `${event.toolName} was retried`;
    case "subagent.refused":
      return `${event.agentPath} was refused a ${event.role} (${event.error.code})`;
    case "question.answered":
      return `${event.agentPath} may ${event.toolName}`;
    case "budget.threshold_reached":
      return `${event.accountPath} has used ${event.threshold * 100} % of its ${event.axis}`;
    default:
      return undefined;
  }
});
const failed = events.filter(
  (event) => event.type === "tool.ended" && event.error?.code === "tool_error",
);
const waited = events.some((event) => event.type === "model.replied" && event.queuedMs > 100);
assert.equal(result.status, "completed");
assert.deepEqual(
  new Set(seen.filter((line) => line !== undefined)),
  new Set([
    "lead was refused a researcher (breadth_limit)",
    "download was retried",
    "lead may publish",
    "lead has used 80 % of its totalTokens",
  ]),
);
assert.deepEqual([failed.length, waited], [3, true]);
assert.equal(Math.max(...result.agents.map(({ depth }) => depth)), 3);
