// Goal: a denial for an agent applies to all its descendants, at any depth, by delegation,
// recursion and resumption; a missing tool does not.
// Method: trees of scripted roles with guards at different levels.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import { says } from "../../../src/testing/scripted-model.ts";
import { approve, deny } from "../../../src/protocol/question.ts";
import { defineDelegation } from "../../../src/tools/define-tool.ts";
import { toolGuard, type ToolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, asked, ending, questionOf } from "../../support/pause-stories.ts";
import {
  byTask,
  calls,
  ends,
  part,
  spawn,
  receivedTexts,
  use,
  type Part,
} from "../../harness/scripted-agents.ts";
import {
  ALLOW,
  asksAbout,
  denies,
  guardings,
  keepsOutOfEtc,
  refusal,
  watch,
  write,
  writeTool,
} from "../../support/guard-stories.ts";

proves(
  ["R75"],
  "denies a child the calls that its parent's guard denies, and allows tools that the parent lacks",
  async () => {
    const tool = writeTool();
    const search = spyTool("search");
    const child = part("child", [calls(write("/a"), use("search")), says("Child.")], {
      tools: [tool, search],
    });
    const root = part("root", [calls(spawn("child")), says("Root.")], {
      subagents: [child.role],
      guards: [denies("Nothing is written here.", { tools: ["write"] })],
    });
    const fixture = newFixture();
    const result = await fixture.run(root.role);
    expect([ending(result), ends(result)]).toEqual([
      ["completed", "completed"],
      ["completed", "completed"],
    ]);
    expect([tool.written, search.calls.length]).toEqual([[], 1]);
    expect(receivedTexts(child.model.requests[1])).toEqual([
      refusal("write", "Nothing is written here."),
      "search done",
    ]);
    const guarded = fixture.sink.ofType("tool.guarded");
    expect(
      guarded.map(({ agentPath, toolName, decision }) => [agentPath, toolName, decision]),
    ).toEqual([["root/child#1", "write", "deny"]]);
  },
);

proves(["R75"], "applies guards of ancestors at any depth, beside those of the child", async () => {
  const tool = writeTool();
  const script = [calls(write("/etc/a"), write("/b")), says("Leaf.")];
  const lenient = toolGuard(() => ALLOW, { name: "lenient" });
  const leaf = part("leaf", script, { tools: [tool], guards: [lenient] });
  const child = part("child", [calls(spawn("leaf")), says("Child.")], {
    subagents: [leaf.role],
    guards: [toolGuard(() => ALLOW, { name: "middle" })],
  });
  const root = part("root", [calls(spawn("child")), says("Root.")], {
    subagents: [child.role],
    guards: [keepsOutOfEtc()],
  });
  const fixture = newFixture({ guards: [toolGuard(() => ALLOW, { name: "house" })] });
  await fixture.run(root.role);
  expect(tool.written).toEqual(["/b"]);
  expect(guardings(fixture)).toEqual([
    ["SpawnSubagent", "allow", "house allow", "etc allow"],
    ["SpawnSubagent", "allow", "house allow", "etc allow", "middle allow"],
    [
      "write",
      "deny",
      "house allow",
      "etc deny Nobody writes to /etc.",
      "middle allow",
      "lenient allow",
    ],
    ["write", "allow", "house allow", "etc allow", "middle allow", "lenient allow"],
  ]);
});

test("does not apply a child's guard to its parent or its siblings", async () => {
  const tool = writeTool();
  const strict = part("strict", [calls(write("/s")), says("S.")], {
    tools: [tool],
    guards: [denies()],
  });
  const free = part("free", [calls(write("/f")), says("F.")], { tools: [tool] });
  const root = part(
    "root",
    [calls(spawn("strict"), spawn("free")), calls(write("/r")), says("Root.")],
    { tools: [tool], subagents: [strict.role, free.role] },
  );
  await newFixture().run(root.role);
  expect(tool.written).toEqual(["/f", "/r"]);
});

test("calls a guard at several levels once, even in a recursive role", async () => {
  const watching = watch();
  const shared = watching.guard;
  const tool = writeTool();
  const worker = part(
    "worker",
    byTask({
      Top: [calls(spawn("worker", "Below")), says("Top.")],
      Below: [calls(spawn("worker", "Bottom")), says("Below.")],
      Bottom: [calls(write("/b")), says("Bottom.")],
    }),
    { tools: [tool], guards: [shared, shared], subagents: ["worker"] },
  );
  const root = part("root", [calls(spawn("worker", "Top")), says("Root.")], {
    subagents: [worker.role],
    guards: [shared],
  });
  const fixture = newFixture({ guards: [shared] });
  await fixture.run(root.role);
  expect(tool.written).toEqual(["/b"]);
  expect(guardings(fixture)).toEqual([
    ["SpawnSubagent", "allow", "watch allow"],
    ["SpawnSubagent", "allow", "watch allow"],
    ["SpawnSubagent", "allow", "watch allow"],
    ["write", "allow", "watch allow"],
  ]);
  expect(watching.asked.map(([, { agentPath, depth, role }]) => [agentPath, depth, role])).toEqual([
    ["root", 0, "root"],
    ["root/worker#1", 1, "worker"],
    ["root/worker#1/worker#1", 2, "worker"],
    ["root/worker#1/worker#1/worker#1", 3, "worker"],
  ]);
});

