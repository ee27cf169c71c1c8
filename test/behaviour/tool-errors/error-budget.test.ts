// Goal: an agent is allowed exactly as many failures as its error budget permits.
// Method: scripts on both sides of each maximum, with failures in several replies and in one, and
// with uncounted outcomes in between.

import { expect, test } from "vitest";

import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import { transform } from "../../../src/hooks/hook.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { ErrorBudget } from "../../../src/policies/error-budget.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, part, spawn, receivedTexts, use } from "../../harness/scripted-agents.ts";
import { acting, ending, ends, fails, retries, succeeds } from "../../support/tool-acts.ts";

const TOOLS = [
  acting("bad", [fails]),
  acting("good", [succeeds]),
  ...["r1", "r2", "r3", "r4", "r5", "r6"].map((name) => acting(name, [retries])),
];

/** Returns a reply that calls these tools. */
function reply(...names: readonly string[]): ScriptedReply {
  return calls(...names.map(use));
}

/** Returns replies of one call each. */
function single(...names: readonly string[]): readonly ScriptedReply[] {
  return names.map((name) => reply(name));
}

async function play(
  script: readonly ScriptedReply[],
  errorBudget: Partial<ErrorBudget> = {},
  more: Partial<Omit<AgentDefinition, "model">> = {},
): Promise<RunResult> {
  return await newFixture().run(soloist(script, { tools: TOOLS, errorBudget, ...more }).role);
}

const WITHOUT_ROW = { maxConsecutiveErrors: 100 };
const DONE = says("Done.");

function over(
  limit: keyof ErrorBudget,
  maximum: number,
  current = maximum + 1,
): readonly unknown[] {
  return ["stopped", "error_budget", { limit, maximum, current }];
}

// maxToolErrors.

proves(["R164"], "allows five failures by default", async () => {
  const script = single("bad", "bad", "good", "bad", "bad", "good", "bad");
  const result = await play([...script, DONE]);
  expect([result.status, result.text]).toEqual(["completed", "Done."]);
});

proves(["R164"], "stops the agent at the sixth failure, with the limit as the reason", async () => {
  const script = single("bad", "bad", "good", "bad", "bad", "good", "bad", "bad");
  const fixture = newFixture();
  const result = await fixture.run(soloist(script, { tools: TOOLS }).role);
  expect(ending(result)).toEqual(over("maxToolErrors", 5));
  expect(result.reason.message).toBe("6 tool calls failed, and maxToolErrors is 5.");
  expect(
    fixture.sink.ofType("signal.raised").map(({ signal }) => [signal.source, signal.reason]),
  ).toEqual([["tool", result.reason]]);
  expect(ends(result)).toHaveLength(8);
});

for (const maximum of [0, 1, 2]) {
  proves(["R164"], `allows ${maximum} failures and stops at ${maximum + 1}`, async () => {
    const budget = { ...WITHOUT_ROW, maxToolErrors: maximum };
    const bad = Array.from({ length: maximum }, () => "bad");
    expect((await play([...single(...bad, "good"), DONE], budget)).status).toBe("completed");
    expect(ending(await play(single(...bad, "bad"), budget))).toEqual(
      over("maxToolErrors", maximum),
    );
  });
}

proves(
  ["R164"],
  "reports the number of failures if calls of one reply exceed the limit together",
  async () => {
    const budget = { ...WITHOUT_ROW, maxToolErrors: 2 };
    const result = await play([reply("bad"), reply("bad", "good", "bad", "bad")], budget);
    expect(ending(result)).toEqual(over("maxToolErrors", 2, 4));
    expect(ends(result)).toEqual([
      "failed tool_error",
      "failed tool_error",
      "succeeded",
      "failed tool_error",
      "failed tool_error",
    ]);
  },
);

proves(["R164"], "counts unknown tools, denied calls and timeouts, but no retries", async () => {
  const budget = { ...WITHOUT_ROW, maxToolErrors: 2 };
  const guards = [
    toolGuard(() => ({ type: "deny", reason: "No." }), { name: "no", tools: ["good"] }),
  ];
  const hooks = [transform("beforeTool", () => ({ deny: "Never." }), { tools: ["r2"] })];
  const borne = await play([reply("nobody", "good", "r1"), DONE], budget, { guards });
  expect(borne.status).toBe("completed");
  const over2 = await play([reply("nobody", "good", "r1", "r2")], budget, { guards, hooks });
  expect(ending(over2)).toEqual(over("maxToolErrors", 2));
});

test("counts no refusals by policy", async () => {
  const child = part("child", [says("Child.")]);
  const root = part(
    "root",
    [calls(spawn("nobody"), spawn("child"), spawn("child")), says("Root.")],
    { subagents: [child.role], errorBudget: { maxToolErrors: 0, maxConsecutiveErrors: 0 } },
  );
  const result = await newFixture({ limits: { maxBreadthPerParent: 1 } }).run(root.role);
  expect([result.status, ends(result)]).toEqual([
    "completed",
    ["refused unknown_role", "succeeded", "refused breadth_limit"],
  ]);
});

