// Goal: a failing hook causes one coded error that names it, recorded once, and leaves no invalid
// entries in the history.
// Method: the same misbehaviour at every point of a small tree, one run each.

import { expect, test } from "vitest";
import { z } from "zod";

import { processStep, transform, wrapModelCall } from "../../../src/hooks/hook.ts";
import type { ModelReply } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { RecordingSink } from "../../../src/testing/recording-sink.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import {
  hang,
  hookTree,
  ownerOf,
  POINTS,
  reportOf,
  SITES,
  treeWith,
  type HookSite,
} from "../../support/hook-sites.ts";
import { quiet, until } from "../../harness/scripted-agents.ts";
import { gives } from "../../support/hook-chains.ts";

function broken(): never {
  throw new Error("boom");
}

/** Returns how the agent with the hook ended, by its report, its last event and its signals. */
function failure(
  result: RunResult,
  sink: RecordingSink,
  owner: HookSite["owner"],
): Readonly<Record<string, unknown>> {
  const { status, reason, errors, agentId } = reportOf(result, owner);
  const ended = sink.ofType("agent.ended").filter((event) => event.agentId === agentId);
  const raised = sink.ofType("signal.raised").filter((event) => event.agentId === agentId);
  return {
    status,
    code: reason.code,
    errors,
    told: ended.map(({ error }) => error),
    signals: raised.map(({ signal }) => signal.reason.code),
  };
}

function failedBy(
  error: unknown,
  signals: readonly string[] = ["error"],
): Readonly<Record<string, unknown>> {
  return { status: "failed", code: "error", errors: [error], told: [error], signals };
}

for (const { point, owner, hook } of SITES.filter((site) => site.point !== "wrapToolCall")) {
  proves(["R16"], `fails the agent once and by name if a hook throws at ${point}`, async () => {
    const fixture = newFixture();
    const { lead } = treeWith(point, hook(broken));
    const result = await fixture.run(lead.role);
    const name = `my ${point}`;
    const error = {
      code: "hook_failed",
      message: `The hook "${name}" failed at ${point}: boom`,
      data: { point, hook: name },
    };
    expect(failure(result, fixture.sink, owner)).toEqual(failedBy(error));
  });
}

/** The shape of a failure: status, errors, the last events of agent and run, signals. */
function shape(code: string): readonly unknown[] {
  return ["failed", 1, [["failed", code]], [["failed", code]], 1];
}

proves(
  ["R16"],
  "reports one failed event and one error if a driver, a processor or a hook throws",
  async () => {
    const refused = new ModelError({ code: "model_invalid_request", message: "boom" });
    const parts = [
      soloist([{ error: refused }]),
      soloist([says("done")], { hooks: [processStep(broken)] }),
      soloist([says("done")], { hooks: [transform("beforeModel", broken)] }),
    ];
    const shapes: unknown[] = [];
    for (const { role } of parts) {
      const fixture = newFixture();
      const result = await fixture.run(role);
      const [agent] = result.agents;
      shapes.push([
        result.status,
        agent?.errors.length,
        fixture.sink.ofType("agent.ended").map(({ status, error }) => [status, error?.code]),
        fixture.sink.ofType("run.ended").map(({ status, error }) => [status, error?.code]),
        fixture.sink.ofType("signal.raised").length,
      ]);
    }
    expect(shapes).toEqual([
      shape("model_invalid_request"),
      shape("hook_failed"),
      shape("hook_failed"),
    ]);
  },
);

for (const { point, owner, hook, isTimed } of SITES.filter((site) => site.isTimed)) {
  test(`fails a hook that never settles at ${point} after hookTimeoutMs`, async () => {
    const fixture = newFixture({ hookTimeoutMs: 100 });
    let isCalled = false;
    const { lead } = treeWith(
      point,
      hook(() => ((isCalled = true), hang())),
    );
    const run = fixture.start(lead.role);
    await until(() => isCalled);
    fixture.clock.advance(99);
    await quiet();
    expect(fixture.sink.ofType("run.ended")).toEqual([]);
    fixture.clock.advance(1);
    const result = await fixture.outcome(run);
    const name = `my ${point}`;
    const error = {
      code: "hook_timeout",
      message: `Expected the hook "${name}" at ${point} to settle within 100 ms, got nothing. Make it react to its signal, or raise hookTimeoutMs.`,
      data: { point, hook: name, timeoutMs: 100, wasCancelled: false },
    };
    expect([isTimed, failure(result, fixture.sink, owner)]).toEqual([true, failedBy(error)]);
  });
}

