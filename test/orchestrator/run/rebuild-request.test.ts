// Goal: the exact request of any step can be rebuilt from the stored run alone.
// Method: runs in which hooks, notices, filters and compactions change the messages. Their
// snapshots go through JSON, and each rebuilt request is compared with the one that the scripted
// model received.

import { expect, test } from "vitest";

import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import { transform } from "../../../src/hooks/hook.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import type { PausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { rebuildRequest } from "../../../src/orchestrator/run/rebuild-request.ts";
import { AgentIdSchema } from "../../../src/protocol/ids.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { asks, says, type ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { toolFilter } from "../../../src/tools/tool-filter.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

const work = asks("work", {});
const LONG = [work, work, work, work, says("done")];

/** Replaces the texts of tool results in every request. */
const redact = transform("beforeModel", ({ messages }) => ({
  messages: messages.map((message) =>
    message.role === "tool" ? { ...message, text: `[${message.text.length} characters]` } : message,
  ),
}));
/** Shows the last three messages, even if that separates calls from results. */
const window = transform("beforeModel", ({ messages }) => ({ messages: messages.slice(-3) }));
const shuffled = transform("beforeModel", ({ messages }) => ({
  messages: [...messages.slice(0, 1), note("By the way."), ...messages.slice(1), note("Go on.")],
}));
/** Changes every message in every step. */
const restless = transform("beforeModel", ({ messages }, { stepNumber }) => ({
  instructions: `You are in step ${stepNumber}.`,
  messages: messages.map((message) => ({ ...message, text: `${stepNumber}: ${message.text}` })),
}));
const turns = transform("beforeModel", ({ messages }, { stepNumber }) => ({
  instructions: stepNumber % 2 === 0 ? "Even." : "Odd.",
  temperature: stepNumber / 10,
  ...(stepNumber === 3 ? { messages: messages.toReversed() } : {}),
}));
const doubled = transform("beforeModel", ({ messages }) => ({
  messages: messages.flatMap((message): readonly Message[] =>
    message.role === "user" ? [message, message] : [message],
  ),
}));

function note(text: string): Message {
  return { role: "user", text, origin: "injected" };
}

const STORIES: Readonly<Record<string, Partial<Omit<AgentDefinition, "model">>>> = {
  "nothing but the history": {},
  "a filter and a temperature": {
    temperature: 0,
    toolFilters: [toolFilter((_tool, { stepNumber }) => stepNumber % 2 === 0, { tools: ["look"] })],
  },
  "a budget line and a wrap-up notice": {
    wrapUp: true,
    showBudget: true,
    budget: { steps: 5, totalTokens: 9_000 },
  },
  "a hook that redacts": { hooks: [redact] },
  "a hook that shows a window": { hooks: [window] },
  "a hook that puts messages in between": { hooks: [shuffled] },
  "a hook that changes everything in every step": { hooks: [restless] },
  "a hook that changes its mind": { hooks: [turns] },
  "a hook that says everything twice": { hooks: [doubled] },
  "hooks on top of hooks, with notices": {
    hooks: [redact, shuffled, turns],
    wrapUp: "Finish.",
    showBudget: true,
    budget: { steps: 5 },
  },
  "a compaction": { compaction: { maxInputTokens: 60, keepMessages: 2 } },
  "a compaction and a hook that redacts": {
    compaction: { maxInputTokens: 60, keepMessages: 2 },
    hooks: [redact],
  },
};

/** Returns a snapshot in its stored form. */
const stored = (snapshot: PausedRun | undefined): string => JSON.stringify(snapshot);

function expectAll(snapshot: PausedRun | undefined, { requests }: ScriptedModel): void {
  const text = stored(snapshot);
  const rebuilt = requests.map((_request, index) =>
    rebuildRequest(text, { stepNumber: index + 1 }),
  );
  expect(rebuilt.map(({ request }) => JSON.parse(JSON.stringify(request)) as unknown)).toEqual(
    requests.map((request) => JSON.parse(JSON.stringify(request)) as unknown),
  );
  expect(new Set(rebuilt.map(({ model }) => `${model.provider} ${model.id}`))).toEqual(
    new Set(["scripted scripted"]),
  );
}

for (const [name, more] of Object.entries(STORIES)) {
  proves(
    ["R173"],
    `the exact request of each step is rebuilt from the stored run: ${name}`,
    async () => {
      const { role, model } = soloist(
        LONG,
        { tools: [spyTool("work"), spyTool("look")], ...more },
        { countTokens: ({ messages }) => messages.length * 10 },
      );
      const fixture = newFixture();
      const run = fixture.start(role);
      await fixture.outcome(run);
      expect(model.requests).toHaveLength(5);
      expectAll(run.snapshot(), model);
    },
  );
}

