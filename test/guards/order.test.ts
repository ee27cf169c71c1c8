// Goal: a guard is asked at its place in the order of a call: after hooks, filters, validation and coercion, and about nothing else.
// Method: guards that write down what they see; hooks that rewrite; replies with several calls.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import { transform, type Hook } from "../../src/hooks/hook.ts";
import type { JsonObject } from "../../src/kernel/json.ts";
import { approve } from "../../src/protocol/question.ts";
import { asks, says } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { toolFilter } from "../../src/tools/tool-filter.ts";
import { toolGuard } from "../../src/tools/tool-guard.ts";
import { proves } from "../harness/proves.ts";
import { gate, scene } from "../harness/run-scripted.ts";
import { soloist } from "../harness/soloist.ts";
import { spyTool } from "../harness/tools.ts";
import { approveAll, asked, ending, payTool, questionOf, texts } from "../support/pause-scenes.ts";
import { calls, quiet, told, use } from "../tree/cast.ts";
import {
  ALLOW,
  asksAbout,
  denies,
  fates,
  guardings,
  keepsOutOfEtc,
  refusal,
  watch,
  write,
  writeTool,
} from "./guard-scenes.ts";

/** A hook that gives every call these arguments. */
function rewrites(input: JsonObject): Hook {
  return transform("beforeTool", () => ({ arguments: input }));
}

describe("arguments that a hook changed", () => {
  proves(
    ["R73"],
    "are validated: what does not fit is a retry message, and neither tool nor guard sees it",
    async () => {
      const watching = watch();
      const tool = writeTool();
      const { role, model } = soloist([calls(write("/tmp/a")), says("done")], {
        tools: [tool],
        guards: [watching.guard],
        hooks: [rewrites({ no: "path" })],
      });
      const result = await scene().run(role);
      expect([ending(result), fates(result)]).toEqual([
        ["completed", "completed"],
        [["retry", "invalid_arguments"]],
      ]);
      expect([tool.written, watching.seen()]).toEqual([[], []]);
      expect(told(model.requests[1])[0]).toMatch(/path/);
    },
  );

  proves(["R73"], "are guarded: what is denied as it was rewritten does not run", async () => {
    const tool = writeTool();
    const { role, model } = soloist([calls(write("/tmp/a")), says("done")], {
      tools: [tool],
      guards: [keepsOutOfEtc()],
      hooks: [rewrites({ path: "/etc/passwd" })],
    });
    const result = await scene().run(role);
    expect([ending(result), fates(result), tool.written]).toEqual([
      ["completed", "completed"],
      [["refused", "blocked", "etc"]],
      [],
    ]);
    expect(told(model.requests[1])).toEqual([refusal("write", "Nobody writes to /etc.")]);
  });

  test("are what the guard sees; what the model wrote is not guarded any more", async () => {
    const watching = watch();
    const tool = writeTool();
    const { role } = soloist([calls(write("/etc/passwd")), says("done")], {
      tools: [tool],
      guards: [keepsOutOfEtc(), watching.guard],
      hooks: [rewrites({ path: "/tmp/b" })],
    });
    await scene().run(role);
    expect([watching.seen(), tool.written]).toEqual([[{ path: "/tmp/b" }], ["/tmp/b"]]);
  });
});

