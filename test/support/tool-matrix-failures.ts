// Every failure of a tool call beside successful calls: all compatible failures in one reply, and
// each failure alone.

import { busyTool } from "./busy-tool.ts";
import { z } from "zod";

import { isRecord } from "../../src/kernel/json.ts";
import type { IdSource } from "../../src/kernel/id-source.ts";
import { ModelError } from "../../src/model/model-error.ts";
import type { OrchestratorOptions } from "../../src/orchestrator/tree/orchestrator-settings.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import type { Budget } from "../../src/policies/budget.ts";
import { deny } from "../../src/protocol/question.ts";
import {
  type ToolFailureCode,
  TOOL_FAILURES,
  isToolFailureCode,
  type ToolErrorSeverity,
} from "../../src/protocol/tool-failure.ts";
import {
  says,
  ScriptedModel,
  type ScriptedCall,
  type ScriptStep,
} from "../../src/testing/scripted-model.ts";
import { transform } from "../../src/hooks/hook.ts";
import { sequentialIds } from "../../src/testing/sequential-ids.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { ToolError, ToolRetryError } from "../../src/tools/tool-error.ts";
import { toolFilter } from "../../src/tools/tool-filter.ts";
import { toolGuard, type ToolGuard } from "../../src/tools/tool-guard.ts";
import { latch, newFixture, type Fixture } from "../harness/run-scripted.ts";
import { spyTool } from "../harness/tools.ts";
import { aborted, calls, part, quiet, spawn, use, type Part } from "../harness/scripted-agents.ts";
import { goOn, improvise, spawnAs, spawnBeside, writeTo } from "./subagent-calls.ts";
import { guardThat, toolThatNeeds } from "./tool-matrix-guards.ts";
import { atPace } from "./tool-matrix.ts";

/** A run that is over, with its fixture and the root's model. */
export interface FailurePlay {
  readonly fixture: Fixture;
  readonly result: RunResult;
  readonly lead: Part;
}

const TIMEOUT_MS = 1_000;

const thrower = (name: string, thrown: Error, more: Parameters<typeof spyTool>[2] = {}) =>
  spyTool(
    name,
    () => {
      throw thrown;
    },
    more,
  );

const read = defineTool({
  name: "read",
  description: "Reads a file.",
  inputSchema: z.object({ path: z.string(), lines: z.int() }),
  execute: () => "text",
});

/** They keep no state between runs. */
const TOOLS = [
  spyTool("look", () => "seen"),
  read,
  thrower("fetch", new ToolRetryError("There is no page 9.", { hint: "There are 3." })),
  thrower("guess", new ToolRetryError("Wrong."), { maxRetries: 0 }),
  spyTool("secret", () => "opened"),
  thrower("crash", new RangeError("Out of paper.")),
  thrower("close", new ToolError("The account is closed.", { severity: "fatal" })),
  spyTool("hang", () => new Promise(() => undefined), { timeoutMs: TIMEOUT_MS }),
  toolThatNeeds("wipe", "nothing"),
  toolThatNeeds("pay", "wants approval"),
  toolThatNeeds("list", "cannot say"),
  spyTool("listen", async ({ signal }) => await aborted(signal)),
];

/**
 * Calls that each fail in one way and can be made in one reply, in this order, since the subagents
 * depend on each other.
 */
export const TOGETHER: readonly (readonly [code: ToolFailureCode, call: ScriptedCall])[] = [
  ["invalid_json", { toolName: "read", arguments: "{path}" }],
  ["invalid_arguments", { toolName: "read", arguments: { path: 7, lines: "x" } }],
  ["tool_retry", use("fetch")],
  ["retry_limit", use("guess")],
  ["unknown_tool", use("open")],
  ["tool_not_available", use("secret")],
  ["tool_error", use("crash")],
  ["tool_error", use("close")],
  ["tool_timeout", use("hang")],
  ["blocked", use("wipe")],
  ["denied", use("pay")],
  ["approval_check_failed", use("list")],
  ["unknown_role", spawn("nobody")],
  ["subagent_failed", spawn("broken")],
  ["setup_failed", spawn("unborn")],
  ["subagent_cancelled", spawn("idle")],
  ["breadth_limit", spawn("broken")],
];

