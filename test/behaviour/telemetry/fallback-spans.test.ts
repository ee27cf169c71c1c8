// Goal: a call that another model of a fallback answered is shown and counted as a call of that
// model.
// Method: events of a real run, passed through the projection and through a real meter.

import { expect } from "vitest";

import { withFallback } from "../../../src/model/with-fallback.ts";
import { says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { RunMetrics } from "../../../src/telemetry/metrics/run-metrics.ts";
import { SpanProjector } from "../../../src/telemetry/spans/span-projector.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { failing, roleOf } from "../../support/limited-models.ts";
import { linesOf, metricRecorder } from "../../support/telemetry/recorded-metrics.ts";
import { placeAll, recorder } from "../../support/telemetry/recorded-spans.ts";

proves(
  ["M68"],
  "names the model that answered, and the model that was asked first, on the span and in metrics",
  async () => {
    const main = new ScriptedModel([failing("model_unavailable", { lostOutputTokens: 3 })], {
      id: "main",
    });
    const served = { server: { address: "spare.example", port: 443 } };
    const spare = Object.assign(new ScriptedModel([says("Spare.")], { id: "spare" }), served);
    const s = newFixture();
    await s.run(roleOf(withFallback([main, spare])));
    const { meter, read } = metricRecorder();
    const { tracer, spans } = recorder();
    const metrics = new RunMetrics({ meter, legacyMetrics: false });
    const drafts = s.sink.events.map(({ seq, atMs, ...event }) => ({
      seq,
      atMs,
      scope: event,
      body: event,
    }));
    placeAll(new SpanProjector(tracer, String, { metrics }), drafts);
    const chat = spans().find(({ name }) => name.startsWith("chat"));
    expect(chat?.attributes).toMatchObject({
      "gen_ai.request.model": "spare",
      "gen_ai.response.model": "spare",
      "espalier.model.fallback_from": "main",
      "server.address": "spare.example",
      "server.port": 443,
    });
    const tokens = linesOf(await read()).filter((line) =>
      /usage\.output_tokens|inference\.duration/.test(line),
    );
    const of = (model: string): string =>
      `agent.name=solo operation.name=chat provider.name=scripted request.model=${model}`;
    expect(tokens).toEqual([
      `gen_ai.client.inference.duration | ${of("spare")} | 0 in 1`,
      `gen_ai.client.inference.usage.output_tokens | ${of("main")} token.modality=unknown | 3`,
      `gen_ai.client.inference.usage.output_tokens | ${of("spare")} token.modality=unknown | 5`,
    ]);
    expect(chat?.events.map(({ attributes }) => attributes["espalier.retry.next_model"])).toEqual([
      "spare",
    ]);
  },
);
