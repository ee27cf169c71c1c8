// Goal: an impossible action on a subagent returns an instruction to the model that names the place
// in the tree, and changes nothing.
// Method: one attempt after the other, by models and by custom delegations; messages, counts and
// remaining state compared in full.

import { describe, expect, test } from "vitest";
import { z } from "zod";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineDelegation } from "../../../src/tools/define-tool.ts";
import type { DelegationContext, DelegationOutcome } from "../../../src/tools/tool-context.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import {
  beside,
  cancel,
  list,
  onward,
  settlements,
  verb,
  waitFor,
  write,
} from "../../support/life-agents.ts";
import {
  calls,
  part,
  spawn,
  receivedTexts,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";

const ODD: object = { forever: true };

const BACKGROUND = { delegation: { background: true } } as const;

/** Names that a model may write and no subagent has. */
const STRANGE_NAMES = [
  "worker",
  "worker#0",
  "worker#01",
  "worker#2",
  " worker#1",
  "WORKER#1",
  "__proto__",
  "constructor",
  "lead/worker#1",
  "\u{d800}",
  "#",
  "agent_2",
];

describe("a name that no subagent has", () => {
  test("is refused by every verb with the list of known names, and changes nothing else", async () => {
    const worker = part("worker", [says("Worked.")]);
    const lead = part(
      "lead",
      [
        calls(spawn("worker")),
        calls(
          ...STRANGE_NAMES.flatMap((name) => [
            waitFor(name),
            write(name, "Hello."),
            cancel(name),
            onward(name, "More."),
          ]),
        ),
        says("Done."),
      ],
      {
        ...BACKGROUND,
        subagents: [worker.role],
        errorBudget: { maxToolErrors: 500, maxConsecutiveErrors: 500 },
      },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect(result.refusalsByCode).toEqual({ unknown_subagent: 4 * STRANGE_NAMES.length });
    for (const text of receivedTexts(lead.model.requests[2]))
      expect(text).toMatch(/^Not done: lead has no subagent ".*"\. Yours are: worker#1\.$/su);
    expect([result.status, settlements(s).length]).toEqual(["completed", 1]);
  });

  test("is refused with a note that no subagent was started", async () => {
    const worker = part("worker", []);
    const lead = part("lead", [calls(list(), waitFor(), cancel("worker#1")), says("Done.")], {
      ...BACKGROUND,
      subagents: [worker.role],
    });
    await newFixture().run(lead.role);
    expect(receivedTexts(lead.model.requests[1])).toEqual([
      "[]",
      "None of your subagents is running.",
      'Not done: lead has no subagent "worker#1". You have started none.',
    ]);
  });
});

describe("invalid arguments", () => {
  test("are returned to the model, and no subagent is started, awaited or written to", async () => {
    const worker = part("worker", [says("Worked.")]);
    const wrong = [
      verb("WaitForSubagents", { timeoutSeconds: -1 }),
      verb("WaitForSubagents", { timeoutSeconds: "soon" }),
      verb("WaitForSubagents", { subagents: [] }),
      verb("MessageSubagent", { subagent: "worker#1", message: "" }),
      verb("MessageSubagent", { subagent: "worker#1" }),
      verb("CancelSubagent", {}),
      verb("SpawnSubagent", { role: "worker" }),
      verb("SpawnSubagent", { role: "worker", task: "Work.", background: "perhaps" }),
      verb("SpawnSubagent", { role: "worker", task: "Work.", continue: 1 }),
    ];
    const lead = part("lead", [calls(...wrong), says("Done.")], {
      ...BACKGROUND,
      subagents: [worker.role],
      errorBudget: { maxToolErrors: 50, maxConsecutiveErrors: 50, maxRetryErrors: 50 },
    });
    const s = newFixture();
    const result = await s.run(lead.role);
    expect(
      result.steps[0]?.tools.executions.map(({ type, errorCode }) => [type, errorCode]),
    ).toEqual(wrong.map(() => ["retry", "invalid_arguments"]));
    expect([result.agents.length, result.status]).toEqual([1, "completed"]);
  });

  test("a role without `background` does not offer it, and its model cannot use it", async () => {
    const worker = part("worker", () => says("Worked."));
    const lead = part("lead", [calls(beside("worker")), calls(list()), says("Done.")], {
      subagents: [worker.role],
    });
    const s = newFixture();
    const result = await s.run(lead.role);
    expect(lead.model.requests[0]?.tools.map(({ name }) => name)).toEqual(["SpawnSubagent"]);
    expect(JSON.stringify(lead.model.requests[0]?.tools)).not.toContain("background");
    expect([
      result.status,
      s.sink.ofType("subagent.spawned").map(({ isBackground }) => isBackground),
    ]).toEqual(["completed", expect.not.arrayContaining([true])]);
  });
});

describe("a custom delegation", () => {
  const attempts: Readonly<
    Record<string, (context: DelegationContext) => DelegationOutcome | Promise<DelegationOutcome>>
  > = {
    "an empty message": ({ subagents }) => subagents.sendMessage("worker#1", " "),
    "a wait until never": ({ subagents }) => subagents.wait({ timeoutMs: Number.NaN }),
    "a wait of minus nothing": ({ subagents }) => subagents.wait({ timeoutMs: -1 }),
    "a field that is not there": ({ subagents }) => subagents.wait({ timeoutMs: 1, ...ODD }),
    "a continuation without a task": ({ subagents }) =>
      subagents.continue({ subagent: "worker#1", task: " " }),
    "a continuation of no subagent": ({ subagents }) =>
      subagents.continue({ subagent: "", task: "More." }),
    "a subagent without a task": ({ spawn: start }) => start({ role: "worker", task: "" }),
  };
  for (const [name, attempt] of Object.entries(attempts))
    test(`fails if it requests ${name}, and its agent continues`, async () => {
      const tried = defineDelegation({
        name: "Try",
        description: "Tries.",
        inputSchema: z.object({}),
        execute: (_input, context) => attempt(context),
      });
      const worker = part("worker", [says("Worked.")]);
      const lead = part("lead", [calls(spawn("worker")), calls(use("Try")), says("Done.")], {
        ...BACKGROUND,
        subagents: [worker.role],
        tools: [tried],
      });
      const s = newFixture();
      const result = await s.run(lead.role);
      const [execution] = result.steps[1]?.tools.executions ?? [];
      expect([execution?.type, result.status, settlements(s).length]).toEqual([
        "failed",
        "completed",
        1,
      ]);
    });

  test("loses no background subagent that it started without awaiting it", async () => {
    const held = latch();
    const worker = part("worker", [says("Worked.", { after: held.opened })]);
    const start = defineDelegation({
      name: "Start",
      description: "Starts.",
      inputSchema: z.object({}),
      execute: (_input, context) => {
        void context.spawn({ role: "worker", task: "Work.", background: true });
        return { type: "answered", text: "Started one." };
      },
    });
    const lead = part("lead", [calls(use("Start")), says("Early."), says("Late.")], {
      ...BACKGROUND,
      subagents: [worker.role],
      tools: [start],
    });
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => lead.model.requests.length === 2);
    held.open();
    const result = await s.outcome(run);
    expect([result.text, settlements(s)]).toEqual(["Late.", ["lead/worker#1 completed"]]);
  });

  test("is refused if it uses its context after its call has ended", async () => {
    const kept: DelegationContext[] = [];
    const keep = defineDelegation({
      name: "Keep",
      description: "Keeps.",
      inputSchema: z.object({}),
      execute: (_input, context) => {
        kept.push(context);
        return { type: "answered", text: "Kept." };
      },
    });
    const worker = part("worker", () => says("Worked."));
    const late: DelegationOutcome[] = [];
    const misuse = tool("misuse", async () => {
      const [context] = kept;
      if (context === undefined) return "nothing kept";
      late.push(await context.spawn({ role: "worker", task: "Work.", background: true }));
      late.push(await context.subagents.continue({ subagent: "worker#1", task: "More." }));
      late.push(await context.subagents.wait());
      late.push(context.subagents.sendMessage("worker#1", "More."));
      late.push(await context.subagents.cancel("worker#1"));
      return "misused";
    });
    const lead = part(
      "lead",
      [calls(spawn("worker")), calls(use("Keep")), calls(use("misuse")), says("Done.")],
      {
        ...BACKGROUND,
        subagents: [worker.role],
        tools: [keep, misuse],
      },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    const notStarted = "Not started: the call that requested the subagent has ended.";
    const notDone = "Not done: the call has ended.";
    const messages = [notStarted, notStarted, notDone, notDone, notDone];
    expect([late, result.agents.length, worker.model.requests.length]).toEqual([
      messages.map((message) => ({
        type: "refused",
        refusal: { code: "parent_stopped", message },
      })),
      2,
      1,
    ]);
  });
});
