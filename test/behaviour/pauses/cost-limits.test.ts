// Goal: a cost limit survives a pause. The resuming role needs a price for every covered model, and
// a refusal has no effect.
// Method: runs paused under a cost limit, resumed with roles of the same name with and without a
// price.

import { expect, test } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { PRICES_AS_OF } from "../../../src/model/prices.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { approve } from "../../../src/protocol/question.ts";
import { says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { approveAll, asked, ending, payTool } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, part, spawn, type Part } from "../../harness/scripted-agents.ts";

const PRICE = { inputUsdPerMillion: 1_000, outputUsdPerMillion: 1_000 };
const PRICED = { scripted: { price: PRICE } };
const pays = calls({ toolName: "pay", arguments: { amount: 5 } });

/** A lead that starts a child, which pays. Each has a price or not. */
function team(lead: boolean, child: boolean, first: readonly ScriptStep[] = []) {
  const pay = payTool();
  const helper = part("helper", [...first, says("Paid.")], {
    tools: [pay],
    ...(child ? PRICED : {}),
  });
  const head = part(
    "lead",
    [...(first.length > 0 ? [calls(spawn("helper"))] : []), says("Done.")],
    {
      subagents: [helper.role],
      ...(lead ? PRICED : {}),
    },
  );
  return { lead: head, helper, pay };
}

function requests(...parts: readonly Part[]): readonly number[] {
  return parts.map(({ model }) => model.requests.length);
}

proves(
  ["R57"],
  "a cost limit refuses a resume with an unpriced model at any depth, and allows a priced one",
  async () => {
    for (const [lead, child, unpriced] of [
      [false, true, "lead"],
      [true, false, "helper"],
    ] as const) {
      const fixture = newFixture();
      const first = team(true, true, [pays]);
      const paused = await fixture.run(first.lead.role, { budget: { costUsd: 1 } });
      expect([ending(paused), asked(paused)]).toEqual([
        ["paused", "input_required"],
        [["lead/helper#1", "pay"]],
      ]);
      const events = fixture.sink.events.length;
      const answers = approveAll(paused);
      const without = team(lead, child);
      expect(thrownBy(() => fixture.resume(without.lead.role, paused.pausedRun, answers))).toEqual({
        code: "price_unknown",
        message: `Expected a price for model ${unpriced}-model of role ${unpriced}, which the cost limit of lead limits, got none. The built-in table of ${PRICES_AS_OF} has prices only for models of OpenAI itself, and lacks this one. Give the model a price, for example openai(id, { price }), give the orchestrator prices, for example from espalier/prices, or leave the cost limit out.`,
        data: { field: "the cost limit of lead", role: unpriced, model: `${unpriced}-model` },
      });
      expect([requests(without.lead, without.helper), without.pay.paid]).toEqual([[0, 0], []]);
      expect(fixture.sink.events).toHaveLength(events);

      const priced = team(true, true);
      const result = await fixture.outcome(
        fixture.resume(priced.lead.role, paused.pausedRun, answers),
      );
      expect([ending(result), priced.pay.paid]).toEqual([["completed", "completed"], [5]]);
      // Four calls of 15 tokens at a thousandth of a dollar each, two of them before the pause.
      expect([result.usage.total.costUsd, result.usage.total.unpricedCalls]).toEqual([0.06, 0]);
    }
  },
);

proves(["R57"], "a resume refused for a missing price does not use up the pause", async () => {
  const fixture = newFixture();
  const paused = await fixture.run(team(true, true, [pays]).lead.role, {
    budget: { costUsd: 1 },
  });
  const given = paused.pausedRun ?? expect.fail("not paused");
  const { clock, sink } = fixture;
  const orchestrator = new Orchestrator({ clock, sinks: [sink] });
  const goOn = (role: AgentRole) =>
    orchestrator.resume(given, { answers: approveAll(paused), role });
  const codeOf = (role: AgentRole): string => thrownBy(() => goOn(role)).code;
  expect([codeOf(team(false, true).lead.role), codeOf(team(true, false).lead.role)]).toEqual([
    "price_unknown",
    "price_unknown",
  ]);
  const priced = team(true, true);
  expect(ending(await goOn(priced.lead.role).result)).toEqual(["completed", "completed"]);
  expect(codeOf(priced.lead.role)).toBe("already_resumed");
  expect(priced.pay.paid).toEqual([5]);
});

test("a paused run without a cost limit resumes with an unpriced model", async () => {
  const fixture = newFixture();
  const paused = await fixture.run(team(true, true, [pays]).lead.role);
  const without = team(false, false);
  const run = fixture.resume(without.lead.role, paused.pausedRun, approveAll(paused));
  const result = await fixture.outcome(run);
  expect([ending(result), result.usage.total.unpricedCalls]).toEqual([
    ["completed", "completed"],
    2,
  ]);
});

test("a cost limit of a subagent requires no price of its lead, before and after a pause", async () => {
  const pay = payTool();
  const helper = part("helper", [pays, says("Paid.")], {
    tools: [pay],
    budget: { costUsd: 1 },
    ...PRICED,
  });
  const { role } = part("lead", [calls(spawn("helper")), says("Done.")], {
    subagents: [helper.role],
  });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  const [question] = paused.questions;
  const answers = [approve(question ?? expect.fail("no question"))];
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, answers));
  expect([ending(result), pay.paid]).toEqual([["completed", "completed"], [5]]);
});

proves(
  ["R57"],
  "a cost limit of a paused subagent covers its own model after the pause",
  async () => {
    const lead = (child: Part): AgentRole =>
      part("lead", [calls(spawn("helper")), says("Done.")], {
        subagents: [child.role],
        ...PRICED,
      }).role;
    const limits = { tools: [payTool()], budget: { costUsd: 1 } };
    const fixture = newFixture();
    const helper = part("helper", [pays, says("Paid.")], { ...limits, ...PRICED });
    const paused = await fixture.run(lead(helper));
    const without = part("helper", [says("never")], { tools: limits.tools });
    const { code, data } = thrownBy(() =>
      fixture.resume(lead(without), paused.pausedRun, approveAll(paused)),
    );
    expect([code, data["role"]]).toEqual(["price_unknown", "helper"]);
    expect(requests(without)).toEqual([0]);
  },
);
