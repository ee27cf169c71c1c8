// Goal: reasoning and provider data of a reply return to the model that wrote it byte for byte,
// whatever happens to the run, and to no other model.
// Method: real runs with scripted models; the requests after the reply compared in full, data as
// text.

import { describe, expect } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import type { ModelRequest } from "../../../src/model/model.ts";
import { getReplyPieces, type ReplyPiece } from "../../../src/protocol/reply-message.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { rebuildRequest } from "../../../src/orchestrator/run/rebuild-request.ts";
import { AgentIdSchema, CallIdSchema } from "../../../src/protocol/ids.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist, type Soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { newSessionFixture } from "../../support/session-fixture.ts";
import { rested } from "../../support/life-agents.ts";
import { approveAll } from "../../support/pause-stories.ts";
import {
  expectSent,
  result,
  sealed,
  seenByOthers,
  thinks,
  thought,
  thoughtPieces,
} from "../../support/thoughtful-replies.ts";
import { rejectionOf } from "../../support/thrown.ts";
import { calls, part, spawn, until } from "../../harness/scripted-agents.ts";

const OWN = "scripted/one";
const tools = [spyTool("look")];

function user(text: string): Message {
  return { role: "user", text, origin: "task" };
}

const OPENING: readonly Message[] = [
  { role: "system", text: "Work.", origin: "instructions" },
  user("Do it."),
];
const DONE: Message = { role: "assistant", text: "Done.", toolCalls: [] };
const DONE_PIECES: readonly ReplyPiece[] = [{ type: "text", text: "Done." }];
const AS_OTHERS = asOthers("c1");

function asOthers(callId: string): readonly ReplyPiece[] {
  const calls = thoughtPieces(callId).filter((piece) => piece.type === "call");
  const text = { type: "text", text: "Looking. Here." } as const;
  return [text, ...calls.map((call) => ({ ...call, data: undefined }))];
}

/** A role with a fixed name and a model of the given id. */
function thinker(id: string, script: readonly ScriptStep[], more: object = {}): Soloist {
  return soloist(script, { tools, ...more }, { id });
}

/** The writer's reply of the first step, and the result of its call. */
const OWN_STEP = [...OPENING, thought(OWN, "c1"), result("c1")];
const OTHERS_STEP = [...OPENING, seenByOthers("c1"), result("c1")];

