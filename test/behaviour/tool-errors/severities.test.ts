// Goal: the severity of a tool's failure determines what follows, here and in a subagent.
// Method: one tool for each severity, alone, beside others, before others, and in a child.

import { expect, test } from "vitest";
import { z } from "zod";

import { transform, wrapToolCall } from "../../../src/hooks/hook.ts";
import { defineDelegation } from "../../../src/tools/define-tool.ts";
import { ToolError, ToolRetryError } from "../../../src/tools/tool-error.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { withRetries } from "../../../src/tools/wrappers/with-retries.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, quiet, spawn, receivedTexts, use } from "../../harness/scripted-agents.ts";
import {
  acting,
  ending,
  ends,
  executions,
  historyOf,
  retries,
  succeeds,
  throws,
} from "../../support/tool-acts.ts";

const DONE = says("Done.");
const ABORTIVE = throws(
  new ToolError("The disk is on fire.", { severity: "abortive", hint: "Run.", data: { disk: 1 } }),
);

proves(["R159"], "retryable: asks for a corrected call, which may succeed", async () => {
  const tool = acting("t", [retries, succeeds]);
  const { role, model } = soloist([calls(use("t")), calls(use("t")), DONE], { tools: [tool] });
  const result = await newFixture().run(role);
  expect(receivedTexts(model.requests[1])).toEqual([
    "t asks for a corrected call: Say it otherwise.",
  ]);
  expect(executions(result).map(({ type, severity }) => [type, severity])).toEqual([
    ["retry", "retryable"],
    ["succeeded", undefined],
  ]);
});

proves(["R159"], "recoverable: returns an error to the model, and continues the run", async () => {
  const tool = acting("t", [throws(new ToolError("No such file.", { hint: "List them first." }))]);
  const { role, model } = soloist([calls(use("t")), DONE], { tools: [tool] });
  const result = await newFixture().run(role);
  expect(receivedTexts(model.requests[1])).toEqual(["t failed: No such file. List them first."]);
  expect(
    executions(result).map(({ type, errorCode, severity }) => [type, errorCode, severity]),
  ).toEqual([["failed", "tool_error", "recoverable"]]);
  expect(result.status).toBe("completed");
});

proves(
  ["R159"],
  "fatal: ends the call without retries, and asks the model not to repeat the call",
  async () => {
    const tool = acting("t", [
      throws(new ToolError("The account is closed.", { severity: "fatal" })),
    ]);
    const { role, model } = soloist([calls(use("t")), DONE], { tools: [withRetries(tool)] });
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect(receivedTexts(model.requests[1])).toEqual([
      "t failed permanently: The account is closed. Do not make this call again.",
    ]);
    expect(
      executions(result).map(({ type, errorCode, severity }) => [type, errorCode, severity]),
    ).toEqual([["failed", "tool_error", "fatal"]]);
    expect([tool.calls.length, fixture.sink.ofType("tool.retried"), result.status]).toEqual([
      1,
      [],
      "completed",
    ]);
  },
);

proves(["R159"], "abortive: fails the run with the error of the tool", async () => {
  const tool = acting("t", [ABORTIVE]);
  const fixture = newFixture();
  const run = fixture.start(soloist([calls(use("t"))], { tools: [withRetries(tool)] }).role);
  const history = await historyOf(fixture, run);
  const result = await run.result;
  expect(ending(result)).toEqual(["failed", "error", { error: "tool_error" }]);
  expect(result.agents[0]?.errors).toEqual([
    { code: "tool_error", message: "The disk is on fire.", data: { disk: 1 } },
  ]);
  expect(executions(result).map(({ type, severity }) => [type, severity])).toEqual([
    ["failed", "abortive"],
  ]);
  expect(history).toEqual({ texts: ["t failed: The disk is on fire. Run."], problems: [] });
  expect(tool.calls).toHaveLength(1);
  expect(fixture.sink.ofType("signal.raised").map(({ signal }) => signal.reason.code)).toEqual([
    "error",
  ]);
});

