// Goal: a model whose getters throw while an agent is set up leaves no occupied place, no subagent
// without an end and no half-started run.
// Method: a proxy of the model throws at its nth property access, for every n, once or from then
// on. Each run is checked in full, and later starts must succeed.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { expect } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import type { Model } from "../../../src/model/model.ts";
import { withFallback } from "../../../src/model/with-fallback.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { approve } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { RecordingSink } from "../../../src/testing/recording-sink.ts";
import {
  says,
  ScriptedModel,
  type ScriptedCall,
  type ScriptedReply,
} from "../../../src/testing/scripted-model.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import type { FunctionTool } from "../../../src/tools/tool.ts";
import { proves } from "../../harness/proves.ts";
import { checkRun, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { dyingStore } from "../../support/journal/dying-store.ts";
import { calls, part, spawn, tool, use } from "../../harness/scripted-agents.ts";

interface Fault {
  isArmed: boolean;
  /** The number of the throwing access, counted from arming. */
  readonly nth: number;
  /** True if every later access throws as well. */
  readonly isLasting: boolean;
  readings: number;
  hasThrown: boolean;
}

function newFault(nth: number, isLasting: boolean): Fault {
  return { isArmed: false, nth, isLasting, readings: 0, hasThrown: false };
}

/** Wraps a model so that reading one of its properties throws when the fault is due. */
function throwing(model: Model, fault: Fault): Model {
  return new Proxy(model, {
    get: (target, key): unknown => {
      if (fault.isArmed) {
        fault.readings += 1;
        if (fault.readings === fault.nth || (fault.isLasting && fault.readings > fault.nth)) {
          fault.hasThrown = true;
          throw new Error(`broken at ${String(key)}`);
        }
      }
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

function helperOf(model: Model, tools: readonly FunctionTool[] = []): AgentRole {
  const name = "helper";
  return defineAgent({ name, description: "Helps.", instructions: "You help.", model, tools });
}

const OK = (): ScriptedReply => says("Ok.");
const FIRST = spawn("helper", "First.");
const SECOND = spawn("helper", "Second.");
const AGAIN = { toolName: "SpawnSubagent", arguments: { continue: "helper#1", task: "Again." } };
const BEHIND = {
  toolName: "SpawnSubagent",
  arguments: { role: "helper", task: "First.", background: true },
};
const WRITTEN = {
  toolName: "SpawnSubagent",
  arguments: { role: "writer", task: "First.", newRole: { instructions: "You write." } },
};
const WAIT = { toolName: "WaitForSubagents", arguments: {} };

/**
 * The way in which a lead starts a subagent with a broken model. `before`: calls while the model
 * works.
 */
interface Way {
  readonly before?: ScriptedCall;
  readonly broken: readonly ScriptedCall[];
  readonly after: ScriptedCall;
  /** Wraps the model that throws. */
  readonly model?: (broken: Model) => Model;
}

const spare = (): Model => new ScriptedModel(OK, { id: "spare" });

const WAYS: Readonly<Record<string, Way>> = {
  "that a call starts": { broken: [FIRST], after: SECOND },
  "that works in the background": { broken: [BEHIND, WAIT], after: SECOND },
  "that is continued": { before: FIRST, broken: [AGAIN], after: AGAIN },
  "whose role a model wrote": { broken: [WRITTEN], after: WRITTEN },
  "whose model is the first of a fallback": {
    broken: [FIRST],
    after: SECOND,
    model: (broken) => withFallback([broken, spare()]),
  },
  "whose model is the last of a fallback": {
    broken: [FIRST],
    after: SECOND,
    model: (broken) => withFallback([spare(), broken]),
  },
};

/** Runs a lead whose first subagent meets the fault and whose last one does not. */
async function played(way: Way, fault: Fault, isKept: boolean) {
  const throws = throwing(new ScriptedModel(OK, { id: "helper-model" }), fault);
  const model = way.model?.(throws) ?? throws;
  const arm = tool("arm", () => ((fault.isArmed = true), "armed"));
  const disarm = tool("disarm", () => ((fault.isArmed = false), "disarmed"));
  const script = [
    ...(way.before === undefined ? [] : [calls(way.before)]),
    ...[use("arm"), ...way.broken, use("disarm"), way.after].map((call) => calls(call)),
    says("Done."),
  ];
  const lead = part("lead", script, {
    subagents: [helperOf(model)],
    dynamicRoles: { models: { fast: model } },
    tools: [arm, disarm],
    delegation: { background: true },
  });
  const limits = { maxTotalSubagents: 2, maxBreadthPerParent: 2 };
  const s = newFixture({
    limits,
    retryPolicy: { maxAttempts: 1 },
    ...(isKept ? { store: memoryStore() } : {}),
  });
  return { result: await s.run(lead.role), s };
}

for (const [name, way] of Object.entries(WAYS)) {
  for (const isLasting of [false, true]) {
    proves(
      ["D440"],
      `releases the place of a subagent ${name} when its model throws ${isLasting ? "from" : "at"} any access`,
      async () => {
        const outcomes = new Set<string>();
        let nth = 1;
        for (; ; nth += 1) {
          const fault = newFault(nth, isLasting);
          const { result, s } = await played(way, fault, nth % 2 === 0);
          if (!fault.hasThrown) break;
          const started = [
            ...s.sink.ofType("subagent.spawned"),
            ...s.sink.ofType("subagent.continued"),
          ].map(({ childId }) => childId);
          const ended = s.sink.ofType("subagent.ended").map(({ childId }) => childId);
          const refused = s.sink.ofType("subagent.refused").map(({ error }) => error.code);
          const children = result.agents.slice(1);
          expect([nth, result.status, result.text]).toEqual([nth, "completed", "Done."]);
          expect([nth, ended.toSorted()]).toEqual([nth, started.toSorted()]);
          expect([nth, new Set(started).size]).toEqual([nth, children.length]);
          expect([nth, result.subagentsByDepth]).toEqual([nth, { 1: children.length }]);
          expect([nth, children.at(-1)?.status]).toEqual([nth, "completed"]);
          for (const code of refused) expect(["setup_failed", "invalid_role"]).toContain(code);
          outcomes.add(refused.length > 0 ? "refused" : "started");
        }
        expect(nth).toBeGreaterThan(15);
        expect([...outcomes].toSorted()).toEqual(["refused", "started"]);
      },
    );
  }
}

/** The state before a resume: a result, or the journal of a process that died. */
interface Before {
  readonly runId: string;
  readonly result: RunResult | undefined;
}

/**
 * The way to begin or resume a run. `diesAt`: the append at which the previous process died.
 * Undefined: the run was paused.
 */
interface Beginning {
  readonly diesAt?: number;
  readonly begin: (orchestrator: Orchestrator, role: AgentRole, before: Before) => Promise<Run>;
}

const pay = defineTool({
  name: "pay",
  description: "Pays.",
  inputSchema: z.object({}),
  needsApproval: true,
  execute: () => "paid",
});

const isAnswered = ({ messages }: { readonly messages: readonly { readonly role: string }[] }) =>
  messages.some(({ role }) => role === "tool");

const paused = ({ result }: Before): string => JSON.stringify(result?.pausedRun);

const BEGINNINGS: Readonly<Record<string, Beginning>> = {
  start: {
    begin: (orchestrator, role) => Promise.resolve(orchestrator.start(role, "Go.")),
  },
  resume: {
    begin: (orchestrator, role, before) => {
      const answers = (before.result?.questions ?? []).map((question) => approve(question));
      return Promise.resolve(orchestrator.resume(readPausedRun(paused(before)), { answers, role }));
    },
  },
  recover: {
    diesAt: 7,
    begin: (orchestrator, role, { runId }) => orchestrator.resume(runId, { role, takeOver: true }),
  },
  fork: {
    begin: (orchestrator, role, before) =>
      Promise.resolve(
        orchestrator.fork(readPausedRun(paused(before)), { role, message: "Once more." }),
      ),
  },
};

/** Begins a run with broken models, and again once they work. */
async function begun({ begin, diesAt }: Beginning, fault: Fault): Promise<string> {
  const model = (id: string, first: ScriptedReply): Model =>
    throwing(
      new ScriptedModel((request) => (isAnswered(request) ? says("Done.") : first), { id }),
      fault,
    );
  const helper = helperOf(model("helper-model", calls(use("pay"))), [pay]);
  const lead = model("lead-model", calls(FIRST));
  const role = part("lead", [], { subagents: [helper] }).role;
  const root: AgentRole = { ...role, model: lead };
  const store = memoryStore({ clock: new ManualClock() });
  const ids = sequentialIds();
  const sink = new RecordingSink();
  const life = (clock: ManualClock, diesNow?: number): Orchestrator =>
    new Orchestrator({
      clock,
      ids,
      sinks: [sink],
      retryPolicy: { maxAttempts: 1 },
      store: dyingStore(store, diesNow === undefined ? undefined : { at: diesNow, how: "before" })
        .store,
    });
  const first = life(new ManualClock(), diesAt).start(root, "Go.");
  const before: Before = {
    runId: first.runId,
    result: await first.settled.catch(() => undefined),
  };
  const records = async () =>
    (await store.list({})).map(({ runId, status, recordCount }) => [runId, status, recordCount]);
  const kept = await records();
  const clock = new ManualClock();
  fault.isArmed = true;
  let refusal: unknown;
  let run: Run | undefined;
  try {
    run = await begin(life(clock), root, before);
  } catch (cause) {
    refusal = cause;
  }
  const result = await run?.settled;
  fault.isArmed = false;
  if (!fault.hasThrown) return "no fault";
  await flushEventLoop();
  expect(clock.pendingTimers, "timers left behind").toBe(0);
  if (result !== undefined) {
    checkRun(
      result,
      sink.events.filter(({ runId }) => runId === result.runId),
    );
    return result.status;
  }
  expect(String(refusal)).toContain("broken at");
  expect(await records(), "the store has what it had").toEqual(kept);
  const again = await begin(life(new ManualClock()), root, before);
  expect(["completed", "paused"]).toContain((await again.settled).status);
  return EspalierError.is(refusal) ? refusal.code : "thrown by the model";
}

for (const [name, beginning] of Object.entries(BEGINNINGS)) {
  for (const isLasting of [false, true]) {
    proves(
      ["D441"],
      `changes nothing when a model throws ${isLasting ? "from" : "at"} any access while a ${name} sets up agents`,
      async () => {
        const outcomes = new Set<string>();
        let nth = 1;
        for (; ; nth += 1) {
          const outcome = await begun(beginning, newFault(nth, isLasting));
          if (outcome === "no fault") break;
          outcomes.add(outcome);
        }
        expect(nth).toBeGreaterThan(15);
        expect([...outcomes]).toContain("invalid_argument");
      },
    );
  }
}
