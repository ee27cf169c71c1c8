// Goal: guards are called for the calls that would start, and for no others; each of several calls
// in one reply gets its own answer.
// Method: replies with calls that are unknown, hidden, invalid, denied or over a limit; guards that
// answer slowly and differently.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import { asks, says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { toolFilter } from "../../../src/tools/tool-filter.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, asked, ending, texts } from "../../support/pause-stories.ts";
import { calls, quiet, receivedTexts, use } from "../../harness/scripted-agents.ts";
import {
  ALLOW,
  denies,
  fates,
  refusal,
  watch,
  write,
  writeTool,
} from "../../support/guard-stories.ts";

describe("a guard is not called", () => {
  test("for calls that are unknown, invalid, or hidden by a filter", async () => {
    const watching = watch();
    const { role } = soloist(
      [
        calls(
          use("nobody"),
          { toolName: "write", arguments: "{path" },
          write(7),
          use("hidden"),
          write("/tmp/a"),
        ),
        says("done"),
      ],
      {
        tools: [writeTool(), spyTool("hidden")],
        toolFilters: [toolFilter((name) => name !== "hidden", { name: "hides" })],
        guards: [watching.guard],
        errorPolicy: { retryLimitPolicy: "continue" },
      },
    );
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect(fates(result).map(([, code]) => code)).toEqual([
      "unknown_tool",
      "invalid_json",
      "invalid_arguments",
      "tool_not_available",
      undefined,
    ]);
    expect(watching.seen()).toEqual([{ path: "/tmp/a" }]);
    expect(fixture.sink.ofType("tool.guarded").map(({ callId }) => callId)).toEqual(["call_5"]);
  });

  test("for Finish, which executes no tool", async () => {
    const watching = watch(() => ({ type: "deny", reason: "No." }));
    const { role } = soloist([asks("Finish", { sum: 3 })], {
      output: z.object({ sum: z.number() }),
      guards: [watching.guard],
    });
    const result = await newFixture().run(role);
    expect([ending(result), result.output, watching.asked]).toEqual([
      ["completed", "completed"],
      { sum: 3 },
      [],
    ]);
  });

  test("for calls of other tools than its own", async () => {
    const watching = watch(() => ({ type: "deny", reason: "No." }), {
      name: "watch",
      tools: ["burn", "drown"],
    });
    const tools = ["read", "burn", "drown", "burned"].map((name) => spyTool(name));
    const script = [calls(...tools.map(({ name }) => use(name))), says("done")];
    const { role } = soloist(script, { tools, guards: [watching.guard] });
    const result = await newFixture().run(role);
    expect(watching.asked.map(([{ toolName }]) => toolName)).toEqual(["burn", "drown"]);
    expect(fates(result).map(([type]) => type)).toEqual([
      "succeeded",
      "refused",
      "refused",
      "succeeded",
    ]);
  });

  test("for a call that a limit refused", async () => {
    const watching = watch();
    const { role } = soloist([calls(write("/tmp/a"), write("/tmp/b"))], {
      tools: [writeTool()],
      guards: [watching.guard],
      budget: { toolCalls: 1 },
    });
    const result = await newFixture().run(role);
    expect([ending(result), watching.seen()]).toEqual([
      ["stopped", "tool_call_limit"],
      [{ path: "/tmp/a" }],
    ]);
  });
});

describe("calls of one reply", () => {
  test("get their own answers, and their results in call order, however long guards take", async () => {
    const slow = latch();
    const guard = toolGuard(
      async ({ callId }) => {
        if (callId === "call_1") await slow.opened;
        return callId === "call_2" ? { type: "deny", reason: "Not you." } : ALLOW;
      },
      { name: "porter" },
    );
    const tool = writeTool();
    const script = [calls(write("/a"), write("/b"), write("/c")), says("done")];
    const { role, model } = soloist(script, { tools: [tool], guards: [guard] });
    const fixture = newFixture();
    const run = fixture.start(role);
    await quiet();
    expect(tool.written).toEqual(["/c"]);
    slow.open();
    const result = await fixture.outcome(run);
    expect(texts(result)).toEqual(["wrote /a", refusal("write", "Not you."), "wrote /c"]);
    expect([receivedTexts(model.requests[1]), tool.written]).toEqual([texts(result), ["/c", "/a"]]);
  });

  test("are not guarded again after a pause, except the one that was asked about", async () => {
    const watching = watch(({ arguments: input }) =>
      JSON.stringify(input).includes("/b")
        ? { type: "ask", reason: "Really?" }
        : JSON.stringify(input).includes("/c")
          ? { type: "deny", reason: "No." }
          : ALLOW,
    );
    const tool = writeTool();
    const script = [calls(write("/a"), write("/b"), write("/c"), write("/d")), says("done")];
    const { role, model } = soloist(script, { tools: [tool], guards: [watching.guard] });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    expect([asked(paused), tool.written]).toEqual([[["solo", "write"]], ["/a", "/d"]]);
    const result = await fixture.outcome(
      fixture.resume(role, paused.pausedRun, approveAll(paused)),
    );
    expect(tool.written).toEqual(["/a", "/d", "/b"]);
    expect(texts(result)).toEqual(["wrote /a", "wrote /b", refusal("write", "No."), "wrote /d"]);
    expect(receivedTexts(model.requests[1])).toEqual(texts(result));
    expect(watching.seen()).toEqual(["/a", "/b", "/c", "/d", "/b"].map((path) => ({ path })));
    expect(result.usage.total.toolCalls).toBe(4);
  });

  test("are guarded with the value of the schema, even null", async () => {
    const watching = watch();
    const got: unknown[] = [];
    const tool = defineTool({
      name: "note",
      description: "Notes.",
      inputSchema: z.object({ path: z.string() }).transform(() => null),
      execute: (input) => {
        got.push(input);
        return "noted";
      },
    });
    const script = [calls({ toolName: "note", arguments: { path: "/a" } }), says("done")];
    const { role } = soloist(script, { tools: [tool], guards: [watching.guard] });
    await newFixture().run(role);
    expect([watching.seen(), got]).toEqual([[null], [null]]);
  });

  test("are guarded one by one if their tools are sequential", async () => {
    const order: string[] = [];
    const guard = watch(({ callId }) => {
      order.push(`guard ${callId}`);
      return ALLOW;
    });
    const tool = spyTool(
      "step",
      ({ callId }) => {
        order.push(`run ${callId}`);
      },
      { sequential: true },
    );
    const { role } = soloist([calls(use("step"), use("step")), says("done")], {
      tools: [tool],
      guards: [guard.guard],
    });
    await newFixture().run(role);
    expect(order).toEqual(["guard call_1", "run call_1", "guard call_2", "run call_2"]);
  });

  test("count against the budget when they are denied, and not as used tools", async () => {
    const { role } = soloist([asks("burn", {}), asks("burn", {})], {
      tools: [spyTool("burn")],
      guards: [denies()],
      budget: { toolCalls: 1 },
    });
    const result = await newFixture().run(role);
    expect([ending(result), result.usage.total.toolCalls, result.agents[0]?.toolsUsed]).toEqual([
      ["stopped", "tool_call_limit"],
      1,
      {},
    ]);
  });
});
