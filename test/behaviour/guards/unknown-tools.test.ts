// Goal: a guard for a tool that does not exist is found, and the approver sees the value that the
// tool will get.
// Method: complete runs; the warnings of the process; the arguments of questions.

import { expect, test } from "vitest";
import { z } from "zod";

import { approve } from "../../../src/protocol/question.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

const allow = (): { readonly type: "allow" } => ({ type: "allow" });

test("warns once at the start of a guard for a tool that no agent below has", async () => {
  const guard = toolGuard(allow, { name: "typo", tools: ["writ", "write"] });
  const { role } = soloist([says("Done."), says("Done.")], {
    tools: [spyTool("write")],
    guards: [guard],
  });
  await newFixture().run(role);
  await newFixture().run(role);
  await flushEventLoop();
  expect(takeWarnings()).toEqual([
    "EspalierWarning: A guard of solo is for writ, and no agent there has a tool of that name (write). Name tools as the model calls them, or the guard never applies.",
  ]);
});

test("accepts a guard for a tool of a subagent, and for the delegation itself", async () => {
  const child = part("child", [says("Child.")], { tools: [spyTool("write")] });
  const root = part("root", [calls(spawn("child")), says("Root.")], {
    subagents: [child.role],
    guards: [toolGuard(allow, { tools: ["write", "SpawnSubagent"] })],
  });
  await newFixture().run(root.role);
  await flushEventLoop();
  expect(takeWarnings()).toEqual([]);
});

for (const { what, others, names } of [
  { what: "of no role", others: false, names: "write" },
  { what: "of no role, and there are several", others: true, names: "write, read" },
]) {
  proves(
    ["S7.11"],
    `warns once at the start of an orchestrator's guard for a tool ${what}`,
    async () => {
      const guards = [
        toolGuard(allow, { tools: ["writ"] }),
        toolGuard(allow, { tools: ["write"] }),
      ];
      const { role } = soloist([says("Done."), says("Done.")], { tools: [spyTool("write")] });
      const roles = others ? [part("other", [], { tools: [spyTool("read")] }).role] : [];
      const s = newFixture({ guards, roles });
      await s.run(role);
      await s.run(role);
      await flushEventLoop();
      expect(takeWarnings()).toEqual([
        `EspalierWarning: A guard of the orchestrator is for writ, and no agent of this run has a tool of that name (${names}). Name tools as the model calls them, or the guard never applies.`,
      ]);
    },
  );
}

proves(
  ["S7.11"],
  "accepts a guard for a tool of any role of the run, or of a role that a model may write",
  async () => {
    const child = part("child", [], { tools: [spyTool("write")] });
    const other = part("other", [], { tools: [spyTool("read")] });
    const dynamicRoles = { tools: [spyTool("search")], models: { fast: child.model } };
    const lists = ["write", "search", "SpawnSubagent"];
    const root = part("root", [says("Root.")], {
      subagents: [child.role],
      dynamicRoles,
      guards: [toolGuard(allow, { tools: lists })],
    });
    const guards = [toolGuard(allow, { tools: [...lists, "read"] })];
    await newFixture({ guards, roles: [other.role] }).run(root.role);
    await flushEventLoop();
    expect(takeWarnings()).toEqual([]);
  },
);

test("warns of a guard if no agent has any tool", async () => {
  const { role } = soloist([says("Done.")]);
  await newFixture({ guards: [toolGuard(allow, { tools: ["write"] })] }).run(role);
  await flushEventLoop();
  expect(takeWarnings()).toEqual([
    "EspalierWarning: A guard of the orchestrator is for write, and no agent of this run has a tool of that name (they have none). Name tools as the model calls them, or the guard never applies.",
  ]);
});

const remove = (got: unknown[], path: z.ZodType<string>): ReturnType<typeof defineTool> =>
  defineTool({
    name: "remove",
    description: "Removes.",
    inputSchema: z.object({ path, isRecursive: z.boolean().default(true) }),
    needsApproval: true,
    execute: (input) => {
      got.push(input);
      return "removed";
    },
  });

for (const [what, path, got] of [
  ["the transforms and defaults of the schema", z.string().trim(), "/etc"],
  [
    "them, too, where the schema would change the value again",
    z.string().transform((text) => `${text}!`),
    " /etc !",
  ],
] as const) {
  test(`shows the approver ${what}`, async () => {
    const runs: unknown[] = [];
    const tools = [remove(runs, path)];
    const { role } = soloist([asks("remove", { path: " /etc " }), says("Done.")], { tools });
    const questions: unknown[] = [];
    const fixture = newFixture({
      approver: (question) => {
        questions.push(question.arguments);
        return approve(question);
      },
    });
    await fixture.run(role);
    expect(questions).toEqual([{ path: got, isRecursive: true }]);
    expect(runs).toEqual([{ path: got, isRecursive: true }]);
  });
}
