// A run for every code of the table of failures, in which a call has the code.

import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { transform } from "../../../src/hooks/hook.ts";
import type { Phase } from "../../../src/agent/phase-report.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import type { StartOptions } from "../../../src/orchestrator/run/run-options.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { isRecord, type JsonValue } from "../../../src/kernel/json.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { approve, deny } from "../../../src/protocol/question.ts";
import { asks, says, ScriptedModel, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { toolFilter } from "../../../src/tools/tool-filter.ts";
import { toolGuard, type GuardDecision } from "../../../src/tools/tool-guard.ts";
import { ToolRetryError } from "../../../src/tools/tool-error.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import {
  aborted,
  calls,
  part,
  quiet,
  spawn,
  use,
  type Part,
} from "../../harness/scripted-agents.ts";
import { busyTool } from "../../support/busy-tool.ts";
import {
  cancelOf,
  goOn,
  improvise,
  spawnAs,
  spawnBeside,
  writeTo,
} from "../../support/subagent-calls.ts";
import { throws } from "../../support/tool-acts.ts";

/** A run that has ended, with its fixture. */
export interface Played {
  readonly fixture: Fixture;
  readonly result: RunResult;
}

type Definition = Parameters<typeof part>[2];

interface Play {
  readonly script: readonly ScriptStep[];
  readonly definition?: Definition;
  readonly fixture?: OrchestratorOptions;
  readonly start?: StartOptions;
  /** Called once everything is idle. */
  readonly act?: (run: Run, fixture: Fixture) => void;
  /** Called after the first reply. */
  readonly between?: (run: Run) => void;
}

async function play({ script, definition, act, between, ...options }: Play): Promise<Played> {
  const fixture = newFixture(options.fixture);
  const { role } = part("lead", script, definition);
  const run = fixture.start(role, "Do it.", options.start);
  if (between !== undefined) await afterReply(run, () => between(run));
  if (act !== undefined) {
    await quiet();
    act(run, fixture);
  }
  return { fixture, result: await fixture.outcome(run) };
}

async function afterReply(run: Run, act: () => void): Promise<void> {
  const wanted: Phase = "evaluate";
  let isDone = false;
  for await (const { phase } of run.iterate()) {
    if (phase === wanted && !isDone) act();
    isDone ||= phase === wanted;
  }
}

const DONE = says("Done.");

const read = (act: Parameters<typeof spyTool>[1], more: Parameters<typeof spyTool>[2] = {}) => [
  spyTool("read", act, more),
];

const readFile = defineTool({
  name: "read",
  description: "Reads a file.",
  inputSchema: z.object({ path: z.string(), lines: z.int() }),
  execute: () => "text",
});

const helper = (script: readonly ScriptStep[] = [says("Helped.")]): Part => part("helper", script);

const unborn = defineAgent({
  name: "helper",
  description: "Helps.",
  instructions: () => {
    throw new Error("no such user");
  },
  model: new ScriptedModel([]),
});

/** Returns a role that delegates, with a helper to delegate to. */
function delegating(more: Definition = {}): Definition {
  return { subagents: [helper().role], ...more };
}

const NO_KEY = { code: "model_unauthorized", message: "Expected a key that is valid." } as const;
const missing = new Error("There is no notes.txt.");
const asking = new ToolRetryError("There is no notes.txt.", { hint: "List the folder first." });

function inBackground(script?: readonly ScriptStep[]): Definition {
  return { subagents: [helper(script).role], delegation: { background: true } };
}

function askAbout(task: string, given: JsonValue): GuardDecision {
  const isIt = isRecord(given) && given["task"] === task;
  return isIt ? { type: "ask", reason: "Is that worth it?" } : { type: "allow" };
}

const pay = (act: Parameters<typeof spyTool>[1]) => [
  spyTool("pay", act, { retryAfterCrash: false }),
];