test("counts a failed subagent as a failure of its call", async () => {
  const child = part("child", [{ error: new Error("no") }]);
  const root = part("root", [calls(spawn("child"))], {
    subagents: [child.role],
    errorBudget: { maxToolErrors: 0 },
  });
  const result = await newFixture().run(root.role);
  expect(ends(result)).toEqual(["failed subagent_failed"]);
  expect(ending(result)).toEqual(over("maxToolErrors", 0));
});

// maxConsecutiveErrors.

proves(["R165"], "restarts the count of consecutive failures after a success", async () => {
  const budget = { maxToolErrors: 100 };
  const script = single("bad", "bad", "bad", "good", "bad", "bad", "bad", "good");
  expect((await play([...script, DONE], budget)).status).toBe("completed");
});

proves(["R165"], "allows three consecutive failures before an answer", async () => {
  const result = await play([...single("bad", "bad", "bad"), DONE]);
  expect(result.status).toBe("completed");
});

proves(["R165"], "stops the agent at four consecutive failures", async () => {
  const result = await play(single("bad", "bad", "bad", "bad"));
  expect(ending(result)).toEqual(over("maxConsecutiveErrors", 3));
  expect(result.reason.message).toBe(
    "4 tool calls in a row failed, and maxConsecutiveErrors is 3.",
  );
});

for (const [borne, script] of [
  [true, [reply("bad", "good", "bad")]],
  [true, [reply("bad"), reply("good", "bad")]],
  [false, [reply("bad", "bad")]],
  [false, [reply("bad", "bad", "good")]],
  [false, [reply("good", "bad"), reply("bad", "good")]],
] as const) {
  const shape = script
    .map(({ calls: made }) => made?.map(({ toolName: name }) => name).join("+"))
    .join(", ");
  proves(
    ["R165"],
    `${borne ? "allows" : "stops at"} ${shape} with maxConsecutiveErrors 1`,
    async () => {
      const budget = { maxConsecutiveErrors: 1 };
      // The limit is exceeded, whatever follows in the same reply.
      const result = await play(borne ? [...script, DONE] : script, budget);
      expect(result.status).toBe(borne ? "completed" : "stopped");
    },
  );
}

proves(
  ["R165"],
  "stops at one failure with maxConsecutiveErrors 0, even after a success in the same reply",
  async () => {
    const budget = { maxConsecutiveErrors: 0 };
    expect(ending(await play([reply("bad")], budget))).toEqual(over("maxConsecutiveErrors", 0));
    expect(ending(await play([reply("good", "bad")], budget))).toEqual(
      over("maxConsecutiveErrors", 0),
    );
  },
);

proves(
  ["R165"],
  "counts a request for a corrected call neither as a failure nor as a success",
  async () => {
    const budget = { maxConsecutiveErrors: 2 };
    const borne = await play([...single("bad", "r1", "bad", "r2"), DONE], budget);
    expect(borne.status).toBe("completed");
    const over2 = await play(single("bad", "r1", "bad", "r2", "bad"), budget);
    expect(ending(over2)).toEqual(over("maxConsecutiveErrors", 2));
  },
);

test("counts consecutive failures in call order, whichever call ends first", async () => {
  const held = Promise.withResolvers<void>();
  const slow = spyTool("slow", async () => {
    await held.promise;
    throw new Error("late");
  });
  const quick = spyTool("quick", () => {
    held.resolve();
    return "fine";
  });
  const result = await play(
    [reply("slow", "quick", "bad"), DONE],
    { maxConsecutiveErrors: 1 },
    { tools: [...TOOLS, slow, quick] },
  );
  expect([result.status, ends(result)]).toEqual([
    "completed",
    ["failed tool_error", "succeeded", "failed tool_error"],
  ]);
});

// maxRetryErrors.

const TEN = [reply("r1", "r2", "r3", "r4", "r5"), reply("r1", "r2", "r3", "r4", "r5")];

proves(["R166"], "allows ten requests for corrected calls by default, over all tools", async () => {
  const result = await play([...TEN, DONE]);
  expect([result.status, ends(result).filter((end) => end === "retry tool_retry")]).toEqual([
    "completed",
    Array.from({ length: 10 }, () => "retry tool_retry"),
  ]);
});

proves(
  ["R166"],
  "stops the agent at the eleventh request, although each tool would allow it",
  async () => {
    const result = await play([...TEN, reply("r6")]);
    expect(ends(result).at(-1)).toBe("retry tool_retry");
    expect(ending(result)).toEqual(over("maxRetryErrors", 10));
    expect(result.reason.message).toBe(
      "11 tool calls had to be corrected, and maxRetryErrors is 10.",
    );
  },
);

for (const maximum of [0, 1]) {
  proves(
    ["R166"],
    `allows ${maximum} requests and stops at ${maximum + 1}, without counting failures`,
    async () => {
      const budget = { maxRetryErrors: maximum };
      const asked = ["r1", "r2"].slice(0, maximum);
      expect((await play([reply(...asked, "bad"), DONE], budget)).status).toBe("completed");
      expect(ending(await play([reply(...asked, "r3")], budget))).toEqual(
        over("maxRetryErrors", maximum),
      );
    },
  );
}

