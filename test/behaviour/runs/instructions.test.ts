// Goal: instructions that a role derives from the context are created once per execution, persist
// wherever it continues, and are recreated for a further execution. If their creation fails,
// nothing has started.
// Method: a function that counts its calls, over steps, pauses, crashes, grants, forks, sessions
// and subagents; requests of models compared.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { describe, expect, test } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { AgentRole } from "../../../src/agent/agent-role.ts";
import type { Model, ModelRequest } from "../../../src/model/model.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { approve } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { RecordingSink } from "../../../src/testing/recording-sink.ts";
import {
  asks,
  says,
  ScriptedModel,
  type ScriptedCall,
  type ScriptStep,
} from "../../../src/testing/scripted-model.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import type { ToolContext } from "../../../src/tools/tool-context.ts";
import { dyingStore } from "../../support/journal/dying-store.ts";
import { proves } from "../../harness/proves.ts";
import { onward } from "../../support/life-agents.ts";
import { rejectionOf, thrownBy } from "../../support/thrown.ts";
import { calls, spawn, receivedTexts } from "../../harness/scripted-agents.ts";

interface User {
  readonly name: string;
}

const ANN: User = { name: "Ann" };
const BEN: User = { name: "Ben" };

interface Part {
  readonly role: AgentRole<undefined, User>;
  readonly model: ScriptedModel;
  /** The users for whom instructions were created, in order. */
  readonly made: readonly string[];
}

const work = defineTool({
  name: "work",
  description: "Works.",
  inputSchema: z.object({}),
  execute: (_input, { context }: ToolContext<User>) => `worked for ${context.name}`,
});

const pay = defineTool({
  name: "pay",
  description: "Pays.",
  inputSchema: z.object({}),
  needsApproval: true,
  execute: () => "paid",
});

function part(
  name: string,
  script: readonly ScriptStep[],
  subagents: readonly AgentRole<unknown, User>[] = [],
): Part {
  const made: string[] = [];
  const model = new ScriptedModel(script);
  const role = defineAgent({
    name,
    description: `Is ${name}.`,
    instructions: (user: User) => {
      made.push(user.name);
      return `${name} serves ${user.name}, time ${made.length}.`;
    },
    model,
    tools: [work, pay],
    subagents,
    delegation: { background: false },
  });
  return { role, model, made };
}

/** Returns the system messages of each request. */
function systems({ requests }: ScriptedModel): readonly (readonly string[])[] {
  return requests.map(({ messages }: ModelRequest) =>
    messages.flatMap(({ role, text }) => (role === "system" ? [text] : [])),
  );
}

