// Goal: a message is delivered with the model call that contains it; its sender, the events and the
// history agree.
// Method: runs in which the call that would have contained a message is not made; delivery, events
// and history compared in full.

import { describe, expect, test } from "vitest";

import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import { transform } from "../../../src/hooks/hook.ts";
import type { SteerReceipt } from "../../../src/agent/mailbox.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { Attachment } from "../../../src/protocol/attachment.ts";
import type { MessageContent } from "../../../src/protocol/message-content.ts";
import type { StoredMessage } from "../../../src/protocol/message.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { toolFilter } from "../../../src/tools/tool-filter.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { beside, heard, onward, rests } from "../../support/life-agents.ts";
import { aborted, calls, part, spawn, tool, until, use } from "../../harness/scripted-agents.ts";

const originsIn = (messages: readonly StoredMessage[]): readonly string[] =>
  messages.flatMap((message) => (message.role === "user" ? [message.origin] : []));

const ALL_BUT_STEERED = ["task"];

/** An agent with one tool step before its answer. */
function worker(more: Partial<Omit<AgentDefinition, "model">> = {}) {
  const script = [calls(use("work")), says("done")];
  return soloist(script, { tools: [spyTool("work")], ...more }, { inputModalities: ["image"] });
}

/**
 * Writes to the root after its first step, and calls `act` when the request of the second step is
 * prepared.
 */
async function writesToSecondStep(
  run: Run,
  {
    message = "Hurry.",
    act,
  }: { readonly message?: MessageContent; readonly act?: () => void } = {},
) {
  const deliveries: Promise<SteerReceipt>[] = [];
  let prepared = 0;
  for await (const { phase } of run.iterate()) {
    if (phase === "decide" && deliveries.length === 0) deliveries.push(run.steer(message));
    if (phase !== "prepare") continue;
    prepared += 1;
    if (prepared === 2) act?.();
  }
  return await deliveries[0];
}

/** Returns all records of a message to the root. */
async function traced(fixture: Fixture, run: Run, delivery?: SteerReceipt) {
  const { status, messages } = await fixture.outcome(run);
  const events = fixture.sink.ofType("message.delivered").length;
  return { status, delivery, events, history: originsIn(messages) };
}

function undelivered(status: "stopped" | "cancelled" | "failed") {
  const delivery = { isDelivered: false, reason: status };
  return { status, delivery, events: 0, history: ALL_BUT_STEERED };
}

describe("a message whose request is not sent is not delivered", () => {
  for (const [status, act] of [
    ["stopped", (run: Run) => run.requestStop()],
    ["cancelled", (run: Run) => void run.cancel()],
  ] as const) {
    proves(["D724"], `because the run is ${status} once the request is prepared`, async () => {
      const { role, model } = worker();
      const fixture = newFixture();
      const run = fixture.start(role);
      const delivery = await writesToSecondStep(run, { act: () => act(run) });
      expect(await traced(fixture, run, delivery)).toEqual(undelivered(status));
      expect(model.requests).toHaveLength(1);
    });
  }

  proves(["D724"], "because a tool filter throws", async () => {
    const broken = toolFilter((_name, { steps }) => {
      if (steps.length > 0) throw new Error("broken");
      return true;
    });
    const fixture = newFixture();
    const run = fixture.start(worker({ toolFilters: [broken] }).role);
    const delivery = await writesToSecondStep(run);
    expect(await traced(fixture, run, delivery)).toEqual(undelivered("failed"));
  });

  proves(["D724"], "because a hook throws", async () => {
    const broken = transform("beforeModel", ({ steps }) => {
      if (steps.length > 0) throw new Error("broken");
    });
    const fixture = newFixture();
    const run = fixture.start(worker({ hooks: [broken] }).role);
    const delivery = await writesToSecondStep(run);
    expect(await traced(fixture, run, delivery)).toEqual(undelivered("failed"));
  });

  proves(["D724"], "because the run is cancelled while a hook works", async () => {
    const slow = transform("beforeModel", async ({ steps }, { signal }) => {
      if (steps.length === 0) return;
      void run.cancel();
      await aborted(signal);
    });
    const fixture = newFixture();
    const run: Run = fixture.start(worker({ hooks: [slow] }).role);
    const delivery = await writesToSecondStep(run);
    expect(await traced(fixture, run, delivery)).toEqual(undelivered("cancelled"));
  });

  const hooks = { "without hooks": [], "with hooks": [transform("beforeModel", () => undefined)] };
  for (const [how, list] of Object.entries(hooks)) {
    proves(["D724"], `because the message makes the request too large, ${how}`, async () => {
      const data = Buffer.alloc(18_000_000).toString("base64");
      const image: Attachment = { type: "image", mediaType: "image/png", data };
      const fixture = newFixture();
      const run = fixture.start(worker({ hooks: list }).role, [image, image]);
      const delivery = await writesToSecondStep(run, { message: [image] });
      expect(await traced(fixture, run, delivery)).toEqual(undelivered("failed"));
    });
  }

  proves(["D724"], "because the reservation is refused", async () => {
    const fixture = newFixture();
    const run = fixture.start(worker().role, "Do it.", { budget: { steps: 1 } });
    const delivery = await writesToSecondStep(run);
    expect(await traced(fixture, run, delivery)).toEqual(undelivered("stopped"));
  });
});

