import { CANARY } from "./run-script-facts.ts";
import { RunScript } from "./run-script.ts";

/**
 * Creates a lead whose subagent fails at its model, with a refused tool call and an unknown tool.
 */
export function measuredTeam(): RunScript {
  const run = new RunScript();
  const lead = run.root;
  const reader = lead.child("reader");
  run.started();
  lead.started();
  lead.asks();
  lead.retries();
  lead.hears({ finishReason: "tool_calls", toolCallCount: 3, queuedMs: 250 });
  lead.calls("call_1", "search");
  lead.gets("call_1", "search", { queuedMs: 40 });
  lead.calls("call_2", "wipe");
  lead.gets("call_2", "wipe", { outcome: "refused", code: "denied" });
  lead.callsNobody("call_3");
  lead.gets("call_3", CANARY, { outcome: "failed", code: "unknown_tool" });
  lead.calls("call_4", "SpawnSubagent", "delegation");
  lead.spawns("call_4", reader);
  reader.started("call_4");
  reader.asks();
  reader.failsToHear();
  reader.decides("stop");
  reader.ended("failed", "model_unavailable");
  lead.hearsOfEnd("call_4", reader, "failed");
  lead.gets("call_4", "SpawnSubagent", { outcome: "failed", code: "subagent_failed" });
  lead.decides("stop", 4);
  lead.ended();
  run.ended("completed", 1);
  return run;
}
