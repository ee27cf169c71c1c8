// Goal: an approval covers the call that was shown when the run continues, under the current guards
// and schema.
// Method: a call that needs approval, a pause, and a resumption with a change.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { describe, expect, test } from "vitest";
import { z } from "zod";

import { transform } from "../../../src/hooks/hook.ts";
import { approve, deny } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { toolGuard, type GuardDecision } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { approveAll, questionOf } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, receivedTexts } from "../../harness/scripted-agents.ts";
import {
  asksAbout,
  denies,
  fates,
  refusal,
  write,
  writeTool,
} from "../../support/guard-stories.ts";

describe("an approved call", () => {
  proves(["S7.8"], "is denied by a guard that was added or tightened since", async () => {
    const tool = writeTool();
    let answer: GuardDecision = { type: "ask", reason: "Sure?" };
    const guards = [toolGuard(() => answer, { name: "strict" })];
    const { role, model } = soloist([calls(write("/a")), says("done")], { tools: [tool], guards });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    answer = { type: "deny", reason: "Closed." };
    const closed = await fixture.outcome(
      fixture.resume(role, paused.pausedRun, approveAll(paused)),
    );
    expect([fates(closed), tool.written]).toEqual([[["refused", "blocked", "strict"]], []]);
    expect(receivedTexts(model.requests[1])).toEqual([refusal("write", "Closed.")]);

    const other = soloist([calls(write("/b")), says("done")], {
      tools: [tool],
      guards: [asksAbout()],
    });
    const second = newFixture();
    const open = await second.run(other.role);
    const resumed = second.resume(other.role, open.pausedRun, approveAll(open), {
      guards: [denies("Closed.")],
    });
    expect([fates(await second.outcome(resumed)), tool.written]).toEqual([
      [["refused", "blocked", "deny"]],
      [],
    ]);
  });

  proves(
    ["S7.8"],
    "runs with the arguments that were shown, not with changed defaults",
    async () => {
      const runs: unknown[] = [];
      const paying = (most: number) =>
        defineTool({
          name: "pay",
          description: "Pays.",
          inputSchema: z.object({ amount: z.number(), most: z.number().default(most) }),
          needsApproval: true,
          execute: (input) => void runs.push(input),
        });
      const withTool = (most: number) =>
        soloist([calls({ toolName: "pay", arguments: { amount: 3 } }), says("done")], {
          tools: [paying(most)],
        });
      const fixture = newFixture();
      const paused = await fixture.run(withTool(5).role);
      expect(questionOf(paused).arguments).toEqual({ amount: 3, most: 5 });
      const result = await fixture.outcome(
        fixture.resume(withTool(9).role, paused.pausedRun, approveAll(paused)),
      );
      expect([fates(result), runs]).toEqual([[["succeeded"]], [{ amount: 3, most: 5 }]]);
    },
  );

  proves(["S7.8"], "does not run if its current schema refuses it or adds to it", async () => {
    const runs: unknown[] = [];
    const withInput = (input: z.ZodType) => {
      const pay = defineTool({
        name: "pay",
        description: "Pays.",
        inputSchema: input,
        needsApproval: true,
        execute: (given) => void runs.push(given),
      });
      const script = [calls({ toolName: "pay", arguments: { amount: 3 } }), says("done")];
      return soloist(script, { tools: [pay] });
    };
    const resumedWith = async (input: z.ZodType) => {
      const fixture = newFixture();
      const paused = await fixture.run(withInput(z.object({ amount: z.number() })).role);
      const { role, model } = withInput(input);
      const resumed = fixture.resume(role, paused.pausedRun, approveAll(paused));
      const result = await fixture.outcome(resumed);
      const [execution] = result.steps[0]?.tools.executions ?? [];
      return [execution?.errorCode, ...receivedTexts(model.requests[0])];
    };
    expect([
      await resumedWith(z.object({ amount: z.number().max(2) })),
      await resumedWith(z.object({ amount: z.number(), tip: z.number().default(9) })),
      runs,
    ]).toEqual([
      [
        "invalid_arguments",
        "The arguments of pay do not fit its schema:\n- amount: expected at most 2, got 3\nCorrect them and call pay again.",
      ],
      ["blocked", refusal("pay", "This is no longer the approved call: its schema has changed.")],
      [],
    ]);
  });

  proves(["S7.8"], "cannot be altered in the history of a stored run", async () => {
    const tool = writeTool();
    const { role } = soloist([calls(write("/a")), says("done")], {
      tools: [tool],
      guards: [asksAbout()],
    });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    const text = JSON.stringify(paused.pausedRun);
    const inHistory = JSON.stringify(JSON.stringify({ path: "/a" }));
    expect(text.split(inHistory).length).toBeGreaterThan(2);
    for (const [index] of text.split(inHistory).slice(1).entries()) {
      const parts = text.split(inHistory);
      const altered = `${parts.slice(0, index + 1).join(inHistory)}${inHistory.replace("/a", "/b")}${parts.slice(index + 1).join(inHistory)}`;
      const thrown = thrownBy(() =>
        fixture.orchestrator.resume(readPausedRun(altered), { answers: approveAll(paused), role }),
      );
      expect(thrown, `place ${index}`).toMatchObject({ code: "invalid_paused_run" });
    }
    expect(tool.written).toEqual([]);
  });
});