const NO_KEY = { code: "model_unauthorized", message: "Expected a key that is valid." } as const;

const subagents = () => [
  part("broken", () => ({ error: new ModelError(NO_KEY) })).role,
  part("unborn", []).role,
  part("idle", [says("late", { after: latch().opened })]).role,
];

const look = use("look");

/** Every call with one that succeeds before and after it. */
export function besideOthers(list: readonly ScriptedCall[]): readonly ScriptedCall[] {
  return [look, ...list.flatMap((call) => [call, look])];
}

/** Tolerates everything, so that the step after a reply is visible. */
const PATIENT = {
  errorBudget: { maxToolErrors: 99, maxConsecutiveErrors: 99, maxRetryErrors: 99 },
  errorPolicy: { retryLimitPolicy: "continue" },
} as const;

type Definition = Parameters<typeof part>[2];

export interface Play {
  readonly reply: readonly ScriptedCall[];
  /** Next reply of the model. By default it is done. */
  readonly more?: readonly ScriptStep[];
  readonly definition?: Definition;
  readonly budget?: Budget;
  readonly options?: OrchestratorOptions;
  /** The agent, by the order of their set-up, whose set-up fails; the root is the first. */
  readonly unbornAgent?: number;
  /** How long the first call keeps the process busy: time passes, and no timer is served. */
  readonly busyMs?: number;
  /** Done once everything waits, before the time continues. */
  readonly act?: (run: Run, fixture: Fixture) => void;
  /** Done between the first reply and its calls. */
  readonly beforeCalls?: (run: Run) => void;
}

/** Plays a reply of the root with these calls, and the next reply of its model. */
export async function playFailures(play: Play): Promise<FailurePlay> {
  const { reply, more = [says("Done.")], budget = {}, options = {}, act, beforeCalls } = play;
  const { definition = PATIENT, unbornAgent, busyMs } = play;
  const busy = busyMs === undefined ? undefined : busyTool(busyMs);
  const ids = unbornAgent === undefined ? {} : { ids: idsWithoutAgent(unbornAgent) };
  const fixture = newFixture({
    approver: (question) => deny(question, "Too dear."),
    ...options,
    ...ids,
    ...busy?.options,
  });
  const lead = part("lead", [calls(...reply), ...more], {
    tools: busy === undefined ? TOOLS : [...TOOLS, busy.tool],
    subagents: subagents(),
    guards: [guardThat("deny", "keeper", ["wipe"])],
    toolFilters: [toolFilter((name) => name !== "secret", { name: "modest" })],
    budget,
    ...definition,
  });
  const run = fixture.start(lead.role);
  if (beforeCalls !== undefined) await atCalls(run, () => beforeCalls(run));
  await quiet();
  act?.(run, fixture);
  const idle = fixture.sink.ofType("subagent.spawned").find(({ role }) => role === "idle");
  if (idle !== undefined) run.cancelAgent(idle.childId, "Not needed any more.");
  return { fixture, result: await atPace(fixture, run, TIMEOUT_MS), lead };
}

async function atCalls(run: Run, act: () => void): Promise<void> {
  let isDone = false;
  for await (const { phase } of run.iterate()) {
    if (phase !== "evaluate" || isDone) continue;
    act();
    isDone = true;
  }
}

/** Ids, of which one for an agent cannot be given: its set-up fails. */
function idsWithoutAgent(place: number): IdSource {
  const ids = sequentialIds();
  let agents = 0;
  return {
    next: (kind) => {
      if (kind === "agent") agents += 1;
      if (kind === "agent" && agents === place) throw new Error("no more ids");
      return ids.next(kind);
    },
  };
}

/**
 * Plays all compatible failures in one reply. `definition` has the limits of the root, by default
 * none.
 */
export async function playTogether(definition?: Definition): Promise<FailurePlay> {
  return await playFailures({
    reply: besideOthers(TOGETHER.map(([, call]) => call)),
    unbornAgent: 3,
    options: { limits: { maxBreadthPerParent: 2 } },
    ...(definition === undefined ? {} : { definition }),
  });
}

const spawning = besideOthers([spawn("idle")]);

const BACKGROUND: Definition = { ...PATIENT, delegation: { background: true } };