describe("arguments that an answer changed", () => {
  const changing = (path: string) => ({ arguments: { path } });

  proves(["R73"], "are guarded again: an approver cannot approve what is forbidden", async () => {
    const tool = writeTool({ needsApproval: true });
    const watching = watch();
    const { role, model } = soloist([calls(write("/tmp/a")), says("done")], {
      tools: [tool],
      guards: [keepsOutOfEtc(), watching.guard],
    });
    const stage = scene({ approver: (question) => approve(question, changing("/etc/passwd")) });
    const result = await stage.run(role);
    expect([fates(result), tool.written]).toEqual([[["refused", "blocked", "etc"]], []]);
    expect(told(model.requests[1])).toEqual([refusal("write", "Nobody writes to /etc.")]);
    expect(watching.seen()).toEqual([{ path: "/tmp/a" }, { path: "/etc/passwd" }]);
    expect(guardings(stage)).toEqual([
      ["write", "allow", "etc allow", "watch allow"],
      ["write", "deny", "etc deny Nobody writes to /etc.", "watch allow"],
    ]);
  });

  proves(["R73"], "are guarded again after a pause, in another process", async () => {
    const tool = writeTool({ needsApproval: true });
    const watching = watch();
    const { role } = soloist([calls(write("/tmp/a"), write("/tmp/b")), says("done")], {
      tools: [tool],
      guards: [keepsOutOfEtc(), watching.guard],
    });
    const stage = scene();
    const paused = await stage.run(role);
    const answers = [
      approve(questionOf(paused, 0), changing("/etc/passwd")),
      approve(questionOf(paused, 1), changing("/tmp/c")),
    ];
    const result = await stage.outcome(stage.resume(role, paused.pausedRun, answers));
    expect([fates(result), tool.written]).toEqual([
      [["refused", "blocked", "etc"], ["succeeded"]],
      ["/tmp/c"],
    ]);
    expect(watching.seen()).toEqual(
      ["/tmp/a", "/tmp/b", "/etc/passwd", "/tmp/c"].map((path) => ({ path })),
    );
  });

  proves(["R73"], "are validated again: what does not fit is no answer", async () => {
    const tool = writeTool({ needsApproval: true });
    const { role } = soloist([calls(write("/tmp/a")), says("done")], {
      tools: [tool],
      guards: [keepsOutOfEtc()],
    });
    const stage = scene();
    const paused = await stage.run(role);
    const wrong = [approve(questionOf(paused), { arguments: { no: "path" } })];
    expect(() => stage.resume(role, paused.pausedRun, wrong)).toThrow(/fit write/);
    const result = await stage.outcome(stage.resume(role, paused.pausedRun, approveAll(paused)));
    expect([fates(result), tool.written]).toEqual([[["succeeded"]], ["/tmp/a"]]);
  });

  test("are not asked about again: what a guard wants asked was answered", async () => {
    const tool = writeTool();
    let questions = 0;
    const { role } = soloist([calls(write("/tmp/a")), says("done")], {
      tools: [tool],
      guards: [asksAbout()],
    });
    const stage = scene({
      approver: (question) => {
        questions += 1;
        return approve(question, changing("/tmp/b"));
      },
    });
    const result = await stage.run(role);
    expect([fates(result), tool.written, questions]).toEqual([[["succeeded"]], ["/tmp/b"], 1]);
    expect(guardings(stage).map(([, decision]) => decision)).toEqual(["ask", "ask"]);
  });
});

