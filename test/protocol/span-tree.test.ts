// Goal: a pause closes every scope once, a resumption opens new scopes, and nothing is stored in
// between.
// Method: handwritten events; a recorder writes each of its calls as `verb scope`. A scope is the
// path of its agent and its kind, numbered by its openings.

import { expect, test } from "vitest";

import type { EventScope } from "../../src/protocol/event.ts";
import { SpanTree, type SpanOpening } from "../../src/protocol/span-tree.ts";
import { proves } from "../harness/proves.ts";
import { pausedRun } from "../support/telemetry/paused-run.ts";
import { RunScript } from "../support/telemetry/run-script.ts";

test("closes each scope once and by its own event at a pause, and opens new ones at a resumption", () => {
  const { told, tree } = placed(pausedRun());
  expect(told).toEqual([
    "open run 1",
    "open lead 1 in run 1",
    "open lead model 1 in lead 1",
    "close lead model 1 by model.replied",
    "open lead call_1 1 in lead 1",
    "note lead call_1 1 subagent.spawned",
    "open lead/reader#1 1 in lead call_1 1",
    "open lead/reader#1 model 1 in lead/reader#1 1",
    "close lead/reader#1 model 1 by model.replied",
    "note lead/reader#1 1 question.asked",
    "close lead/reader#1 1 by agent.paused",
    "close lead call_1 1 by tool.paused",
    "close lead 1 by agent.paused",
    "close run 1 by run.paused",
    "open run 2",
    "open lead 2 in run 2",
    "open lead call_1 2 in lead 2",
    "open lead/reader#1 2 in lead call_1 2",
    "note lead/reader#1 2 question.answered",
    "open lead/reader#1 call_1 1 in lead/reader#1 2",
    "close lead/reader#1 call_1 1 by tool.ended",
    "close lead/reader#1 2 by agent.ended",
    "note lead call_1 2 subagent.ended",
    "close lead call_1 2 by tool.ended",
    "close lead 2 by agent.ended",
    "close run 2 by run.ended",
  ]);
  expect(tree.size).toBe(0);
});

test("stores nothing after a pause, whatever was open in the run", () => {
  const { run, lead, reader } = delegating();
  reader.asks();
  lead.calls("call_2", "search");
  const { tree } = placed(run);
  expect(tree.size).toBe(6);
  run.paused();
  expect(placed(run).told.slice(-6)).toEqual([
    "abandon lead/reader#1 model 1 as suspended",
    "abandon lead/reader#1 1 as suspended",
    "abandon lead call_1 1 as suspended",
    "abandon lead call_2 1 as suspended",
    "abandon lead 1 as suspended",
    "close run 1 by run.paused",
  ]);
  expect(placed(run).tree.size).toBe(0);
});

test("suspends everything that is open below a paused agent or call, and nothing else", () => {
  const { run, lead, reader } = delegating();
  const writer = reader.child("writer");
  const other = lead.child("reader");
  reader.calls("call_1", "SpawnSubagent", "delegation");
  writer.started("call_1");
  lead.calls("call_2", "SpawnSubagent", "delegation");
  other.started("call_2");
  lead.pausesCall("call_1");
  expect(placed(run).told.slice(-4)).toEqual([
    "abandon lead/reader#1/writer#1 1 as suspended",
    "abandon lead/reader#1 call_1 1 as suspended",
    "abandon lead/reader#1 1 as suspended",
    "close lead call_1 1 by tool.paused",
  ]);
  lead.pauses();
  expect(placed(run).told.slice(-3)).toEqual([
    "abandon lead/reader#2 1 as suspended",
    "abandon lead call_2 1 as suspended",
    "close lead 1 by agent.paused",
  ]);
  expect(placed(run).tree.size).toBe(1);
});

test("cancels the open scopes of a cancelled run, and abandons those of another one", () => {
  const cancelled = delegating();
  cancelled.run.ended("cancelled");
  const failed = delegating();
  failed.run.ended("failed");
  const ends = [cancelled, failed].map(({ run }) => placed(run).told.at(-2));
  expect(ends).toEqual(["abandon lead 1 as cancelled", "abandon lead 1 as abandoned"]);
});

test("opens a second scope in the same run for an agent that is paused and resumed", () => {
  const { run, lead, reader } = delegating();
  reader.pauses();
  lead.pausesCall("call_1");
  lead.resumesCall("call_1");
  reader.resumes("call_1");
  expect(placed(run).told.slice(-4)).toEqual([
    "close lead/reader#1 1 by agent.paused",
    "close lead call_1 1 by tool.paused",
    "open lead call_1 2 in lead 1",
    "open lead/reader#1 2 in lead call_1 2",
  ]);
  expect(placed(run).tree.find(reader.scope())).toBe("lead/reader#1 2");
});

test("places a dismissed paused child below its parent, whose call is closed already", () => {
  const { run, lead, reader } = delegating();
  reader.pauses();
  lead.pausesCall("call_1");
  reader.resumes("call_1");
  reader.ended("cancelled");
  lead.hearsOfEnd("call_1", reader, "cancelled");
  lead.ended("stopped");
  run.ended("stopped");
  const { told, tree } = placed(run);
  expect(told.slice(-5)).toEqual([
    "open lead/reader#1 2 in lead 1",
    "close lead/reader#1 2 by agent.ended",
    "note lead 1 subagent.ended",
    "close lead 1 by agent.ended",
    "close run 1 by run.ended",
  ]);
  expect(tree.size).toBe(0);
});

