// Goal: a paused run is a plain, frozen value. An invalid one, or one that no longer fits the
// roles, is refused without effect.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { describe, expect, test } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { approve } from "../../../src/protocol/question.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import {
  approveAll,
  ending,
  externalTool,
  payTool,
  questionOf,
  refusalOf,
} from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import { unfrozenParts, vandalised } from "../../support/frozen.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";

const PAY = { toolName: "pay", arguments: { amount: 3 } };

async function pausedTree() {
  const fixture = newFixture();
  const pay = payTool();
  const payer = part("payer", [calls(PAY), says("Paid.")], { tools: [pay] });
  const lead = part("lead", [calls(spawn("payer")), says("Done.")], { subagents: [payer.role] });
  const paused = await fixture.run(lead.role);
  const pausedRun = paused.pausedRun ?? expect.fail("not paused");
  return { fixture, pay, lead, payer, paused, pausedRun, answers: approveAll(paused) };
}

test("a paused run is frozen in depth", async () => {
  const { pausedRun } = await pausedTree();
  expect([unfrozenParts(pausedRun), vandalised(pausedRun)]).toEqual([[], []]);
});

proves(
  ["R31"],
  "changing a copy of a paused run changes neither the original nor its run",
  async () => {
    const { fixture, pay, lead, pausedRun, answers } = await pausedTree();
    const text = JSON.stringify(pausedRun);
    const copy = structuredClone(pausedRun);
    const { orchestrator } = fixture;
    const run = orchestrator.resume(copy, { answers, role: lead.role });
    vandalised(copy);
    const result = await fixture.outcome(run);
    expect([JSON.stringify(pausedRun) === text, ending(result), pay.paid]).toEqual([
      true,
      ["completed", "completed"],
      [3],
    ]);
  },
);

test("resuming does not freeze or change the caller's copy", async () => {
  const { fixture, lead, pausedRun, answers } = await pausedTree();
  const copy = structuredClone(pausedRun);
  await fixture.outcome(fixture.orchestrator.resume(copy, { answers, role: lead.role }));
  expect([copy, Object.isFrozen(copy.agents), Object.isFrozen(copy.agents[0]?.state)]).toEqual([
    pausedRun,
    false,
    false,
  ]);
});

describe("an invalid paused run is refused, and the valid one can still be resumed", () => {
  const texts: Readonly<Record<string, (text: string) => string>> = {
    "an empty text": () => "",
    "a text that is no JSON": () => "paused",
    "a text that was cut off": (text) => text.slice(0, -1),
    "a text with something after it": (text) => `${text}}`,
    null: () => "null",
    "an array": (text) => `[${text}]`,
    "an empty object": () => "{}",
    "a JSON text of a JSON text": (text) => JSON.stringify(text),
    "an unknown key": (text) => text.replace("{", '{"extra":1,'),
    "no version": (text) => text.replace('"version":1,', ""),
    "a version that is a text": (text) => text.replace('"version":1,', '"version":"1",'),
    "no agents": (text) => changed(text, "agents", []),
    "only the root": (text) => firstOnly(text, "agents"),
    "only the root's account": (text) => firstOnly(text, "accounts"),
    "no questions": (text) => changed(text, "questions", []),
    "an agent twice": (text) => twice(text, "agents"),
    "an account twice": (text) => twice(text, "accounts"),
    "a negative count": (text) => changed(text, "leaseCount", -1),
    "a count that is no number": (text) => changed(text, "eventCount", null),
    "a lease that is still held": (text) =>
      text.replace('"reserved":{"steps":0', '"reserved":{"steps":1'),
  };
  for (const [name, damage] of Object.entries(texts)) {
    test(name, async () => {
      const { fixture, pay, lead, pausedRun, answers } = await pausedTree();
      const { orchestrator } = fixture;
      const good = JSON.stringify(pausedRun);
      const bad = damage(good);
      expect(bad).not.toBe(good);
      const options = { role: lead.role };
      expect(
        refusalOf(() => orchestrator.resume(readPausedRun(bad), { answers, ...options }))[0],
      ).toBe("invalid_paused_run");
      const result = await fixture.outcome(
        orchestrator.resume(readPausedRun(good), { answers, ...options }),
      );
      expect([ending(result), pay.paid]).toEqual([["completed", "completed"], [3]]);
    });
  }

  test("another version, lower or higher, is refused with `unsupported_version`", async () => {
    const { fixture, lead, pausedRun, answers } = await pausedTree();
    for (const version of [0, 2, 1.5]) {
      const text = changed(JSON.stringify(pausedRun), "version", version);
      const resume = () =>
        fixture.orchestrator.resume(readPausedRun(text), { answers, role: lead.role });
      expect([version, refusalOf(resume)[0]]).toEqual([version, "unsupported_version"]);
    }
  });
});

