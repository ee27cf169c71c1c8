// Goal: each step records its context, and each text of a context is stored once for the whole run.
// Method: tools and prompts that change from step to step; hashes recomputed from the scripted
// model's requests.

import { createHash } from "node:crypto";

import { expect, test } from "vitest";

import { transform } from "../../../src/hooks/hook.ts";
import type { ModelRequest } from "../../../src/model/model.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { toolFilter } from "../../../src/tools/tool-filter.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

/** The same hash, computed independently. */
const sha = (text: string): string => createHash("sha256").update(text, "utf8").digest("hex");
const toolsSha = ({ tools }: ModelRequest): string => sha(JSON.stringify(tools));

const contextsIn = ({ steps }: Pick<RunResult, "steps">) => steps.map(({ context }) => context);

proves(
  ["R172"],
  "a step records model, tools, prompt, budget and number, even if filter and prompt change",
  async () => {
    const { role, model } = soloist([asks("look", {}), says("done")], {
      tools: [spyTool("look"), spyTool("crawl")],
      toolFilters: [toolFilter((_tool, { stepNumber }) => stepNumber < 2, { tools: ["crawl"] })],
      hooks: [
        transform("beforeModel", (_input, { stepNumber }) =>
          stepNumber === 2 ? { instructions: "Hurry.", temperature: 0.5 } : undefined,
        ),
      ],
      budget: { steps: 5, totalTokens: 9_000 },
      maxOutputTokens: 700,
    });
    const fixture = newFixture();
    const result = await fixture.run(role);
    const [first, second] = model.requests;
    if (first === undefined || second === undefined) throw new Error("Expected two requests.");
    const shared = { model: { provider: "scripted", id: "scripted" } };
    expect(contextsIn(result)).toEqual([
      {
        ...shared,
        number: 1,
        toolNames: ["look", "crawl"],
        promptHash: sha("Work."),
        toolsHash: toolsSha(first),
        budget: { steps: 5, totalTokens: 9_000 },
        parameters: { maxOutputTokens: 700 },
      },
      {
        ...shared,
        number: 2,
        toolNames: ["look"],
        promptHash: sha("Hurry."),
        toolsHash: toolsSha(second),
        budget: { steps: 4, totalTokens: 8_985 },
        parameters: { maxOutputTokens: 700, temperature: 0.5 },
        shown: [
          {
            type: "message",
            message: { role: "system", origin: "instructions" },
            textHash: sha("Hurry."),
          },
          { type: "history", from: 1, to: 4 },
        ],
      },
    ]);
    expect(first.tools.map(({ name }) => name)).toEqual(["look", "crawl"]);
    expect(second.tools.map(({ name }) => name)).toEqual(["look"]);
    expect(second.messages[0]?.text).toBe("Hurry.");
    expect(result.definitions).toEqual({
      [sha("Work.")]: "Work.",
      [toolsSha(first)]: JSON.stringify(first.tools),
      [sha("Hurry.")]: "Hurry.",
      [toolsSha(second)]: JSON.stringify(second.tools),
    });
    expect(
      fixture.sink
        .ofType("step.started")
        .map(({ promptHash, toolsHash }) => [promptHash, toolsHash]),
    ).toEqual(contextsIn(result).map(({ promptHash, toolsHash }) => [promptHash, toolsHash]));
  },
);

proves(["R172"], "a step records the budget that was left before its reservation", async () => {
  const { role } = soloist([asks("work", {}), says("done")], {
    tools: [spyTool("work")],
    budget: { totalTokens: 1_000 },
    maxOutputTokens: 900,
    showBudget: true,
  });
  const result = await newFixture().run(role);
  expect(contextsIn(result).map(({ budget }) => budget)).toEqual([
    { totalTokens: 1_000 },
    { totalTokens: 985 },
  ]);
  const [cap] = contextsIn(result).map(({ parameters }) => parameters.maxOutputTokens);
  expect(cap).toBe(900);
});

test("the prompt hash covers further system messages, and no other message", async () => {
  const { role, model } = soloist([says("done")], {
    sections: [
      {
        name: "rules",
        lifetime: "step",
        text: "Be kind.",
        messageRole: "system",
        after: "instructions",
      },
      { name: "place", lifetime: "step", text: "You are at home." },
    ],
  });
  const result = await newFixture().run(role);
  expect(model.requests[0]?.messages.map(({ text }) => text)).toEqual([
    "Work.",
    "Be kind.",
    "Do it.",
    "You are at home.",
  ]);
  const [context] = contextsIn(result);
  expect(context?.promptHash).toBe(sha("Work.\n\nBe kind."));
});

test("agents of one run share one table, in which each text is stored once", async () => {
  const helper = part("helper", [says("one"), says("two")]);
  const lead = part("lead", [calls(spawn("helper"), spawn("helper")), says("done")], {
    subagents: [helper.role],
  });
  const result = await newFixture().run(lead.role);
  const hashes = result.agents.flatMap((agent) =>
    contextsIn(agent).flatMap(({ promptHash, toolsHash }) => [promptHash, toolsHash]),
  );
  expect(hashes).toHaveLength(8);
  expect(Object.keys(result.definitions).toSorted()).toEqual([...new Set(hashes)].toSorted());
  for (const [hash, text] of Object.entries(result.definitions)) expect(sha(text)).toBe(hash);
});

test("a paused run contains the table, and the steps after the pause add to it", async () => {
  const { role } = soloist([asks("pay", {}), says("done")], {
    tools: [spyTool("pay", () => "paid", { needsApproval: true })],
    hooks: [
      transform("beforeModel", (_input, { stepNumber }) => ({
        instructions: `Step ${stepNumber}.`,
      })),
    ],
  });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  expect(paused.definitions).toEqual(paused.pausedRun?.definitions);
  expect(Object.values(paused.definitions)).toContain("Step 1.");
  const [question] = paused.questions;
  if (question === undefined) throw new Error("Expected a question.");
  const { questionId, argumentsHash } = question;
  const answer = { type: "approved", questionId, argumentsHash } as const;
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, [answer]));
  expect(Object.values(result.definitions)).toEqual([
    ...Object.values(paused.definitions),
    "Step 2.",
  ]);
});

test("a failed step records its context", async () => {
  const { role } = soloist([{ error: new Error("gone") }], { budget: { steps: 3 } });
  const result = await newFixture().run(role);
  expect(result.status).toBe("failed");
  expect(contextsIn(result)).toEqual([
    {
      number: 1,
      model: { provider: "scripted", id: "scripted" },
      toolNames: [],
      promptHash: sha("Work."),
      toolsHash: sha("[]"),
      budget: { steps: 3 },
      parameters: { maxOutputTokens: 8_192 },
    },
  ]);
});
