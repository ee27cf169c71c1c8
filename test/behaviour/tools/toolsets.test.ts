// Goal: tools that were prefixed, renamed, filtered or combined are called by their new names, and
// work as before.
// Method: runs in which the model uses new and old names; requests, records and questions compared.

import { expect, test } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { transform } from "../../../src/hooks/hook.ts";
import type { SpawnOutcome } from "../../../src/protocol/subagent.ts";
import { approve, provideResult } from "../../../src/protocol/question.ts";
import { says, ScriptedModel, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { defineDelegation, defineTool } from "../../../src/tools/define-tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { toolFilter } from "../../../src/tools/tool-filter.ts";
import {
  combineTools,
  filterTools,
  prefixTools,
  renameTools,
} from "../../../src/tools/toolsets.ts";
import { withTimeout } from "../../../src/tools/wrappers/with-timeout.ts";
import { z } from "zod";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, asked, ending, externalTool } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, part, receivedTexts, use } from "../../harness/scripted-agents.ts";
import { outcomes, pass } from "../../support/call-outcomes.ts";

proves(
  ["R121"],
  "offers new names, routes each call to its own tool, and reports old names as unknown",
  async () => {
    const ours = spyTool("search", () => "found here");
    const theirs = spyTool("search", () => "found there");
    const tools = combineTools(
      prefixTools([ours], "local_"),
      renameTools(prefixTools([theirs, spyTool("drop")], "web_"), { web_search: "browse" }),
    );
    const { role, model } = soloist(
      [calls(use("browse"), use("local_search"), use("search"), use("web_search")), says("ok")],
      { tools: filterTools(tools, ["browse", "local_search"]) },
    );
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect(model.requests[0]?.tools.map(({ name }) => name)).toEqual(["local_search", "browse"]);
    expect(outcomes(result)).toEqual([
      ["browse", "succeeded", "", "found there"],
      ["local_search", "succeeded", "", "found here"],
      [
        "search",
        "failed",
        "unknown_tool",
        'There is no tool named "search". Your tools are: local_search, browse.',
      ],
      [
        "web_search",
        "failed",
        "unknown_tool",
        'There is no tool named "web_search". Your tools are: local_search, browse.',
      ],
    ]);
    expect([ours.calls.length, theirs.calls.length]).toEqual([1, 1]);
    expect(result.agents[0]?.toolsUsed).toEqual({ browse: 1, local_search: 1 });
  },
);

proves(
  ["R121"],
  "refuses two tools of one name by name, in toolsets and when the role is defined",
  () => {
    const twins = [spyTool("search"), spyTool("search")];
    const model = new ScriptedModel([]);
    const define = () => defineAgent({ name: "solo", instructions: "Work.", model, tools: twins });
    expect(thrownBy(define)).toEqual({
      code: "duplicate_tool",
      message:
        'Expected solo.tools to have unique names, got two tools named "search". Rename one of them.',
      data: { field: "solo.tools", name: "search" },
    });
    expect(thrownBy(() => combineTools([spyTool("a")], [spyTool("a")])).code).toBe(
      "duplicate_tool",
    );
    expect(thrownBy(() => prefixTools([spyTool("a"), spyTool("a")], "x_")).code).toBe(
      "duplicate_tool",
    );
    expect(thrownBy(() => renameTools([spyTool("a"), spyTool("b")], { a: "b" })).code).toBe(
      "duplicate_tool",
    );
    const reserved = renameTools([spyTool("a")], { a: "SpawnSubagent" });
    expect(
      thrownBy(() => defineAgent({ name: "solo", instructions: "Work.", model, tools: reserved }))
        .code,
    ).toBe("invalid_argument");
  },
);

