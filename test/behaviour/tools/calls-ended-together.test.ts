// Goal: once a reply is decided, its calls end together: none starts, those in flight are aborted,
// and each has one result.
// Method: calls in flight that obey their signal, others that wait for a slot or for their turn,
// endless subagents; every way in which a reply can be decided, and beside each the last case in
// which it is not.

import { expect, test } from "vitest";

import { findCancelReason } from "../../../src/kernel/cancel-signal.ts";
import { transform } from "../../../src/hooks/hook.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { says, type ScriptedCall } from "../../../src/testing/scripted-model.ts";
import { ToolError } from "../../../src/tools/tool-error.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import type { ToolContext } from "../../../src/tools/tool-context.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { proves } from "../../harness/proves.ts";
import { spyTool } from "../../harness/tools.ts";
import { spawnBeside } from "../../support/subagent-calls.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

const use = (name: string): ScriptedCall => ({ toolName: name, arguments: {} });

/** Works until its signal is aborted, and records the reason. */
function untilAborted(heard: string[]): (context: ToolContext) => Promise<string> {
  return ({ signal }) =>
    new Promise((_resolve, reject) => {
      const leave = (): void => {
        heard.push(findCancelReason(signal)?.type ?? "no reason");
        reject(new Error("aborted"));
      };
      if (signal.aborted) leave();
      else signal.addEventListener("abort", leave, { once: true });
    });
}

function outcomes(result: RunResult): readonly string[] {
  return result.steps[0]?.tools.executions.map(({ type }) => type) ?? [];
}

/** The second call of the reply, which decides it; `ending`: how the run ends. */
const ENDS: Readonly<
  Record<string, { readonly act: (run: Run) => unknown; readonly ending: readonly string[] }>
> = {
  "an abortive error": {
    act: () => {
      throw new ToolError("The disk is on fire.", { severity: "abortive" });
    },
    ending: ["failed", "error", "failed"],
  },
  "a spent error budget": {
    act: () => {
      throw new Error("No.");
    },
    ending: ["stopped", "error_budget", "failed"],
  },
  "a request to stop": {
    act: (run) => {
      run.requestStop();
      return "asked";
    },
    ending: ["stopped", "stop_requested", "succeeded"],
  },
};

for (const [what, { act, ending }] of Object.entries(ENDS)) {
  proves(
    ["S7.16", "S7.22"],
    `aborts calls in flight after ${what}, and starts no waiting ones`,
    async () => {
      const heard: string[] = [];
      const held = latch();
      const slow = spyTool("slow", untilAborted(heard));
      const bad = spyTool("bad", async () => {
        await held.opened;
        return String(act(run));
      });
      const queued = spyTool("queued");
      const alone = spyTool("alone", () => "alone done", { sequential: true });
      const child = part("child", [says("Late.", { after: latch().opened })]);
      const beside = part("beside", [says("Late.", { after: latch().opened })]);
      const root = part(
        "root",
        [
          calls(
            use("slow"),
            use("bad"),
            spawn("child"),
            spawnBeside("beside"),
            use("queued"),
            use("alone"),
          ),
        ],
        {
          tools: [slow, bad, queued, alone],
          subagents: [child.role, beside.role],
          delegation: { background: true },
          errorBudget: { maxToolErrors: 0 },
        },
      );
      const fixture = newFixture({ concurrency: { toolCalls: 2 } });
      const run = fixture.start(root.role);
      await flushEventLoop();
      expect([slow.calls.length, bad.calls.length, queued.calls.length, heard]).toEqual([
        1,
        1,
        0,
        [],
      ]);
      held.open();
      const result = await fixture.outcome(run);
      const [status, code, own = ""] = ending;
      expect([result.status, result.reason.code, heard]).toEqual([status, code, ["stopped"]]);
      expect(outcomes(result)).toEqual([
        "cancelled",
        own,
        what === "a request to stop" ? "failed" : "cancelled",
        "succeeded",
        "not_executed",
        "not_executed",
      ]);
      expect([queued.calls.length, alone.calls.length]).toEqual([0, 0]);
      const reached = what === "a request to stop" ? "stopped" : "cancelled";
      expect(result.agents.slice(1).map((agent) => agent.status)).toEqual([reached, reached]);
    },
  );
}

proves(["S7.16"], "ends no call after an error within the error budget", async () => {
  const heard: string[] = [];
  const held = latch();
  const slow = spyTool("slow", async ({ signal }) => {
    await held.opened;
    heard.push(String(signal.aborted));
    return "slow done";
  });
  const bad = spyTool("bad", () => {
    throw new Error("No.");
  });
  const root = part("root", [calls(use("slow"), use("bad")), says("Done.")], {
    tools: [slow, bad],
    errorBudget: { maxToolErrors: 1 },
  });
  const fixture = newFixture();
  const run = fixture.start(root.role);
  await flushEventLoop();
  held.open();
  const result = await fixture.outcome(run);
  expect([result.status, outcomes(result), heard]).toEqual([
    "completed",
    ["succeeded", "failed"],
    ["false"],
  ]);
});

