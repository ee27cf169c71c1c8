// Goal: calls of one reply run concurrently up to the limit, a sequential tool runs alone, and
// results are in call order all the same.
// Method: tools that end when the test says so, and a log of concurrent executions.

import { expect, test } from "vitest";

import { transform } from "../../../src/hooks/hook.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import type { FunctionTool } from "../../../src/tools/tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { ending } from "../../support/pause-stories.ts";
import {
  calls,
  part,
  spawn,
  receivedTexts,
  use,
  type Part,
} from "../../harness/scripted-agents.ts";
import { outcomes } from "../../support/call-outcomes.ts";

/** Returns tools that log the active ones when they start, and work for some ticks. */
function workshop() {
  const active = new Set<string>();
  const log: string[] = [];
  let most = 0;
  const tool = (name: string, ticks: number, sequential = false): FunctionTool =>
    spyTool(
      name,
      async () => {
        log.push(`${name} with [${[...active].join(" ")}]`);
        active.add(name);
        most = Math.max(most, active.size);
        for (let tick = 0; tick < ticks; tick += 1) await flushEventLoop();
        active.delete(name);
        log.push(`${name} ended`);
        return `${name} done`;
      },
      { sequential },
    );
  return { tool, log, most: () => most };
}

proves(
  ["R125"],
  "executes three calls at most two at a time, with results in call order",
  async () => {
    const shop = workshop();
    const tools = [shop.tool("slow", 9), shop.tool("middle", 5), shop.tool("quick", 1)];
    const { role, model } = soloist([calls(use("slow"), use("middle"), use("quick")), says("ok")], {
      tools,
    });
    const result = await newFixture({ concurrency: { toolCalls: 2, modelCalls: 2 } }).run(role);
    expect([shop.most(), shop.log]).toEqual([
      2,
      [
        "slow with []",
        "middle with [slow]",
        "middle ended",
        "quick with [slow]",
        "quick ended",
        "slow ended",
      ],
    ]);
    expect(receivedTexts(model.requests[1])).toEqual(["slow done", "middle done", "quick done"]);
    expect(outcomes(result).map(([name]) => name)).toEqual(["slow", "middle", "quick"]);
  },
);

proves(
  ["R125"],
  "executes a sequential tool after all earlier calls, and later calls after it",
  async () => {
    const shop = workshop();
    const tools = [
      shop.tool("a", 4),
      shop.tool("b", 2),
      shop.tool("alone", 3, true),
      shop.tool("c", 2),
      shop.tool("d", 1),
    ];
    const { role, model } = soloist(
      [calls(...["a", "b", "alone", "c", "d"].map(use)), says("ok")],
      { tools },
    );
    await newFixture().run(role);
    expect(shop.log).toEqual([
      "a with []",
      "b with [a]",
      "b ended",
      "a ended",
      "alone with []",
      "alone ended",
      "c with []",
      "d with [c]",
      "d ended",
      "c ended",
    ]);
    expect(receivedTexts(model.requests[1])).toEqual(
      ["a", "b", "alone", "c", "d"].map((name) => `${name} done`),
    );
  },
);

test("never overlaps sequential calls, whether of one tool or of several", async () => {
  const shop = workshop();
  const tools = [shop.tool("x", 3, true), shop.tool("y", 1, true)];
  const { role } = soloist([calls(use("x"), use("y"), use("y"), use("x")), says("ok")], { tools });
  await newFixture().run(role);
  expect(shop.log).toEqual(
    ["x", "y", "y", "x"].flatMap((name) => [`${name} with []`, `${name} ended`]),
  );
});

function userOf(name: string, tool: FunctionTool): Part {
  return part(name, [calls(use(tool.name)), says("ok")], { tools: [tool] });
}

test("executes sequential tools alone within their agent only", async () => {
  const shop = workshop();
  const one = userOf("one", shop.tool("alone", 6, true));
  const two = userOf("two", shop.tool("free", 2));
  const root = part("root", [calls(spawn("one"), spawn("two")), says("ok")], {
    subagents: [one.role, two.role],
  });
  await newFixture().run(root.role);
  expect(shop.log).toEqual(["alone with []", "free with [alone]", "free ended", "alone ended"]);
});

