// Goal: a report counts a call that waited for an answer as a use of its tool only if the tool ran,
// here or elsewhere.
// Method: a waiting call, and every way in which its question ends.

import { describe, expect } from "vitest";

import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import {
  approve,
  deny,
  provideResult,
  provideError,
  type Answer,
  type Question,
} from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import type { ExternalTool, FunctionTool } from "../../../src/tools/tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { externalTool, payTool, questionOf } from "../../support/pause-stories.ts";
import { calls } from "../../harness/scripted-agents.ts";

type Reply = (question: Question) => Answer;

/**
 * The end of a wait for an answer: no answer arrives in time, or the run is stopped as it is
 * answered.
 */
interface Ending {
  readonly reply?: Reply;
  readonly isOverdue?: boolean;
  readonly isStopped?: boolean;
}

/** Returns the report of a waiting call. Without `ending` the run does not pause. */
async function usedAfter(
  tool: ExternalTool | FunctionTool,
  ending: Ending | undefined,
  options: OrchestratorOptions = {},
) {
  const call = { toolName: tool.name, arguments: { amount: 3 } };
  const { role } = soloist([calls(call), says("done")], { tools: [tool] });
  const fixture = newFixture({ answerTimeoutMs: 100, ...options });
  let result = await fixture.run(role);
  if (ending !== undefined) {
    const { reply, isOverdue = false, isStopped = false } = ending;
    if (isOverdue) fixture.clock.advance(100);
    const answers = reply === undefined ? [] : [reply(questionOf(result))];
    const resumed = fixture.resume(role, result.pausedRun, answers);
    if (isStopped) resumed.requestStop();
    result = await fixture.outcome(resumed);
  }
  const [{ toolsUsed, toolErrors } = expect.fail("no agent")] = result.agents;
  return { toolsUsed, errors: toolErrors.map(({ code }) => code) };
}

describe("an external call", () => {
  const mail = externalTool("mail");
  const sent: Reply = (question) => provideResult(question, "sent");
  const unused = { toolsUsed: {}, errors: ["tool_error"] };

  proves(["D727"], "does not count as a use of its tool if no approver is configured", async () => {
    expect(await usedAfter(mail, undefined, { unansweredPolicy: "deny" })).toEqual(unused);
  });

  proves(["D727"], "does not count as a use of its tool if its answer is overdue", async () => {
    expect(await usedAfter(mail, { isOverdue: true })).toEqual(unused);
  });

  proves(
    ["D727"],
    "does not count as a use of its tool if the agent stops before its result is taken",
    async () => {
      expect(await usedAfter(mail, { reply: sent, isStopped: true })).toEqual({
        toolsUsed: {},
        errors: [],
      });
    },
  );

  proves(["D727"], "does not count as a use of its tool if a guard denies it", async () => {
    const guards = [toolGuard(() => ({ type: "deny", reason: "No." }), { name: "guard" })];
    expect(await usedAfter(mail, undefined, { guards })).toEqual({
      toolsUsed: {},
      errors: ["blocked"],
    });
  });

  proves(["D727"], "is a use of its tool if it was executed, or failed elsewhere", async () => {
    const succeeded = await usedAfter(mail, { reply: sent });
    const failed = await usedAfter(mail, {
      reply: (question) => provideError(question, "No such box."),
    });
    expect([succeeded, failed]).toEqual([
      { toolsUsed: { mail: 1 }, errors: [] },
      { toolsUsed: { mail: 1 }, errors: ["tool_error"] },
    ]);
  });
});

describe("a call that needs an approval", () => {
  const unused = { toolsUsed: {}, errors: ["denied"] };

  proves(["D727"], "is a use of its tool only if it is approved and executed", async () => {
    const denied = await usedAfter(payTool(), {
      reply: (question) => deny(question, "Too much."),
    });
    expect([
      await usedAfter(payTool(), undefined, { unansweredPolicy: "deny" }),
      await usedAfter(payTool(), { isOverdue: true }),
      denied,
      await usedAfter(payTool(), { reply: approve, isStopped: true }),
      await usedAfter(payTool(), { reply: approve }),
    ]).toEqual([
      unused,
      unused,
      unused,
      { toolsUsed: {}, errors: [] },
      { toolsUsed: { pay: 1 }, errors: [] },
    ]);
  });
});
