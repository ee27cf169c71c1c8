// Goal: a guard is called at its place in the order of a call: after hooks, filters, validation and
// coercion.
// Method: guards that record their calls; hooks that rewrite; replies with several calls.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import { transform, type Hook } from "../../../src/hooks/hook.ts";
import type { JsonObject } from "../../../src/kernel/json.ts";
import { approve } from "../../../src/protocol/question.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { approveAll, ending, payTool, questionOf, texts } from "../../support/pause-stories.ts";
import { calls, receivedTexts } from "../../harness/scripted-agents.ts";
import {
  ALLOW,
  asksAbout,
  fates,
  guardings,
  keepsOutOfEtc,
  refusal,
  watch,
  write,
  writeTool,
} from "../../support/guard-stories.ts";

/** Returns a hook that gives every call these arguments. */
function rewrites(input: JsonObject): Hook {
  return transform("beforeTool", () => ({ arguments: input }));
}

describe("arguments that a hook changed", () => {
  proves(
    ["R73"],
    "are validated before guards and tool, with a retry message if they do not fit",
    async () => {
      const watching = watch();
      const tool = writeTool();
      const { role, model } = soloist([calls(write("/tmp/a")), says("done")], {
        tools: [tool],
        guards: [watching.guard],
        hooks: [rewrites({ no: "path" })],
      });
      const result = await newFixture().run(role);
      expect([ending(result), fates(result)]).toEqual([
        ["completed", "completed"],
        [["retry", "invalid_arguments"]],
      ]);
      expect([tool.written, watching.seen()]).toEqual([[], []]);
      expect(receivedTexts(model.requests[1])[0]).toMatch(/path/);
    },
  );

  proves(["R73"], "are guarded as they were rewritten", async () => {
    const tool = writeTool();
    const { role, model } = soloist([calls(write("/tmp/a")), says("done")], {
      tools: [tool],
      guards: [keepsOutOfEtc()],
      hooks: [rewrites({ path: "/etc/passwd" })],
    });
    const result = await newFixture().run(role);
    expect([ending(result), fates(result), tool.written]).toEqual([
      ["completed", "completed"],
      [["refused", "blocked", "etc"]],
      [],
    ]);
    expect(receivedTexts(model.requests[1])).toEqual([refusal("write", "Nobody writes to /etc.")]);
  });

  test("are passed to the guard in place of those of the model", async () => {
    const watching = watch();
    const tool = writeTool();
    const { role } = soloist([calls(write("/etc/passwd")), says("done")], {
      tools: [tool],
      guards: [keepsOutOfEtc(), watching.guard],
      hooks: [rewrites({ path: "/tmp/b" })],
    });
    await newFixture().run(role);
    expect([watching.seen(), tool.written]).toEqual([[{ path: "/tmp/b" }], ["/tmp/b"]]);
  });
});

function changing(path: string): { readonly arguments: JsonObject } {
  return { arguments: { path } };
}

describe("arguments that an answer changed", () => {
  proves(
    ["R73"],
    "are guarded again, so that an approver cannot approve a forbidden call",
    async () => {
      const tool = writeTool({ needsApproval: true });
      const watching = watch();
      const { role, model } = soloist([calls(write("/tmp/a")), says("done")], {
        tools: [tool],
        guards: [keepsOutOfEtc(), watching.guard],
      });
      const fixture = newFixture({
        approver: (question) => approve(question, changing("/etc/passwd")),
      });
      const result = await fixture.run(role);
      expect([fates(result), tool.written]).toEqual([[["refused", "blocked", "etc"]], []]);
      expect(receivedTexts(model.requests[1])).toEqual([
        refusal("write", "Nobody writes to /etc."),
      ]);
      expect(watching.seen()).toEqual([{ path: "/tmp/a" }, { path: "/etc/passwd" }]);
      expect(guardings(fixture)).toEqual([
        ["write", "allow", "etc allow", "watch allow"],
        ["write", "deny", "etc deny Nobody writes to /etc.", "watch allow"],
      ]);
    },
  );

  proves(["R73"], "are guarded again after a pause, in another process", async () => {
    const tool = writeTool({ needsApproval: true });
    const watching = watch();
    const { role } = soloist([calls(write("/tmp/a"), write("/tmp/b")), says("done")], {
      tools: [tool],
      guards: [keepsOutOfEtc(), watching.guard],
    });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    const answers = [
      approve(questionOf(paused, 0), changing("/etc/passwd")),
      approve(questionOf(paused, 1), changing("/tmp/c")),
    ];
    const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, answers));
    expect([fates(result), tool.written]).toEqual([
      [["refused", "blocked", "etc"], ["succeeded"]],
      ["/tmp/c"],
    ]);
    expect(watching.seen()).toEqual(
      ["/tmp/a", "/tmp/b", "/etc/passwd", "/tmp/c"].map((path) => ({ path })),
    );
  });

  proves(["R73"], "are validated again, and refused as an answer if they do not fit", async () => {
    const tool = writeTool({ needsApproval: true });
    const { role } = soloist([calls(write("/tmp/a")), says("done")], {
      tools: [tool],
      guards: [keepsOutOfEtc()],
    });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    const wrong = [approve(questionOf(paused), { arguments: { no: "path" } })];
    expect(() => fixture.resume(role, paused.pausedRun, wrong)).toThrow(/fit write/);
    const result = await fixture.outcome(
      fixture.resume(role, paused.pausedRun, approveAll(paused)),
    );
    expect([fates(result), tool.written]).toEqual([[["succeeded"]], ["/tmp/a"]]);
  });

  test("are not asked about again if a guard asks", async () => {
    const tool = writeTool();
    let questions = 0;
    const { role } = soloist([calls(write("/tmp/a")), says("done")], {
      tools: [tool],
      guards: [asksAbout()],
    });
    const fixture = newFixture({
      approver: (question) => {
        questions += 1;
        return approve(question, changing("/tmp/b"));
      },
    });
    const result = await fixture.run(role);
    expect([fates(result), tool.written, questions]).toEqual([[["succeeded"]], ["/tmp/b"], 1]);
    expect(guardings(fixture).map(([, decision]) => decision)).toEqual(["ask", "ask"]);
  });
});