test("does not reduce the number of requests after a success", async () => {
  const flaky = acting("flaky", [retries, succeeds, retries, succeeds, retries]);
  const script = single("flaky", "flaky", "flaky", "flaky", "flaky");
  const result = await play(script, { maxRetryErrors: 2 }, { tools: [flaky] });
  expect(ending(result)).toEqual(over("maxRetryErrors", 2));
});

test("counts a tool that reached its retry limit as a failure, not as a request", async () => {
  const tools = [acting("last", [retries], { maxRetries: 0 })];
  const errorPolicy = { retryLimitPolicy: "continue" } as const;
  const borne = await play([reply("last"), DONE], { maxRetryErrors: 0 }, { tools, errorPolicy });
  expect(borne.status).toBe("completed");
  const stopped = await play([reply("last")], { maxToolErrors: 0 }, { tools, errorPolicy });
  expect(ending(stopped)).toEqual(over("maxToolErrors", 0));
});

// All limits.

proves(
  ["R164", "R165", "R166"],
  "preserves the counts across a pause into a new orchestrator, each failure once",
  async () => {
    const tools = [...TOOLS, spyTool("pay", () => "paid", { needsApproval: true })];
    const budget = { maxToolErrors: 3, maxConsecutiveErrors: 9, maxRetryErrors: 2 };
    for (const [after, reason] of [
      [["bad"], undefined],
      [["bad", "bad"], over("maxToolErrors", 3)],
      [["r3"], over("maxRetryErrors", 2)],
    ] as const) {
      const script = [reply("bad", "r1"), reply("bad", "pay", "r2"), reply(...after), DONE];
      const { role } = soloist(script, { tools, errorBudget: budget });
      const fixture = newFixture();
      const paused = await fixture.run(role);
      expect(paused.status).toBe("paused");
      const result = await fixture.outcome(
        fixture.resume(role, paused.pausedRun, approveAll(paused)),
      );
      expect(reason === undefined ? result.status : ending(result)).toEqual(reason ?? "completed");
    }
  },
);

test("counts consecutive failures across a pause in call order", async () => {
  const tools = [...TOOLS, spyTool("pay", () => "paid", { needsApproval: true })];
  const { role } = soloist([reply("bad", "pay", "bad"), reply("bad"), DONE], {
    tools,
    errorBudget: { maxConsecutiveErrors: 2 },
  });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, approveAll(paused)));
  expect(result.status).toBe("completed");
});

test("counts for each agent of a role separately", async () => {
  let replies = 0;
  const strict = part(
    "strict",
    () => {
      replies += 1;
      return replies % 2 === 1 ? reply("bad") : says("Borne.");
    },
    { tools: TOOLS, errorBudget: { maxToolErrors: 1 } },
  );
  const root = part("root", [calls(spawn("strict")), calls(spawn("strict")), reply("bad"), DONE], {
    subagents: [strict.role],
    tools: TOOLS,
    errorBudget: { maxToolErrors: 1 },
  });
  const result = await newFixture().run(root.role);
  expect(result.agents.map(({ status }) => status)).toEqual([
    "completed",
    "completed",
    "completed",
  ]);
});

test("stops only the child that exceeded its budget, and informs its parent", async () => {
  const child = part("child", [reply("bad", "bad")], {
    tools: TOOLS,
    errorBudget: { maxToolErrors: 1 },
  });
  const root = part("root", [calls(spawn("child")), DONE], { subagents: [child.role] });
  const result = await newFixture().run(root.role);
  expect(result.agents.map(({ status, reason }) => [status, reason.code])).toEqual([
    ["completed", "completed"],
    ["stopped", "error_budget"],
  ]);
  expect(receivedTexts(root.model.requests[1])[0]).toContain('"reason":"error_budget"');
});

test("raises all exceeded limits of one reply, and reports the first", async () => {
  const fixture = newFixture();
  const errorBudget = { maxToolErrors: 0, maxConsecutiveErrors: 0, maxRetryErrors: 0 };
  const result = await fixture.run(
    soloist([reply("bad", "r1")], { tools: TOOLS, errorBudget }).role,
  );
  expect(
    fixture.sink.ofType("signal.raised").map(({ signal }) => signal.reason.data["limit"]),
  ).toEqual(["maxToolErrors", "maxConsecutiveErrors", "maxRetryErrors"]);
  expect(ending(result)).toEqual(over("maxToolErrors", 0));
});

for (const value of [-1, 1.5, Number.NaN, Infinity, "3", null]) {
  test(`refuses an error budget of ${String(value)}`, () => {
    const errorBudget = Object.fromEntries([["maxToolErrors", value]]);
    expect(thrownBy(() => soloist([], { errorBudget })).code).toBe("invalid_argument");
  });
}

test("refuses an unknown limit, and applies the default for an undefined one", () => {
  const slip = Object.fromEntries([["maxErrors", 1]]);
  expect(thrownBy(() => soloist([], { errorBudget: slip })).code).toBe("invalid_argument");
  const unset = Object.fromEntries([["maxToolErrors", undefined]]);
  expect(soloist([], { errorBudget: unset }).role.errorBudget.maxToolErrors).toBe(5);
});