describe("arguments changed in the store", () => {
  test("are refused under the approval of the original arguments", async () => {
    const fixture = newFixture();
    const pay = payTool();
    const { role } = soloist([calls(PAY), says("done")], { tools: [pay] });
    const paused = await fixture.run(role);
    const forged = JSON.stringify(paused.pausedRun).replaceAll(
      String.raw`"argumentsText":"{\"amount\":3}"`,
      String.raw`"argumentsText":"{\"amount\":1000}"`,
    );
    expect(forged).toContain(String.raw`{\"amount\":1000}`);
    const answers = [approve(questionOf(paused))];
    const resume = () => fixture.orchestrator.resume(readPausedRun(forged), { answers, role });
    expect(thrownBy(resume)).toMatchObject({
      code: "invalid_paused_run",
      message:
        "Invalid paused run: question execution_1.1.0 was altered. Pass result.pausedRun complete and unchanged.",
    });
    expect(pay.paid).toEqual([]);
  });
});

describe("a resume with roles that have changed", () => {
  const done = [says("done")];
  const cases: Readonly<Record<string, () => AgentRole>> = {
    "the root has another name": () => soloist(done, { name: "other", tools: [payTool()] }).role,
    "the tool is gone": () => soloist(done).role,
    "the tool has another name": () => soloist(done, { tools: [spyTool("paid")] }).role,
    "the tool is executed elsewhere now": () =>
      soloist(done, { tools: [externalTool("pay")] }).role,
  };
  for (const [name, changedRole] of Object.entries(cases)) {
    test(name, async () => {
      const fixture = newFixture();
      const pay = payTool();
      const { role } = soloist([calls(PAY), ...done], { tools: [pay] });
      const paused = await fixture.run(role);
      const count = fixture.sink.events.length;
      const wrong = changedRole();
      const resume = (given: AgentRole) =>
        fixture.orchestrator.resume(readPausedRun(JSON.stringify(paused.pausedRun)), {
          answers: approveAll(paused),
          role: given,
        });
      expect([refusalOf(() => resume(wrong))[0], fixture.sink.events.length]).toEqual([
        "invalid_paused_run",
        count,
      ]);
      expect([ending(await fixture.outcome(resume(role))), pay.paid]).toEqual([
        ["completed", "completed"],
        [3],
      ]);
    });
  }

  test("is refused if a child's role is missing, or the root role is not given", async () => {
    const { fixture, lead, pausedRun, answers } = await pausedTree();
    const alone = part("lead", [says("Done.")]);
    const { orchestrator } = fixture;
    expect([
      refusalOf(() => orchestrator.resume(pausedRun, { answers, role: alone.role }))[0],
      refusalOf(() => orchestrator.resume(pausedRun, { answers }))[0],
    ]).toEqual(["invalid_paused_run", "invalid_paused_run"]);
    const result = await fixture.outcome(
      fixture.orchestrator.resume(pausedRun, { answers, role: lead.role }),
    );
    expect(result.status).toBe("completed");
  });

  test("returns a problem to the model if the arguments no longer fit the tool's schema", async () => {
    const fixture = newFixture();
    const { role } = soloist(
      [calls(use("mail"), { toolName: "pay", arguments: {} }), says("done")],
      {
        tools: [externalTool("mail"), spyTool("pay", () => "paid", { needsApproval: true })],
      },
    );
    const paused = await fixture.run(role);
    const strict = payTool();
    const again = soloist([says("done")], { tools: [externalTool("mail"), strict] });
    const [mail, pay] = [questionOf(paused, 0), questionOf(paused, 1)];
    const answers = [approve(pay), { ...approve(mail), type: "result" as const, result: "sent" }];
    const result = await fixture.outcome(fixture.resume(again.role, paused.pausedRun, answers));
    const executions = result.steps[0]?.tools.executions ?? [];
    expect([ending(result), strict.paid, executions.map(({ type }) => type)]).toEqual([
      ["completed", "completed"],
      [],
      ["succeeded", "retry"],
    ]);
  });
});

function changed(text: string, key: string, value: unknown): string {
  return JSON.stringify({ ...objectOf(text), [key]: value });
}

function firstOnly(text: string, key: string): string {
  return changed(text, key, listOf(text, key).slice(0, 1));
}

function twice(text: string, key: string): string {
  const list = listOf(text, key);
  return changed(text, key, [...list, ...list.slice(-1)]);
}

function listOf(text: string, key: string): readonly unknown[] {
  const list: unknown = Reflect.get(objectOf(text), key);
  return Array.isArray(list) ? list : expect.fail(`${key} is no list`);
}

function objectOf(text: string): object {
  const value: unknown = JSON.parse(text);
  return typeof value === "object" && value !== null ? value : expect.fail("no object");
}