function partOf(owner: unknown, key: string): unknown {
  return typeof owner === "object" && owner !== null ? Reflect.get(owner, key) : undefined;
}

/** Returns whether a property could be set; fails for values without properties. */
function isSet(target: unknown, key: string): boolean {
  if (typeof target !== "object" || target === null) return expect.fail("nothing to set it on");
  return Reflect.set(target, key, "/etc");
}

describe("the call that a guard sees", () => {
  test("has coerced arguments, and the context of its agent", async () => {
    const watching = watch();
    const tool = payTool(false);
    const { role } = soloist([asks("pay", { amount: "3" }), says("done")], {
      tools: [tool],
      guards: [watching.guard],
    });
    const result = await newFixture().run(role, { metadata: { tenant: "north" } });
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

  test("has the defaults and transforms of the schema, like the input of the tool", async () => {
    const got: unknown[] = [];
    const tool = defineTool({
      name: "write",
      description: "Writes.",
      inputSchema: z.object({
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
          { toolName: "write", arguments: {} },
          { toolName: "write", arguments: { path: "/a", mode: "RW", x: 1 } },
        ),
        says("done"),
      ],
      { tools: [tool], guards: [keepsOutOfEtc(), watching.guard] },
    );
    const result = await newFixture().run(role);
    expect(watching.seen()).toEqual([{ path: "/etc/motd" }, { path: "/a", mode: "rw" }]);
    expect([fates(result), got]).toEqual([
      [["refused", "blocked", "etc"], ["succeeded"]],
      [{ path: "/a", mode: "rw" }],
    ]);
  });

  test("has the arguments of the model if a transform returns a value that is not JSON", async () => {
    const tool = defineTool({
      name: "write",
      description: "Writes.",
      inputSchema: z.object({ path: z.string().transform((path) => new Map([[path, 1n]])) }),
      execute: ({ path }) => [...path.keys()],
    });
    const watching = watch();
    const { role } = soloist([calls(write("/a")), says("done")], {
      tools: [tool],
      guards: [watching.guard],
    });
    const result = await newFixture().run(role);
    expect([watching.seen(), texts(result)]).toEqual([[{ path: "/a" }], ['["/a"]']]);
  });

  test("is deeply frozen, and separate from the input of the tool", async () => {
    const inner = { list: [{ path: "/tmp/a" }] };
    const got: unknown[] = [];
    const tool = defineTool({
      name: "write",
      description: "Writes.",
      inputSchema: z.object({ list: z.array(z.object({ path: z.string() })) }),
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
        partOf(call.arguments, "list"),
        partOf(partOf(call.arguments, "list"), "0"),
        context,
        context.messages,
        context.messages[0],
        context.metadata,
        partOf(context.metadata, "deep"),
      ];
      attempts.push(...targets.map((target) => isSet(target, "path")));
      attempts.push(...targets.map((target) => isSet(target, "type")));
      return ALLOW;
    });
    const watching = watch();
    const { role } = soloist([asks("write", inner), says("done")], {
      tools: [tool],
      guards: [meddling, watching.guard],
    });
    const metadata = { deep: { path: "/tmp" } };
    const result = await newFixture().run(role, { metadata });
    expect(attempts).toEqual(attempts.map(() => false));
    expect([got, watching.seen(), fates(result)]).toEqual([[inner], [inner], [["succeeded"]]]);
  });
});