proves(
  ["R159"],
  "abortive in a child: fails the child, and informs and continues its parent",
  async () => {
    const child = part("child", [calls(use("t"))], { tools: [acting("t", [ABORTIVE])] });
    const root = part("root", [calls(spawn("child")), says("Root.")], { subagents: [child.role] });
    const result = await newFixture().run(root.role);
    expect(result.agents.map(({ status, reason }) => [status, reason.code])).toEqual([
      ["completed", "completed"],
      ["failed", "error"],
    ]);
    expect(ends(result)).toEqual(["failed subagent_failed"]);
    expect(executions(result)[0]?.severity).toBe("recoverable");
    expect(JSON.parse(receivedTexts(root.model.requests[1])[0] ?? "")).toMatchObject({
      outcome: "failed",
      error: "tool_error",
      explanation: "The disk is on fire.",
    });
  },
);

for (const severity of ["retryable", "recoverable", "fatal"] as const) {
  test(`${severity} in a child: affects only that child`, async () => {
    const failing = acting("t", [throws(new ToolError("No.", { severity }))]);
    const child = part("child", [calls(use("t")), says("Child.")], { tools: [failing] });
    const root = part("root", [calls(spawn("child")), says("Root.")], { subagents: [child.role] });
    const result = await newFixture().run(root.role);
    expect(result.agents.map(({ status }) => status)).toEqual(["completed", "completed"]);
    expect([ends(result), ends(result, 1).length]).toEqual([["succeeded"], 1]);
  });
}

test("abortive beside other calls: lets them end, and keeps all results in call order", async () => {
  const tools = [acting("t", [ABORTIVE]), spyTool("slow", () => quiet())];
  const result = await newFixture().run(
    soloist([calls(use("slow"), use("t"), use("slow"))], { tools }).role,
  );
  expect([result.status, ends(result)]).toEqual([
    "failed",
    ["succeeded", "failed tool_error", "succeeded"],
  ]);
});

test("abortive before a sequential tool: starts no further calls", async () => {
  const late = spyTool("late", () => "late", { sequential: true });
  const result = await newFixture().run(
    soloist([calls(use("t"), use("late"), use("t"))], { tools: [acting("t", [ABORTIVE]), late] })
      .role,
  );
  expect([result.status, ends(result), late.calls.length]).toEqual([
    "failed",
    ["failed tool_error", "not_executed not_executed", "not_executed not_executed"],
    0,
  ]);
});

test("logs the errors of two abortive calls in one reply, with the first as the reason", async () => {
  const tools = [
    acting("one", [throws(new ToolError("One.", { severity: "abortive" }))]),
    acting("two", [throws(new ToolError("Two.", { severity: "abortive" }))]),
  ];
  const result = await newFixture().run(soloist([calls(use("one"), use("two"))], { tools }).role);
  expect(result.agents[0]?.errors.map(({ message }) => message)).toEqual(["One.", "Two."]);
  expect(result.reason.message).toBe("One.");
});

test("prefers an abortive failure to a retry limit and an error budget in the same reply", async () => {
  const tools = [acting("t", [ABORTIVE]), acting("r", [retries], { maxRetries: 0 })];
  const errorBudget = { maxToolErrors: 0 };
  const result = await newFixture().run(
    soloist([calls(use("r"), use("t"))], { tools, errorBudget }).role,
  );
  expect([result.status, result.reason.code]).toEqual(["failed", "error"]);
});

test("requests no retry after an abortive or fatal failure, whatever the tool allows", async () => {
  for (const severity of ["fatal", "abortive"] as const) {
    const tool = acting("t", [throws(new ToolError("No.", { severity }))], { maxRetries: 9 });
    const script = severity === "fatal" ? [calls(use("t")), DONE] : [calls(use("t"))];
    expect(ends(await newFixture().run(soloist(script, { tools: [tool] }).role))).toEqual([
      "failed tool_error",
    ]);
  }
});

for (const [severity, expected] of [
  ["retryable", "retry tool_retry"],
  ["recoverable", "failed tool_error"],
  ["fatal", "failed tool_error"],
] as const) {
  test(`reports an error that a delegation throws in the same way: ${severity}`, async () => {
    const ask = defineDelegation({
      name: "ask",
      description: "Asks.",
      inputSchema: z.object({}),
      execute: () => Promise.reject(new ToolError("Nobody is there.", { severity })),
    });
    const { role } = soloist([calls(use("ask")), DONE], { tools: [ask] });
    const result = await newFixture().run(role);
    expect([result.status, ends(result)]).toEqual(["completed", [expected]]);
    expect(executions(result)[0]).toMatchObject({ severity });
  });
}

