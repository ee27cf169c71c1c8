// Goal: waiting is never shown as work.
// Method: hand-written runs with each kind of wait, over a pause and over a crash of the process;
// compare all their spans.

import { expect, test } from "vitest";

import type { EspalierEvent } from "../../src/protocol/event.ts";
import type { AgentFold } from "../../src/read-model/agent-fold.ts";
import { ACTIVITIES, SPAN_ENDS, SPAN_KINDS, SPAN_WIDTH } from "../../src/read-model/viewer-data.ts";
import { proves } from "../harness/proves.ts";
import { sampleEvents } from "../support/sample-events.ts";
import type { AgentScript } from "../support/telemetry/run-script.ts";
import { foldOf } from "../support/read-model/fold-of.ts";

// Each event of a script follows 10 ms after the one before.

proves(["V24"], "separates waits for a slot, an attempt and a subagent from work", () => {
  const events = sampleEvents((run) => {
    const lead = run.root;
    const reader = lead.child("reader");
    run.started();
    lead.started();
    lead.asks();
    lead.retries();
    lead.hears();
    lead.calls("call_1", "SpawnSubagent", "delegation");
    lead.spawns("call_1", reader);
    reader.lives("call_1");
    lead.gets("call_1", "SpawnSubagent");
    lead.calls("call_2", "read");
    lead.gets("call_2", "read", { outcome: "failed", code: "tool_error", queuedMs: 3 });
    lead.rejects("call_3", "write", { outcome: "refused", code: "denied" });
    lead.decides("stop");
    lead.ended();
    run.ended();
  });
  const [lead, reader] = foldOf(events).agents;
  expect(spansOf(lead)).toEqual([
    "busy 20–40 ok, step 1",
    "chat 40–60 ok, step 1",
    // A longer delay was announced, but the reply came earlier.
    "retry 50–60 failed, step 1",
    "wait 80–190 ok, step 1",
    "tool 200–210 failed, step 1",
    "queue 197–200 ok, step 1",
    "tool 220–220 rejected, step 1",
  ]);
  expect(spansOf(reader)).toEqual(["busy 110–130 ok, step 1", "chat 130–140 ok, step 1"]);
});

proves(
  ["D590"],
  "draws waits for budget, for a slot and for a busy process as three kinds of span",
  () => {
    const events = sampleEvents((run) => {
      const lead = run.root;
      const reader = lead.child("reader");
      run.started();
      lead.started();
      lead.calls("call_1", "SpawnSubagent", "delegation");
      lead.spawns("call_1", reader);
      reader.started("call_1");
      reader.notes({ type: "budget.queued", accountPath: "lead" });
      reader.asks({ waitedMs: 10, queuedMs: 15 });
      reader.retries();
      reader.hears({ queuedMs: 45 });
      reader.awaitsBudget("lead/reader#1");
    });
    const waiting = foldOf(events.slice(0, 6));
    const [, reader] = waiting.agents;
    expect(spansOf(reader)).toEqual(["budget 50–-1 open, step 1 of 0"]);
    expect([reader?.activity, reader?.isWorking, reader?.waitsForBudgetOf?.agentPath]).toEqual([
      "awaiting_budget",
      false,
      "lead",
    ]);
    expect([waiting.running, waiting.awaitingBudget]).toEqual([2, 1]);
    expect(waiting.snapshot().agents[1]?.slice(7, 9)).toEqual([
      ACTIVITIES.indexOf("awaiting_budget"),
      "lead",
    ]);
    const fold = foldOf(events);
    expect(spansOf(fold.agents[1])).toEqual([
      "budget 50–60 ok, step 1 of 0",
      "busy 60–65 ok, step 1",
      "queue 65–80 ok, step 1",
      "chat 80–100 ok, step 1",
      "retry 90–100 failed, step 1",
      "budget 120–-1 open, step 2 of 1",
    ]);
    expect(foldOf(events.slice(0, 7)).awaitingBudget).toBe(0);
  },
);

proves(["D590"], "ends a wait for budget when the lease is denied or the agent ends", () => {
  const told = (end: (lead: AgentScript) => void) =>
    foldOf(
      sampleEvents((run) => {
        run.started();
        run.root.started();
        run.root.notes({ type: "budget.queued", accountPath: "lead" });
        end(run.root);
      }),
    );
  const denied = told((lead) => lead.isBudgetRefused());
  expect([spansOf(denied.root), denied.root?.activity, denied.awaitingBudget]).toEqual([
    ["budget 20–30 failed, step 1 of 0"],
    "preparing",
    0,
  ]);
  const ended = told((lead) => lead.ended("cancelled"));
  expect([spansOf(ended.root), ended.awaitingBudget]).toEqual([
    ["budget 20–30 cut, step 1 of 0"],
    0,
  ]);
});

