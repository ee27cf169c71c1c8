// Goal: queued subtasks run before the next model call, within every limit, and their results
// arrive once and in order.
// Method: tools that queue by script; children with latches and failures; the requests of the
// parent compared in full.

import { expect, test } from "vitest";
import { z } from "zod";

import { says } from "../../../src/testing/scripted-model.ts";
import type { ToolContext } from "../../../src/tools/tool-context.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { callers, heading, help, planner, report } from "../../support/subtask-stories.ts";
import {
  byTask,
  calls,
  part,
  spawn,
  receivedTexts,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";

const finish = (count: number) => ({ toolName: "Finish", arguments: { count } });

proves(
  ["R13"],
  "a queued subtask runs before the next inference, whose request contains its result",
  async () => {
    const fixture = newFixture();
    const helper = part("helper", [says("Found.")]);
    const lead = part("lead", [calls(use("plan")), says("Done.")], {
      tools: [planner(help("Look."))],
      subagents: [helper.role],
    });
    const result = await fixture.run(lead.role);
    expect([result.status, callers(fixture)]).toEqual([
      "completed",
      ["lead", "lead/helper#1", "lead"],
    ]);
    expect(lead.model.requests[1]?.messages.slice(2)).toEqual([
      { role: "assistant", text: "", toolCalls: result.steps[0]?.tools.calls },
      { role: "tool", callId: "call_1", toolName: "plan", text: "planned" },
      { role: "user", origin: "subtask", text: report("Look.", "helper#1", "Found.") },
    ]);
    expect(fixture.sink.ofType("agent.started").map(({ spawnCallId }) => spawnCallId)).toEqual([
      null,
      null,
    ]);
    expect(result.steps).toHaveLength(2);
  },
);

proves(
  ["R13"],
  "subtasks of several calls run in parallel, and their results arrive in the order of the queue",
  async () => {
    const fixture = newFixture();
    const first = latch();
    const helper = part(
      "helper",
      byTask({
        "One.": [says("1", { after: first.opened })],
        "Two.": [says("2")],
        "Three.": [says("3")],
      }),
    );
    const tools = [
      planner(help("One."), help("Two.")),
      tool("more", ({ queueSubtask }) => queueSubtask(help("Three."))),
    ];
    const lead = part("lead", [calls(use("plan"), use("more")), says("Done.")], {
      tools,
      subagents: [helper.role],
    });
    const run = fixture.start(lead.role);
    await until(() => fixture.sink.ofType("subagent.ended").length === 2);
    expect(callers(fixture)).toEqual(["lead", "lead/helper#1", "lead/helper#2", "lead/helper#3"]);
    first.open();
    await fixture.outcome(run);
    expect(receivedTexts(lead.model.requests[1]).slice(2)).toEqual([
      report("One.", "helper#1", "1"),
      report("Two.", "helper#2", "2"),
      report("Three.", "helper#3", "3"),
    ]);
  },
);

proves(["R13"], "a refused subtask is reported in its place, and the run continues", async () => {
  const fixture = newFixture();
  const helper = part("helper", [says("Found.")]);
  const lead = part("lead", [calls(use("plan")), says("Done.")], {
    tools: [planner({ role: "nobody", task: "Look." }, help("Look."))],
    subagents: [helper.role],
  });
  const result = await fixture.run(lead.role);
  const refusal =
    'Not started: there is no subagent "nobody". You can start: helper. Call again with one of these.';
  expect([
    result.status,
    receivedTexts(lead.model.requests[1]).slice(1),
    result.refusalsByCode,
  ]).toEqual([
    "completed",
    [`${heading("Look.", "nobody")}${refusal}`, report("Look.", "helper#1", "Found.")],
    { unknown_role: 1 },
  ]);
});

test("an agent without subagents reads that it can start none", async () => {
  const lead = part("lead", [calls(use("plan")), says("Done.")], {
    tools: [planner(help("Look."))],
  });
  const result = await newFixture().run(lead.role);
  expect([result.status, result.refusalsByCode]).toEqual(["completed", { unknown_role: 1 }]);
  expect(receivedTexts(lead.model.requests[1])[1]).not.toContain("You can start: .");
});

test("a subtask that fails returns a result, and the parent can answer", async () => {
  const helper = part("helper", [{ error: new Error("A bug.") }]);
  const lead = part("lead", [calls(use("plan")), says("Done.")], {
    tools: [planner(help("Look."))],
    subagents: [helper.role],
  });
  const result = await newFixture().run(lead.role);
  expect(result.agents.map(({ status }) => status)).toEqual(["completed", "failed"]);
  expect(receivedTexts(lead.model.requests[1])[1]).toContain('"outcome":"failed"');
});

for (const [what, limits, code] of [
  ["breadth", { maxBreadthPerParent: 1 }, "breadth_limit"],
  ["number in the tree", { maxTotalSubagents: 1 }, "total_limit"],
] as const) {
  proves(["R13"], `subtasks count for the limit on ${what} together with delegations`, async () => {
    const helper = part("helper", [says("Found.")]);
    const lead = part("lead", [calls(use("plan")), calls(spawn("helper")), says("Done.")], {
      tools: [planner(help("One."), help("Two."))],
      subagents: [helper.role],
    });
    const result = await newFixture({ limits }).run(lead.role);
    expect([result.status, result.agents.length, result.refusalsByCode]).toEqual([
      "completed",
      2,
      { [code]: 2 },
    ]);
    expect(receivedTexts(lead.model.requests[1])[2]).toMatch(/Its result: Not started: /);
  });
}

test("a subtask is refused over the depth limit and over an exhausted budget", async () => {
  const helper = part("helper", [says("Found.")]);
  const make = () =>
    part("lead", [calls(use("plan")), says("Done.")], {
      tools: [planner(help("Look."))],
      subagents: [helper.role],
    }).role;
  const flat = await newFixture({ limits: { maxDepth: 0 } }).run(make());
  expect([flat.status, flat.refusalsByCode]).toEqual(["completed", { depth_limit: 1 }]);
  const broke = await newFixture().run(make(), { budget: { steps: 1 } });
  expect([broke.status, broke.reason.code, broke.refusalsByCode]).toEqual([
    "stopped",
    "step_limit",
    { budget_exhausted: 1 },
  ]);
  expect(helper.model.requests).toHaveLength(0);
});

proves(
  ["R13"],
  "a subtask queued in a reply with a text runs before the agent can end",
  async () => {
    const helper = part("helper", [says("Found.")]);
    const lead = part(
      "lead",
      [{ text: "This is my answer.", calls: [use("plan")], finishReason: "stop" }, says("Done.")],
      { tools: [planner(help("Look."))], subagents: [helper.role] },
    );
    const result = await newFixture().run(lead.role);
    expect([result.status, result.text, helper.model.requests.length]).toEqual([
      "completed",
      "Done.",
      1,
    ]);
  },
);

proves(
  ["R13"],
  "a subtask queued beside a typed result runs before that result counts",
  async () => {
    const helper = part("helper", [says("Found.")]);
    const lead = part("lead", [calls(use("plan"), finish(1)), calls(finish(2))], {
      tools: [planner(help("Look."))],
      subagents: [helper.role],
      output: z.object({ count: z.int() }),
    });
    const result = await newFixture().run(lead.role);
    expect([result.status, result.output, receivedTexts(lead.model.requests[1])]).toEqual([
      "completed",
      { count: 2 },
      ["planned", "Your result was accepted.", report("Look.", "helper#1", "Found.")],
    ]);
  },
);

proves(["R13"], "a subtask queued after its tool has returned is ignored", async () => {
  const kept: ToolContext[] = [];
  const helper = part("helper", [says("never")]);
  const tools = [
    tool("keep", (context) => void kept.push(context)),
    tool("late", () => kept[0]?.queueSubtask(help("Look."))),
  ];
  const lead = part("lead", [calls(use("keep")), calls(use("late")), says("Done.")], {
    tools,
    subagents: [helper.role],
  });
  const fixture = newFixture();
  const result = await fixture.run(lead.role);
  kept[0]?.queueSubtask(help("Look."));
  expect([result.status, result.agents.length, callers(fixture)]).toEqual([
    "completed",
    1,
    ["lead", "lead", "lead"],
  ]);
});

test("an invalid subtask fails the tool call that queues it", async () => {
  for (const request of [undefined, "helper", {}, { role: "helper" }, { role: 1, task: "x" }]) {
    const queue = (context: ToolContext): unknown =>
      Reflect.apply(context.queueSubtask, context, [request]);
    const lead = part("lead", [calls(use("plan")), says("Done.")], {
      tools: [tool("plan", queue)],
    });
    const result = await newFixture().run(lead.role);
    expect(result.steps[0]?.tools.executions.map(({ type, text }) => [type, text])).toEqual([
      ["failed", expect.stringContaining("Expected subtask to be an object with role and task")],
    ]);
  }
});

test("a subtask request is copied, so later changes have no effect", async () => {
  const helper = part("helper", [says("Found.")]);
  const request = { role: "helper", task: "Look." };
  const plan = tool("plan", ({ queueSubtask }) => {
    queueSubtask(request);
    request.task = "Forget it.";
  });
  const lead = part("lead", [calls(use("plan")), says("Done.")], {
    tools: [plan],
    subagents: [helper.role],
  });
  const result = await newFixture().run(lead.role);
  expect(result.agents.map(({ task }) => task)).toEqual(["Do it.", "Look."]);
});

test("a subtask queued before its tool failed runs, and the model reads of both", async () => {
  const helper = part("helper", [says("Found.")]);
  const plan = tool("plan", ({ queueSubtask }) => {
    queueSubtask(help("Look."));
    throw new Error("broken");
  });
  const lead = part("lead", [calls(use("plan")), says("Done.")], {
    tools: [plan],
    subagents: [helper.role],
  });
  await newFixture().run(lead.role);
  expect(receivedTexts(lead.model.requests[1])).toEqual([
    "plan failed: broken",
    report("Look.", "helper#1", "Found."),
  ]);
});

test("a subtask of a subtask runs before the next inference of its parent", async () => {
  const fixture = newFixture();
  const leaf = part("leaf", [says("Leaf.")]);
  const helper = part("helper", [calls(use("dig")), says("Helped.")], {
    tools: [tool("dig", ({ queueSubtask }) => queueSubtask({ role: "leaf", task: "Dig." }))],
    subagents: [leaf.role],
  });
  const lead = part("lead", [calls(use("plan")), says("Done.")], {
    tools: [planner(help("Look."))],
    subagents: [helper.role],
  });
  await fixture.run(lead.role);
  expect(callers(fixture)).toEqual([
    "lead",
    "lead/helper#1",
    "lead/helper#1/leaf#1",
    "lead/helper#1",
    "lead",
  ]);
});

test("a stop before the next step discards the queue", async () => {
  const fixture = newFixture();
  const helper = part("helper", [says("never")]);
  const lead = part("lead", [calls(use("plan"))], {
    tools: [planner(help("Look."))],
    subagents: [helper.role],
  });
  const run = fixture.start(lead.role);
  for await (const { phase } of run.iterate()) if (phase === "decide") run.requestStop();
  const result = await fixture.outcome(run);
  expect([result.reason.code, result.agents.length]).toEqual(["stop_requested", 1]);
});