test("fails the agent of a delegation that throws an abortive error", async () => {
  const ask = defineDelegation({
    name: "ask",
    description: "Asks.",
    inputSchema: z.object({}),
    execute: () => Promise.reject(new ToolError("Nobody is there.", { severity: "abortive" })),
  });
  const result = await newFixture().run(soloist([calls(use("ask"))], { tools: [ask] }).role);
  expect([result.status, ends(result)]).toEqual(["failed", ["failed tool_error"]]);
});

for (const [what, execute] of [
  ["throws at once", () => expect.unreachable("at once")],
  ["gives nothing", () => Promise.resolve(undefined)],
  ["gives an outcome that is none", () => Promise.resolve({ type: "ended" })],
  ["gives a refusal without a reason", () => Promise.resolve({ type: "refused" })],
  [
    "gives a refusal of its own making",
    () => Promise.resolve({ type: "refused", refusal: { code: "x", message: "y" } }),
  ],
] as const) {
  test(`fails the call of a delegation that ${what}, and continues its agent`, async () => {
    const definition = { name: "ask", description: "Asks.", inputSchema: z.object({}) };
    const run: unknown = execute;
    const ask = defineDelegation({ ...definition, execute: isExecute(run) ? run : expect.fail() });
    const result = await newFixture().run(
      soloist([calls(use("ask")), DONE], { tools: [ask] }).role,
    );
    expect([result.status, ends(result)]).toEqual(["completed", ["failed tool_error"]]);
  });
}

type Execute = Parameters<typeof defineDelegation<z.ZodObject>>[0]["execute"];

function isExecute(value: unknown): value is Execute {
  return typeof value === "function";
}

// Hooks.

test("fails an agent whose hook fails before or after a call", async () => {
  for (const point of ["beforeTool", "afterTool"] as const) {
    const broken = transform(point, () => {
      throw new Error("hook");
    });
    const tools = [acting("t", [succeeds])];
    const result = await newFixture().run(
      soloist([calls(use("t"))], { tools, hooks: [broken] }).role,
    );
    expect([point, ...ending(result)]).toEqual([
      point,
      "failed",
      "error",
      { error: "hook_failed" },
    ]);
  }
});

test("fails an agent whose hook fails after a retry, and keeps the outcome of the call", async () => {
  const hooks = [
    transform("afterTool", () => {
      throw new Error("hook");
    }),
  ];
  const result = await newFixture().run(
    soloist([calls(use("t"))], { tools: [acting("t", [retries])], hooks }).role,
  );
  expect([result.status, ends(result)]).toEqual(["failed", ["retry tool_retry"]]);
});

for (const thrown of [new Error("skin"), "skin", undefined, null, 0]) {
  test(`fails only the call whose wrapToolCall hook throws ${String(thrown)}`, async () => {
    const hooks = [
      wrapToolCall(() => {
        throw thrown;
      }),
    ];
    const result = await newFixture().run(
      soloist([calls(use("t")), DONE], { tools: [acting("t", [succeeds])], hooks }).role,
    );
    expect([result.status, ends(result)]).toEqual(["completed", ["failed tool_error"]]);
  });
}

test("lets a wrapToolCall hook request a retry or fail fatally", async () => {
  for (const [thrown, expected] of [
    [new ToolRetryError("Not so."), "retry tool_retry"],
    [new ToolError("Never.", { severity: "fatal" }), "failed tool_error"],
  ] as const) {
    const hooks = [
      wrapToolCall(() => {
        throw thrown;
      }),
    ];
    const result = await newFixture().run(
      soloist([calls(use("t")), DONE], { tools: [acting("t", [succeeds])], hooks }).role,
    );
    expect([result.status, ends(result), executions(result)[0]?.severity]).toEqual([
      "completed",
      [expected],
      thrown.severity,
    ]);
  }
});
