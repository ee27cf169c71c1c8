// Goal: a fold separates the usage of an agent from that of its subagents, and keeps failed
// attempts.
// Method: small runs, and the details of their agents.

import { expect } from "vitest";
import { z } from "zod";

import { sameJson } from "../../src/kernel/json.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { toolGuard } from "../../src/tools/tool-guard.ts";
import { describeFailedAttempts } from "../../src/cli/agent-text.ts";
import { wrapModelCall } from "../../src/hooks/hook.ts";
import { createAgentDetail } from "../../src/read-model/agent-row.ts";
import { withFallback } from "../../src/model/with-fallback.ts";
import { asks, says, ScriptedModel } from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { failing, roleOf } from "../support/limited-models.ts";
import { tool } from "../harness/scripted-agents.ts";
import { foldOf } from "../support/read-model/fold-of.ts";

proves(
  ["D596"],
  "excludes the usage of subagents and siblings from an agent's own usage",
  async () => {
    const helper = roleOf(new ScriptedModel([says("One."), says("Two.")]), {
      name: "helper",
      description: "Helps.",
    });
    const spawn = (task: string) => asks("SpawnSubagent", { role: "helper", task });
    const lead = roleOf(new ScriptedModel([spawn("One."), spawn("Two."), says("Done.")]), {
      name: "lead",
      subagents: [helper],
    });
    const fixture = newFixture();
    const budget = { totalTokens: 1_000, steps: 10, toolCalls: 5 };
    const result = await fixture.outcome(fixture.start(lead, "Lead.", { budget }));
    const fold = foldOf(fixture.sink.events);
    expect(fold.agents.map((agent) => [agent.name, createAgentDetail(agent, []).used])).toEqual([
      ["lead", { totalTokens: 45, steps: 3, toolCalls: 2 }],
      ["helper#1", { totalTokens: 15, steps: 1, toolCalls: 0 }],
      ["helper#2", { totalTokens: 15, steps: 1, toolCalls: 0 }],
    ]);
    // Until an agent ends, its usage is the sum of its charges.
    const ended = fixture.sink.events.findIndex(
      ({ type, agentPath }) => type === "agent.ended" && agentPath === "lead",
    );
    const before = foldOf(fixture.sink.events.slice(0, ended));
    expect(before.root?.used).toEqual({ totalTokens: 45, steps: 3, toolCalls: 2 });
    expect(result.usage.own.totalTokens).toBe(45);
  },
);

proves(["D624"], "counts the tool calls of a step like the agent's account", async () => {
  const look = defineTool({
    name: "look",
    description: "Looks.",
    inputSchema: z.object({ at: z.string() }),
    execute: ({ at }) => at,
  });
  const calls = (...inputs: readonly object[]) => ({
    calls: inputs.map((input) => ({ toolName: "look", arguments: input })),
  });
  const model = new ScriptedModel(
    [
      calls({ at: "a" }, { at: "no" }, { at: 1 }),
      calls({ at: "no" }, { at: "b" }),
      asks("none", {}),
      says("Done."),
    ],
    { allowUnknownTools: true },
  );
  const guard = toolGuard(({ arguments: input }) =>
    sameJson(input, { at: "no" }) ? { type: "deny", reason: "No." } : { type: "allow" },
  );
  const errorBudget = { maxToolErrors: 10, maxConsecutiveErrors: 10 };
  const role = roleOf(model, { tools: [look], guards: [guard], errorBudget });
  const fixture = newFixture();
  const result = await fixture.outcome(
    fixture.start(role, "Look.", { budget: { toolCalls: 9, steps: 10 } }),
  );
  const { events } = fixture.sink;
  const counts = events.flatMap(({ type }, index) =>
    type === "step.completed" ? [foldOf(events.slice(0, index + 1)).root?.used["toolCalls"]] : [],
  );
  // The call of an unknown tool and the call with an invalid argument are not charged.
  expect(counts).toEqual([2, 4, 4, 4]);
  expect(foldOf(events).root?.used["toolCalls"]).toBe(4);
  expect(result.usage.own.toolCalls).toBe(4);
});