describe("the model that wrote a reply with provider data", () => {
  proves(
    ["M1"],
    "receives them in the next steps, and each request starts with the previous one",
    async () => {
      const { role, model } = thinker("one", [thinks("c1"), thinks("c2", "c3"), says("Done.")]);
      const fixture = newFixture();
      const { pausedRun: _none, ...ended } = await fixture.run(role);
      expectSent(model.requests[1], OWN_STEP, [thoughtPieces("c1")]);
      expectSent(
        model.requests[2],
        [...OWN_STEP, thought(OWN, "c2", "c3"), result("c2"), result("c3")],
        [thoughtPieces("c1"), thoughtPieces("c2", "c3")],
      );
      expect(
        fixture.sink.ofType("model.requested").map(({ prefix }) => prefix?.isUnchanged),
      ).toEqual([undefined, true, true]);
      expect(ended.text).toBe("Done.");
    },
  );

  proves(["M1", "R173"], "receives them in a rebuilt request", async () => {
    const { role, model } = thinker("one", [thinks("c1"), says("Done.")]);
    const fixture = newFixture();
    const { snapshot } = await rested(fixture, fixture.start(role));
    const { request } = rebuildRequest(JSON.stringify(snapshot), { stepNumber: 2 });
    expect(request.messages).toEqual(OWN_STEP);
    expect(JSON.stringify(request.messages)).toBe(JSON.stringify(model.requests[1]?.messages));
  });

  proves(
    ["M1"],
    "receives them in a process that recovers the run in the middle of a step",
    async () => {
      const store = memoryStore({ clock: new ManualClock() });
      const ids = sequentialIds();
      const process = (role: AgentRole): Orchestrator =>
        new Orchestrator({ clock: new ManualClock(), ids, store, roles: [role] });
      const door = latch();
      const look = spyTool("look", () => door.opened, { retryAfterCrash: true });
      const first = thinker("one", [thinks("c1")], { tools: [look] });
      const run = process(first.role).start(first.role, "Do it.");
      await until(() => look.calls.length === 1);
      const second = thinker("one", [says("Done.")], {
        tools: [spyTool("look", undefined, { retryAfterCrash: true })],
      });
      const again = await process(second.role).resume(run.runId, { takeOver: true });
      const lost = rejectionOf(run.result);
      expect(await again.result).toMatchObject({ status: "completed", text: "Done." });
      door.open();
      expect(await lost).toMatchObject({ code: "run_fenced" });
      expectSent(second.model.requests[0], OWN_STEP, [thoughtPieces("c1")]);
    },
  );

  proves(["M1"], "receives them in a paused and resumed run, through JSON", async () => {
    const asking = [spyTool("look", undefined, { needsApproval: true })];
    const first = thinker("one", [thinks("c1")], { tools: asking });
    const fixture = newFixture();
    const paused = await fixture.run(first.role);
    const second = thinker("one", [says("Done.")], { tools: asking });
    await fixture.outcome(fixture.resume(second.role, paused.pausedRun, approveAll(paused)));
    expectSent(second.model.requests[0], OWN_STEP, [thoughtPieces("c1")]);
  });

  proves(["M1"], "receives them in a fork", async () => {
    const first = thinker("one", [thinks("c1"), says("Done.")]);
    const fixture = newFixture();
    const { snapshot } = await rested(fixture, fixture.start(first.role));
    const second = thinker("one", [says("Otherwise.")]);
    await fixture.outcome(fixture.fork(second.role, snapshot, { atStep: 1 }));
    expectSent(second.model.requests[0], OWN_STEP, [thoughtPieces("c1")]);
  });

  proves(["M1"], "receives them in a continued session and its fork", async () => {
    const s = newSessionFixture();
    const first = thinker("one", [thinks("c1"), says("Done.")]);
    await s.outcome(s.start(first.role, "Do it.", { session: await s.session() }));
    const second = thinker("one", [says("Done.")]);
    const session = await s.session();
    await s.outcome(s.start(second.role, "More.", { session }));
    expectSent(
      second.model.requests[0],
      [...OWN_STEP, DONE, user("More.")],
      [thoughtPieces("c1"), DONE_PIECES],
    );
    const copy = await session.fork({ atStep: 1, executionId: "execution_1" });
    const third = thinker("one", [says("Done.")]);
    await s.outcome(s.start(third.role, "Else.", { session: copy }));
    expectSent(third.model.requests[0], [...OWN_STEP, user("Else.")], [thoughtPieces("c1")]);
  });

  proves(["M1"], "receives them in complete exchanges that a compaction keeps", async () => {
    const compaction = { maxInputTokens: 1_600, keepMessages: 2 };
    const script = [thinks("c1"), thinks("c2"), says("Done.")];
    const { role, model } = soloist(script, { tools, compaction }, COUNTED);
    await newFixture().run(role);
    const [notice] = model.requests[2]?.messages.slice(2, 3) ?? [];
    expectSent(
      model.requests[2],
      [...OPENING, ...(notice === undefined ? [] : [notice]), thought(OWN, "c2"), result("c2")],
      [thoughtPieces("c2")],
    );
  });
});

/** All messages have the same length. */
const COUNTED = {
  id: "one",
  countTokens: ({ messages }: ModelRequest): number => messages.length * 300,
};

describe("a reply that the loop has changed", () => {
  const look = { toolName: "look", argumentsText: '{"at":1}' };
  const call = (id: string, seal: string): ReplyPiece => {
    return { type: "call", callId: CallIdSchema().parse(id), ...look, data: sealed(seal) };
  };
  const thinking: ReplyPiece = { type: "reasoning", text: "Hm.", data: sealed("r") };

  /** Returns the pieces of the first reply in the request of the second step. */
  async function sentOf(...pieces: readonly ReplyPiece[]) {
    const { role, model } = thinker("one", [{ pieces }, says("Done.")]);
    expect((await newFixture().run(role)).text).toBe("Done.");
    const reply = model.requests[1]?.messages[2];
    return reply?.role === "assistant" ? getReplyPieces(reply) : [];
  }

  proves(
    ["M3"],
    "has different ids for calls with the same id, with the data of each",
    async () => {
      const twins = [thinking, call("c1", "one"), thinking, call("c1", "two")];
      const own = "execution_1.1.1";
      expect(await sentOf(...twins)).toEqual([
        thinking,
        call("c1", "one"),
        thinking,
        call(own, "two"),
      ]);
    },
  );

  proves(
    ["M3"],
    "loses arguments that were repeated as text, and keeps reasoning and calls",
    async () => {
      const leak: ReplyPiece = { type: "text", text: '{"at":1}', data: sealed("t") };
      expect(await sentOf(thinking, leak, call("c1", "one"))).toEqual([
        thinking,
        call("c1", "one"),
      ]);
    },
  );
});