/** Tolerates everything, with this one role to start. */
function starting({ role }: Part): Definition {
  return { ...PATIENT, subagents: [role] };
}

/** Allows every call; that with this task only after all others have come as far as they can. */
function slowAbout(task: string): ToolGuard["check"] {
  return async ({ arguments: given }) => {
    if (isRecord(given) && given["task"] === task) await quiet();
    return { type: "allow" };
  };
}

/**
 * Each failure alone between two calls of a tool that works. A new code needs an entry here.
 * `interrupted` needs two processes: test/behaviour/tool-errors and test/behaviour/recovery.
 */
export const ALONE: Readonly<Record<Exclude<ToolFailureCode, "interrupted">, Play>> = {
  invalid_json: { reply: besideOthers([{ toolName: "read", arguments: "{path}" }]) },
  invalid_arguments: {
    reply: besideOthers([{ toolName: "read", arguments: { path: 7, lines: "x" } }]),
  },
  tool_retry: { reply: besideOthers([use("fetch")]) },
  retry_limit: { reply: besideOthers([use("guess")]), definition: {} },
  unknown_tool: { reply: besideOthers([use("open")]) },
  tool_not_available: { reply: besideOthers([use("secret")]) },
  tool_error: { reply: besideOthers([use("crash")]) },
  tool_timeout: { reply: besideOthers([use("hang")]) },
  subagent_failed: { reply: besideOthers([spawn("broken")]) },
  subagent_partial: {
    reply: besideOthers([spawn("cut")]),
    definition: starting(part("cut", () => says("Half a", { finishReason: "length" }))),
  },
  subagent_no_output: {
    reply: besideOthers([spawn("mute")]),
    definition: starting(part("mute", () => says("", { finishReason: "length" }))),
  },
  subagent_cancelled: { reply: spawning },
  blocked: { reply: besideOthers([use("wipe")]) },
  denied: { reply: besideOthers([use("pay")]) },
  approval_check_failed: { reply: besideOthers([use("list")]) },
  skipped: {
    reply: besideOthers([use("crash")]),
    beforeCalls: (run) => run.skipToolCalls("Answer first."),
  },
  unknown_role: { reply: besideOthers([spawn("nobody")]) },
  forbidden_role: {
    reply: besideOthers([use("improvise")]),
    definition: { ...PATIENT, tools: [...TOOLS, improvise] },
  },
  invalid_role: {
    reply: besideOthers([spawnAs({ instructions: "Count.", model: "large" })]),
    definition: { ...PATIENT, dynamicRoles: { models: { small: new ScriptedModel([]) } } },
  },
  context_policy_failed: {
    reply: besideOthers([]),
    more: [calls(...spawning), says("Done.")],
    definition: {
      ...PATIENT,
      contextPolicy: {
        selectMessages: (messages) => messages.filter(({ role }) => role !== "tool"),
      },
    },
  },
  unknown_subagent: { reply: besideOthers([writeTo("idle#1")]), definition: BACKGROUND },
  subagent_running: {
    reply: besideOthers([spawnBeside("idle")]),
    more: [calls(...besideOthers([goOn("idle", "idle#1")])), says("I wait."), says("Done.")],
    definition: BACKGROUND,
  },
  subagent_ended: {
    reply: besideOthers([spawn("broken")]),
    more: [calls(...besideOthers([writeTo("broken#1")])), says("Done.")],
    definition: BACKGROUND,
  },
  group_decided: {
    reply: besideOthers([spawn("broken", "Fail."), spawn("broken", "Come late.")]),
    definition: {
      ...PATIENT,
      delegation: { failurePolicy: "fail_fast" },
      guards: [toolGuard(slowAbout("Come late."), { name: "slow" })],
    },
  },
  depth_limit: { reply: spawning, options: { limits: { maxDepth: 0 } } },
  breadth_limit: { reply: spawning, options: { limits: { maxBreadthPerParent: 0 } } },
  total_limit: { reply: spawning, options: { limits: { maxTotalSubagents: 0 } } },
  budget_exhausted: { reply: spawning, budget: { steps: 1 } },
  setup_failed: { reply: spawning, unbornAgent: 2 },
  parent_stopped: {
    reply: spawning,
    definition: {
      hooks: [transform("subagentStart", (_input, { requestStop }) => requestStop("Enough."))],
    },
  },
  tool_call_limit: { reply: besideOthers([look]), budget: { toolCalls: 2 } },
  time_limit: {
    reply: [look, use("busy"), look],
    budget: { timeMs: TIMEOUT_MS },
    busyMs: TIMEOUT_MS,
  },
  cancelled: { reply: besideOthers([use("listen")]), act: (run) => void run.cancel("Enough.") },
  not_executed: {
    reply: besideOthers([use("crash")]),
    beforeCalls: (run) => run.requestStop("Enough."),
  },
};