/** Returns the run of a process that dies before its call has ended, continued in another one. */
async function crashed(): Promise<Played> {
  const store = memoryStore();
  const gone = newFixture({ store });
  const before = part("lead", [asks("pay", {})], { tools: pay(() => latch().opened) });
  const { runId } = gone.start(before.role);
  while (gone.sink.ofType("tool.started").length === 0) await quiet();
  for (let turns = 0; turns < 10; turns += 1) await quiet();
  const after = part("lead", [DONE], { tools: pay(() => "Paid twice.") });
  const fixture = newFixture({ store, roles: [after.role] });
  const run = await fixture.orchestrator.resume(runId, { takeOver: true });
  return { fixture, result: await run.result };
}

/** The runs, in the order of the table. */
export const FAILURE_SCENES: Readonly<Record<string, () => Promise<Played>>> = {
  invalid_json: () =>
    play({ script: [asks("read", "{path}"), DONE], definition: { tools: [readFile] } }),
  invalid_arguments: () =>
    play({
      script: [asks("read", { path: "notes.txt", lines: "x" }), DONE],
      definition: { tools: [readFile] },
    }),
  tool_retry: () =>
    play({ script: [calls(use("read")), DONE], definition: { tools: read(throws(asking)) } }),
  retry_limit: () =>
    play({
      script: [calls(use("read")), calls(use("read"))],
      definition: { tools: read(throws(asking), { maxRetries: 1 }) },
    }),
  unknown_tool: () =>
    play({
      script: [calls(use("open")), DONE],
      definition: { tools: [readFile, spyTool("list")] },
    }),
  tool_not_available: () =>
    play({
      script: [calls(use("read")), DONE],
      definition: {
        tools: [readFile, spyTool("list")],
        toolFilters: [toolFilter((name) => name !== "read", { name: "quiet" })],
      },
    }),
  tool_error: () =>
    play({ script: [calls(use("read")), DONE], definition: { tools: read(throws(missing)) } }),
  tool_timeout: () =>
    play({
      script: [calls(use("read")), DONE],
      definition: { tools: read(() => new Promise(() => undefined), { timeoutMs: 30_000 }) },
      act: (_run, { clock }) => clock.advance(30_000),
    }),
  interrupted: () => crashed(),
  subagent_failed: () =>
    play({
      script: [calls(spawn("helper")), DONE],
      definition: { subagents: [helper([{ error: new ModelError(NO_KEY) }]).role] },
    }),
  subagent_partial: () =>
    play({
      script: [calls(spawn("helper")), DONE],
      definition: {
        subagents: [helper([says("Two of three.", { finishReason: "length" })]).role],
      },
    }),
  subagent_no_output: () =>
    play({
      script: [calls(spawn("helper")), DONE],
      definition: {
        subagents: [helper([says("", { finishReason: "length" })]).role],
      },
    }),
  subagent_cancelled: () => {
    const waiting = helper([says("late", { after: latch().opened })]);
    return play({
      script: [calls(spawn("helper")), DONE],
      definition: { subagents: [waiting.role] },
      act: (run, { sink }) => {
        const child = sink.ofType("subagent.spawned")[0]?.childId;
        if (child !== undefined) run.cancelAgent(child, "Not needed any more.");
      },
    });
  },
  blocked: () =>
    play({
      script: [calls(use("read")), DONE],
      definition: {
        tools: read(() => "text"),
        guards: [toolGuard(() => ({ type: "deny", reason: "Stay in docs/." }), { name: "docs" })],
      },
    }),
  denied: () =>
    play({
      script: [calls(use("read")), DONE],
      definition: { tools: read(() => "text", { needsApproval: true }) },
      fixture: { approver: (question) => deny(question, "Not that file.") },
    }),
  approval_check_failed: () =>
    play({
      script: [calls(use("read")), DONE],
      definition: { tools: read(() => "text", { needsApproval: () => fail("no connection") }) },
    }),
  skipped: () =>
    play({
      script: [calls(use("read")), DONE],
      definition: { tools: read(() => "text") },
      between: (run) => run.skipToolCalls("Answer first."),
    }),
  unknown_role: () => play({ script: [calls(spawn("writer")), DONE], definition: delegating() }),
  forbidden_role: () =>
    play({
      script: [calls(use("improvise")), DONE],
      definition: delegating({ tools: [improvise] }),
    }),
  invalid_role: () =>
    play({
      script: [calls(spawnAs({ instructions: "Count.", model: "large" })), DONE],
      definition: { dynamicRoles: { models: { small: new ScriptedModel([]) } } },
    }),
  context_policy_failed: () =>
    play({
      script: [calls(use("read")), calls(spawn("helper")), DONE],
      definition: delegating({
        tools: read(() => "text"),
        contextPolicy: {
          selectMessages: (messages) => messages.filter(({ role }) => role !== "tool"),
        },
      }),
    }),
  unknown_subagent: () =>
    play({ script: [calls(writeTo("helper#1")), DONE], definition: inBackground() }),
  subagent_running: () =>
    play({
      script: [
        calls(spawnBeside("helper")),
        calls(goOn("helper", "helper#1")),
        calls(cancelOf("helper#1")),
        DONE,
      ],
      definition: inBackground([says("late", { after: latch().opened })]),
    }),
  subagent_ended: () =>
    play({
      script: [calls(spawn("helper")), calls(writeTo("helper#1")), DONE],
      definition: inBackground(),
    }),
  group_decided: () => {
    const asked = latch();
    return play({
      script: [calls(spawn("helper", "Fail."), spawn("helper", "Wait.")), DONE],
      definition: {
        subagents: [helper([{ error: new ModelError(NO_KEY) }]).role],
        delegation: { failurePolicy: "fail_fast" },
        guards: [toolGuard(({ arguments: given }) => askAbout("Wait.", given), { name: "slow" })],
      },
      fixture: {
        approver: async (question) => {
          await asked.opened;
          return approve(question);
        },
      },
      act: () => asked.open(),
    });
  },
  depth_limit: () =>
    play({
      script: [calls(spawn("helper")), DONE],
      definition: delegating(),
      fixture: { limits: { maxDepth: 0 } },
    }),
  breadth_limit: () =>
    play({
      script: [calls(spawn("helper")), DONE],
      definition: delegating(),
      fixture: { limits: { maxBreadthPerParent: 0 } },
    }),
  total_limit: () =>
    play({
      script: [calls(spawn("helper")), DONE],
      definition: delegating(),
      fixture: { limits: { maxTotalSubagents: 0 } },
    }),
  budget_exhausted: () =>
    play({ script: [calls(spawn("helper"))], definition: delegating({ budget: { steps: 1 } }) }),
  setup_failed: () =>
    play({ script: [calls(spawn("helper")), DONE], definition: { subagents: [unborn] } }),
  parent_stopped: () =>
    play({
      script: [calls(spawn("helper"))],
      definition: delegating({
        hooks: [transform("subagentStart", (_input, { requestStop }) => requestStop("Enough."))],
      }),
    }),
  tool_call_limit: () =>
    play({
      script: [calls(use("read"))],
      definition: { tools: read(() => "text"), budget: { toolCalls: 0 } },
    }),
  time_limit: () => {
    const { tool, options } = busyTool(1_000);
    return play({
      script: [calls(use("busy"), use("read"))],
      definition: { tools: [tool, ...read(() => "text")], budget: { timeMs: 1_000 } },
      fixture: options,
    });
  },
  cancelled: () =>
    play({
      script: [calls(use("read"))],
      definition: { tools: read(async ({ signal }) => await aborted(signal)) },
      act: (run) => void run.cancel("Enough."),
    }),
  not_executed: () =>
    play({
      script: [calls(use("read"))],
      definition: { tools: read(() => "text") },
      between: (run) => run.requestStop("Enough."),
    }),
};

function fail(message: string): never {
  throw new Error(message);
}