describe("an instructions function", () => {
  proves(["H15"], "is called once for all steps", async () => {
    const { role, model, made } = part("lead", [asks("work", {}), asks("work", {}), says("Done.")]);
    const result = await new Orchestrator().start(role, "Lead.", { context: ANN }).orThrow();
    expect(made).toEqual(["Ann"]);
    const text = "lead serves Ann, time 1.";
    expect(systems(model)).toEqual([[text], [text], [text]]);
    expect(result.messages[0]).toMatchObject({ role: "system", text, origin: "instructions" });
    expect(Object.values(result.definitions)).toContain(text);
  });

  proves(
    ["H15"],
    "is not called again after a pause in another process with another context",
    async () => {
      const { role, model, made } = part("lead", [
        asks("pay", {}),
        asks("work", {}),
        says("Done."),
      ]);
      const { pausedRun, questions } = await new Orchestrator().start(role, "Lead.", {
        context: ANN,
      }).result;
      const answers = questions.map((question) => approve(question));
      const again = new Orchestrator({ roles: [role] });
      await again
        .resume(readPausedRun(JSON.stringify(pausedRun)), { answers, context: BEN })
        .orThrow();
      expect(made).toEqual(["Ann"]);
      const text = "lead serves Ann, time 1.";
      expect(systems(model)).toEqual([[text], [text], [text]]);
      expect(receivedTexts(model.requests[1])).toEqual(["paid"]);
      expect(receivedTexts(model.requests[2])).toEqual(["worked for Ben"]);
    },
  );

  proves(["H15"], "is not called again after a crash at any append", async () => {
    for (const at of [2, 3, 4, 5]) {
      const clock = new ManualClock();
      const ids = sequentialIds();
      const store = memoryStore({ clock });
      const { role, model, made } = part("lead", [
        ...Array.from({ length: 2 }, () => asks("work", {})),
        says("Done."),
        says("Done."),
      ]);
      const dying = dyingStore(store, { at, how: "before" });
      const first = new Orchestrator({ clock, ids, store: dying.store });
      const run = first.start(role, "Lead.", { context: ANN });
      await rejectionOf(run.result);
      clock.advance(60_000);
      const second = new Orchestrator({ clock, ids, store, roles: [role] });
      const recovered = await second.resume(run.runId, { context: BEN });
      expect((await recovered.result).status).toBe("completed");
      expect(made).toEqual(["Ann"]);
      expect(new Set(systems(model).flat())).toEqual(new Set(["lead serves Ann, time 1."]));
    }
  });

  proves(["H15"], "is called again when a run continues after a limit", async () => {
    const { role, model, made } = part("lead", [asks("work", {}), asks("work", {}), says("Done.")]);
    const orchestrator = new Orchestrator({ roles: [role] });
    const run = orchestrator.start(role, "Lead.", { context: ANN, budget: { steps: 1 } });
    expect((await run.result).reason.code).toBe("step_limit");
    const grants = [{ budget: { steps: 5 }, by: "test" }];
    const again = orchestrator.resume(run.snapshot(), { context: BEN, grants });
    const { messages } = await again.orThrow();
    expect(made).toEqual(["Ann", "Ben"]);
    const text = "lead serves Ben, time 2.";
    expect(systems(model)).toEqual([["lead serves Ann, time 1."], [text], [text]]);
    expect(new Set(messages.map(({ messageId }) => messageId)).size).toBe(messages.length);
  });

  proves(["H15"], "is called again for a fork, and for each run on a session", async () => {
    const { role, model, made } = part("lead", [says("One."), says("Two."), says("Three.")]);
    const orchestrator = new Orchestrator({ roles: [role], store: memoryStore() });
    const session = await orchestrator.openSession("s");
    const run = orchestrator.start(role, "Lead.", { context: ANN, session });
    await run.orThrow();
    await orchestrator.start(role, "Go on.", { context: BEN, session }).orThrow();
    const message = "Otherwise.";
    await orchestrator.fork(run.snapshot(), { context: { name: "Cid" }, message }).orThrow();
    expect(made).toEqual(["Ann", "Ben", "Cid"]);
    expect(systems(model)).toEqual([
      ["lead serves Ann, time 1."],
      ["lead serves Ben, time 2."],
      ["lead serves Cid, time 3."],
    ]);
    expect(session.messages.map(({ text }) => text)).toEqual(["Lead.", "One.", "Go on.", "Two."]);
  });

  proves(
    ["H15"],
    "is called with the same context for a subagent, and again when the subagent continues",
    async () => {
      const helper = part("helper", [says("One."), says("Two.")]);
      const again: ScriptedCall = onward("helper#1", "Go on.");
      const lead = part(
        "lead",
        [calls(spawn("helper")), calls(again), says("Done.")],
        [helper.role],
      );
      const result = await new Orchestrator().start(lead.role, "Lead.", { context: ANN }).orThrow();
      expect([lead.made, helper.made]).toEqual([["Ann"], ["Ann", "Ann"]]);
      expect(systems(helper.model)).toEqual([
        ["helper serves Ann, time 1."],
        ["helper serves Ann, time 2."],
      ]);
      expect(result.agents[1]).toMatchObject({ agentPath: "lead/helper#1", executionCount: 2 });
    },
  );
});