proves(["D590"], "draws the wait of a later attempt for its slot after the retry", () => {
  const events = sampleEvents((run) => {
    const lead = run.root;
    run.started();
    lead.started();
    lead.asks({ queuedMs: 20 });
    lead.retries(10);
    lead.warns();
    lead.warns();
    lead.hears({ queuedMs: 35 });
  });
  expect(spansOf(foldOf(events).root)).toEqual([
    "queue 20–40 ok, step 1",
    "chat 40–80 ok, step 1",
    "retry 50–60 failed, step 1",
    "queue 60–75 ok, step 1",
  ]);
});

proves(["V24"], "keeps a question open until its answer, with the pause in between", () => {
  const events = sampleEvents((run) => {
    const lead = run.root;
    run.started();
    lead.started();
    lead.asksLeave("call_1", "write");
    lead.pauses();
    run.paused(lead);
    run.resumed();
    lead.resumes();
    lead.isAnswered("call_1", "write");
    lead.calls("call_1", "write");
    lead.gets("call_1", "write");
  });
  const [lead] = foldOf(events).agents;
  expect(spansOf(lead)).toEqual([
    "ask 20–70 ok, step 0",
    "park 30–60 ok, step 0",
    "tool 80–90 ok, step 0",
  ]);
});

proves(
  ["V24"],
  "cuts the open spans of a crashed process and parks the run until it is resumed",
  () => {
    const events = sampleEvents((run) => {
      const lead = run.root;
      run.started();
      lead.started();
      lead.asks();
      lead.hears();
      lead.calls("call_1", "read");
      run.resumed();
      lead.resumes();
      lead.calls("call_1", "read");
      lead.gets("call_1", "read");
    }).map(recovered);
    const fold = foldOf(events);
    const [lead] = fold.agents;
    expect(spansOf(lead)).toEqual([
      "busy 20–40 ok, step 1",
      "chat 40–50 ok, step 1",
      "tool 70–70 cut, step 1",
      "park 70–90 ok, step 1",
      "tool 100–110 ok, step 1",
    ]);
    // This is one call that began twice.
    expect(lead?.steps.map(({ calls }) => calls.map(({ outcome }) => outcome))).toEqual([
      ["succeeded"],
    ]);
    expect([fold.running, fold.idleMs]).toEqual([1, 60_000]);
  },
);

proves(
  ["D627"],
  "cuts a wait for a slot and a wait for an attempt when the process crashes",
  () => {
    const died = (tell: (lead: AgentScript) => void) =>
      spansOf(
        foldOf(
          sampleEvents((run) => {
            run.started();
            run.root.started();
            tell(run.root);
            run.root.warns();
            run.resumed({ lostCallCount: 0, isSpanOpen: false });
            run.root.resumes();
          }),
        ).root,
      );
    expect(died((lead) => lead.isReserved())).toEqual([
      "queue 20–30 cut, step 1",
      "park 30–50 ok, step 0",
    ]);
    const retrying = died((lead) => {
      lead.asks();
      lead.retries();
    });
    expect(retrying).toEqual([
      "busy 20–40 ok, step 1",
      "chat 40–60 cut, step 1",
      "retry 50–60 cut, step 1",
      "park 60–80 ok, step 1",
    ]);
  },
);

test("closes the open questions of an agent that has ended", () => {
  const events = sampleEvents((run) => {
    const lead = run.root;
    run.started();
    lead.started();
    lead.asksLeave("call_1", "write");
    lead.ended("cancelled");
  });
  const fold = foldOf(events);
  expect([fold.questions, spansOf(fold.root)]).toEqual([[], ["ask 20–30 cut, step 0"]]);
});

test("refers to the subagent of a call by its index", () => {
  const events = sampleEvents((run) => {
    const lead = run.root;
    const reader = lead.child("reader");
    run.started();
    lead.started();
    lead.asks();
    lead.hears();
    lead.calls("call_1", "SpawnSubagent", "delegation");
    lead.spawns("call_1", reader);
    reader.started("call_1");
  });
  const [lead] = foldOf(events).agents;
  const [step] = lead?.steps ?? [];
  expect(
    step?.calls.map(({ toolName, outcome, children }) => [toolName, outcome, children]),
  ).toEqual([["SpawnSubagent", "open", [1]]]);
  expect(lead?.activity).toBe("delegating");
});

function recovered(event: EspalierEvent): EspalierEvent {
  return event.type === "run.resumed"
    ? { ...event, recovery: { lostCallCount: 0, isSpanOpen: false } }
    : event;
}

function spansOf(agent: AgentFold | undefined): readonly string[] {
  const { numbers = [] } = agent?.spans ?? {};
  return Array.from({ length: numbers.length / SPAN_WIDTH }, (_none, nth) => {
    const at = nth * SPAN_WIDTH;
    const [kind = 0, begin, end, ended = 0, step, account = -1] = numbers.slice(
      at,
      at + SPAN_WIDTH,
    );
    const of = account === -1 ? "" : ` of ${account}`;
    return `${SPAN_KINDS[kind]} ${begin}–${end} ${SPAN_ENDS[ended]}, step ${step}${of}`;
  });
}
