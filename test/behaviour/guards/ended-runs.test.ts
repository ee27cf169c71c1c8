// Goal: a guard decides about its call and nothing else; a run ends while guards are running as at
// any other time; endless denials are bounded.
// Method: guards that have the handle of their run, runs that end while a guard is running, and
// models that do not give in.

import { describe, expect, test } from "vitest";

import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import { observe, transform } from "../../../src/hooks/hook.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { ending, payTool } from "../../support/pause-stories.ts";
import {
  calls,
  ends,
  part,
  quiet,
  spawn,
  receivedTexts,
  use,
  type Part,
} from "../../harness/scripted-agents.ts";
import {
  ALLOW,
  allows,
  asksAbout,
  denies,
  fates,
  guardings,
  watch,
  write,
  writeTool,
} from "../../support/guard-stories.ts";

/** Returns a holder for the handle of a run that its guards use. */
function handle(): { run: Run | undefined } {
  return { run: undefined };
}

describe("a guard with the handle of its run", () => {
  for (const [what, answer] of Object.entries({
    allows: ALLOW,
    denies: { type: "deny", reason: "No." },
    asks: { type: "ask", reason: "Sure?" },
  } as const)) {
    test(`requests a stop and ${what}: the call does not start, and no approver is asked`, async () => {
      const held = handle();
      const watching = watch(({ callId }) => {
        if (callId === "call_1") held.run?.requestStop("Enough.");
        return answer;
      });
      const tool = writeTool();
      const { role } = soloist([calls(write("/a"), write("/b"))], {
        tools: [tool],
        guards: [watching.guard],
      });
      const fixture = newFixture();
      held.run = fixture.start(role);
      const result = await fixture.outcome(held.run);
      expect([ending(result), result.reason.message, tool.written]).toEqual([
        ["stopped", "stop_requested"],
        "Enough.",
        [],
      ]);
      expect(fates(result)).toEqual([
        ["not_executed", "not_executed"],
        ["not_executed", "not_executed"],
      ]);
      expect([result.questions, fixture.sink.ofType("question.asked")]).toEqual([[], []]);
    });
  }

  test("cancels the run and awaits that: the run ends after the grace period", async () => {
    const held = handle();
    const watching = watch(async () => {
      await held.run?.cancel("Never.");
      return ALLOW;
    });
    const tool = writeTool();
    const { role } = soloist([calls(write("/a"))], { tools: [tool], guards: [watching.guard] });
    const fixture = newFixture({ graceMs: 50 });
    held.run = fixture.start(role);
    await quiet();
    expect(watching.asked[0]?.[1].signal.aborted).toBe(true);
    fixture.clock.advance(50);
    const result = await fixture.outcome(held.run);
    expect([ending(result), tool.written, fates(result)]).toEqual([
      ["cancelled", "cancelled"],
      [],
      [["not_executed", "not_executed"]],
    ]);
  });

  test("cancels a child whose call it guards: the parent continues", async () => {
    const held = handle();
    const tool = writeTool();
    const child = part("child", [calls(write("/a"))], { tools: [tool] });
    const guard = toolGuard(
      (_call, { agentId }) => {
        held.run?.cancelAgent(agentId, "Not you.");
        return ALLOW;
      },
      { tools: ["write"] },
    );
    const root = part("root", [calls(spawn("child")), says("Root.")], {
      subagents: [child.role],
      guards: [guard],
    });
    const fixture = newFixture();
    held.run = fixture.start(root.role);
    const result = await fixture.outcome(held.run);
    expect([ending(result), ends(result), tool.written]).toEqual([
      ["completed", "completed"],
      ["completed", "cancelled"],
      [],
    ]);
  });
});

