// A hand-written run with every type of event.

import type { RunScript } from "./run-script.ts";
import { CANARY, ONE_CALL } from "./run-script-facts.ts";
import { continued, detached } from "./subagent-notes.ts";
import { FILTERED, GUARDED, PROGRESSED, REPEATED, RETRIED, summarize } from "./tool-notes.ts";

/** Adds events of every type, each with a canary in all of its texts. */
export function tellEverything(run: RunScript): void {
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
  lead.gets("call_1", CANARY, { outcome: "failed", code: "unknown_tool" });
  summarize(lead, "call_1");
  lead.rejects("call_5", CANARY, {
    outcome: "refused",
    code: "unknown_role",
    description: "",
    blockedBy: CANARY,
    reason: CANARY,
    spawn: { role: CANARY, error: { code: "unknown_role", message: CANARY } },
  });
  lead.calls("call_2", "SpawnSubagent", "delegation");
  lead.isRefused("call_2", CANARY, "unknown_role");
  lead.gets("call_2", "SpawnSubagent", { outcome: "refused", code: "unknown_role" });
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
  lead.notes({ type: "budget.queued", accountPath: CANARY });
  lead.isBudgetRefused();
  lead.notes({ type: "budget.queued", accountPath: CANARY });
  lead.notes({ type: "budget.dequeued", outcome: "cancelled" });
  lead.reachesThreshold();
  lead.isGranted(CANARY);
  lead.isReserved();
  lead.isReleased();
  lead.isCancelled();
  lead.decides("stop", 3);
  lead.ended("cancelled");
  run.ended("cancelled");
}