test("calls two guards with the same function twice", async () => {
  let count = 0;
  const check = () => {
    count += 1;
    return ALLOW;
  };
  const root = part("root", [calls(use("work")), says("Root.")], {
    tools: [spyTool("work")],
    guards: [toolGuard(check), toolGuard(check)],
  });
  const fixture = newFixture();
  await fixture.run(root.role);
  expect([count, guardings(fixture)]).toEqual([
    2,
    [["work", "allow", "check allow", "check allow"]],
  ]);
});

function unnamed(): ToolGuard {
  return toolGuard((() => () => ({ type: "ask" as const, reason: "Sure?" }))());
}

test("names unnamed guards by owner and place, equally in every run and at every depth", async () => {
  const tool = writeTool();
  const child = part("child", byTask({ "Work.": [calls(write("/a")), says("Child.")] }), {
    tools: [tool],
    guards: [unnamed(), unnamed()],
  });
  const root = part("root", byTask({ "Do it.": [calls(spawn("child")), says("Root.")] }), {
    subagents: [child.role],
    guards: [unnamed()],
  });
  for (const run of [1, 2]) {
    const fixture = newFixture({
      guards: [toolGuard(() => ALLOW, { name: "named" }), unnamed()],
      approver: (question) => approve(question),
    });
    await fixture.run(root.role);
    expect(guardings(fixture), `run ${run}`).toEqual([
      [
        "SpawnSubagent",
        "ask",
        "named allow",
        "orchestrator.guard#2 ask Sure?",
        "root.guard#1 ask Sure?",
      ],
      [
        "write",
        "ask",
        "named allow",
        "orchestrator.guard#2 ask Sure?",
        "root.guard#1 ask Sure?",
        "child.guard#1 ask Sure?",
        "child.guard#2 ask Sure?",
      ],
    ]);
  }
});

/** Returns a root that starts a child, and could start another. */
function pair(guards: readonly ToolGuard[]): Readonly<Record<"root" | "child" | "other", Part>> {
  const child = part("child", [says("Child.")]);
  const other = part("other", [says("Other.")]);
  const root = part("root", [calls(spawn("child")), says("Root.")], {
    subagents: [child.role, other.role],
    guards,
  });
  return { root, child, other };
}