test("assigns events of an agent that is not open to its parent, and opens nothing", () => {
  const { run, lead, reader } = delegating();
  reader.pauses();
  reader.isAnswered("call_1", "write", { answer: "denied" });
  reader.ended("cancelled");
  const { told, tree, scopes } = placed(run);
  expect(told.slice(-1)).toEqual(["note lead 1 question.answered"]);
  expect(scopes.slice(-2)).toEqual(["lead 1", "lead 1"]);
  expect([tree.find(reader.scope()), tree.find(lead.scope())]).toEqual(["lead 1", "lead 1"]);
});

test("assigns a question to its agent until its call runs, and later notes to the call", () => {
  const run = new RunScript();
  const lead = run.root;
  run.started();
  lead.started();
  lead.asksLeave("call_1", "write");
  lead.isAnswered("call_1", "write");
  lead.calls("call_1", "write");
  lead.hooks("call_1");
  lead.compacts();
  lead.isTold("steering");
  expect(placed(run).told.slice(2)).toEqual([
    "note lead 1 question.asked",
    "note lead 1 question.answered",
    "open lead call_1 1 in lead 1",
    "note lead call_1 1 hook.applied",
    "note lead 1 request.repaired",
    "note lead 1 conversation.compacted",
    "note lead 1 message.delivered",
  ]);
});

test("places the child of a subtask directly below its parent, before and after a pause", () => {
  const run = new RunScript();
  const lead = run.root;
  const reader = lead.child("reader");
  run.started();
  lead.started();
  lead.spawns(undefined, reader);
  reader.started();
  reader.pauses();
  lead.pauses();
  run.paused();
  run.resumed();
  lead.resumes();
  reader.resumes();
  expect(placed(run).told.filter((line) => line.startsWith("open lead/reader"))).toEqual([
    "open lead/reader#1 1 in lead 1",
    "open lead/reader#1 2 in lead 2",
  ]);
});

proves(["S7.31"], "ends the span of a call or an agent with the last span within it", () => {
  const { run, lead, reader } = delegating();
  lead.gets("call_1", "SpawnSubagent");
  lead.ended();
  reader.asks();
  reader.hears();
  reader.ended();
  run.ended();
  const { ended, told, tree } = placed(run);
  expect(ended.map(([scope]) => scope)).toEqual([
    "lead/reader#1 model 1",
    "lead/reader#1 1",
    "lead call_1 1",
    "lead 1",
    "run 1",
  ]);
  const atUs = new Map(ended);
  expect([atUs.get("lead call_1 1"), atUs.get("lead 1")]).toEqual(
    Array.from({ length: 2 }, () => atUs.get("lead/reader#1 1")),
  );
  expect(told.indexOf("close lead 1 by agent.ended")).toBeLessThan(
    told.indexOf("close lead/reader#1 1 by agent.ended"),
  );
  expect(tree.size).toBe(0);
});

proves(
  ["S7.31"],
  "advances time from event to event, even if the clock stops or is set back",
  () => {
    const { run } = delegating();
    run.ended();
    for (const clock of [() => 5_000, (index: number) => 5_000 - index * 60_000]) {
      const times: number[] = [];
      const tree = new SpanTree<object>({
        open: (_body, { atUs }) => {
          times.push(atUs);
          return {};
        },
        note: (_scope, _body, { atUs }) => void times.push(atUs),
        close: (_scope, _body, { atUs }) => void times.push(atUs),
        abandon: () => {},
        end: () => {},
      });
      run.drafts.forEach((draft, index) => tree.place({ ...draft, atMs: clock(index) }));
      expect(times).toEqual(run.drafts.map((_, index) => 5_000_000 + index));
    }
  },
);

function delegating() {
  const run = new RunScript();
  const lead = run.root;
  const reader = lead.child("reader");
  run.started();
  lead.started();
  lead.calls("call_1", "SpawnSubagent", "delegation");
  reader.started("call_1");
  return { run, lead, reader };
}

/** Returns the calls of the recorder for a run, and the scope of each event. */
function placed({ drafts }: RunScript) {
  const told: string[] = [];
  const ended: (readonly [scope: string, atUs: number])[] = [];
  const openings = new Map<string, number>();
  const tree = new SpanTree<string>({
    open: (body, { scope }, parent) => {
      const name = nameOf(body, scope);
      const number = (openings.get(name) ?? 0) + 1;
      openings.set(name, number);
      told.push(`open ${name} ${number}${parent === undefined ? "" : ` in ${parent}`}`);
      return `${name} ${number}`;
    },
    note: (scope, { type }) => {
      if (!QUIET.test(type)) told.push(`note ${scope} ${type}`);
    },
    close: (scope, { type }) => void told.push(`close ${scope} by ${type}`),
    abandon: (scope, _moment, why) => void told.push(`abandon ${scope} as ${why}`),
    end: (scope, { atUs }) => void ended.push([scope, atUs]),
  });
  const scopes = drafts.map((draft) => tree.place(draft));
  return { told, tree, scopes, ended };
}

const QUIET = /^(budget|step|continuation)\./;

function nameOf({ type }: SpanOpening, { agentPath, callId }: EventScope): string {
  if (type.startsWith("run.")) return "run";
  if (type.startsWith("agent.")) return agentPath;
  return `${agentPath} ${callId ?? "model"}`;
}