describe("a stop while a guard is running", () => {
  test("aborts the guard's signal, awaits its answer, and does not start the call", async () => {
    const slow = latch();
    const watching = watch(async () => {
      await slow.opened;
      return ALLOW;
    });
    const tool = writeTool();
    const { role } = soloist([calls(write("/a"))], { tools: [tool], guards: [watching.guard] });
    const fixture = newFixture();
    const run = fixture.start(role);
    await quiet();
    run.requestStop();
    await quiet();
    expect(watching.asked[0]?.[1].signal.aborted).toBe(true);
    slow.open();
    const result = await fixture.outcome(run);
    expect([ending(result), tool.written]).toEqual([["stopped", "stop_requested"], []]);
  });

  test("ends the call after the grace period if the guard ignores its signal", async () => {
    for (const end of ["requestStop", "cancel"] as const) {
      const tool = writeTool();
      const { role } = soloist([calls(write("/a"))], {
        tools: [tool],
        guards: [allows(), watch(() => new Promise(() => {})).guard],
      });
      const fixture = newFixture({ graceMs: 30 });
      const run = fixture.start(role);
      await quiet();
      void run[end]();
      await quiet();
      fixture.clock.advance(30);
      const result = await fixture.outcome(run);
      expect([tool.written, fates(result)]).toEqual([[], [["not_executed", "not_executed"]]]);
    }
  });

  test("skips the guard if a hook of the call requested it", async () => {
    const watching = watch();
    const { role } = soloist([calls(use("work"))], {
      tools: [spyTool("work")],
      guards: [watching.guard],
      hooks: [transform("beforeTool", (_call, { requestStop }) => requestStop("Enough."))],
    });
    const result = await newFixture().run(role);
    expect([ending(result), watching.asked, fates(result)]).toEqual([
      ["stopped", "stop_requested"],
      [],
      [["not_executed", "not_executed"]],
    ]);
  });

  test("skips the guards of calls whose turn had not come, and charges them to no agent", async () => {
    const held = handle();
    const watching = watch();
    let hooked = 0;
    const tool = spyTool("step", () => held.run?.requestStop(), { sequential: true });
    const { role } = soloist([calls(use("step"), use("step"))], {
      tools: [tool],
      guards: [watching.guard],
      hooks: [
        transform("beforeTool", () => {
          hooked += 1;
        }),
      ],
    });
    const fixture = newFixture();
    held.run = fixture.start(role);
    const result = await fixture.outcome(held.run);
    expect([ending(result), tool.calls.length]).toEqual([["stopped", "stop_requested"], 1]);
    expect(watching.asked.map(([{ callId }]) => callId)).toEqual(["call_1"]);
    expect([hooked, result.usage.total.toolCalls]).toEqual([1, 1]);
  });
});

/** Returns an agent whose model makes another call whatever it reads. */
function stubborn(guards: Partial<Pick<AgentDefinition, "guards" | "errorBudget">>): Part & {
  readonly tool: ReturnType<typeof writeTool>;
} {
  let number = 0;
  const tool = writeTool();
  const actor = part(
    "solo",
    () => {
      number += 1;
      return calls(write(`/${number}`));
    },
    { tools: [tool], ...guards },
  );
  return { tool, ...actor };
}

describe("endless denials", () => {
  test("exhaust the error budget: three in a row are allowed, the fourth stops the run", async () => {
    const { role, tool, model } = stubborn({ guards: [denies()] });
    const result = await newFixture().run(role);
    expect([ending(result), tool.written, model.requests.length]).toEqual([
      ["stopped", "error_budget"],
      [],
      4,
    ]);
    expect(result.reason.data).toEqual({ limit: "maxConsecutiveErrors", maximum: 3, current: 4 });
  });

  test("exhaust the error budget if approvers, a missing approver or failing guards deny", async () => {
    for (const [options, guard] of [
      [{ unansweredPolicy: "deny" }, asksAbout()],
      [{}, watch(() => Promise.reject(new Error("gone"))).guard],
    ] as const) {
      const { role } = stubborn({ guards: [guard] });
      expect(ending(await newFixture(options).run(role))).toEqual(["stopped", "error_budget"]);
    }
  });

  test("exhaust the error budget in sum if calls succeed in between", async () => {
    const guard = toolGuard(({ arguments: input }) =>
      /[02468]"/.test(JSON.stringify(input)) ? { type: "deny", reason: "Odd only." } : ALLOW,
    );
    const { role, tool } = stubborn({ guards: [guard] });
    const result = await newFixture().run(role);
    expect([ending(result), result.reason.data, tool.written.length]).toEqual([
      ["stopped", "error_budget"],
      { limit: "maxToolErrors", maximum: 5, current: 6 },
      6,
    ]);
  });

  test("are not allowed at all with maxToolErrors 0", async () => {
    const { role } = stubborn({ guards: [denies()], errorBudget: { maxToolErrors: 0 } });
    const result = await newFixture().run(role);
    expect([ending(result), fates(result).length]).toEqual([["stopped", "error_budget"], 1]);
  });

  test("stop only the child that caused them, and inform its parent", async () => {
    const tool = writeTool();
    const child = part("child", () => calls(write("/a")), { tools: [tool] });
    const root = part("root", [calls(spawn("child")), says("Root.")], {
      subagents: [child.role],
      guards: [denies("No.", { tools: ["write"] })],
    });
    const result = await newFixture().run(root.role);
    expect([ending(result), ends(result), result.agents[1]?.reason.code]).toEqual([
      ["completed", "completed"],
      ["completed", "stopped"],
      "error_budget",
    ]);
    expect(receivedTexts(root.model.requests[1])[0]).toMatch(/error_budget|stopped/);
  });
});

