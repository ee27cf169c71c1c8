// Goal: a step is returned with its content: its request, its reply and the outcomes of its calls,
// even while it is running.
// Method: requests for the steps of runs over real sockets.

import { expect } from "vitest";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { rebuildRequest } from "../../src/orchestrator/run/rebuild-request.ts";
import type { AgentId } from "../../src/protocol/ids.ts";
import type { StepDetail } from "../../src/read-model/viewer-data.ts";
import { doings, engineWorld, latch, runId, solo, turns } from "../support/engine/engine-world.ts";
import { proves } from "../harness/proves.ts";
import { countedTool, spawnCall, thinker } from "../support/journal/thinkers.ts";
import { askApi, codeOf, placeOf, type Place } from "../support/viewer-server/asking.ts";
import { asker, opened, survey, viewerWorld } from "../support/viewer-server/viewer-world.ts";

const ID = runId("survey");

async function stepAt(place: Place, agentId: AgentId, step: string): Promise<StepDetail> {
  const { body, text } = await askApi(place, `runs/${ID}/agents/${agentId}/steps/${step}`);
  if (isStep(body)) return body;
  throw new Error(`There is no step: ${text}`);
}

function isStep(value: unknown): value is StepDetail {
  return typeof value === "object" && value !== null && "callDetails" in value;
}

proves(["V87"], "returns the rebuilt request, the reply and the calls of each step", async () => {
  const { place, process } = await viewerWorld();
  const role = survey(2);
  const run = process({ roles: [role] }).start(role, "Survey.", { runId: ID });
  const result = await run.result;
  const snapshot = run.snapshot();
  for (const { agentId, steps } of result.agents)
    for (const [index, step] of steps.entries()) {
      const { number } = step;
      const shown = await stepAt(place, agentId, `${number}`);
      const { request } = rebuildRequest(snapshot, { agentId, stepNumber: number });
      expect(shown).toMatchObject({
        agentId,
        execution: 1,
        number,
        stepCount: steps.length,
        context: { number, toolNames: step.context.toolNames },
        timing: step.telemetry.timing,
        usage: step.telemetry.usage,
        text: step.io.text,
        finishReason: step.io.finishReason,
        request: {
          sameAsBefore: index === 0 ? 0 : steps[index - 1]?.io.messageCount,
          toolNames: request.tools.map(({ name }) => name),
        },
      });
      expect(shown.request?.messages.map(({ message }) => [message.role, message.text])).toEqual(
        request.messages.map(({ role: who, text }) => [who, text]),
      );
      expect(
        shown.callDetails.map(({ argumentsText, result: text, outcome }) => [
          argumentsText,
          text,
          outcome,
        ]),
      ).toEqual(
        step.tools.executions.map(({ call, text, type }) => [call.argumentsText, text, type]),
      );
    }
  const [lead, helper] = result.agents;
  if (lead === undefined || helper === undefined) throw new Error("There are three.");
  expect((await stepAt(place, lead.agentId, "1")).callDetails).toMatchObject([
    { toolName: "SpawnSubagent", children: [1] },
    { children: [2] },
  ]);
  expect((await askApi(place, `runs/${ID}/agents/${helper.agentId}`)).body).toMatchObject({
    text: "Seen: look of stone",
  });
});

proves(
  ["V87"],
  "returns a step while its call is running and while it waits for an answer",
  async () => {
    const { place, process, pushed } = await viewerWorld();
    const done = doings();
    const gate = latch();
    const role = solo(done, { hold: () => gate.opened });
    const run = process({ roles: [role] }).start(role, "Go.", { runId: ID });
    while (done.calls.size === 0) await turns(20);
    const { body } = await askApi(place, `runs/${ID}`);
    expect(body).toMatchObject({ run: { status: "working" } });
    const [agentId] = run.runId === ID ? [idIn(body)] : [];
    if (agentId === undefined) throw new Error("It has a root.");
    expect(await stepAt(place, agentId, "1")).toMatchObject({
      number: 1,
      stepCount: 1,
      request: { sameAsBefore: 0 },
      callDetails: [{ toolName: "work", outcome: "open", argumentsText: '{"thing":"0"}' }],
    });
    gate.open();
    await pushed(run.result);
    expect(await stepAt(place, agentId, "1")).toMatchObject({
      stepCount: 3,
      callDetails: [{ outcome: "succeeded", result: "worked 0" }],
    });
  },
);

proves(["V87"], "names the sender of messages that came from an ancestor", async () => {
  const { place, process } = await viewerWorld();
  const helper = defineAgent({
    name: "helper",
    description: "Helps.",
    instructions: "You help.",
    model: thinker("helper", ({ heard }) => ({ text: `heard ${heard.length}` })),
  });
  const lead = defineAgent({
    name: "lead",
    description: "Leads.",
    instructions: "You lead.",
    model: thinker("lead", ({ results }) => {
      if (results.length === 0) return { calls: [["look", { thing: "stone" }]] };
      return results.length === 1 ? { calls: [spawnCall("helper", "Help.")] } : { text: "Done." };
    }),
    tools: [countedTool(new Map(), "look")],
    contextPolicy: { inheritMessages: true },
    subagents: [helper],
  });
  const result = await process({ roles: [lead] }).start(lead, "Lead.", { runId: ID }).result;
  const [, child] = result.agents;
  if (child === undefined) throw new Error("There are two.");
  const { request } = await stepAt(place, child.agentId, "1");
  const from = request?.messages.map(({ message, from: who }) => [message.text, who]);
  expect(from).toContainEqual(["look of stone", "lead"]);
  expect(from).toContainEqual(["Help.", undefined]);
});

proves(
  ["V87"],
  "refuses unknown steps, agents and executions, and any step with content off",
  async () => {
    const { clock, store, process } = engineWorld();
    const role = asker(["pear"]);
    const result = await process({ roles: [role] }).start(role, "Buy.", { runId: ID }).result;
    const agentId = result.agents[0]?.agentId ?? "";
    const place = placeOf(await opened({ store, clock }));
    const path = `runs/${ID}/agents/${agentId}/steps`;
    for (const step of ["0", "2", "1?execution=2", "999999999"])
      expect(codeOf(await askApi(place, `${path}/${step}`)), step).toEqual([404, "unknown_step"]);
    for (const step of ["x", "-1", "1.5"])
      expect(codeOf(await askApi(place, `${path}/${step}`)), step).toEqual([
        400,
        "invalid_request",
      ]);
    expect(codeOf(await askApi(place, `runs/${ID}/agents/nobody/steps/1`))).toEqual([
      404,
      "unknown_agent",
    ]);
    expect(codeOf(await askApi(place, path))).toEqual([404, "not_found"]);
    expect(codeOf(await askApi(place, `${path}/1/more`))).toEqual([404, "not_found"]);
    expect((await askApi(place, `${path}/1`)).body).toMatchObject({
      callDetails: [{ toolName: "pay", outcome: "open" }],
    });
    const off = placeOf(await opened({ store, clock, content: false }));
    expect(codeOf(await askApi(off, `${path}/1`))).toEqual([403, "content_off"]);
  },
);

function idIn(snapshot: unknown): AgentId | undefined {
  const isSnapshot = typeof snapshot === "object" && snapshot !== null && "agents" in snapshot;
  const agents: unknown = isSnapshot ? snapshot.agents : [];
  if (!isRows(agents)) return undefined;
  return agents[0]?.[1];
}

function isRows(value: unknown): value is readonly (readonly [number, AgentId])[] {
  return Array.isArray(value);
}