describe("a hook that denies", () => {
  proves(["S7.10"], "denies beside guards, which are called and recorded", async () => {
    const tool = writeTool();
    const seen: unknown[] = [];
    const guards = [
      toolGuard(
        (call) => {
          seen.push(call.arguments);
          return { type: "deny", reason: "Not there." };
        },
        { name: "place" },
      ),
      toolGuard(() => ({ type: "ask", reason: "Sure?" }), { name: "careful" }),
    ];
    const hooks = [transform("beforeTool", () => ({ deny: "Too dear." }), { name: "purse" })];
    const { role, model } = soloist([calls(write("/a")), says("done")], {
      tools: [tool],
      guards,
      hooks,
    });
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect([seen, tool.written]).toEqual([[{ path: "/a" }], []]);
    expect(fates(result)).toEqual([["refused", "blocked", "place, purse"]]);
    expect(
      fixture.sink.ofType("tool.guarded").map(({ decision, answers }) => [decision, answers]),
    ).toEqual([
      [
        "deny",
        [
          { guard: "place", answer: "deny", reason: "Not there." },
          { guard: "careful", answer: "ask", reason: "Sure?" },
          { guard: "purse", answer: "deny", reason: "Too dear." },
        ],
      ],
    ]);
    expect(fixture.sink.ofType("tool.rejected").map(({ reason }) => reason)).toEqual([
      "Not there. Too dear.",
    ]);
    expect(receivedTexts(model.requests[1])).toEqual([refusal("write", "Not there. Too dear.")]);
  });
});

proves(["S7.10"], "reports the reason for which a guard asked with the denial", async () => {
  const { role, model } = soloist([calls(write("/a")), says("done")], {
    tools: [writeTool()],
    guards: [asksAbout("/a is not in docs/.")],
  });
  const fixture = newFixture({ approver: (question) => deny(question, "Not now.") });
  const result = await fixture.run(role);
  const text = refusal("write", "Not now.", "/a is not in docs/.");
  expect(receivedTexts(model.requests[1])).toEqual([text]);
  expect(result.steps[0]?.tools.executions.map((one) => one.text)).toEqual([text]);
  expect(fixture.sink.ofType("tool.rejected").map(({ reason }) => reason)).toEqual([
    "Not now. Approval was required for this reason: /a is not in docs/.",
  ]);
});

test("passes changed arguments of an answer to hooks and guards", async () => {
  const tool = writeTool();
  const hooks = [
    transform(
      "beforeTool",
      ({ arguments: input }) =>
        JSON.stringify(input).includes("/b") ? { deny: "Not b." } : undefined,
      { name: "purse" },
    ),
  ];
  const guards = [asksAbout("Sure?")];
  const { role } = soloist([calls(write("/a")), says("done")], { tools: [tool], guards, hooks });
  const fixture = newFixture({
    approver: (question) => approve(question, { arguments: { path: "/b" } }),
  });
  const result = await fixture.run(role);
  expect([fates(result), tool.written]).toEqual([[["refused", "blocked", "purse"]], []]);
  expect(fixture.sink.ofType("tool.guarded").map(({ decision }) => decision)).toEqual([
    "ask",
    "deny",
  ]);
});
