// Goal: no span contains text of users, models, tools or people who answer questions.
// Method: a handwritten run with every type of event, and a canary in all of their texts.

import { expect, test } from "vitest";

import { EVENT_TYPES } from "../../../src/protocol/event.ts";
import { SpawnRefusalSchema } from "../../../src/protocol/subagent.ts";
import { SpanProjector } from "../../../src/telemetry/spans/span-projector.ts";
import { sampleEvents } from "../../support/sample-events.ts";
import { placeAll, recorder } from "../../support/telemetry/recorded-spans.ts";
import { RunScript } from "../../support/telemetry/run-script.ts";
import { CANARY } from "../../support/telemetry/run-script-facts.ts";
import { tellEverything } from "../../support/telemetry/tell-everything.ts";

test("exports no text of users, models, tools or people who answer", () => {
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

test("exports no unchecked role name, whatever a delegation was refused for", () => {
  const codes = SpawnRefusalSchema().shape.code.options;
  expect(codes.length).toBeGreaterThan(12);
  for (const code of codes) {
    const run = new RunScript();
    const lead = run.root;
    run.started();
    lead.started();
    lead.calls("call_1", "SpawnSubagent", "delegation");
    lead.isRefused("call_1", CANARY, code);
    lead.gets("call_1", "SpawnSubagent", { outcome: "refused", code });
    lead.isRefused(undefined, CANARY, code);
    lead.ended("completed");
    run.ended("completed");
    const recording = recorder();
    placeAll(new SpanProjector(recording.tracer, String), run.drafts);
    const told = JSON.stringify(recording.spans());
    expect([code, told.includes(CANARY), told.includes(code)]).toEqual([code, false, true]);
  }
});