describe("a blockedPolicy of stop", () => {
  proves(
    ["R71"],
    "stops for a denial by a guard, by a hook, or for lack of an answer",
    async () => {
      const script = [calls({ toolName: "pay", arguments: { amount: 3 } }), says("done")];
      const errorPolicy = { blockedPolicy: "stop" } as const;
      const hook = transform("beforeTool", () => ({ deny: "No." }), { name: "hook" });
      const variants = [
        { more: { guards: [denies()] }, options: {} },
        { more: { hooks: [hook] }, options: {} },
        { more: { guards: [asksAbout()] }, options: { unansweredPolicy: "deny" as const } },
      ];
      const ends = await Promise.all(
        variants.map(async ({ more, options }) => {
          const { role } = soloist(script, { tools: [payTool(false)], errorPolicy, ...more });
          const fixture = newFixture(options);
          const result = await fixture.run(role);
          const names = fixture.sink.ofType("signal.raised").map(({ signal }) => signal.name);
          return [...ending(result), ...names];
        }),
      );
      expect(ends).toEqual([
        ["stopped", "blocked", "deny"],
        ["stopped", "blocked", "hook"],
        ["stopped", "blocked", undefined],
      ]);
    },
  );

  proves(["R71"], "stops only the child whose policy it is", async () => {
    const child = part("child", [calls(write("/a"))], {
      tools: [writeTool()],
      errorPolicy: { blockedPolicy: "stop" },
    });
    const root = part("root", [calls(spawn("child"), write("/b")), says("Root.")], {
      tools: [writeTool()],
      subagents: [child.role],
      guards: [denies("No.", { tools: ["write"] })],
    });
    const result = await newFixture().run(root.role);
    expect([ending(result), ends(result), result.agents[1]?.reason.code]).toEqual([
      ["completed", "completed"],
      ["completed", "stopped"],
      "blocked",
    ]);
  });
});

test("emits the decision of guards before a call starts, also to observers", async () => {
  const heard: string[] = [];
  const { role } = soloist([calls(use("work")), says("done")], {
    tools: [spyTool("work")],
    guards: [allows("first"), allows("second")],
    hooks: [observe("tool.guarded", ({ decision }) => void heard.push(decision))],
  });
  const fixture = newFixture();
  await fixture.run(role);
  const types = fixture.sink.events
    .map(({ type }) => type)
    .filter((type) => type.startsWith("tool."));
  expect([types, heard]).toEqual([["tool.guarded", "tool.started", "tool.ended"], ["allow"]]);
  expect(guardings(fixture)).toEqual([["work", "allow", "first allow", "second allow"]]);
});

test("emits no guard events without guards", async () => {
  const { role } = soloist([calls(use("work")), says("done")], { tools: [spyTool("work")] });
  const fixture = newFixture();
  await fixture.run(role);
  expect(fixture.sink.ofType("tool.guarded")).toEqual([]);
});