describe("what a guard sees", () => {
  test("arguments after coercion, whole, and who calls", async () => {
    const watching = watch();
    const tool = payTool(false);
    const { role } = soloist([asks("pay", { amount: "3" }), says("done")], {
      tools: [tool],
      guards: [watching.guard],
    });
    const result = await scene().run(role, { metadata: { tenant: "north" } });
    const [[call, { signal, messages, ...context }] = expect.fail("not asked")] = watching.asked;
    expect(call).toEqual({
      toolName: "pay",
      callId: "call_1",
      arguments: { amount: 3 },
      kind: "function",
    });
    expect(context).toEqual({
      guardName: "watch",
      runId: result.runId,
      agentId: "agent_1",
      agentPath: "solo",
      depth: 0,
      role: "solo",
      executionId: "execution_1",
      stepNumber: 1,
      metadata: { tenant: "north" },
    });
    expect([signal.aborted, messages.map((message) => message.role), tool.paid]).toEqual([
      false,
      ["system", "user", "assistant"],
      [3],
    ]);
  });

  test("is what the tool gets: with the defaults and the transforms of its schema", async () => {
    const got: unknown[] = [];
    const tool = defineTool({
      name: "write",
      description: "Writes.",
      input: z.object({
        path: z.string().default("/etc/motd"),
        mode: z.string().toLowerCase().optional(),
      }),
      execute: (input) => {
        got.push(input);
        return "wrote";
      },
    });
    const watching = watch();
    const { role } = soloist(
      [
        calls(
          { name: "write", arguments: {} },
          { name: "write", arguments: { path: "/a", mode: "RW", x: 1 } },
        ),
        says("done"),
      ],
      { tools: [tool], guards: [keepsOutOfEtc(), watching.guard] },
    );
    const result = await scene().run(role);
    expect(watching.seen()).toEqual([{ path: "/etc/motd" }, { path: "/a", mode: "rw" }]);
    expect([fates(result), got]).toEqual([
      [["refused", "blocked", "etc"], ["succeeded"]],
      [{ path: "/a", mode: "rw" }],
    ]);
  });

  test("is what the model wrote where a transform gives something that is no JSON", async () => {
    const tool = defineTool({
      name: "write",
      description: "Writes.",
      input: z.object({ path: z.string().transform((path) => new Map([[path, 1n]])) }),
      execute: ({ path }) => [...path.keys()],
    });
    const watching = watch();
    const { role } = soloist([calls(write("/a")), says("done")], {
      tools: [tool],
      guards: [watching.guard],
    });
    const result = await scene().run(role);
    expect([watching.seen(), texts(result)]).toEqual([[{ path: "/a" }], ['["/a"]']]);
  });

  test("is frozen to its leaves, and no door to what the tool gets", async () => {
    const inner = { list: [{ path: "/tmp/a" }] };
    const got: unknown[] = [];
    const tool = defineTool({
      name: "write",
      description: "Writes.",
      input: z.object({ list: z.array(z.object({ path: z.string() })) }),
      execute: (input) => {
        got.push(input);
        return "wrote";
      },
    });
    const attempts: boolean[] = [];
    const meddling = toolGuard((call, context) => {
      const targets: readonly unknown[] = [
        call,
        call.arguments,
        Reflect.get(Object(call.arguments), "list"),
        Reflect.get(Object(call.arguments), "list")[0],
        context,
        context.messages,
        context.messages[0],
        context.metadata,
        Reflect.get(context.metadata, "deep"),
      ];
      attempts.push(...targets.map((target) => Reflect.set(Object(target), "path", "/etc")));
      attempts.push(...targets.map((target) => Reflect.set(Object(target), "type", "x")));
      return ALLOW;
    });
    const watching = watch();
    const { role } = soloist([asks("write", inner), says("done")], {
      tools: [tool],
      guards: [meddling, watching.guard],
    });
    const metadata = { deep: { path: "/tmp" } };
    const result = await scene().run(role, { metadata });
    expect(attempts).toEqual(attempts.map(() => false));
    expect([got, watching.seen(), fates(result)]).toEqual([[inner], [inner], [["succeeded"]]]);
  });
});