test("shows the new name in guards, hooks, filters, questions, errors and timeouts", async () => {
  const seen: string[] = [];
  const inner = spyTool("pay", () => new Promise(() => undefined), { needsApproval: true });
  const tools = renameTools([withTimeout(inner, { timeoutMs: 100 })], { pay: "transfer" });
  const { role, model } = soloist([calls(use("transfer")), says("ok")], {
    tools,
    guards: [
      toolGuard(
        ({ toolName }) => {
          seen.push(`guard ${toolName}`);
          return { type: "allow" };
        },
        { tools: ["transfer"] },
      ),
    ],
    toolFilters: [
      toolFilter((toolName) => {
        seen.push(`filter ${toolName}`);
        return true;
      }),
    ],
    hooks: [
      transform(
        "beforeTool",
        ({ toolName }) => {
          seen.push(`hook ${toolName}`);
        },
        { tools: ["transfer"] },
      ),
    ],
  });
  const fixture = newFixture({
    approver: (question) => {
      seen.push(`question ${question.toolName}: ${question.reason}`);
      return approve(question);
    },
  });
  const run = fixture.start(role);
  await pass(fixture, 100);
  const result = await fixture.outcome(run);
  expect(seen).toEqual([
    "filter transfer",
    "hook transfer",
    "guard transfer",
    "question transfer: transfer needs approval.",
    "filter transfer",
  ]);
  expect(outcomes(result)[0]?.slice(0, 3)).toEqual(["transfer", "failed", "tool_timeout"]);
  expect(receivedTexts(model.requests[1])[0]).toMatch(/transfer/);
  expect(JSON.stringify([result, fixture.sink.events, model.requests])).not.toMatch(
    /\bpay\b(?! done)(?!\.)/,
  );
});

test("preserves the kind of renamed external tools and delegations, across a pause", async () => {
  const child = part("child", [says("Child.")]);
  const start = defineDelegation({
    name: "start",
    description: "Starts the child.",
    inputSchema: z.object({}),
    execute: (_input, { spawn }): Promise<SpawnOutcome> => spawn({ role: "child", task: "Work." }),
  });
  const tools = prefixTools([externalTool("mail"), start], "my_");
  const build = (script: readonly ScriptedReply[]) =>
    part("root", script, { tools, subagents: [child.role] });
  const fixture = newFixture();
  const paused = await fixture.run(build([calls(use("my_mail"), use("my_start"))]).role);
  expect([asked(paused), outcomes(paused)]).toEqual([[["root", "my_mail"]], []]);
  const again = build([says("ok")]);
  const answers = paused.questions.map((question) => provideResult(question, "sent"));
  const result = await fixture.outcome(fixture.resume(again.role, paused.pausedRun, answers));
  expect([ending(result), outcomes(result).map(([name, type]) => [name, type])]).toEqual([
    ["completed", "completed"],
    [
      ["my_mail", "succeeded"],
      ["my_start", "succeeded"],
    ],
  ]);
  expect(approveAll(result)).toEqual([]);
});

test("preserves settings, sequential execution and schema of a renamed tool", async () => {
  const input = z.object({ city: z.string() });
  const tool = defineTool({
    name: "weather",
    description: "Tells the weather.",
    inputSchema: input,
    maxResultCharacters: 3,
    sequential: true,
    execute: ({ city }) => `${city} is fine`,
  });
  const [renamed] = renameTools([tool], { weather: "forecast" });
  expect({ ...renamed, bind: undefined }).toEqual({ ...tool, bind: undefined, name: "forecast" });
  const { role } = soloist(
    [
      calls(
        { toolName: "forecast", arguments: { city: "Ulm" } },
        { toolName: "forecast", arguments: {} },
      ),
      says("ok"),
    ],
    { tools: renamed === undefined ? [] : [renamed] },
  );
  const result = await newFixture().run(role);
  expect(
    outcomes(result).map(([name, type, , text]) => [name, type, text.split("\n")[0]?.slice(0, 20)]),
  ).toEqual([
    ["forecast", "succeeded", "Ulm"],
    ["forecast", "retry", expect.stringMatching(/\S/)],
  ]);
  const whole = result.steps[0]?.tools.executions[1]?.text;
  expect(whole).toMatch(/forecast/);
  expect(whole).not.toMatch(/weather/);
});
