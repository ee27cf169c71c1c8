// Goal: whatever user code does, for example throw values that cannot be converted to text or
// return nothing, its agent ends once and the tree stays consistent.
// Method: models and tools that violate their interfaces, in trees whose other agents are working.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import type { Model } from "../../../src/model/model.ts";
import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import {
  byTask,
  calls,
  ends,
  part,
  quiet,
  spawn,
  receivedTexts,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";

/** Thrown values that neither `String` nor a template can convert. */
const UNSHOWABLE: readonly (readonly [string, unknown])[] = [
  ["what may not be looked at", revoked()],
  ["an object without a prototype", Object.create(null)],
  [
    "an object that cannot become text",
    {
      toString: () => {
        throw new Error("no text");
      },
    },
  ],
  [
    "an error without a message to read",
    Object.defineProperty(new Error("hidden"), "message", {
      get: () => {
        throw new Error("no message");
      },
    }),
  ],
];

describe.each(UNSHOWABLE)("user code that throws %s", (_what, thrown) => {
  test("fails the agent at its first call if it is a model, and the parent continues", async () => {
    let asked = 0;
    const role = roleOf(() => {
      asked += 1;
      throw thrown;
    });
    const lead = part("lead", [calls(spawn("foreign")), says("Without it.")], {
      subagents: [role],
    });
    const result = await newFixture().run(lead.role, { budget: { steps: 20 } });
    expect([ends(result), asked]).toEqual([["completed", "failed"], 1]);
    expect(result.agents[1]?.errors.map((error) => error.code)).toEqual(["model_invalid_reply"]);
  });

  test("fails the call if it is a tool, and no parent ends before its living child", async () => {
    const late = latch();
    const bad = tool("bad", () => {
      throw thrown;
    });
    const helper = part("helper", [says("Late.", { after: late.opened })]);
    const lead = part("lead", [calls(spawn("helper"), use("bad")), says("Done.")], {
      subagents: [helper.role],
      tools: [bad],
    });
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => helper.model.requests.length === 1);
    await quiet();
    const endedEarly = s.sink.ofType("agent.ended").map((event) => event.agentPath);
    late.open();
    await quiet();
    expect(endedEarly).toEqual([]);
    const result = await s.outcome(run);
    expect(ends(result)).toEqual(["completed", "completed"]);
    expect(receivedTexts(lead.model.requests[1])).toHaveLength(2);
    expect(receivedTexts(lead.model.requests[1])[1]).toMatch(/^bad failed/);
  });

  test("fails the agent if it is a token counter, and the parent continues", async () => {
    const broken = part("broken", [], {
      scripted: {
        countTokens: () => {
          throw thrown;
        },
      },
    });
    const lead = part("lead", [calls(spawn("broken")), says("Without it.")], {
      subagents: [broken.role],
    });
    const result = await newFixture().run(lead.role);
    expect(ends(result)).toEqual(["completed", "failed"]);
  });
});

describe("user code that returns invalid values", () => {
  for (const reply of ["null", "{}", '{"message":null}', '{"message":{"role":"assistant"}}']) {
    test(`fails the agent with a failed model call if a model returns ${reply}`, async () => {
      const role = roleOf(() => Promise.resolve(JSON.parse(reply)));
      const lead = part("lead", [calls(spawn("foreign")), says("Without it.")], {
        subagents: [role],
      });
      const s = newFixture();
      const result = await s.run(lead.role, { budget: { steps: 20 } });
      expect(ends(result)).toEqual(["completed", "failed"]);
      expect(result.agents[1]?.errors.map((error) => error.code)).toEqual(["model_invalid_reply"]);
      const asked = s.sink.ofType("model.requested").length;
      expect(s.sink.ofType("model.replied").length + s.sink.ofType("model.failed").length).toBe(
        asked,
      );
      // The request was sent and a response received, so the call may be billed.
      expect(result.agents[1]?.usage.own.modelCalls).toBe(1);
    });
  }

  test("fails the call if a tool result cannot be converted to JSON", async () => {
    const cycle: unknown[] = [];
    cycle.push(cycle);
    const trap = {
      toJSON: () => {
        throw new Error("no JSON");
      },
    };
    const tools = [
      tool("cycle", () => cycle),
      tool("lives", () => () => "later"),
      tool("trap", () => trap),
    ];
    const lead = part("lead", [calls(...tools.map((one) => use(one.name))), says("Done.")], {
      tools,
    });
    const result = await newFixture().run(lead.role);
    expect(result.status).toBe("completed");
    const executions = result.steps[0]?.tools.executions.map(({ type, errorCode }) => [
      type,
      errorCode,
    ]);
    expect(executions).toEqual(tools.map(() => ["failed", "tool_error"]));
  });

  test("fails the call if a schema throws, but neither its siblings nor its agent", async () => {
    const input = z.object({}).refine(() => {
      throw new Error("a bug in the schema");
    });
    const strict = defineTool({
      name: "strict",
      description: "Is strict.",
      inputSchema: input,
      execute: () => "",
    });
    const look = tool("look", () => "seen");
    const lead = part("lead", [calls(use("look"), use("strict"), use("look")), says("Done.")], {
      tools: [strict, look],
    });
    const s = newFixture();
    const result = await s.run(lead.role);
    expect(result.status).toBe("completed");
    const types = result.steps[0]?.tools.executions.map((execution) => execution.type);
    expect(types).toEqual(["succeeded", "retry", "succeeded"]);
    expect(result.usage.total.toolCalls).toBe(
      s.sink.ofType("step.completed").reduce((sum, event) => sum + event.usage.toolCalls, 0),
    );
  });

  test("returns a result and starts a child for each of two calls with the same id", async () => {
    const helper = part("helper", byTask({ A: [says("A.")], B: [says("B.")] }));
    const twice = calls(
      { ...spawn("helper", "A"), callId: "same" },
      { ...spawn("helper", "B"), callId: "same" },
    );
    const lead = part("lead", [twice, says("Done.")], { subagents: [helper.role] });
    const s = newFixture();
    const result = await s.run(lead.role);
    expect(ends(result)).toEqual(["completed", "completed", "completed"]);
    const results = receivedTexts(lead.model.requests[1]).map((text): unknown => JSON.parse(text));
    expect(results).toMatchObject([{ text: "A." }, { text: "B." }]);
    const callIds = s.sink.ofType("agent.started").map((event) => event.spawnCallId);
    expect(new Set(callIds).size).toBe(3);
  });
});

/** A role whose model violates its interface. */
function roleOf(generate: Model["generate"]): AgentRole {
  const model: Model = { provider: "foreign", id: "foreign", countTokens: () => 10, generate };
  return defineAgent({ name: "foreign", description: "Breaks.", instructions: "Break.", model });
}

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}