describe("a failing instructions function", () => {
  const failing: readonly (readonly [what: string, make: () => unknown, got: string])[] = [
    [
      "throw",
      () => {
        throw new Error("no such user");
      },
      "it threw: no such user",
    ],
    ["are a number", () => 7, "it returned 7"],
    ["are missing", () => undefined, "it returned undefined"],
    ["are empty", () => " ", 'it returned " "'],
    ["come later", () => Promise.reject(new Error("late")), "it returned a promise"],
  ];

  /** A role as JavaScript may define it. */
  function broken(make: () => unknown): AgentRole {
    const loose: object = { instructions: make };
    return defineAgent({
      name: "lead",
      description: "Leads.",
      instructions: "Lead.",
      model: new ScriptedModel([says("Done.")]),
      ...loose,
    });
  }

  for (const [what, make, got] of failing)
    proves(["H15"], `starts no run if its instructions ${what}`, async () => {
      const sink = new RecordingSink();
      const store = memoryStore();
      const orchestrator = new Orchestrator({ sinks: [sink], store });
      const session = await orchestrator.openSession("s");
      const thrown = thrownBy(() => orchestrator.start(broken(make), "Lead.", { session }));
      expect(thrown).toEqual({
        code: "instructions_failed",
        message: `Expected lead.instructions to return a non-empty string, but ${got}. Make it a synchronous function of the context.`,
        data: { role: "lead" },
      });
      await new Promise((resolve) => setImmediate(resolve));
      expect([sink.events, await store.list(), orchestrator.activeRuns()]).toEqual([[], [], []]);
      const fine = orchestrator.start(
        broken(() => "Lead."),
        "Lead.",
        { session },
      );
      expect((await fine.orThrow()).text).toBe("Done.");
    });

  proves(["H15"], "refuses the subagent, and lets its parent continue", async () => {
    const model = new ScriptedModel([calls(spawn("lead")), says("Alone.")]);
    const helper = broken(() => {
      throw new Error("no such user");
    });
    const root = defineAgent({ name: "root", instructions: "Lead.", model, subagents: [helper] });
    const { text, refusalsByCode } = await new Orchestrator().start(root, "Lead.").orThrow();
    expect([text, refusalsByCode]).toEqual(["Alone.", { setup_failed: 1 }]);
    expect(receivedTexts(model.requests[1])).toEqual([
      "Not started: setting lead up failed (Expected lead.instructions to return a non-empty string, but it threw: no such user. Make it a synchronous function of the context.). Do this part yourself.",
    ]);
  });

  proves(["H15"], "refuses to continue or fork a run, which can continue later", async () => {
    let isThere = true;
    const model = new ScriptedModel([asks("work", {}), says("Done."), says("Forked.")]);
    const role = defineAgent({
      name: "lead",
      instructions: () => {
        if (!isThere) throw new Error("not now");
        return "Lead.";
      },
      model,
      tools: [defineTool({ ...WORK, execute: () => "worked" })],
    });
    const store = memoryStore();
    const orchestrator = new Orchestrator({ roles: [role], store });
    const run = orchestrator.start(role, "Lead.", { budget: { steps: 1 } });
    expect((await run.result).reason.code).toBe("step_limit");
    const grants = [{ budget: { steps: 5 }, by: "test" }];
    isThere = false;
    const code = "instructions_failed";
    expect(thrownBy(() => orchestrator.resume(run.snapshot(), { grants })).code).toBe(code);
    expect(thrownBy(() => orchestrator.fork(run.snapshot())).code).toBe(code);
    isThere = true;
    const again = orchestrator.resume(run.snapshot(), { grants });
    expect((await again.orThrow()).text).toBe("Done.");
    expect((await orchestrator.fork(run.snapshot()).orThrow()).text).toBe("Forked.");
  });
});

const WORK = { name: "work", description: "Works.", inputSchema: z.object({}) };

test("gives roles with instructions functions cache keys by their names", async () => {
  const keys: unknown[] = [];
  const role = (name: string): AgentRole => {
    const scripted = new ScriptedModel(() => says("Done."));
    const model: Model = {
      provider: "own",
      id: "m",
      generate: (request, options) => {
        keys.push(options.cacheKey?.role);
        return scripted.generate(request, options);
      },
    };
    return defineAgent({ name, instructions: () => `At ${keys.length}.`, model });
  };
  const [one, other] = [role("one"), role("other")];
  const orchestrator = new Orchestrator();
  for (const each of [one, one, other]) await orchestrator.start(each, "Work.").orThrow();
  expect([keys.length, keys[0] === keys[1], keys[0] === keys[2]]).toEqual([3, true, false]);
});
