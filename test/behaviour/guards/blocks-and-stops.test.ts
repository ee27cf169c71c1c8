// Goal: blocking a call and ending a run are separate: a guard cannot stop the run, a stop
// condition cannot block a call; only a policy connects them.
// Method: complete runs in which each of them tries.

import { expect } from "vitest";

import { hasToolCall } from "../../../src/policies/stop-conditions.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { ending } from "../../support/pause-stories.ts";
import { calls, use } from "../../harness/scripted-agents.ts";
import { denies, fates, giving, guardings, refusal, watch } from "../../support/guard-stories.ts";

proves(
  ["R70"],
  "denies a call whose guard returns a stop, and gives guards no way to stop the run",
  async () => {
    const watching = watch();
    const stop = { type: "stop", reason: { code: "enough", message: "Enough.", data: {} } };
    const script = [asks("send", {}), says("done")];
    const { role } = soloist(script, {
      tools: [spyTool("send")],
      guards: [giving(() => stop, "stopper"), watching.guard],
    });
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect([ending(result), fates(result)]).toEqual([
      ["completed", "completed"],
      [["refused", "blocked", "stopper"]],
    ]);
    expect(takeWarnings()).toEqual([
      'EspalierWarning: Expected the guard stopper to return { type: "allow" }, or { type: "deny" } or { type: "ask" } with a reason, got an object. The call is denied.',
    ]);
    expect(fixture.sink.ofType("signal.raised").map(({ signal }) => signal.reason.code)).toEqual([
      "completed",
    ]);
    const [, context] = watching.asked[0] ?? expect.fail("not asked");
    expect(Object.keys(context).toSorted()).toEqual(
      [
        "guardName",
        "runId",
        "agentId",
        "agentPath",
        "depth",
        "role",
        "executionId",
        "stepNumber",
        "messages",
        "metadata",
        "context",
        "signal",
      ].toSorted(),
    );
    const functions = Object.values(context).filter((value) => typeof value === "function");
    expect(functions).toEqual([]);
  },
);

proves(["R70"], "evaluates a stop condition after the calls of its step have run", async () => {
  const tools = [spyTool("read"), spyTool("burn")];
  const ran: (readonly number[])[] = [];
  const { role } = soloist([calls(use("read"), use("burn"))], {
    tools,
    stopWhen: [
      (facts) => {
        ran.push(tools.map((tool) => tool.calls.length));
        return hasToolCall("burn")(facts);
      },
    ],
  });
  const fixture = newFixture();
  const result = await fixture.run(role);
  expect(ran).toEqual([
    [0, 0],
    [1, 1],
  ]);
  expect([ending(result), fates(result)]).toEqual([
    ["stopped", "tool_called"],
    [["succeeded"], ["succeeded"]],
  ]);
  expect(guardings(fixture)).toEqual([]);
});

proves(
  ["R71"],
  "continues the run after a blocked call, or stops it if blockedPolicy is stop",
  async () => {
    const outcomes = await Promise.all(
      [{}, { blockedPolicy: "continue" as const }, { blockedPolicy: "stop" as const }].map(
        async (errorPolicy) => {
          const script = [asks("burn", {}), says("done")];
          const { role } = soloist(script, {
            tools: [spyTool("burn")],
            guards: [denies("Fire is hot.")],
            errorPolicy,
          });
          const fixture = newFixture();
          const result = await fixture.run(role);
          expect(fates(result)).toEqual([["refused", "blocked", "deny"]]);
          const blocked = fixture.sink
            .ofType("signal.raised")
            .flatMap(({ signal }) => (signal.source === "tool" ? [signal] : []));
          return [result.status, result.reason, blocked];
        },
      ),
    );
    const reason = {
      code: "blocked",
      message: `A call of burn was denied: ${refusal("burn", "Fire is hot.")}`,
      data: { toolName: "burn", callId: "call_1" },
    };
    const completed = ["completed", expect.objectContaining({ code: "completed" }), []];
    expect(outcomes).toEqual([
      completed,
      completed,
      ["stopped", reason, [{ source: "tool", name: "deny", reason }]],
    ]);
  },
);
