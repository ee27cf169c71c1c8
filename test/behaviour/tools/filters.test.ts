// Goal: a filtered tool is neither offered nor executed, and is available again once the filter
// allows it.
// Method: filters that read the budget, the steps and the metadata; models that call tools that are
// not offered.

import { expect, test } from "vitest";
import { z } from "zod";

import { transform } from "../../../src/hooks/hook.ts";
import { approve } from "../../../src/protocol/question.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { toolFilter, type FilterContext } from "../../../src/tools/tool-filter.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, ending } from "../../support/pause-stories.ts";
import { unfrozenParts } from "../../support/frozen.ts";
import { calls, part, spawn, receivedTexts, use } from "../../harness/scripted-agents.ts";
import type { ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { outcomes } from "../../support/call-outcomes.ts";

/** Returns the tools of each request, in order. */
const offered = ({ requests }: ScriptedModel): readonly (readonly string[])[] =>
  requests.map(({ tools }) => tools.map(({ name }) => name));

proves(
  ["R123"],
  "removes an expensive tool from the request once the remaining budget is below a threshold",
  async () => {
    const isAffordable = toolFilter(
      (_tool, { remaining }) => (remaining["totalTokens"] ?? 0) >= 70,
      {
        tools: ["crawl"],
        name: "affordable",
      },
    );
    const work = calls(use("look"));
    const { role, model } = soloist([work, work, work, says("ok")], {
      tools: [spyTool("look"), spyTool("crawl")],
      toolFilters: [isAffordable],
      budget: { totalTokens: 100 },
    });
    const fixture = newFixture();
    await fixture.run(role);
    expect(offered(model)).toEqual([
      ["look", "crawl"],
      ["look", "crawl"],
      ["look", "crawl"],
      ["look"],
    ]);
    expect(
      fixture.sink.ofType("tools.filtered").map(({ stepId, removed }) => [stepId, removed]),
    ).toEqual([["execution_1.4", [{ toolName: "crawl", filter: "affordable" }]]]);
    expect(fixture.sink.ofType("model.requested").map(({ toolNames }) => toolNames)).toEqual(
      offered(model),
    );
  },
);

const isConfirmed = ({ steps }: FilterContext): boolean =>
  steps.some(({ tools }) =>
    tools.executions.some(({ call, type }) => call.toolName === "confirm" && type === "succeeded"),
  );

proves(["R123"], "offers a writing tool only after a confirmation", async () => {
  const write = spyTool("write");
  const confirm = spyTool("confirm", () => "yes", { needsApproval: true });
  const { role, model } = soloist(
    [calls(use("write")), calls(use("confirm")), calls(use("write")), says("ok")],
    {
      tools: [write, confirm],
      toolFilters: [toolFilter((_tool, facts) => isConfirmed(facts), { tools: ["write"] })],
    },
  );
  const result = await newFixture({ approver: (question) => approve(question) }).run(role);
  expect(offered(model)).toEqual([
    ["confirm"],
    ["confirm"],
    ["write", "confirm"],
    ["write", "confirm"],
  ]);
  expect([write.calls.length, outcomes(result).map(([name, , code]) => [name, code])]).toEqual([
    1,
    [
      ["write", "tool_not_available"],
      ["confirm", ""],
      ["write", ""],
    ],
  ]);
});

proves(
  ["R124"],
  "does not execute or charge a call of a filtered tool, skips its guards and hooks, and reports it",
  async () => {
    const seen: string[] = [];
    const drop = spyTool("drop", () => "dropped", { needsApproval: true });
    const { role, model } = soloist([calls(use("drop"), use("look")), says("ok")], {
      tools: [drop, spyTool("look")],
      toolFilters: [toolFilter((name) => name !== "drop", { name: "no drops" })],
      guards: [
        toolGuard(({ toolName }) => {
          seen.push(toolName);
          return { type: "allow" };
        }),
      ],
      hooks: [
        transform("beforeTool", ({ toolName }) => {
          seen.push(toolName);
        }),
      ],
    });
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect([ending(result), drop.calls.length, seen]).toEqual([
      ["completed", "completed"],
      0,
      ["look", "look"],
    ]);
    expect(outcomes(result)).toEqual([
      [
        "drop",
        "refused",
        "tool_not_available",
        "Not executed: drop is not available in this step. Your tools are: look.",
      ],
      ["look", "succeeded", "", "look done"],
    ]);
    expect(receivedTexts(model.requests[1])[0]).toMatch(/not available/);
    const [execution] = result.steps[0]?.tools.executions ?? [];
    expect([execution?.blockedBy, execution?.severity]).toEqual(["no drops", "recoverable"]);
    expect(
      fixture.sink
        .ofType("tool.rejected")
        .map(({ toolName, error, blockedBy }) => [toolName, error.code, blockedBy]),
    ).toEqual([["drop", "tool_not_available", "no drops"]]);
    expect(fixture.sink.ofType("tool.started").map(({ toolName }) => toolName)).toEqual(["look"]);
    expect([fixture.sink.ofType("tools.filtered").length, result.usage.total.toolCalls]).toEqual([
      2, 1,
    ]);
    expect(result.agents[0]?.toolErrors.map(({ code }) => code)).toEqual(["tool_not_available"]);
  },
);

test("intersects filters, names each that removes a tool, and asks for text if none is left", async () => {
  const { role, model } = soloist([calls(use("a")), says("ok")], {
    tools: [spyTool("a"), spyTool("b")],
    toolFilters: [
      toolFilter((name) => name === "b", { name: "one" }),
      toolFilter(() => false, { name: "two" }),
    ],
  });
  const fixture = newFixture();
  const result = await fixture.run(role);
  expect(offered(model)).toEqual([[], []]);
  expect(fixture.sink.ofType("tools.filtered")[0]?.removed).toEqual([
    { toolName: "a", filter: "one" },
    { toolName: "a", filter: "two" },
    { toolName: "b", filter: "two" },
  ]);
  expect([outcomes(result)[0]?.[3], result.steps[0]?.tools.executions[0]?.blockedBy]).toEqual([
    "Not executed: a is not available in this step. You have no tools in this step; answer in text.",
    "one, two",
  ]);
});

test("executes a tool that was offered, whatever a filter returns later in the step", async () => {
  let isOpen = true;
  const work = spyTool("work");
  const close = spyTool("close", () => {
    isOpen = false;
    return "closed";
  });
  const { role, model } = soloist(
    [calls(use("close"), use("work")), calls(use("work")), says("ok")],
    { tools: [work, close], toolFilters: [toolFilter(() => isOpen, { tools: ["work"] })] },
  );
  const result = await newFixture().run(role);
  expect([work.calls.length, offered(model), outcomes(result).map(([, , code]) => code)]).toEqual([
    1,
    [["work", "close"], ["close"], ["close"]],
    ["", "", "tool_not_available"],
  ]);
});

test("can remove SpawnSubagent but not Finish, and applies to its own role only", async () => {
  const child = part("child", [calls(use("work")), says("ok")], { tools: [spyTool("work")] });
  const root = part(
    "root",
    [
      calls(spawn("child")),
      calls(spawn("child")),
      { calls: [{ toolName: "Finish", arguments: { a: 1 } }] },
    ],
    {
      subagents: [child.role],
      output: z.object({ a: z.number() }),
      toolFilters: [
        toolFilter((name, { stepNumber }) => name !== "SpawnSubagent" || stepNumber === 1),
        toolFilter((name) => name !== "Finish" && name !== "work"),
      ],
    },
  );
  const result = await newFixture().run(root.role);
  expect([ending(result), result.agents.length, offered(root.model)]).toEqual([
    ["completed", "completed"],
    2,
    [["Finish", "SpawnSubagent"], ["Finish"], ["Finish"]],
  ]);
  expect(offered(child.model)).toEqual([["work"], ["work"]]);
  expect(result.refusalsByCode).toEqual({ tool_not_available: 1 });
});

test("passes frozen facts about the state of the agent", async () => {
  const facts: FilterContext[] = [];
  const { role } = soloist([calls(use("work")), says("ok")], {
    tools: [spyTool("work")],
    budget: { steps: 5 },
    toolFilters: [
      toolFilter((_name, given) => {
        facts.push(given);
        return true;
      }),
    ],
  });
  const fixture = newFixture();
  await fixture.outcome(fixture.start(role, "Do it.", { metadata: { user: { id: 7 } } }));
  expect(facts.flatMap((given) => unfrozenParts(given))).toEqual([]);
  expect(
    facts.map(({ agentPath, depth, stepNumber, steps, usage, remaining, metadata }) => [
      agentPath,
      depth,
      stepNumber,
      steps.length,
      usage.totalTokens,
      remaining,
      metadata,
    ]),
  ).toEqual([
    ["solo", 0, 1, 0, 0, { steps: 5 }, { user: { id: 7 } }],
    ["solo", 0, 2, 1, 15, { steps: 4 }, { user: { id: 7 } }],
  ]);
});

const broken: readonly (readonly [string, () => boolean])[] = [
  [
    "throws",
    () => {
      throw new Error("oops");
    },
  ],
  ["gives no boolean", () => z.custom<boolean>(() => true).parse({})],
];

for (const [what, check] of broken) {
  test(`fails the agent before a model call if a filter ${what}, and names the filter`, async () => {
    const { role, model } = soloist([says("never")], {
      tools: [spyTool("work")],
      toolFilters: [toolFilter(check, { name: "odd" })],
    });
    const result = await newFixture().run(role);
    expect([ending(result), model.requests.length]).toEqual([["failed", "error"], 0]);
    expect(result.agents[0]?.errors.map(({ code, data }) => [code, data])).toEqual([
      ["tool_filter_failed", { filter: "odd" }],
    ]);
  });
}

test("fails only the child whose filter fails", async () => {
  const child = part("child", [says("never")], {
    tools: [spyTool("work")],
    toolFilters: [
      toolFilter(() => {
        throw new Error("oops");
      }),
    ],
  });
  const root = part("root", [calls(spawn("child")), says("ok")], { subagents: [child.role] });
  const result = await newFixture().run(root.role);
  expect(result.agents.map(({ status }) => status)).toEqual(["completed", "failed"]);
});

test("keeps a tool removed across a pause for the calls of that step", async () => {
  let isOffered = false;
  const drop = spyTool("drop");
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const alone = spyTool("alone", () => "alone done", { sequential: true });
  const build = (script: readonly ScriptedReply[]) =>
    soloist(script, {
      tools: [drop, pay, alone],
      toolFilters: [toolFilter(() => isOffered, { tools: ["drop"], name: "shut" })],
    });
  const fixture = newFixture();
  const paused = await fixture.run(build([calls(use("pay"), use("alone"), use("drop"))]).role);
  expect(ending(paused)).toEqual(["paused", "input_required"]);
  isOffered = true;
  const again = build([says("ok")]);
  const result = await fixture.outcome(
    fixture.resume(again.role, paused.pausedRun, approveAll(paused)),
  );
  expect([drop.calls.length, outcomes(result).map(([name, , code]) => [name, code])]).toEqual([
    0,
    [
      ["pay", ""],
      ["alone", ""],
      ["drop", "tool_not_available"],
    ],
  ]);
  expect(offered(again.model)).toEqual([["drop", "pay", "alone"]]);
});

test("offers no other tools than Finish in a last step, regardless of filters", async () => {
  const { role, model } = soloist([says("ok")], {
    tools: [spyTool("a"), spyTool("b")],
    toolFilters: [toolFilter((name) => name === "a")],
    budget: { steps: 1 },
    wrapUp: true,
  });
  const result = await newFixture().run(role);
  expect([offered(model), result.text]).toEqual([[[]], "ok"]);
});
