// Runs of every kind in which all written text contains a canary: text of users, models, tools,
// hooks, guards and people who answer. Names that are exported by design contain none: names of
// roles, tools and models, call ids, metadata keys and descriptions.

import { z } from "zod";

import { transform, wrapModelCall, wrapToolCall } from "../../../src/hooks/hook.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import type { EventSink } from "../../../src/protocol/event.ts";
import { approve, deny, provideResult } from "../../../src/protocol/question.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { says, ScriptedModel, type ScriptedCall } from "../../../src/testing/scripted-model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { ToolError } from "../../../src/tools/tool-error.ts";
import { toolFilter } from "../../../src/tools/tool-filter.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { withRetries } from "../../../src/tools/wrappers/with-retries.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";

export const CANARY = "canary-5150";

type Watched = Pick<OrchestratorOptions, "tracing" | "sinks">;

/** Each runs to its end with the given tracing. */
export const CANARY_RUNS: Readonly<Record<string, (options: Watched) => Promise<void>>> = {
  "tools that succeed, fail, are refused and are made up": toolCalls,
  "hooks, sections and a filter of texts": hooked,
  "approvals with reasons and changed arguments, over a pause": asked,
  "an agent without a description, over a pause": withoutPurpose,
  "delegations, drafts, refusals and a result by a tool": delegated,
  "background work and messages on the way": background,
  "summaries of results and of the history": summarized,
  "delegations of one that is asked to end meanwhile": stoppedMeanwhile,
  "models that fail and callers that cancel": broken,
  "limits, grants, retries and filters": limited,
};

const called = (name: string, more: object = {}): ScriptedCall => ({
  toolName: name,
  arguments: { note: CANARY, ...more },
});
const SAID = `It is ${CANARY}.`;
const INSTRUCTIONS = `You know ${CANARY}.`;
const START = { metadata: { note: CANARY } };

async function toolCalls(options: Watched): Promise<void> {
  const looks = spyTool("looks", () => ({ found: CANARY }));
  const throws = spyTool("throws", () => {
    throw new Error(CANARY);
  });
  const retries = spyTool("retries", () => {
    throw new ToolError(CANARY, { severity: "retryable", hint: CANARY, data: { note: CANARY } });
  });
  const guarded = spyTool("guarded", () => CANARY);
  const guards = [
    toolGuard(({ toolName }) =>
      toolName === "guarded" ? { type: "deny", reason: CANARY } : { type: "allow" },
    ),
  ];
  const all = ["looks", "throws", "retries", "guarded", CANARY].map((name) => called(name));
  const wrong: readonly ScriptedCall[] = [
    { toolName: "looks", arguments: `{"${CANARY}` },
    { toolName: "looks", arguments: `[${JSON.stringify(CANARY)}]` },
  ];
  const { role } = part("solo", [calls(...all, ...wrong), says(SAID)], {
    tools: [looks, throws, retries, guarded],
    guards,
  });
  const fixture = newFixture(options);
  await fixture.outcome(fixture.start(role, CANARY, START));
}

async function hooked(options: Watched): Promise<void> {
  const hooks = [
    transform("userInput", ({ task }) => ({ task: `${task} ${CANARY}` }), { name: CANARY }),
    transform("beforeModel", ({ messages }) => ({
      messages: messages.filter(({ role }) => role !== "tool"),
    })),
    transform("beforeTool", () => ({ arguments: { note: `${CANARY} by a hook` } })),
    transform("afterTool", () => ({ text: CANARY, metadata: { note: CANARY } })),
    wrapModelCall((_call, next) => next(), { name: CANARY }),
    wrapToolCall((_call, next) => next(), { name: CANARY }),
    transform("stop", ({ vetoes }) => (vetoes === 0 ? { continueWith: CANARY } : undefined)),
  ];
  const { role } = part(
    "solo",
    [calls(called("looks")), says(SAID, { warnings: [CANARY] }), says(SAID)],
    {
      tools: [spyTool("looks", () => CANARY)],
      hooks,
      sections: [
        { name: "memory", lifetime: "execution", text: CANARY },
        { name: "day", lifetime: "step", text: () => CANARY },
      ],
    },
  );
  const fixture = newFixture(options);
  await fixture.outcome(fixture.start(role, CANARY, START));
}

