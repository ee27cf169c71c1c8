// Goal: one rule decides the result of a reply with several Finish calls, or one beside other
// calls.
// Method: replies with calls of Finish in every position, in one go and across a pause.

import { expect } from "vitest";
import { z } from "zod";

import { approve, defineTool, defineAgent, Orchestrator } from "../../../src/index.ts";
import { says, ScriptedModel } from "../../../src/testing/index.ts";
import { proves } from "../../harness/proves.ts";

const output = z.object({ n: z.int() });
const finish = (n: unknown) => ({ toolName: "Finish", arguments: JSON.stringify({ n }) });

function lead(calls: readonly { readonly toolName: string; readonly arguments: string }[]) {
  const done: string[] = [];
  const save = (name: string, needsApproval: boolean) =>
    defineTool({
      name,
      description: "Saves.",
      inputSchema: z.object({}),
      needsApproval,
      execute: () => {
        done.push(name);
        if (name === "broken") throw new Error("Disk is full.");
        return "Saved.";
      },
    });
  const model = new ScriptedModel([{ calls, text: "A text beside." }, says("never")]);
  const tools = [save("save", false), save("ask", true), save("broken", false)];
  const role = defineAgent({ name: "lead", instructions: "Save.", model, tools, output });
  return { role, done };
}

const call = (name: string) => ({ toolName: name, arguments: "{}" });

proves(
  ["D584"],
  "takes the last valid result of a reply after all other calls have run",
  async () => {
    for (const [calls, n, ran] of [
      [[finish(1), finish(2)], 2, []],
      [[finish(1), call("save"), finish(2), finish("three")], 2, ["save"]],
      [[finish(1), call("save")], 1, ["save"]],
      [[call("broken"), finish(1)], 1, ["broken"]],
    ] as const) {
      const { role, done } = lead(calls);
      const result = await new Orchestrator().start(role, "Go.").result;
      expect([result.status, result.output, done, result.agents[0]?.steps.length]).toEqual([
        "completed",
        { n },
        ran,
        1,
      ]);
    }
  },
);

proves(
  ["D584"],
  "takes the last result of a reply after the approval of another call",
  async () => {
    for (const calls of [
      [finish(1), call("ask"), finish(2)],
      [finish(2), call("ask")],
      [call("ask"), finish(2)],
    ]) {
      const { role, done } = lead(calls);
      const orchestrator = new Orchestrator();
      const paused = await orchestrator.start(role, "Go.").result;
      expect(paused.status).toBe("paused");
      const [question] = paused.questions;
      if (paused.pausedRun === undefined || question === undefined)
        expect.fail("It is not paused.");
      const answers = [approve(question)];
      const result = await orchestrator.resume(paused.pausedRun, { answers, role }).result;
      expect([result.status, result.output, done]).toEqual(["completed", { n: 2 }, ["ask"]]);
    }
  },
);