proves(
  ["R173"],
  "the requests of a run paused in its second step are rebuilt before and after the resume",
  async () => {
    const pay = spyTool("pay", () => "paid", { needsApproval: true });
    const hooks = [redact, shuffled];
    const script = [work, asks("pay", {}), work, says("done")];
    const { role, model } = soloist(script, { tools: [spyTool("work"), pay], hooks });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    expect(paused.status).toBe("paused");
    expectAll(paused.pausedRun, model);
    const [question] = paused.questions;
    if (question === undefined) throw new Error("Expected a question.");
    const { questionId, argumentsHash } = question;
    const run = fixture.resume(role, paused.pausedRun, [
      { type: "approved", questionId, argumentsHash },
    ]);
    await fixture.outcome(run);
    expect(model.requests).toHaveLength(4);
    expectAll(run.snapshot(), model);
  },
);

proves(["R173"], "the request of a subagent is rebuilt by its id", async () => {
  const helper = part("helper", [says("found")], { hooks: [shuffled] });
  const lead = part("lead", [calls(spawn("helper")), says("done")], { subagents: [helper.role] });
  const fixture = newFixture();
  const run = fixture.start(lead.role);
  const { agents } = await fixture.outcome(run);
  const text = stored(run.snapshot());
  const [, child] = agents;
  if (child === undefined) throw new Error("Expected a subagent.");
  const { request, model } = rebuildRequest(text, { stepNumber: 1, agentId: child.agentId });
  expect([request, model.id]).toEqual([helper.model.requests[0], "helper-model"]);
});

/** Returns the size of the records of shown messages in a run of `steps` steps, in characters. */
async function sizeOfShown(hook: typeof redact, steps: number): Promise<number> {
  const script = [...Array.from({ length: steps - 1 }, () => work), says("done")];
  const { role } = soloist(script, { tools: [spyTool("work")], hooks: [hook] });
  const result = await newFixture().run(role, { budget: { steps: 1_000 } });
  return JSON.stringify(result.steps.map(({ context }) => context.shown)).length;
}

for (const [name, hook] of Object.entries({ redact, window, shuffled, doubled })) {
  test(`records of shown messages grow with the steps, not with their histories: ${name}`, async () => {
    const [short, long] = [await sizeOfShown(hook, 20), await sizeOfShown(hook, 80)];
    expect(long).toBeLessThan(short * 4 * 1.25);
  });
}

test("a run without changed messages records no shown messages", async () => {
  const { role } = soloist(LONG, { tools: [spyTool("work")] });
  const { steps, definitions } = await newFixture().run(role);
  expect(steps.map(({ context }) => context.shown)).toEqual(LONG.map(() => undefined));
  expect(Object.keys(definitions)).toHaveLength(2);
});

async function finished(): Promise<PausedRun> {
  const { role } = soloist([work, says("done")], { tools: [spyTool("work")], hooks: [shuffled] });
  const fixture = newFixture();
  const run = fixture.start(role);
  await fixture.outcome(run);
  return run.snapshot();
}

test("an unknown step or agent is refused with an error that lists the steps", async () => {
  const run = await finished();
  for (const stepNumber of [0, 3, -1, 1.5, Number.NaN, -0]) {
    const error = thrownBy(() => rebuildRequest(run, { stepNumber }));
    expect([error.code, error.message]).toEqual([
      "invalid_argument",
      `Expected rebuild options.stepNumber to be a step of solo (1 to 2), got ${stepNumber}. Steps are numbered from 1.`,
    ]);
  }
  const agentId = AgentIdSchema().parse("agent_9");
  expect(thrownBy(() => rebuildRequest(run, { stepNumber: 1, agentId })).code).toBe(
    "unknown_agent",
  );
});

test("a run with a missing or altered text is refused", async () => {
  const run = await finished();
  for (const hash of Object.keys(run.definitions)) {
    const { [hash]: _gone, ...definitions } = run.definitions;
    const isNeeded = [1, 2].some((stepNumber) => {
      try {
        rebuildRequest({ ...run, definitions }, { stepNumber });
        return false;
      } catch (cause) {
        expect(EspalierError.is(cause) && cause.code).toBe("invalid_paused_run");
        return true;
      }
    });
    expect([hash, isNeeded]).toEqual([hash, run.definitions[hash] !== "Work."]);
    const forged = { ...run, definitions: { ...run.definitions, [hash]: "Obey." } };
    const error = thrownBy(() => rebuildRequest(forged, { stepNumber: 1 }));
    expect([error.code, error.message.includes("was altered")]).toEqual([
      "invalid_paused_run",
      true,
    ]);
  }
});

test("a rebuilt request is frozen", async () => {
  const { request } = rebuildRequest(await finished(), { stepNumber: 1 });
  expect(
    [request, request.messages, request.messages[0], request.tools].map(Object.isFrozen),
  ).toEqual([true, true, true, true]);
});
