// Goal: one pause is resumed once: within a process by any orchestrator, across processes with a
// shared store.
// Method: two orchestrators on one paused run; the approved tool counts its executions.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-node";
import { expect, test } from "vitest";

import { EspalierError, getErrorMessage } from "../../../src/kernel/error.ts";
import { localTracing } from "../../support/local-tracing.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { RecordingSink } from "../../../src/testing/recording-sink.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, part, use } from "../../harness/scripted-agents.ts";

const PAY = { toolName: "pay", arguments: { amount: 3 } };

proves(
  ["S7.30"],
  "a second resume in the process is refused without a store, and the approved call runs once",
  async () => {
    const pay = payTool();
    const lead = part("lead", [calls(PAY), says("Done."), says("Twice.")], { tools: [pay] });
    const paused = await newFixture().run(lead.role);
    const [one, other] = [new Orchestrator(), new Orchestrator()];
    const answers = approveAll(paused);
    const stored = JSON.stringify(paused.pausedRun);
    const first = one.resume(readPausedRun(stored), { answers, role: lead.role });
    const again = thrownBy(() => other.resume(readPausedRun(stored), { answers, role: lead.role }));
    expect(again.code).toBe("already_resumed");
    expect([(await first.result).text, pay.paid]).toEqual(["Done.", [3]]);
    expect(
      thrownBy(() => other.resume(readPausedRun(stored), { answers, role: lead.role })).code,
    ).toBe("already_resumed");
  },
);

test("a resume that failed in the store can be repeated", async () => {
  const pay = payTool();
  const lead = part("lead", [calls(PAY), says("Done.")], { tools: [pay] });
  const paused = await newFixture().run(lead.role);
  const closed = memoryStore();
  await closed.close();
  const answers = approveAll(paused);
  const stored = JSON.stringify(paused.pausedRun);
  const broken = new Orchestrator({ store: closed }).resume(readPausedRun(stored), {
    answers,
    role: lead.role,
  });
  await expect(broken.result).rejects.toMatchObject({ code: "store_failed" });
  const next = new Orchestrator().resume(readPausedRun(stored), { answers, role: lead.role });
  expect([(await next.result).text, pay.paid]).toEqual(["Done.", [3]]);
});

proves(
  ["S7.30"],
  "a second resume runs no call if the store is shared, even after a requested pause",
  async () => {
    const look = spyTool("look");
    const asked = latch();
    const script = [{ ...calls(use("look")), after: asked.opened }, says("Done."), says("Twice.")];
    const lead = part("lead", script, { tools: [look] });
    const store = memoryStore();
    const fixture = newFixture({ store });
    const run = fixture.start(lead.role);
    await flushEventLoop();
    run.requestPause();
    asked.open();
    const { status, pausedRun } = await fixture.outcome(run);
    expect([status, look.calls.length]).toEqual(["paused", 0]);
    const resume = () =>
      // Each acts as a separate process: with its own tracing, it does not know of the other.
      new Orchestrator({ store, tracing: localTracing() }).resume(
        readPausedRun(JSON.stringify(pausedRun)),
        {
          role: lead.role,
        },
      );
    const [first, second] = await Promise.allSettled([resume().result, resume().result]);
    expect(first).toMatchObject({ status: "fulfilled", value: { text: "Done." } });
    expect(second).toMatchObject({ status: "rejected", reason: { code: "run_active" } });
    expect(look.calls.length).toBe(1);
  },
);

async function endOf(ending: Promise<unknown>): Promise<string> {
  try {
    await ending;
    return "ok";
  } catch (cause) {
    return EspalierError.is(cause) ? cause.code : getErrorMessage(cause);
  }
}

proves(
  ["S7.30"],
  "a resume that is refused emits no event to sinks, readers or traces",
  async () => {
    const pay = payTool();
    const lead = part("lead", [calls(PAY), says("Done.")], { tools: [pay] });
    const store = memoryStore();
    const paused = await newFixture({ store }).run(lead.role);
    const stored = JSON.stringify(paused.pausedRun);
    const resumed = async (text: string): Promise<readonly unknown[]> => {
      const sink = new RecordingSink();
      const exporter = new InMemorySpanExporter();
      const provider = new NodeTracerProvider({
        spanProcessors: [new SimpleSpanProcessor(exporter)],
      });
      const tracing = openTelemetry({ tracer: provider.getTracer("test") });
      const options = { store, tracing, sinks: [sink] };
      const answers = approveAll(paused);
      const run = new Orchestrator(options).resume(readPausedRun(text), {
        answers,
        role: lead.role,
      });
      const read: unknown[] = [];
      const reading = (async () => {
        for await (const { type } of run.events()) read.push(type);
      })();
      const ends = await Promise.all([run.result, reading].map(endOf));
      const told = sink.events.map(({ type }) => type);
      return [ends, told[0], read[0], exporter.getFinishedSpans().length > 0];
    };
    expect(await resumed(stored)).toEqual([["ok", "ok"], "run.resumed", "run.resumed", true]);
    const refused = ["already_resumed", "already_resumed"];
    expect(await resumed(stored)).toEqual([refused, undefined, undefined, false]);
    expect(pay.paid).toEqual([3]);
  },
);
