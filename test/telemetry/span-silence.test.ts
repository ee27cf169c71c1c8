// Goal: no span says a word of what users, models, tools or those who answer questions wrote.
// Method: a hand-written run with every type of event, and a canary in every text of them.

import { expect, test } from "vitest";

import { EVENT_TYPES } from "../../src/protocol/event.ts";
import { SpawnRefusalSchema } from "../../src/protocol/subagent.ts";
import { SpanProjector } from "../../src/telemetry/spans/span-projector.ts";
import { sampleEvents } from "../support/sample-events.ts";
import { placeAll, recorder } from "./recorded-spans.ts";
import { RunScript } from "./run-script.ts";
import { CANARY, ONE_CALL } from "./run-script-facts.ts";
import { continued, detached } from "./subagent-notes.ts";
import { FILTERED, GUARDED, PROGRESSED, REPEATED, RETRIED, summarize } from "./tool-notes.ts";

test("nothing that was written by a user, a model, a tool or who answers is exported", () => {
  const run = new RunScript();
  tellEverything(run);
  const told = new Set<string>(run.drafts.map(({ body }) => body.type));
  expect(EVENT_TYPES.filter((type) => !told.has(type))).toEqual([]);
  expect(sampleEvents(tellEverything).length).toBe(run.drafts.length);

  const recording = recorder();
  placeAll(new SpanProjector(recording.tracer, String), run.drafts);
  const spans = recording.spans();
  expect(spans.map((span) => span.name)).toEqual([
    "chat model-1",
    "execute_tool unknown_tool",
    "chat model-1",
    "spawn (refused)",
    "spawn (refused)",
    "approval write",
    "invoke_agent reader#1 (suspended)",
    "spawn reader#1 (suspended)",
    "invoke_agent lead (suspended)",
    "invoke_workflow lead (suspended)",
    "approval write (denied)",
    "approval write (denied)",
    "chat model-1",
    "invoke_agent reader#1",
    "spawn reader#1",
    "spawn reader#1",
    "invoke_agent lead (cancelled)",
    "invoke_workflow lead (cancelled)",
  ]);
  expect(JSON.stringify(run.drafts).split(CANARY).length).toBeGreaterThan(60);
  expect(JSON.stringify(spans)).not.toContain(CANARY);
});

test("a name that was not checked is in no span, whatever the delegation was refused for", () => {
  const codes = SpawnRefusalSchema.shape.code.options;
  expect(codes.length).toBeGreaterThan(12);
  for (const code of codes) {
    const run = new RunScript();
    const lead = run.root;
    run.started();
    lead.started();
    lead.calls("call_1", "SpawnSubagent", "delegation");
    lead.isRefused("call_1", CANARY, code);
    lead.gets("call_1", "SpawnSubagent", { outcome: "refused", errorCode: code });
    lead.isRefused(undefined, CANARY, code);
    lead.ended("completed");
    run.ended("completed");
    const recording = recorder();
    placeAll(new SpanProjector(recording.tracer, String), run.drafts);
    const told = JSON.stringify(recording.spans());
    expect([code, told.includes(CANARY), told.includes(code)]).toEqual([code, false, true]);
  }
});

/** All events there are, each with a canary in all of its texts. */
function tellEverything(run: RunScript): void {
  const lead = run.root;
  const reader = lead.child("reader");
  run.started();
  lead.started();
  lead.notes(FILTERED);
  lead.asks();
  lead.retries();
  lead.warns();
  lead.hears({ usage: ONE_CALL });
  lead.notes(REPEATED, "call_1");
  lead.notes({ ...GUARDED, decision: "ask" }, "call_1");
  lead.callsNobody("call_1");
  lead.notes(GUARDED, "call_1");
  lead.notes(RETRIED, "call_1");
  lead.notes(PROGRESSED, "call_1");
  const severity = "recoverable";
  const failed = { outcome: "failed", errorCode: "unknown_tool", severity } as const;
  lead.gets("call_1", CANARY, { ...failed, blockedBy: CANARY });
  summarize(lead, "call_1");
  lead.rejects("call_5", CANARY, {
    outcome: "refused",
    errorCode: "unknown_role",
    description: "",
    blockedBy: CANARY,
    reason: CANARY,
    spawn: { role: CANARY, refusal: { code: "unknown_role", message: CANARY } },
  });
  lead.calls("call_2", "SpawnSubagent", "delegation");
  lead.isRefused("call_2", CANARY, "unknown_role");
  lead.gets("call_2", "SpawnSubagent", { outcome: "refused", errorCode: "unknown_role" });
  lead.calls("call_3", "SpawnSubagent", "delegation");
  lead.spawns("call_3", reader);
  reader.started("call_3");
  reader.asksLeave("call_1", "write");
  reader.pauses();
  lead.pausesCall("call_3");
  lead.pauses();
  run.paused(reader);

  run.resumed();
  lead.resumes();
  lead.isRefused(undefined, CANARY, "unknown_role");
  lead.resumesCall("call_3");
  reader.resumes("call_3");
  reader.isAnswered("call_1", "write", { answer: "denied" });
  reader.hooks("call_1");
  reader.compacts();
  reader.notes({ type: "section.cleared", name: CANARY, count: 1 });
  reader.isTold("steering");
  reader.asks();
  reader.failsToHear();
  reader.ended("failed", "model_unavailable");
  lead.hearsOfEnd("call_3", reader, "failed");
  lead.gets("call_3", "SpawnSubagent", { outcome: "failed" });
  lead.calls("call_4", "SpawnSubagent", "delegation");
  lead.notes(continued(reader), "call_4");
  lead.gets("call_4", "SpawnSubagent");
  lead.notes(detached(reader));
  lead.isDenied();
  lead.reachesThreshold();
  lead.isGranted(CANARY);
  lead.isReleased();
  lead.isCancelled();
  lead.decides("stop", 3);
  lead.ended("cancelled");
  run.ended("cancelled");
}