describe("a guard of delegations", () => {
  test("denies a delegation: no child starts or counts, and the model reads the reason", async () => {
    const watching = watch(() => ({ type: "deny", reason: "Do it yourself." }));
    const { root } = pair([watching.guard]);
    const fixture = newFixture();
    const result = await fixture.run(root.role);
    expect([ending(result), ends(result)]).toEqual([["completed", "completed"], ["completed"]]);
    expect(receivedTexts(root.model.requests[1])).toEqual([
      refusal("SpawnSubagent", "Do it yourself."),
    ]);
    expect(watching.asked.map(([{ kind, arguments: input }]) => [kind, input])).toEqual([
      ["delegation", { role: "child", task: "Work." }],
    ]);
    expect([result.subagentsByDepth, result.refusalsByCode]).toEqual([{}, { blocked: 1 }]);
    expect(fixture.sink.ofType("subagent.spawned")).toEqual([]);
  });

  test("asks about a delegation: the run pauses, and a new orchestrator starts the child", async () => {
    const { root, child } = pair([asksAbout("Is it needed?")]);
    const fixture = newFixture();
    const paused = await fixture.run(root.role);
    expect([asked(paused), ends(paused), questionOf(paused).reason]).toEqual([
      [["root", "SpawnSubagent"]],
      ["paused"],
      "Is it needed?",
    ]);
    const resumed = fixture.resume(root.role, paused.pausedRun, approveAll(paused));
    const result = await fixture.outcome(resumed);
    expect([ending(result), ends(result)]).toEqual([
      ["completed", "completed"],
      ["completed", "completed"],
    ]);
    expect([child.model.requests.length, result.agents[1]?.text]).toEqual([1, "Child."]);
  });

  test("asks about a delegation: a denial starts no subagent", async () => {
    const { root } = pair([asksAbout()]);
    const fixture = newFixture();
    const paused = await fixture.run(root.role);
    const answers = [deny(questionOf(paused), "Too dear.")];
    const result = await fixture.outcome(fixture.resume(root.role, paused.pausedRun, answers));
    expect([ends(result), receivedTexts(root.model.requests[1])]).toEqual([
      ["completed"],
      [refusal("SpawnSubagent", "Too dear.", "Look at it first.")],
    ]);
  });

  test("sees the role and task that an approval changed", async () => {
    const watching = watch(() => ({ type: "ask", reason: "Sure?" }));
    const { root, other } = pair([watching.guard]);
    const fixture = newFixture();
    const paused = await fixture.run(root.role);
    const change = { arguments: { role: "other", task: "Rest." } };
    const answers = [approve(questionOf(paused), change)];
    const result = await fixture.outcome(fixture.resume(root.role, paused.pausedRun, answers));
    expect(result.agents.map(({ role, task }) => [role, task])).toEqual([
      ["root", "Do it."],
      ["other", "Rest."],
    ]);
    expect(watching.seen()).toEqual([
      { role: "child", task: "Work." },
      { role: "other", task: "Rest." },
    ]);
    expect(other.model.requests.length).toBe(1);
  });

  test("may deny the changes of an approval", async () => {
    const noOther = toolGuard(
      ({ arguments: input }) =>
        JSON.stringify(input).includes("other")
          ? { type: "deny", reason: "Not the other." }
          : { type: "ask", reason: "Sure?" },
      { name: "choosy" },
    );
    const { root } = pair([noOther]);
    const fixture = newFixture({
      approver: (question) => approve(question, { arguments: { role: "other", task: "Rest." } }),
    });
    const result = await fixture.run(root.role);
    expect([ends(result), receivedTexts(root.model.requests[1])]).toEqual([
      ["completed"],
      [refusal("SpawnSubagent", "Not the other.")],
    ]);
  });

  test("applies to custom delegations by their name", async () => {
    const child = part("child", [says("Child.")]);
    const delegate = defineDelegation({
      name: "delegate",
      description: "Delegates.",
      inputSchema: z.object({}),
      execute: (_input, context) => context.spawn({ role: "child", task: "Work." }),
    });
    const root = part("root", [calls(use("delegate")), says("Root.")], {
      tools: [delegate],
      subagents: [child.role],
      guards: [denies("No.", { tools: ["delegate"] })],
    });
    const result = await newFixture().run(root.role);
    expect([ends(result), receivedTexts(root.model.requests[1])]).toEqual([
      ["completed"],
      [refusal("delegate", "No.")],
    ]);
  });
});

describe("guards across a pause of the tree", () => {
  test("ask about a grandchild's call at the root with its path, once", async () => {
    const tool = writeTool();
    const leaf = part("leaf", [calls(write("/a")), says("Leaf.")], { tools: [tool] });
    const child = part("child", [calls(spawn("leaf")), says("Child.")], { subagents: [leaf.role] });
    const guards = [asksAbout("Sure?", { tools: ["write"] })];
    const root = part("root", [calls(spawn("child")), says("Root.")], {
      subagents: [child.role],
      guards,
    });
    const fixture = newFixture();
    const paused = await fixture.run(root.role);
    expect(asked(paused)).toEqual([["root/child#1/leaf#1", "write"]]);
    const resumed = fixture.resume(root.role, paused.pausedRun, approveAll(paused));
    const result = await fixture.outcome(resumed);
    expect([ending(result), tool.written, ends(result)]).toEqual([
      ["completed", "completed"],
      ["/a"],
      ["completed", "completed", "completed"],
    ]);
  });

  proves(["R75"], "apply to descendants in a new orchestrator", async () => {
    const tool = writeTool();
    const script = [calls(write("/a")), calls(write("/etc/a"), write("/b")), says("Leaf.")];
    const leaf = part("leaf", script, {
      tools: [tool],
      guards: [
        toolGuard(({ arguments: input }) =>
          JSON.stringify(input).includes('/a"') ? { type: "ask", reason: "Sure?" } : ALLOW,
        ),
      ],
    });
    const child = part("child", [calls(spawn("leaf")), says("Child.")], { subagents: [leaf.role] });
    const root = part("root", [calls(spawn("child")), says("Root.")], {
      subagents: [child.role],
      guards: [keepsOutOfEtc()],
    });
    const fixture = newFixture();
    const paused = await fixture.run(root.role);
    const resumed = fixture.resume(root.role, paused.pausedRun, approveAll(paused));
    const result = await fixture.outcome(resumed);
    expect([ending(result), tool.written]).toEqual([
      ["completed", "completed"],
      ["/a", "/b"],
    ]);
    expect(receivedTexts(leaf.model.requests[2])).toEqual([
      refusal("write", "Nobody writes to /etc."),
      "wrote /b",
    ]);
  });
});
