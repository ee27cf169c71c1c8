// Goal: the context of a run reaches all user code in the tree as the same value, is persisted
// nowhere, and is passed again to continue. Its type is checked against the roles.
// Method: a context that throws if it is serialised and breaks if it is cloned or frozen, in a tree
// whose every part reads it.

import { readPausedRun, type PausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { expect, expectTypeOf, test } from "vitest";
import { z } from "zod";

import type { RequestSection, SectionContext } from "../../../src/agent/request-sections.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { AgentRole } from "../../../src/agent/agent-role.ts";
import {
  observe,
  processStep,
  transform,
  wrapModelCall,
  wrapToolCall,
  type ModelCall,
  type ObserverContext,
  type WrappedToolCall,
} from "../../../src/hooks/hook.ts";
import type { HookContext } from "../../../src/hooks/hook-points.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { StopContext } from "../../../src/policies/stop-conditions.ts";
import { approve } from "../../../src/protocol/question.ts";
import { RunIdSchema } from "../../../src/protocol/ids.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { RecordingSink } from "../../../src/testing/recording-sink.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { replay } from "../../../src/testing/replay/replay.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { defineDelegation, defineTool } from "../../../src/tools/define-tool.ts";
import type { DelegationContext, ToolContext } from "../../../src/tools/tool-context.ts";
import { toolFilter, type FilterContext } from "../../../src/tools/tool-filter.ts";
import { toolGuard, type GuardContext } from "../../../src/tools/tool-guard.ts";
import { dyingStore } from "../../support/journal/dying-store.ts";
import { proves } from "../../harness/proves.ts";
import { rejectionOf, thrownBy } from "../../support/thrown.ts";
import { recorder } from "../../support/telemetry/recorded-spans.ts";
import { calls } from "../../harness/scripted-agents.ts";

const SECRET = "the-secret-of-this-context";

/** Throws if it is serialised, and breaks if it is cloned or frozen. */
class Desk {
  readonly secret = SECRET;
  readonly self = this;
  readonly open = (): string => this.#word;
  readonly #word = "open";
  readonly owner: string;
  seen: string[] = [];

  constructor(owner: string) {
    this.owner = owner;
  }

  note(where: string): void {
    this.seen.push(`${where}: ${this.open()}`);
  }

  toJSON(): never {
    throw new Error("It is made JSON of.");
  }
}

const input = z.object({});

const work = defineTool({
  name: "work",
  description: "Works.",
  inputSchema: input,
  needsApproval: (_input, { context, agentPath }: ToolContext<Desk>) => {
    context.note(`needsApproval ${agentPath}`);
    return false;
  },
  execute: (_input, { context, agentPath }: ToolContext<Desk>) => {
    context.note(`execute ${agentPath}`);
    return context.owner;
  },
});

const pay = defineTool({
  name: "pay",
  description: "Pays.",
  inputSchema: input,
  needsApproval: true,
  execute: (_input, { context }: ToolContext<Desk>) => `paid by ${context.owner}`,
});

const delegate = defineDelegation({
  name: "delegate",
  description: "Delegates.",
  inputSchema: input,
  execute: async (_input, { context, spawn }: DelegationContext<Desk>) => {
    context.note("delegate");
    return await spawn({ role: "helper", task: "Help." });
  },
});

const section: RequestSection<Desk> = {
  name: "owner",
  lifetime: "step",
  text: ({ context, agentPath }: SectionContext<Desk>) => {
    context.note(`section ${agentPath}`);
    return undefined;
  },
};

const POINTS = [
  "userInput",
  "beforeModel",
  "beforeTool",
  "afterTool",
  "subagentStart",
  "stop",
  "subagentStop",
] as const;

const parts = {
  tools: [work],
  sections: [section],
  guards: [
    toolGuard(({ toolName }, { context, agentPath }: GuardContext<Desk>) => {
      context.note(`guard ${agentPath} ${toolName}`);
      return { type: "allow" };
    }),
  ],
  toolFilters: [
    toolFilter((_name, { context, agentPath }: FilterContext<Desk>) => {
      context.note(`filter ${agentPath}`);
      return true;
    }),
  ],
  stopWhen: [
    ({ context }: StopContext<Desk>) => {
      context.note("stopWhen");
      return undefined;
    },
  ],
  hooks: [
    observe("agent.started", ({ agentPath }, { context }: ObserverContext<Desk>) =>
      context.note(`observe ${agentPath}`),
    ),
    wrapModelCall(async ({ context }: ModelCall<Desk>, next) => {
      context.context.note(`wrapModelCall ${context.agentPath}`);
      return await next();
    }),
    wrapToolCall(async ({ context }: WrappedToolCall<Desk>, next) => {
      context.context.note(`wrapToolCall ${context.agentPath}`);
      return await next();
    }),
    processStep((_step, { context, agentPath }: HookContext<Desk>) =>
      context.note(`processStep ${agentPath}`),
    ),
    ...POINTS.map((point) =>
      transform(point, (_input: unknown, { context, agentPath }: HookContext<Desk>) =>
        context.note(`${point} ${agentPath}`),
      ),
    ),
  ],
};

function team(): AgentRole<undefined, Desk> {
  const helper = defineAgent({
    ...parts,
    name: "helper",
    description: "Helps.",
    instructions: "Help.",
    model: new ScriptedModel([asks("work", {}), says("Helped.")]),
  });
  const model = new ScriptedModel([
    asks("work", {}),
    asks("delegate", {}),
    asks("pay", {}),
    says("Done."),
    says("Forked."),
  ]);
  return defineAgent({
    ...parts,
    name: "lead",
    instructions: "Lead.",
    model,
    tools: [work, delegate, pay],
    subagents: [helper],
  });
}

const WHERE = [
  "observe",
  "stopWhen",
  "section",
  "filter",
  "beforeModel",
  "wrapModelCall",
  "beforeTool",
  "guard",
  "needsApproval",
  "wrapToolCall",
  "execute",
  "afterTool",
  "processStep",
];

proves(
  ["H13", "H14"],
  "passes the same context to all user code of a tree, and neither persists nor emits it",
  async () => {
    const sink = new RecordingSink();
    const store = memoryStore();
    const role = team();
    const recording = recorder();
    const tracing = openTelemetry({ tracer: recording.tracer, content: true });
    const orchestrator = new Orchestrator({ roles: [role], sinks: [sink], store, tracing });
    const session = await orchestrator.openSession("s");
    const desk = new Desk("Ann");
    const run = orchestrator.start(role, "Lead.", { context: desk, session });
    const paused = await run.result;
    expect(paused.status).toBe("paused");
    const seen = new Set(desk.seen);
    for (const agentPath of ["lead", "lead/helper#1"]) {
      for (const where of WHERE) {
        const prefix = where === "stopWhen" ? where : `${where} ${agentPath}`;
        expect(
          [...seen].some((one) => one.startsWith(prefix)),
          prefix,
        ).toBe(true);
      }
    }
    for (const where of [
      "userInput lead",
      "subagentStart lead",
      "subagentStop lead/helper#1",
      "delegate",
    ])
      expect(seen).toContain(`${where}: open`);
    expect([Object.isFrozen(desk), Object.isFrozen(desk.seen)]).toEqual([false, false]);

    const other = new Desk("Ben");
    const answers = paused.questions.map((question) => approve(question));
    const again = new Orchestrator({ roles: [role], store });
    const resumed = again.resume(readPausedRun(JSON.stringify(paused.pausedRun)), {
      answers,
      context: other,
    });
    const result = await resumed.result;
    expect(result.messages.map(({ text }) => text)).toContain("paid by Ben");
    expect(other.seen).toContain("stop lead: open");
    const forked = again.fork(resumed.snapshot(), { message: "Once more.", context: desk });
    desk.seen = [];
    await forked.orThrow();
    expect(desk.seen).toContain("beforeModel lead: open");

    const kept = [
      JSON.stringify([
        sink.events,
        recording.spans(),
        paused,
        result,
        resumed.snapshot(),
        session.messages,
      ]),
    ];
    for await (const line of store.read(RunIdSchema().parse(run.runId))) kept.push(line);
    expect(kept.join("\n")).not.toContain(SECRET);
    expect(kept.length).toBeGreaterThan(10);
  },
);

test("passes undefined to tools without a context", async () => {
  const seen: unknown[] = [];
  const look = defineTool({
    name: "look",
    description: "Looks.",
    inputSchema: input,
    execute: (_input, { context }) => void seen.push(context),
  });
  const model = new ScriptedModel([asks("look", {}), says("Done.")]);
  const role = defineAgent({ name: "solo", instructions: "Look.", model, tools: [look] });
  await new Orchestrator().start(role, "Look.").orThrow();
  expect(seen).toEqual([undefined]);
});

interface Account {
  readonly owner: string;
}

const owe = defineTool({
  name: "owe",
  description: "Says who owes.",
  inputSchema: input,
  execute: (_input, { context }: ToolContext<Account>) => `${context.owner} owes.`,
});

function debtor(): AgentRole<undefined, Account> {
  const model = new ScriptedModel((request) =>
    request.messages.some(({ role }) => role === "tool")
      ? says(request.messages.at(-1)?.text ?? "")
      : calls({ toolName: "owe", arguments: {} }),
  );
  return defineAgent({ name: "debtor", instructions: "Say it.", model, tools: [owe] });
}

/** Creates runs whose processes died before their first model call. */
async function lostRuns(owners: readonly string[]): Promise<{
  readonly store: Store;
  readonly orchestrator: Orchestrator<AgentRole<undefined, Account>>;
  readonly runIds: readonly string[];
}> {
  const clock = new ManualClock();
  const ids = sequentialIds();
  const store = memoryStore({ clock });
  const runIds: string[] = [];
  for (const owner of owners) {
    const dying = dyingStore(store, { at: 2, how: "before" });
    const orchestrator = new Orchestrator({ clock, ids, store: dying.store });
    const run = orchestrator.start(debtor(), "Say it.", {
      context: { owner: "Nobody" },
      metadata: { owner },
    });
    await rejectionOf(run.result);
    runIds.push(run.runId);
  }
  clock.advance(30_000);
  const orchestrator = new Orchestrator({ clock, ids, store, roles: [debtor()] });
  return { store, orchestrator, runIds };
}

proves(["H14"], "passes the context of the resume call to a recovered run", async () => {
  const { orchestrator, runIds } = await lostRuns(["Ann"]);
  const run = await orchestrator.resume(runIds[0] ?? "", { context: { owner: "Cid" } });
  expect((await run.orThrow()).text).toBe("Cid owes.");
});

proves(
  ["H14"],
  "passes each recovered run its own context, and reports the run whose context fails",
  async () => {
    const { orchestrator, runIds, store } = await lostRuns(["Ann", "Ben", "Eve"]);
    const asked: unknown[] = [];
    const { runs, failed } = await orchestrator.resumeLostRuns({
      context: async (run) => {
        asked.push(run);
        const { owner } = z.object({ owner: z.string() }).parse(run.metadata);
        if (owner === "Eve") throw new Error("Eve is gone");
        return await Promise.resolve({ owner });
      },
    });
    expect(asked).toEqual(
      ["Ann", "Ben", "Eve"].map((owner, index) => ({
        runId: runIds[index],
        role: "debtor",
        task: "Say it.",
        metadata: { owner },
      })),
    );
    const texts = await Promise.all(runs.map(async (run) => (await run.orThrow()).text));
    expect(texts).toEqual(["Ann owes.", "Ben owes."]);
    expect(failed.map(({ runId, error }) => [runId, error.code, error.message])).toEqual([
      [
        runIds[2],
        "context_failed",
        `Expected options.context to return the context of run ${runIds[2]}, but it threw: Eve is gone. The run is unchanged.`,
      ],
    ]);
    expect(await store.find(RunIdSchema().parse(runIds[2]))).toMatchObject({ status: "open" });
    const rest = await orchestrator.resumeLostRuns({ context: () => ({ owner: "Fay" }) });
    expect(await Promise.all(rest.runs.map(async (run) => (await run.orThrow()).text))).toEqual([
      "Fay owes.",
    ]);
  },
);

proves(
  ["H12"],
  "starts a role without context requirements with no context or any context",
  async () => {
    const role = (): AgentRole<undefined> =>
      defineAgent({
        name: "free",
        instructions: "Work.",
        model: new ScriptedModel([says("Done.")]),
      });
    const orchestrator = new Orchestrator();
    expect((await orchestrator.start(role(), "Work.").orThrow()).text).toBe("Done.");
    expect((await orchestrator.start(role(), "Work.", { context: 7 }).orThrow()).text).toBe(
      "Done.",
    );
  },
);

proves(
  ["H13", "H14"],
  "passes the context of a replay to instructions, and executes no tools",
  async () => {
    const store = memoryStore();
    const role = (): AgentRole<{ owner: string }, Account> =>
      defineAgent({
        name: "debtor",
        instructions: ({ owner }) => `You serve ${owner}.`,
        model: new ScriptedModel([asks("owe", {}), asks("Finish", { owner: "Ann" })]),
        tools: [owe],
        output: z.object({ owner: z.string() }),
      });
    const run = new Orchestrator({ store }).start(role(), "Say it.", { context: { owner: "Ann" } });
    await run.orThrow();
    const recording = await loadRecording(store, run.runId);
    const { output, messages } = await replay(recording, {
      role: role(),
      context: { owner: "Ann" },
    });
    expectTypeOf(output).toEqualTypeOf<{ owner: string } | undefined>();
    expect([output, messages[0]?.text]).toEqual([{ owner: "Ann" }, "You serve Ann."]);
    const other = replay(recording, { role: role(), context: { owner: "Ben" } });
    expect((await rejectionOf(other)).code).toBe("replay_diverged");
  },
);

test("refuses a context provider that is not a function, and unknown options", async () => {
  const orchestrator = new Orchestrator({ store: memoryStore() });
  const options: object = { context: { owner: "Ann" } };
  expect((await rejectionOf(orchestrator.resumeLostRuns(options)))?.code).toBe("invalid_argument");
  const unknown: object = { contextOf: () => ({ owner: "Ann" }) };
  const stored = z.custom<PausedRun>().parse({});
  expect(thrownBy(() => orchestrator.resume(stored, unknown)).code).toBe("invalid_argument");
});
