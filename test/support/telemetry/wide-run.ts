import { RunScript } from "./run-script.ts";

/** Creates a root that starts this many agents, each with this many tool calls. */
export function wideRun(agents: number, calls: number): RunScript {
  const run = new RunScript();
  const lead = run.root;
  run.started();
  lead.started();
  for (let index = 0; index < agents; index += 1) {
    const reader = lead.child("reader");
    lead.calls(`call_${index}`, "SpawnSubagent", "delegation");
    lead.spawns(`call_${index}`, reader);
    reader.started(`call_${index}`);
    for (let call = 0; call < calls; call += 1) {
      reader.calls(`call_${call}`, "search");
      reader.gets(`call_${call}`, "search");
    }
    reader.ended();
    lead.gets(`call_${index}`, "SpawnSubagent");
  }
  lead.ended();
  run.ended("completed", agents);
  return run;
}

/**
 * Creates a root that starts this many agents in one reply. They work concurrently, with a model
 * call and a tool call in each step.
 */
export function crowd(agents: number, steps: number): RunScript {
  const run = new RunScript();
  const lead = run.root;
  run.started();
  lead.started();
  lead.asks();
  lead.hears();
  const calls = Array.from({ length: agents }, (_, index) => `call_${index}`);
  for (const callId of calls) lead.calls(callId, "SpawnSubagent", "delegation");
  const readers = calls.map((callId) => {
    const reader = lead.child("reader");
    lead.spawns(callId, reader);
    reader.started(callId);
    return { callId, reader };
  });
  for (let step = 0; step < steps; step += 1) {
    for (const { reader } of readers) {
      reader.asks();
      reader.hears();
      reader.calls(`call_${step}`, "search");
      reader.gets(`call_${step}`, "search");
    }
  }
  for (const { callId, reader } of readers) {
    reader.asks();
    reader.hears();
    reader.ended();
    lead.gets(callId, "SpawnSubagent");
  }
  lead.asks();
  lead.hears();
  lead.ended();
  run.ended("completed", agents);
  return run;
}