describe("a guard is not asked", () => {
  test("about calls that are unknown, no JSON, do not fit, or are hidden by a filter", async () => {
    const watching = watch();
    const { role } = soloist(
      [
        calls(
          use("nobody"),
          { name: "write", arguments: "{path" },
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
        errorPolicy: { onRetryLimit: "continue" },
      },
    );
    const stage = scene();
    const result = await stage.run(role);
    expect(fates(result).map(([, code]) => code)).toEqual([
      "unknown_tool",
      "invalid_json",
      "invalid_arguments",
      "tool_not_available",
      undefined,
    ]);
    expect(watching.seen()).toEqual([{ path: "/tmp/a" }]);
    expect(stage.sink.of("tool.guarded").map(({ callId }) => callId)).toEqual(["call_5"]);
  });

  test("about Finish, which calls nothing", async () => {
    const watching = watch(() => ({ type: "deny", reason: "No." }));
    const { role } = soloist([asks("Finish", { sum: 3 })], {
      output: z.object({ sum: z.number() }),
      guards: [watching.guard],
    });
    const result = await scene().run(role);
    expect([ending(result), result.output, watching.asked]).toEqual([
      ["completed", "completed"],
      { sum: 3 },
      [],
    ]);
  });

  test("about calls of other tools than those that it is for", async () => {
    const watching = watch(() => ({ type: "deny", reason: "No." }), {
      name: "watch",
      tools: ["burn", "drown"],
    });
    const tools = ["read", "burn", "drown", "burned"].map((name) => spyTool(name));
    const script = [calls(...tools.map(({ name }) => use(name))), says("done")];
    const { role } = soloist(script, { tools, guards: [watching.guard] });
    const result = await scene().run(role);
    expect(watching.asked.map(([{ toolName }]) => toolName)).toEqual(["burn", "drown"]);
    expect(fates(result).map(([type]) => type)).toEqual([
      "succeeded",
      "refused",
      "refused",
      "succeeded",
    ]);
  });

  test("about a call that a hook has denied: the hook's denial stands alone [C43]", async () => {
    const watching = watch(() => ({ type: "ask", reason: "Sure?" }));
    const tool = spyTool("burn", undefined, { needsApproval: true });
    const { role, model } = soloist([asks("burn", {}), says("done")], {
      tools: [tool],
      guards: [watching.guard],
      hooks: [transform("beforeTool", () => ({ deny: "Fire." }), { name: "fireman" })],
    });
    const result = await scene().run(role);
    expect([fates(result), watching.asked, tool.calls.length]).toEqual([
      [["refused", "blocked", "fireman"]],
      [],
      0,
    ]);
    expect(told(model.requests[1])).toEqual([refusal("burn", "Fire.")]);
  });

  test("about a call that a limit refused", async () => {
    const watching = watch();
    const { role } = soloist([calls(write("/tmp/a"), write("/tmp/b"))], {
      tools: [writeTool()],
      guards: [watching.guard],
      budget: { toolCalls: 1 },
    });
    const result = await scene().run(role);
    expect([ending(result), watching.seen()]).toEqual([
      ["stopped", "tool_calls_limit"],
      [{ path: "/tmp/a" }],
    ]);
  });
});

describe("calls of one reply", () => {
  test("get their own answers, and their results in call order, however long guards take", async () => {
    const slow = gate();
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
    const stage = scene();
    const run = stage.start(role);
    await quiet();
    expect(tool.written).toEqual(["/c"]);
    slow.open();
    const result = await stage.outcome(run);
    expect(texts(result)).toEqual(["wrote /a", refusal("write", "Not you."), "wrote /c"]);
    expect([told(model.requests[1]), tool.written]).toEqual([texts(result), ["/c", "/a"]]);
  });

  test("a pause waits for one of them, the others run once and are not guarded again", async () => {
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
    const stage = scene();
    const paused = await stage.run(role);
    expect([asked(paused), tool.written]).toEqual([[["solo", "write"]], ["/a", "/d"]]);
    const result = await stage.outcome(stage.resume(role, paused.pausedRun, approveAll(paused)));
    expect(tool.written).toEqual(["/a", "/d", "/b"]);
    expect(texts(result)).toEqual(["wrote /a", "wrote /b", refusal("write", "No."), "wrote /d"]);
    expect(told(model.requests[1])).toEqual(texts(result));
    expect(watching.seen()).toEqual(["/a", "/b", "/c", "/d"].map((path) => ({ path })));
    expect(result.usage.total.toolCalls).toBe(4);
  });

  test("sequential tools are guarded when their turn comes", async () => {
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
      { isSequential: true },
    );
    const { role } = soloist([calls(use("step"), use("step")), says("done")], {
      tools: [tool],
      guards: [guard.guard],
    });
    await scene().run(role);
    expect(order).toEqual(["guard call_1", "run call_1", "guard call_2", "run call_2"]);
  });

  test("a denied call counts among the calls that the budget allows, and is not used", async () => {
    const { role } = soloist([asks("burn", {}), asks("burn", {})], {
      tools: [spyTool("burn")],
      guards: [denies()],
      budget: { toolCalls: 1 },
    });
    const result = await scene().run(role);
    expect([ending(result), result.usage.total.toolCalls, result.agents[0]?.toolsUsed]).toEqual([
      ["stopped", "tool_calls_limit"],
      1,
      {},
    ]);
  });
});