proves(["D601"], "records failed attempts and the model that was called next", async () => {
  const main = new ScriptedModel([failing("model_unavailable")], { id: "main" });
  const spare = new ScriptedModel([says("Spare.")], { id: "spare" });
  const fixture = newFixture();
  await fixture.outcome(fixture.start(roleOf(withFallback([main, spare])), "Work."));
  const [root] = foldOf(fixture.sink.events).agents;
  if (root === undefined) throw new Error("There is a root.");
  expect(createAgentDetail(root, []).steps.map(({ attempts }) => attempts)).toEqual([
    [
      {
        attempt: 1,
        code: "model_unavailable",
        message: "model_unavailable.",
        delayMs: 0,
        nextModel: "spare",
      },
    ],
  ]);
});

proves(["D601"], "lists no attempts for a step whose first attempt succeeded", async () => {
  const fixture = newFixture();
  await fixture.outcome(fixture.start(roleOf(new ScriptedModel([says("Done.")])), "Work."));
  const [root] = foldOf(fixture.sink.events).agents;
  if (root === undefined) throw new Error("There is a root.");
  expect(createAgentDetail(root, []).steps.map(({ attempts }) => attempts)).toEqual([[]]);
});

proves(
  ["D548"],
  "subtracts the usage of subagents and of the last tool calls from what remains",
  async () => {
    const look = tool("look", () => "Seen.");
    const helper = roleOf(new ScriptedModel([asks("look", {}), says("One.")]), {
      name: "helper",
      description: "Helps.",
      tools: [look],
    });
    const spawn = asks("SpawnSubagent", { role: "helper", task: "One." });
    const lead = roleOf(new ScriptedModel([spawn]), { name: "lead", subagents: [helper] });
    const fixture = newFixture();
    // This is the lead's last step: nothing charges it after its subagent.
    const budget = { totalTokens: 1_000, steps: 3, toolCalls: 5 };
    const result = await fixture.outcome(fixture.start(lead, "Lead.", { budget }));
    expect(result.usage.total).toMatchObject({ totalTokens: 45, steps: 3, toolCalls: 2 });
    const fold = foldOf(fixture.sink.events);
    const left = { totalTokens: 955, steps: 0, toolCalls: 3 };
    expect(fold.remaining).toEqual(left);
    expect(
      fold.agents.map((agent) => [agent.name, createAgentDetail(agent, []).remaining]),
    ).toEqual([
      ["lead", left],
      ["helper#1", left],
    ]);
  },
);

proves(
  ["D549"],
  "records the failure of a model call whose result a hook did not use",
  async () => {
    const first = wrapModelCall(async (_call, next) => {
      const reply = await next();
      await next().catch(() => undefined);
      return reply;
    });
    const model = new ScriptedModel([says("One."), failing("model_invalid_request")]);
    const fixture = newFixture();
    await fixture.outcome(fixture.start(roleOf(model, { hooks: [first] }), "Work."));
    const [root] = foldOf(fixture.sink.events).agents;
    if (root === undefined) throw new Error("There is a root.");
    const { steps } = createAgentDetail(root, []);
    expect(steps.map(({ attempts, error }) => [attempts, error])).toEqual([
      [
        [{ attempt: 1, code: "model_invalid_request", message: "model_invalid_request." }],
        undefined,
      ],
    ]);
    expect(describeFailedAttempts(steps[0]?.attempts)).toEqual([
      "↻ attempt 1 failed (gave up): model_invalid_request: model_invalid_request.",
    ]);
  },
);

proves(
  ["D549"],
  "reports the failure that ended a step once, as the error of the step",
  async () => {
    const model = new ScriptedModel([failing("model_invalid_request")]);
    const fixture = newFixture();
    await fixture.outcome(fixture.start(roleOf(model), "Work."));
    const [root] = foldOf(fixture.sink.events).agents;
    if (root === undefined) throw new Error("There is a root.");
    const [step] = createAgentDetail(root, []).steps;
    expect([step?.attempts, step?.error?.code]).toEqual([[], "model_invalid_request"]);
  },
);
