// Goal: a stored typed result that the current role does not allow prevents a resume before
// anything is claimed, written or charged; a result that still fits does not.
// Method: runs pause with a typed result at each possible place, then a fresh process resumes them
// with roles whose `output` has changed.

import { describe, expect } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { ToolInput } from "../../../src/tools/arguments/input-schema.ts";
import type { JsonObject, JsonValue } from "../../../src/kernel/json.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { says, type ScriptedCall, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { beside, onward, rested, waitFor } from "../../support/life-agents.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, part, spawn, tool, use } from "../../harness/scripted-agents.ts";

const COUNT = z.object({ count: z.number() });
const NAME = z.object({ count: z.object({ name: z.string() }) });
const PAY = { toolName: "pay", arguments: { amount: 3 } };

function finish(result: JsonObject): ScriptedCall {
  return { toolName: "Finish", arguments: result };
}

/** A subagent that returns a typed result. Its role has no output if `output` is undefined. */
function counter(output: ToolInput | undefined, given: readonly ScriptStep[] = [counted(1)]) {
  return part("counter", given, output === undefined ? {} : { output }).role;
}

function counted(count: JsonValue): ScriptStep {
  return calls(finish({ count }));
}

/** A lead that continues after its subagents, with a call that waits for an approval. */
function leadOf(counterRole: AgentRole, steps: readonly ScriptStep[] = ENDED): AgentRole {
  const delegation = { background: true };
  return part("lead", steps, { subagents: [counterRole], tools: [payTool()], delegation }).role;
}

/** The subagent ends in the step that pauses the run. */
const UNREAD = [calls(spawn("counter"), PAY), says("Done.")];
/** The subagent has ended, and the lead has read the result, when the run pauses. */
const ENDED = [calls(spawn("counter")), calls(PAY), says("Done.")];
/** The subagent has ended in the background, and its result is unread. */
const BESIDE = [calls(beside("counter"), PAY), calls(waitFor("counter#1")), says("Done.")];
const CONTINUED = [
  calls(spawn("counter")),
  calls(onward("counter#1", "Once more.")),
  calls(PAY),
  says("Done."),
];

interface Place {
  readonly agentPath: string;
  /** The result. Default 1. */
  readonly count?: number;
  readonly role: (output: ToolInput | undefined) => AgentRole;
}

const PLACES: Readonly<Record<string, Place>> = {
  "a subagent that has ended": {
    agentPath: "lead/counter#1",
    role: (output) => leadOf(counter(output)),
  },
  "a subagent whose result is not read": {
    agentPath: "lead/counter#1",
    role: (output) => leadOf(counter(output), UNREAD),
  },
  "a subagent in the background": {
    agentPath: "lead/counter#1",
    role: (output) => leadOf(counter(output), BESIDE),
  },
  "a subagent that was continued": {
    agentPath: "lead/counter#1",
    count: 2,
    role: (output) => leadOf(counter(output, [counted(1), counted(2)]), CONTINUED),
  },
  "a root beside whose result a call waits": {
    agentPath: "lead",
    role: (output) =>
      part("lead", [calls(finish({ count: 1 }), PAY)], {
        tools: [payTool()],
        ...(output === undefined ? {} : { output }),
      }).role,
  },
};

function words(runId: string, agentPath: string, problem: string): string {
  const role = agentPath.includes("counter") ? "counter" : "lead";
  return `Cannot continue run ${runId}: the stored result of ${agentPath} does not fit the output of role "${role}": ${problem}. Restore the output schema that the role had, or start a new run. Nothing was changed.`;
}