test("keeps unknown, invalid and refused calls in their place", async () => {
  const shop = workshop();
  const { role } = soloist(
    [
      calls(
        use("nowhere"),
        use("alone"),
        { toolName: "alone", arguments: "{" },
        use("free"),
        use("denied"),
      ),
      says("ok"),
    ],
    {
      tools: [shop.tool("alone", 2, true), shop.tool("free", 1), spyTool("denied")],
      guards: [toolGuard(() => ({ type: "deny", reason: "No." }), { tools: ["denied"] })],
    },
  );
  const result = await newFixture().run(role);
  expect(outcomes(result).map(([name, type, code]) => [name, type, code])).toEqual([
    ["nowhere", "failed", "unknown_tool"],
    ["alone", "succeeded", ""],
    ["alone", "retry", "invalid_json"],
    ["free", "succeeded", ""],
    ["denied", "refused", "blocked"],
  ]);
});

proves(
  ["R125"],
  "calls hooks and guards and charges a call when its batch starts, in call order",
  async () => {
    const log: string[] = [];
    const free = spyTool("free", () => void log.push("free runs"));
    const alone = spyTool("alone", () => void log.push("alone runs"), { sequential: true });
    const { role } = soloist([calls(use("free"), use("alone"), use("free")), says("ok")], {
      tools: [free, alone],
      hooks: [
        transform("beforeTool", ({ toolName }) => {
          log.push(`${toolName} hook`);
        }),
      ],
      guards: [
        toolGuard(({ toolName }) => {
          log.push(`${toolName} guard`);
          return { type: "allow" };
        }),
      ],
    });
    const result = await newFixture().run(role);
    expect(log).toEqual(
      ["free", "alone", "free"].flatMap((name) => [
        `${name} hook`,
        `${name} guard`,
        `${name} runs`,
      ]),
    );
    expect(result.usage.total.toolCalls).toBe(3);
  },
);

test("refuses the remaining calls if the tool call budget runs out between batches, and stops the agent", async () => {
  for (const [toolCalls, ran] of [
    [0, 0],
    [1, 1],
    [2, 2],
    [3, 3],
  ] as const) {
    const free = spyTool("free");
    const alone = spyTool("alone", () => "alone done", { sequential: true });
    const script = [calls(use("free"), use("alone"), use("alone"), use("free")), says("ok")];
    const { role, model } = soloist(script, { tools: [free, alone], budget: { toolCalls } });
    const result = await newFixture().run(role);
    expect([
      ending(result),
      free.calls.length + alone.calls.length,
      result.usage.total.toolCalls,
      model.requests.length,
    ]).toEqual([["stopped", "tool_call_limit"], ran, ran, 1]);
    expect(outcomes(result).map(([, type, code]) => [type, code])).toEqual(
      [0, 1, 2, 3].map((index) =>
        index < ran ? ["succeeded", ""] : ["refused", "tool_call_limit"],
      ),
    );
    expect(result.steps[0]?.telemetry.usage.toolCalls).toBe(ran);
  }
});

test("lets subagents consume the tool calls that a later batch of their parent needs", async () => {
  const childTool = spyTool("work");
  const child = part("child", [calls(use("work")), says("ok")], { tools: [childTool] });
  const alone = spyTool("alone", () => "alone done", { sequential: true });
  const root = part("root", [calls(spawn("child"), use("alone")), says("ok")], {
    subagents: [child.role],
    tools: [alone],
    budget: { toolCalls: 2 },
  });
  const result = await newFixture().run(root.role);
  expect([ending(result), childTool.calls.length, alone.calls.length]).toEqual([
    ["stopped", "tool_call_limit"],
    1,
    0,
  ]);
  expect(outcomes(result).map(([name, type, code]) => [name, type, code])).toEqual([
    ["SpawnSubagent", "succeeded", ""],
    ["alone", "refused", "tool_call_limit"],
  ]);
});

test("executes delegations and sequential tools one after the other", async () => {
  const log: string[] = [];
  const childTool = spyTool("work", () => void log.push("child works"));
  const child = part("child", [calls(use("work")), says("ok"), calls(use("work")), says("ok")], {
    tools: [childTool],
  });
  const alone = spyTool("alone", () => void log.push("alone"), { sequential: true });
  const root = part("root", [calls(spawn("child"), use("alone"), spawn("child")), says("ok")], {
    subagents: [child.role],
    tools: [alone],
  });
  const result = await newFixture().run(root.role);
  expect([ending(result), log]).toEqual([
    ["completed", "completed"],
    ["child works", "alone", "child works"],
  ]);
});
