// Goal: a run that was released, or whose process was lost, right after a requested pause asks its
// approver every open question when it is resumed.
// Method: an approver of the first process never answers, and a model call of another agent never
// returns, so the run is cut off before it has paused.

import { describe, expect } from "vitest";
import { z } from "zod";

import type { Approver } from "../../../src/agent/approver.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { approve, type Question } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { flushEventLoop } from "../../harness/run-scripted.ts";
import { replaysToTheSame } from "../../support/journal/replay-story.ts";

/** Ways in which the first process stops owning the run. */
const ENDINGS = {
  released: async (run: Run) => {
    expect(await run.release({ graceMs: 0 })).toBe(true);
  },
  lost: async () => {
    // The next process takes the run over.
  },
};

/** Approvers that never answer: one rejects when its signal is aborted, the other ignores it. */
const APPROVERS = {
  heeds: (_question, { signal }) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    }),
  ignores: () => new Promise(() => undefined),
} as const satisfies Record<string, Approver>;

/**
 * Starts a run with agents that ask, one at work, and a lead that waits for them. Requests a pause
 * once all questions are open, and ends the process of the run.
 */
async function cutOffWhilePausing(
  ending: keyof typeof ENDINGS,
  { approver, askers = 1 }: { readonly approver: Approver; readonly askers?: number },
) {
  const removed: string[] = [];
  const life = { isFirst: true };
  const remove = defineTool({
    name: "remove",
    description: "Removes a file.",
    inputSchema: z.object({}),
    needsApproval: true,
    execute: (_input, { agentPath }) => {
      removed.push(agentPath);
      return "gone";
    },
  });
  const asker = defineAgent({
    name: "asker",
    description: "Removes a file",
    instructions: "Remove it.",
    tools: [remove],
    model: new ScriptedModel(({ messages }) =>
      messages.at(-1)?.role === "tool" ? says("Removed.") : asks("remove", {}),
    ),
  });
  const worker = defineAgent({
    name: "worker",
    description: "Works",
    instructions: "Work.",
    model: new ScriptedModel(() =>
      says("Worked.", life.isFirst ? { after: new Promise(() => undefined) } : {}),
    ),
  });
  const roles = [...Array.from({ length: askers }, () => "asker"), "worker"];
  const lead = defineAgent({
    name: "lead",
    instructions: "Delegate.",
    subagents: [asker, worker],
    model: new ScriptedModel(({ messages }) =>
      messages.at(-1)?.role === "tool"
        ? says("Done.")
        : {
            calls: roles.map((role) => ({
              toolName: "SpawnSubagent",
              arguments: { role, task: "Go." },
            })),
          },
    ),
  });
  const store = memoryStore();
  const open: Question[] = [];
  const first = new Orchestrator({
    roles: [lead],
    store,
    approver: (question, options) => {
      open.push(question);
      return approver(question, options);
    },
  });
  const run = first.start(lead, "Go.");
  run.result.catch(() => undefined);
  while (open.length < askers) await flushEventLoop();
  run.requestPause();
  for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
  await ENDINGS[ending](run);
  life.isFirst = false;
  return { lead, store, runId: run.runId, open, removed };
}

type CutOff = Awaited<ReturnType<typeof cutOffWhilePausing>>;

/** Resumes the run by its id, with an approver that approves. */
async function resumeWithApprover({ lead, store, runId }: CutOff) {
  const asked: string[] = [];
  const next = new Orchestrator({
    roles: [lead],
    store,
    approver: (question) => {
      asked.push(question.questionId);
      return approve(question);
    },
  });
  const result = await (await next.resume(runId, { takeOver: true })).result;
  await replaysToTheSame({ role: lead }, { recording: await loadRecording(store, runId), result });
  return { status: result.status, asked };
}

const approveOne = (question: Question) => approve(question);

const ids = (questions: readonly Question[]) => questions.map(({ questionId }) => questionId);

