import { RunScript } from "./run-script.ts";

/** A root that starts so many agents, each with so many tool calls. */
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