const FIELDS: Readonly<Record<(typeof POINTS)[number], readonly string[]>> = {
  userInput: ["task", "refuse"],
  beforeModel: ["instructions", "messages", "temperature"],
  beforeTool: ["arguments", "deny"],
  afterTool: ["text", "metadata"],
  beforeCompaction: ["keepMessages"],
  subagentStart: ["task"],
  stop: ["continueWith"],
  subagentStop: ["continueWith"],
};
const ALL_FIELDS = [...new Set(Object.values(FIELDS).flat()), "signals", "status", "output"];

for (const point of POINTS) {
  proves(
    ["R80"],
    `fails on a field that ${point} does not allow, or drops it if the hook is not strict`,
    async () => {
      const owner = ownerOf(point);
      const allowed = FIELDS[point];
      for (const field of ALL_FIELDS.filter((one) => !allowed.includes(one))) {
        const fixture = newFixture();
        const strict = treeWith(point, gives(point, { [field]: "more" }));
        const result = await fixture.run(strict.lead.role);
        const { status, errors } = reportOf(result, owner);
        const expected = `change ${allowed.join(", ")} only`;
        const got = `a change of ${field}`;
        expect([status, errors.map(({ code, data }) => [code, data])]).toEqual([
          "failed",
          [["invalid_hook_result", { point, hook: "odd", field, expected, got }]],
        ]);
        const lenient = treeWith(point, gives(point, { [field]: "more" }, { strict: false }));
        const fine = await newFixture().run(lenient.lead.role);
        expect([fine.status, fine.agents.flatMap((agent) => agent.errors)]).toEqual([
          "completed",
          [],
        ]);
        expect(takeWarnings()).toEqual([
          `EspalierWarning: The hook "odd" may not change ${field} at ${point}; the change was dropped.`,
        ]);
      }
    },
  );
}

test("fails on a value that is not a patch at every point", async () => {
  for (const point of POINTS) {
    for (const given of [null, 7, "go on", [], new Date(0)]) {
      const owner = ownerOf(point);
      const result = await newFixture().run(treeWith(point, gives(point, given)).lead.role);
      const { status, errors } = reportOf(result, owner);
      expect([point, status, errors.map(({ code }) => code)]).toEqual([
        point,
        "failed",
        ["invalid_hook_result"],
      ]);
    }
  }
});

test("leaves no call, step or task if a hook throws before anything was spent", async () => {
  for (const { point, hook } of SITES.filter(
    ({ point }) => point === "userInput" || point === "beforeModel",
  )) {
    const fixture = newFixture();
    const { lead } = treeWith(point, hook(broken));
    const result = await fixture.run(lead.role);
    expect([point, lead.model.requests.length, result.steps, result.usage.total.steps]).toEqual([
      point,
      0,
      [],
      0,
    ]);
    expect(fixture.sink.ofType("budget.reserved")).toEqual([]);
  }
});

test("reports two errors if hooks of two parallel calls throw, with a result for each call", async () => {
  const fixture = newFixture();
  const tree = hookTree({
    lead: [
      transform("beforeTool", ({ toolName }) => {
        throw new Error(toolName);
      }),
    ],
  });
  const result = await fixture.run(tree.lead.role);
  expect([
    result.status,
    result.agents[0]?.errors.map(({ message }) => message),
    result.steps[0]?.tools.executions.map(({ type, errorCode }) => [type, errorCode]),
    tree.work.calls.length,
    tree.child.model.requests.length,
    tree.lead.model.requests.length,
  ]).toEqual([
    "failed",
    [
      'The hook "beforeTool#1" failed at beforeTool: work',
      'The hook "beforeTool#1" failed at beforeTool: SpawnSubagent',
    ],
    [
      ["not_executed", "not_executed"],
      ["not_executed", "not_executed"],
    ],
    0,
    0,
    1,
  ]);
});

test("keeps the result of a tool if the hook after it throws", async () => {
  const fixture = newFixture();
  const { lead, work } = hookTree({ lead: [transform("afterTool", broken, { tools: ["work"] })] });
  const result = await fixture.run(lead.role);
  expect([
    result.status,
    work.calls.length,
    result.steps[0]?.tools.executions.map(({ type, text }) => [type, text.slice(0, 9)]),
  ]).toEqual([
    "failed",
    1,
    [
      ["succeeded", "work done"],
      ["cancelled", '{"explana'],
    ],
  ]);
});

test("fails the run by name if a wrap returns no reply", async () => {
  const noReply = z.custom<ModelReply>();
  const odd = wrapModelCall(() => Promise.resolve(noReply.parse(null)), { name: "odd" });
  const { role, model } = soloist([], { hooks: [odd] });
  const result = await newFixture().run(role);
  const [error] = result.agents[0]?.errors ?? [];
  expect([result.status, model.requests.length, result.agents[0]?.errors.length]).toEqual([
    "failed",
    0,
    1,
  ]);
  expect([error?.code, error?.data]).toEqual([
    "invalid_hook_result",
    expect.objectContaining({ point: "wrapModelCall", hook: "odd" }),
  ]);
});