test("a message whose request is sent is delivered, even if the run is then stopped", async () => {
  const { role, model } = worker();
  const fixture = newFixture();
  const run = fixture.start(role);
  const deliveries: Promise<SteerReceipt>[] = [];
  for await (const { phase } of run.iterate()) {
    if (phase === "decide" && deliveries.length === 0) deliveries.push(run.steer("Hurry."));
    if (phase === "infer" && model.requests.length === 2) run.requestStop();
  }
  expect(await traced(fixture, run, await deliveries[0])).toEqual({
    status: "stopped",
    delivery: { isDelivered: true, stepNumber: 2 },
    events: 1,
    history: ["task", "steering"],
  });
});

describe("the report of a background subagent whose request is not sent", () => {
  /** A team whose lead should read a report in its second step. */
  function team(more: Partial<Omit<AgentDefinition, "model">> = {}) {
    const fixture = newFixture();
    const isOver = (): boolean => fixture.sink.ofType("subagent.ended").length > 0;
    const wait = tool("wait", async () => (await until(isOver), "waited"));
    const helper = part("helper", [says("Helped.")]);
    const lead = part(
      "lead",
      [calls(beside("helper"), use("wait")), says("Led."), says("Again.")],
      {
        delegation: { background: true },
        subagents: [helper.role],
        tools: [wait],
        ...more,
      },
    );
    return { fixture, lead };
  }

  proves(["D724"], "is neither an event nor in the history of a stopped agent", async () => {
    const { fixture, lead } = team();
    const run = fixture.start(lead.role);
    let prepared = 0;
    for await (const { phase } of run.iterate()) {
      if (phase === "prepare") prepared += 1;
      if (phase === "prepare" && prepared === 2) run.requestStop();
    }
    expect(await traced(fixture, run)).toEqual({
      status: "stopped",
      delivery: undefined,
      events: 0,
      history: ["task"],
    });
  });

  proves(["D724"], "is read by the agent when it continues after a filter threw", async () => {
    let isBroken = true;
    const breaks = toolFilter((_name, { steps }) => {
      if (steps.length === 0 || !isBroken) return true;
      isBroken = false;
      throw new Error("broken");
    });
    const { fixture, lead } = team({ toolFilters: [breaks] });
    const root = part(
      "root",
      [calls(spawn("lead")), calls(onward("lead#1", "Once more.")), says("Root.")],
      {
        subagents: [lead.role],
      },
    );
    const result = await fixture.outcome(fixture.start(root.role));
    expect(rests(result)).toEqual({
      root: "completed",
      "root/lead#1": "completed",
      "root/lead#1/helper#1": "completed",
    });
    expect(heard(lead.model.requests[1], "report")).toEqual([
      expect.stringContaining("helper#1, which ran in the background, has ended."),
    ]);
    const { executionId } = fixture.sink.ofType("agent.started").at(-1) ?? {};
    const delivered = fixture.sink.ofType("message.delivered");
    expect(delivered.map((event) => [event.origin, event.executionId])).toEqual([
      ["report", executionId],
    ]);
  });
});