describe("a stored typed result that no longer fits its role", () => {
  for (const [where, { agentPath, count = 1, role }] of Object.entries(PLACES)) {
    proves(
      ["D415"],
      `prevents the resume if it is that of ${where}, and the run stays paused`,
      async () => {
        const fixture = newFixture();
        const paused = await fixture.run(role(COUNT));
        const { runId, status, pausedRun } = paused;
        expect(status).toBe("paused");
        const before = fixture.sink.events.length;
        const resumed = (output: ToolInput | undefined) =>
          fixture.resume(role(output), pausedRun, approveAll(paused));
        const problem = `count: expected an object, got ${count}`;
        const name = agentPath.includes("counter") ? "counter" : "lead";
        expect(thrownBy(() => resumed(NAME))).toEqual({
          code: "output_mismatch",
          message: words(runId, agentPath, problem),
          data: { runId, role: name, agentPath, fields: ["count"] },
        });
        const none = "the result: expected no result, since the role has no output, got a result";
        expect(thrownBy(() => resumed(undefined)).message).toBe(words(runId, agentPath, none));
        expect(fixture.sink.events.length).toBe(before);
      },
    );
  }

  proves(["D415"], "allows the resume once the schema is restored", async () => {
    const fixture = newFixture();
    const paused = await fixture.run(leadOf(counter(COUNT), BESIDE));
    const again = (output: ToolInput) => {
      const steps = [calls(waitFor("counter#1")), says("Done.")];
      const role = leadOf(counter(output), steps);
      return fixture.resume(role, paused.pausedRun, approveAll(paused));
    };
    expect(thrownBy(() => again(NAME)).code).toBe("output_mismatch");
    expect((await fixture.outcome(again(COUNT))).text).toBe("Done.");
  });

  proves(["D415"], "prevents a grant if it is that of a root stopped by a limit", async () => {
    const role = (output: ToolInput) =>
      part("lead", [calls(use("look"), use("look"), finish({ count: 1 }))], {
        output,
        tools: [tool("look", () => "seen")],
      }).role;
    const fixture = newFixture();
    const budget = { toolCalls: 1 };
    const run = fixture.start(role(COUNT), "Do it.", { budget });
    const { result, snapshot } = await rested(fixture, run);
    expect([result.status, result.output]).toEqual(["stopped", { count: 1 }]);
    const grants = [{ budget, by: "Ann" }];
    expect(thrownBy(() => fixture.grantOn(role(NAME), snapshot, grants)).code).toBe(
      "output_mismatch",
    );
  });

  proves(
    ["D415"],
    "prevents a fork if it is that of a subagent, and not if it is that of the root",
    async () => {
      const fixture = newFixture();
      const role = (output: ToolInput, leadOutput: ToolInput) =>
        part("lead", [calls(spawn("counter")), calls(finish({ count: 1 }))], {
          subagents: [counter(output)],
          output: leadOutput,
        }).role;
      const run = fixture.start(role(COUNT, COUNT));
      const { result, snapshot } = await rested(fixture, run);
      expect(result.status).toBe("completed");
      const fork = (of: AgentRole) => fixture.fork(of, snapshot, { atStep: 1 });
      expect(thrownBy(() => fork(role(NAME, COUNT)))).toMatchObject({
        code: "output_mismatch",
        data: { agentPath: "lead/counter#1" },
      });
      const other = part("lead", [calls(finish({ count: { name: "one" } }))], {
        subagents: [counter(COUNT)],
        output: NAME,
      });
      expect((await fixture.outcome(fork(other.role))).output).toEqual({ count: { name: "one" } });
    },
  );

  proves(["D415"], "has no effect in the history of a session", async () => {
    const store = memoryStore();
    const orchestrator = new Orchestrator({ store });
    const role = (output: ToolInput, count: JsonValue) =>
      part("lead", [calls(finish({ count }))], { output }).role;
    const session = await orchestrator.openSession("talk");
    await orchestrator.start(role(COUNT, 1), "Count.", { session }).result;
    const again = await orchestrator.openSession("talk");
    const run = orchestrator.start(role(NAME, { name: "one" }), "Count again.", { session: again });
    expect((await run.result).output).toEqual({ count: { name: "one" } });
  });
});