describe.each(["released", "lost"] as const)("a run that was %s while it paused", (ending) => {
  for (const how of ["heeds", "ignores"] as const)
    proves(
      ["D786"],
      `asks the approver its open question once, if the first approver ${how} its signal`,
      async () => {
        const cutOff = await cutOffWhilePausing(ending, { approver: APPROVERS[how] });
        expect([await resumeWithApprover(cutOff), cutOff.removed]).toEqual([
          { status: "completed", asked: ids(cutOff.open) },
          ["lead/asker#1"],
        ]);
      },
    );

  proves(["D786"], "asks the approver two open questions once each", async () => {
    const cutOff = await cutOffWhilePausing(ending, { approver: APPROVERS.heeds, askers: 2 });
    expect([await resumeWithApprover(cutOff), cutOff.removed]).toEqual([
      { status: "completed", asked: ids(cutOff.open) },
      ["lead/asker#1", "lead/asker#2"],
    ]);
  });

  proves(
    ["D786"],
    "does not ask the approver a question that was answered by mail meanwhile",
    async () => {
      const cutOff = await cutOffWhilePausing(ending, { approver: APPROVERS.heeds });
      const { lead, store, runId, open, removed } = cutOff;
      const other = new Orchestrator({ roles: [lead], store });
      await other.answer(runId, open.map(approveOne));
      expect([await resumeWithApprover(cutOff), removed]).toEqual([
        { status: "completed", asked: [] },
        ["lead/asker#1"],
      ]);
    },
  );

  proves(
    ["D786"],
    "pauses with its question if it is resumed without an approver, and then asks one",
    async () => {
      const cutOff = await cutOffWhilePausing(ending, { approver: APPROVERS.heeds });
      const { lead, store, runId, open } = cutOff;
      const resumed = await new Orchestrator({ roles: [lead], store }).resume(runId, {
        takeOver: true,
      });
      const paused = await resumed.result;
      expect([paused.status, ids(paused.questions)]).toEqual(["paused", ids(open)]);
      expect(await resumeWithApprover(cutOff)).toEqual({ status: "completed", asked: ids(open) });
    },
  );
});

proves(
  ["D786"],
  "an approved call that began after the resumption is not repeated if that process is lost too",
  async () => {
    const life = { number: 1 };
    const begun: string[] = [];
    const never = new Promise<string>(() => undefined);
    const pay = defineTool({
      name: "pay",
      description: "Pays a bill.",
      inputSchema: z.object({}),
      needsApproval: true,
      retryAfterCrash: false,
      execute: async () => {
        begun.push(`pay in life ${life.number}`);
        return await never;
      },
    });
    const look = defineTool({
      name: "look",
      description: "Looks at the bill.",
      inputSchema: z.object({}),
      execute: async () => (life.number === 1 ? await never : "seen"),
    });
    const role = defineAgent({
      name: "payer",
      instructions: "Pay.",
      tools: [pay, look],
      model: new ScriptedModel(({ messages }) =>
        messages.at(-1)?.role === "tool"
          ? says("Done.")
          : { calls: ["pay", "look"].map((toolName) => ({ toolName, arguments: {} })) },
      ),
    });
    const store = memoryStore();
    const asked: string[] = [];
    const open = (approver: Approver) =>
      new Orchestrator({
        roles: [role],
        store,
        approver: (question, options) => {
          asked.push(`${question.toolName} in life ${life.number}`);
          return approver(question, options);
        },
      });
    const first = open(APPROVERS.heeds).start(role, "Go.");
    first.result.catch(() => undefined);
    while (asked.length === 0) await flushEventLoop();
    first.requestPause();
    for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
    expect(await first.release({ graceMs: 0 })).toBe(true);
    life.number = 2;
    const second = await open(approveOne).resume(first.runId);
    second.result.catch(() => undefined);
    while (begun.length === 0) await flushEventLoop();
    life.number = 3;
    const third = await open(approveOne).resume(first.runId, { takeOver: true });
    const result = await third.result;
    const [step] = result.steps;
    expect({
      asked,
      begun,
      status: result.status,
      calls: step?.tools.calls.length,
      codes: step?.tools.executions.map((execution) => execution.errorCode),
      charged: result.usage.total.toolCalls,
    }).toEqual({
      asked: ["pay in life 1", "pay in life 2"],
      begun: ["pay in life 2"],
      status: "completed",
      calls: 2,
      codes: ["interrupted", undefined],
      charged: 2,
    });
  },
);
