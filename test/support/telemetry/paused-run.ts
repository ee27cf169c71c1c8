import { RunScript } from "./run-script.ts";

/**
 * Creates a run whose subagent asks for an approval: one segment up to the pause, one from there to
 * the end.
 */
export function pausedRun(): RunScript {
  const run = new RunScript();
  const lead = run.root;
  const reader = lead.child("reader");
  run.started();
  lead.started();
  lead.asks();
  lead.hears({ finishReason: "tool_calls", toolCallCount: 1 });
  lead.calls("call_1", "SpawnSubagent", "delegation");
  lead.spawns("call_1", reader);
  reader.started("call_1");
  reader.asks();
  reader.hears({ finishReason: "tool_calls", toolCallCount: 1 });
  reader.asksLeave("call_1", "write");
  reader.pauses();
  lead.pausesCall("call_1");
  lead.pauses();
  run.paused(reader);

  run.resumed();
  lead.resumes();
  lead.resumesCall("call_1");
  reader.resumes("call_1");
  reader.isAnswered("call_1", "write");
  reader.calls("call_1", "write");
  reader.gets("call_1", "write");
  reader.decides("stop", 1);
  reader.ended();
  lead.hearsOfEnd("call_1", reader, "completed");
  lead.gets("call_1", "SpawnSubagent");
  lead.decides("stop", 1);
  lead.ended();
  run.ended("completed", 1);
  return run;
}