describe("another model than that of the reply", () => {
  proves(
    ["M2"],
    "receives no provider data in a fork, and a later fork with the first model restores them",
    async () => {
      const first = thinker("one", [thinks("c1"), says("Done.")]);
      const fixture = newFixture();
      const { snapshot } = await rested(fixture, fixture.start(first.role));
      const other = thinker("two", [thinks("c2"), says("Done.")]);
      const forked = await rested(fixture, fixture.fork(other.role, snapshot, { atStep: 1 }));
      expectSent(other.model.requests[0], OTHERS_STEP, [AS_OTHERS]);
      expectSent(
        other.model.requests[1],
        [...OTHERS_STEP, thought("scripted/two", "c2"), result("c2")],
        [AS_OTHERS, thoughtPieces("c2")],
      );
      const back = thinker("one", [says("Done.")]);
      await fixture.outcome(fixture.fork(back.role, forked.snapshot, { atStep: 1 }));
      const again = rebuildRequest(forked.snapshot, { stepNumber: 1 });
      expect(again.request).toEqual(other.model.requests[0]);
      expectSent(
        back.model.requests[0],
        [...OWN_STEP, seenByOthers("c2"), result("c2")],
        [thoughtPieces("c1"), asOthers("c2")],
      );
    },
  );

  proves(
    ["M2"],
    "receives no provider data in a session that switches between models",
    async () => {
      const s = newSessionFixture();
      const one = thinker("one", [thinks("c1"), says("Done."), says("Done.")]);
      const two = thinker("two", [says("Done.")]);
      for (const [role, task] of [
        [one.role, "Do it."],
        [two.role, "More."],
        [one.role, "Again."],
      ] as const)
        await s.outcome(s.start(role, task, { session: await s.session() }));
      expectSent(
        two.model.requests[0],
        [...OTHERS_STEP, DONE, user("More.")],
        [AS_OTHERS, DONE_PIECES],
      );
      expectSent(
        one.model.requests[2],
        [...OWN_STEP, DONE, user("More."), DONE, user("Again.")],
        [thoughtPieces("c1"), DONE_PIECES, DONE_PIECES],
      );
    },
  );

  proves(["M2"], "receives no provider data in a paused run that is resumed with it", async () => {
    const asking = [spyTool("look", undefined, { needsApproval: true })];
    const first = thinker("one", [thinks("c1")], { tools: asking });
    const fixture = newFixture();
    const paused = await fixture.run(first.role);
    const second = thinker("two", [says("Done.")], { tools: asking });
    await fixture.outcome(fixture.resume(second.role, paused.pausedRun, approveAll(paused)));
    expectSent(second.model.requests[0], OTHERS_STEP, [AS_OTHERS]);
  });

  for (const { child, inherits } of [
    { child: "shared", inherits: thought("shared", "c1") },
    { child: "another", inherits: seenByOthers("c1") },
  ])
    proves(
      ["M1", "M2"],
      `receives provider data only with an equal key: a child with the key "${child}"`,
      async () => {
        const helper = part("helper", [says("Ok.")], { scripted: { replayKey: child } });
        const script = [thinks("c1"), calls(spawn("helper", "Help.")), says("Done.")];
        const lead = part("lead", script, {
          subagents: [helper.role],
          contextPolicy: { inheritMessages: true },
          tools,
          scripted: { replayKey: "shared" },
        });
        const fixture = newFixture();
        const { snapshot } = await rested(fixture, fixture.start(lead.role));
        const own = child === "shared" ? thoughtPieces("c1") : AS_OTHERS;
        expectSent(
          helper.model.requests[0],
          [
            { role: "system", text: "You are helper.", origin: "instructions" },
            { role: "user", text: "Do it.", origin: "inherited" },
            inherits,
            result("c1"),
            user("Help."),
          ],
          [own],
        );
        const [, , reply] = lead.model.requests[2]?.messages ?? [];
        expect(reply).toEqual(thought("shared", "c1"));
        for (const [agentId, { requests }] of [
          [AgentIdSchema().parse("agent_1"), lead.model],
          [AgentIdSchema().parse("agent_2"), helper.model],
        ] as const)
          for (const [index, request] of requests.entries()) {
            const rebuilt = rebuildRequest(snapshot, { stepNumber: index + 1, agentId });
            expect(rebuilt.request).toEqual(request);
          }
      },
    );

  proves(
    ["M2"],
    "receives no provider data in a summary, which is made of texts and calls",
    async () => {
      const compaction = { strategy: "summarize", maxInputTokens: 1_600, keepMessages: 2 } as const;
      const script = [thinks("c1"), thinks("c2"), says("Summed up."), says("Done.")];
      const { role, model } = soloist(script, { tools, compaction }, COUNTED);
      await newFixture().run(role);
      const asked = model.requests[2];
      expect(asked?.tools).toEqual([]);
      expect(JSON.stringify(asked)).not.toMatch(/Thought of|-[rtoec]\+|zeta/u);
      expect(asked?.messages[1]?.text).toContain(
        '[agent] Looking. Here.\n[agent calls look] { "at": 1 }',
      );
      expectSent(
        model.requests[3],
        [
          ...OPENING,
          { role: "user", text: `${SUMMARY}Summed up.`, origin: "summary" },
          thought(OWN, "c2"),
          result("c2"),
        ],
        [thoughtPieces("c2")],
      );
    },
  );
});

const SUMMARY = "Summary of earlier messages, which were removed to save space:\n";