const PRICE = { inputUsdPerMillion: 1_000_000, outputUsdPerMillion: 1_000_000 };

/** Limits that are reached before the calls of a reply, so that no call runs. */
export const BEFORE_CALLS = {
  step_limit: { reply: besideOthers([look]), budget: { steps: 1 }, definition: { wrapUp: true } },
  token_limit: { reply: besideOthers([look]), budget: { totalTokens: 15 } },
  cost_limit: {
    reply: besideOthers([look]),
    budget: { costUsd: 15 },
    definition: { subagents: [], scripted: { price: PRICE } },
  },
} as const satisfies Readonly<Record<string, Play>>;

const SEVERITIES = [
  "retryable",
  "recoverable",
  "fatal",
  "abortive",
] as const satisfies readonly ToolErrorSeverity[];

/**
 * A tool that fails with this severity beside successful calls: at the root, or in a child beside
 * calls of the root.
 */
export const SEVERITY_PLAYS: readonly {
  readonly severity: ToolErrorSeverity;
  readonly where: "root" | "child";
  play(): Promise<FailurePlay>;
}[] = SEVERITIES.flatMap((severity) =>
  (["root", "child"] as const).map((where) => ({
    severity,
    where,
    play: () => playSeverity(severity, where),
  })),
);

async function playSeverity(
  severity: ToolErrorSeverity,
  where: "root" | "child",
): Promise<FailurePlay> {
  const failing = thrower("work", new ToolError("No disk.", { severity, hint: "Use the other." }));
  const both = { tools: [failing, spyTool("look", () => "seen")] };
  const reply = calls(...besideOthers([use("work")]));
  const child = part("child", [reply, says("Child.")], both);
  const first = where === "root" ? reply : calls(...besideOthers([spawn("child")]));
  const lead = part("lead", [first, says("Done.")], { ...both, subagents: [child.role] });
  const fixture = newFixture();
  return { fixture, result: await fixture.run(lead.role), lead };
}

/** The result of a run, call by call, as the logs of its agents have it. */
export function failureBlock(title: string, { result, fixture }: FailurePlay): string {
  const { agents } = result;
  const heads = agents.map(
    ({ agentPath, status, reason }) => `${agentPath} ${status} (${reason.code})`,
  );
  return [`${title}: ${heads.join(", ")}`, ...agents.flatMap(linesIn(fixture))].join("\n");
}

function linesIn({ sink }: Fixture): (agent: RunResult["agents"][number]) => readonly string[] {
  return ({ agentPath, steps }) =>
    steps
      .flatMap(({ tools }) => tools.executions)
      .flatMap(({ call, type, errorCode, severity, text }) => {
        const isIt = (event: { readonly callId: string | null; readonly agentPath: string }) =>
          event.callId === call.callId && event.agentPath === agentPath;
        const ended = [...sink.ofType("tool.ended"), ...sink.ofType("tool.rejected")].find(isIt);
        const what = [type, errorCode, severity].flatMap((word) => word ?? []).join(" ");
        const told = ended === undefined ? "no event" : `event says ${ended.outcome}`;
        return [
          `  ${agentPath} ${call.callId} ${call.toolName}: ${what}; ${told}${countsAs(errorCode)}`,
          ...text.split("\n").map((line) => `      ${line}`),
        ];
      });
}

function countsAs(code: string | undefined): string {
  if (code === undefined || !isToolFailureCode(code)) return "";
  return `; counts as ${TOOL_FAILURES[code].counts}`;
}

/** The calls of all steps of the root. */
export function executionsOf({
  result,
}: FailurePlay): FailurePlay["result"]["steps"][number]["tools"]["executions"] {
  return result.steps.flatMap(({ tools }) => tools.executions);
}