async function asked(options: Watched): Promise<void> {
  const pays = spyTool("pays", () => CANARY, { needsApproval: true });
  const elsewhere = defineTool({
    name: "elsewhere",
    description: "Asks.",
    inputSchema: z.looseObject({}),
  });
  const clerk = part(
    "clerk",
    [calls(called("pays"), called("pays", { nth: 2 }), called("elsewhere")), says(SAID)],
    { tools: [pays, elsewhere] },
  );
  const lead = part("lead", [calls(spawn("clerk", CANARY)), says(SAID)], {
    subagents: [clerk.role],
  });
  const fixture = newFixture(options);
  const paused = await fixture.outcome(fixture.start(lead.role, CANARY, START));
  const answers = paused.questions.map((question, index) => {
    if (question.kind === "external") return provideResult(question, { said: CANARY });
    return index === 0
      ? approve(question, { arguments: { note: `${CANARY} changed` } })
      : deny(question, CANARY);
  });
  await fixture.outcome(fixture.resume(lead.role, paused.pausedRun, answers));
}

async function withoutPurpose(options: Watched): Promise<void> {
  const pays = spyTool("pays", () => CANARY, { needsApproval: true });
  const { role } = soloist([calls(called("pays")), says(SAID)], { tools: [pays] });
  const ids = sequentialIds();
  ids.next("run"); // Another run id than before, since runs may share a tracing.
  const fixture = newFixture({ ...options, ids });
  const paused = await fixture.outcome(fixture.start(role, CANARY, START));
  const answers = paused.questions.map((question) => approve(question));
  await fixture.outcome(fixture.resume(role, paused.pausedRun, answers));
}

async function delegated(options: Watched): Promise<void> {
  const reader = part("reader", [calls(called("Finish"))], {
    output: z.object({ note: z.string() }),
    contextPolicy: {
      inheritMetadata: true,
      inheritMessages: true,
      injectedTexts: [CANARY],
    },
  });
  const dynamicRoles = {
    tools: [spyTool("reads", () => CANARY)],
    models: { small: new ScriptedModel(() => says(SAID), { id: "small" }) },
    budget: { steps: 2 },
  };
  const drafted = (role: string): ScriptedCall => ({
    toolName: "SpawnSubagent",
    arguments: {
      role,
      task: CANARY,
      newRole: { instructions: INSTRUCTIONS, tools: ["reads", `write to ${CANARY}`] },
    },
  });
  const lead = part(
    "lead",
    [
      calls(
        spawn("reader", CANARY),
        spawn(CANARY, CANARY),
        drafted("critic"),
        drafted(`a ${CANARY}`),
      ),
      calls({ toolName: "SpawnSubagent", arguments: { note: CANARY } }),
      says(SAID),
    ],
    { subagents: [reader.role], dynamicRoles },
  );
  const fixture = newFixture(options);
  await fixture.outcome(fixture.start(lead.role, CANARY, START));
}

/** Names are no longer looked up after the stop request: they are whatever the model wrote. */
async function stoppedMeanwhile(options: Watched): Promise<void> {
  const reader = part("reader", [says(SAID)]);
  const again = {
    toolName: "ContinueSubagent",
    arguments: { subagent: `${CANARY}#1`, task: CANARY },
  };
  const lead = part(
    "lead",
    [calls(use("reads")), calls(spawn(CANARY, CANARY), again), says(SAID)],
    {
      subagents: [reader.role],
      tools: [spyTool("reads", () => CANARY)],
    },
  );
  const stop: EventSink = {
    emit: (event) => {
      if (event.type === "tool.started" && event.kind === "delegation") run.requestStop(CANARY);
    },
  };
  const fixture = newFixture({ ...options, sinks: [...(options.sinks ?? []), stop] });
  const run = fixture.start(lead.role, CANARY, START);
  await fixture.outcome(run);
}