proves(
  ["S7.16"],
  "exceeds the limit of consecutive errors only if no call in flight can interrupt them",
  async () => {
    const held = latch();
    const slow = spyTool("slow", async () => {
      await held.opened;
      return "slow done";
    });
    const bad = spyTool("bad", () => {
      throw new Error("No.");
    });
    const root = part("root", [calls(use("bad"), use("slow"), use("bad")), says("Done.")], {
      tools: [slow, bad],
      errorBudget: { maxConsecutiveErrors: 1 },
    });
    const fixture = newFixture();
    const run = fixture.start(root.role);
    await flushEventLoop();
    held.open();
    const result = await fixture.outcome(run);
    expect([result.status, outcomes(result)]).toEqual([
      "completed",
      ["failed", "succeeded", "failed"],
    ]);
  },
);

test("ends a reply by a call that a guard denied if blockedPolicy is stop", async () => {
  const heard: string[] = [];
  const slow = spyTool("slow", untilAborted(heard));
  const root = part("root", [calls(use("slow"), use("forbidden"))], {
    tools: [slow, spyTool("forbidden")],
    guards: [
      toolGuard(
        async () => {
          await flushEventLoop();
          return { type: "deny", reason: "Not here." };
        },
        { tools: ["forbidden"] },
      ),
    ],
    errorPolicy: { blockedPolicy: "stop" },
  });
  const result = await newFixture().run(root.role);
  expect([result.reason.code, outcomes(result), heard]).toEqual([
    "blocked",
    ["cancelled", "refused"],
    ["stopped"],
  ]);
});

test("accepts a result within the grace period of a stop, and passes it to hooks", async () => {
  const slow = spyTool("slow", async ({ signal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    return "saved what there was";
  });
  const hide = transform("afterTool", ({ text }) => ({ text: text.replace("saved", "hid") }));
  const root = part("root", [calls(use("slow"), use("stop"))], {
    tools: [slow, spyTool("stop", () => run.requestStop())],
    hooks: [hide],
  });
  const fixture = newFixture();
  const run = fixture.start(root.role);
  const result = await fixture.outcome(run);
  expect(result.steps[0]?.tools.executions[0]?.text).toBe("hid what there was");
});

test("abandons a tool that ignores its signal after the grace period, and ends the step", async () => {
  const fixture = newFixture({ graceMs: 50 });
  const root = part("root", [calls(use("slow"), use("stop"))], {
    tools: [spyTool("slow", () => latch().opened), spyTool("stop", () => run.requestStop())],
  });
  const run = fixture.start(root.role);
  await flushEventLoop();
  fixture.clock.advance(50);
  const result = await fixture.outcome(run);
  expect(outcomes(result)).toEqual(["cancelled", "succeeded"]);
});

test("starts the calls of the next reply with a new signal", async () => {
  const signals: boolean[] = [];
  const look = spyTool("look", ({ signal }) => void signals.push(signal.aborted));
  const bad = spyTool("bad", () => {
    throw new Error("No.");
  });
  const root = part("root", [calls(use("look"), use("bad")), calls(use("look")), says("Done.")], {
    tools: [look, bad],
  });
  await newFixture().run(root.role);
  expect(signals).toEqual([false, false]);
});

test("says in the result of a call that never began whether a failure or a stop ended its reply", async () => {
  const texts: unknown[] = [];
  for (const ending of ["failure", "hook", "stop"]) {
    const held = latch();
    const slow = spyTool("slow", async () => await held.opened);
    const bad = spyTool("bad", () => {
      if (ending === "stop") return run.requestStop();
      throw new ToolError("No.", { severity: "abortive" });
    });
    const hook = transform("beforeTool", ({ toolName }) => {
      if (ending === "hook" && toolName === "bad") throw new Error("broken");
      return undefined;
    });
    const root = part("root", [calls(use("bad"), use("slow"))], {
      tools: [bad, slow],
      hooks: [hook],
    });
    const run = newFixture({ concurrency: { toolCalls: 1 } }).start(root.role);
    const result = await run.result;
    texts.push([slow.calls.length, result.steps[0]?.tools.executions[1]?.text]);
  }
  expect(texts).toEqual([
    [0, "Not executed: a failure ended the reply before this call could begin."],
    [0, "Not executed: a failure ended the reply before this call could begin."],
    [0, "Not executed: the agent was stopped before this call could begin."],
  ]);
});