async function background(options: Watched): Promise<void> {
  const told = latch();
  const worker = part("worker", () => says(SAID));
  const beside = {
    toolName: "SpawnSubagent",
    arguments: { role: "worker", task: CANARY, background: true },
  };
  const lead = part(
    "lead",
    [
      calls(beside, use("waits")),
      calls({
        toolName: "SpawnSubagent",
        arguments: { role: "worker", task: CANARY, continue: "worker#1" },
      }),
      calls(beside),
      says(SAID),
      says(SAID), // once more, after a report that came while it answered
    ],
    {
      subagents: [worker.role],
      delegation: { background: true, parentEndPolicy: "detach" },
      tools: [
        spyTool("waits", async () => {
          await told.opened;
          return CANARY;
        }),
      ],
    },
  );
  const fixture = newFixture(options);
  const run = fixture.start(lead.role, CANARY, START);
  await flushEventLoop();
  const delivery = run.steer(CANARY);
  told.open();
  await delivery;
  await fixture.outcome(run);
}

async function summarized(options: Watched): Promise<void> {
  const reads = spyTool("reads", () => `${CANARY} `.repeat(20), {
    maxResultCharacters: 10,
    longResultPolicy: "summarize",
  });
  let read = 0;
  const { role } = part(
    "solo",
    ({ tools }) => {
      if (tools.length === 0) return says(`${CANARY} in short`);
      read += 1;
      return read > 4 ? says(SAID) : calls(called("reads", { read }));
    },
    {
      tools: [reads],
      compaction: { strategy: "summarize", maxInputTokens: 300, keepMessages: 2 },
      scripted: { countTokens: ({ messages }) => messages.length * 60 },
    },
  );
  const fixture = newFixture(options);
  const run = fixture.start(role, CANARY, START);
  await fixture.outcome(run);
}

async function broken(options: Watched): Promise<void> {
  const refusing = part("refusing", [says("", { refusal: CANARY })]);
  const failing = part("failing", [
    { error: new ModelError({ code: "model_invalid_request", message: CANARY }) },
  ]);
  const lead = part(
    "lead",
    [calls(spawn("refusing", CANARY), spawn("failing", CANARY)), calls(use("waits")), says(SAID)],
    {
      subagents: [refusing.role, failing.role],
      tools: [spyTool("waits", () => new Promise<string>(() => undefined))],
    },
  );
  const fixture = newFixture(options);
  const run = fixture.start(lead.role, CANARY, START);
  for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
  const ended = run.cancel(CANARY);
  for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
  fixture.clock.advance(60_000);
  await ended;
  await fixture.outcome(run);
}

async function limited(options: Watched): Promise<void> {
  const busy = new ModelError({ code: "model_overloaded", message: CANARY });
  let tries = 0;
  const stubborn = spyTool("tries", () => {
    tries += 1;
    if (tries < 2) throw new Error(CANARY);
    return CANARY;
  });
  const leak = { note: CANARY };
  const { role } = part(
    "solo",
    [
      { error: busy },
      { text: JSON.stringify(leak), calls: [{ toolName: "tries", arguments: leak }] },
      says(SAID),
    ],
    {
      tools: [withRetries(stubborn, { maxAttempts: 2 }), spyTool("hidden")],
      toolFilters: [toolFilter((toolName) => toolName !== "hidden", { name: CANARY })],
    },
  );
  const fixture = newFixture(options);
  const run = fixture.start(role, CANARY, { ...START, budget: { steps: 1 } });
  for (let round = 0; round < 6; round += 1) {
    for (let turn = 0; turn < 10; turn += 1) await flushEventLoop();
    fixture.clock.advance(1_000);
  }
  await fixture.outcome(run);
  const grants = [{ budget: { steps: 2 }, by: CANARY }];
  await fixture.outcome(fixture.grantOn(role, run.snapshot(), grants));
}
