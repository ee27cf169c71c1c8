// Goal: attachments survive wherever a run continues, for models that accept them. A journal
// contains their bytes once, and observers never do.
// Method: real runs with scripted models, over every way to persist or continue a run; all output
// is searched for the bytes.

import { createHash } from "node:crypto";

import { describe, expect } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { terminalView } from "../../../src/terminal/terminal.ts";
import type { ModelRequest } from "../../../src/model/model.ts";
import { stripToText } from "../../../src/model/recipient-messages.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { rebuildRequest } from "../../../src/orchestrator/run/rebuild-request.ts";
import type { RunId } from "../../../src/protocol/ids.ts";
import type { Message, SpanContent } from "../../../src/protocol/message.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { replay } from "../../../src/testing/replay/replay.ts";
import { asks, says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { toolResult } from "../../../src/tools/tool-result.ts";
import { FakeTerminal } from "../../support/terminal/fake-terminal.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist, type Soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { newSessionFixture } from "../../support/session-fixture.ts";
import { CHART, CHART_LINE, png, REPORT, words } from "../../support/attachments.ts";
import { rested } from "../../support/life-agents.ts";
import { approveAll } from "../../support/pause-stories.ts";
import { rejectionOf } from "../../support/thrown.ts";
import { recorder } from "../../support/telemetry/recorded-spans.ts";
import { contentOf } from "../../support/telemetry/spoken-spans.ts";
import { calls, part, spawn, until } from "../../harness/scripted-agents.ts";

const IMAGES = { inputModalities: ["image"] } as const;
const TOLD = [words("Look at"), CHART];
const TOLD_TEXT = `Look at\n${CHART_LINE}`;
/** An image with other bytes. */
const DRAWN = { ...CHART, name: "drawn.png", data: png(20, 20, 7) };

const told: Message = { role: "user", text: TOLD_TEXT, origin: "task", content: TOLD };
const toldBlind: Message = { role: "user", text: TOLD_TEXT, origin: "task" };
const drawn = { role: "tool", toolName: "draw", content: [DRAWN] };

const draw = (more: object = {}) =>
  spyTool("draw", () => toolResult({ attachments: [DRAWN] }), more);

function artist(
  script: readonly ScriptStep[],
  more: object = {},
  options: object = IMAGES,
): Soloist {
  return soloist(script, { tools: [draw()], ...more }, options);
}

/** Returns the task and the tool results in a request. */
function seen(request: ModelRequest | undefined): readonly unknown[] {
  return (request?.messages ?? []).filter(
    (message) => message.role === "tool" || (message.role === "user" && message.origin === "task"),
  );
}

const BOTH: readonly unknown[] = [told, expect.objectContaining(drawn)];

describe("attachments of a continued run", () => {
  proves(["M73"], "survive a pause through JSON, with those of the task stored once", async () => {
    const tools = [draw({ needsApproval: true })];
    const fixture = newFixture();
    const paused = await fixture.outcome(
      fixture.start(artist([asks("draw", {})], { tools }).role, TOLD),
    );
    const text = JSON.stringify(paused.pausedRun);
    expect(text.split(CHART.data ?? "none")).toHaveLength(2);
    const second = artist([says("Done.")], { tools });
    await fixture.outcome(fixture.resume(second.role, paused.pausedRun, approveAll(paused)));
    expect(seen(second.model.requests[0])).toEqual(BOTH);
  });

  proves(["M73"], "survive a pause before the agent has read its task", async () => {
    const fixture = newFixture();
    const run = fixture.start(artist([]).role, TOLD);
    run.requestPause();
    const { pausedRun } = await fixture.outcome(run);
    const second = artist([says("Done."), says("Done.")]);
    await fixture.outcome(fixture.resume(second.role, pausedRun));
    expect(seen(second.model.requests[0])).toEqual([told]);
    await fixture.outcome(fixture.fork(second.role, pausedRun, { atStep: 0 }));
    expect(seen(second.model.requests[1])).toEqual([told]);
  });

  proves(["M73"], "are in a fork from any step, including those of a message to it", async () => {
    const fixture = newFixture();
    const run = fixture.start(artist([asks("draw", {}), says("Done.")]).role, TOLD);
    const { snapshot } = await rested(fixture, run);
    for (const [atStep, expected] of [
      [0, [told]],
      [1, BOTH],
    ] as const) {
      const { role, model } = artist([says("Otherwise.")]);
      await fixture.outcome(
        fixture.fork(role, snapshot, { atStep, message: [words("And"), REPORT, CHART] }),
      );
      expect(seen(model.requests[0])).toEqual(expected);
      expect(model.requests[0]?.messages.at(-1)).toMatchObject({
        origin: "steering",
        content: [words("And"), words('[application/pdf "report.pdf", 20 bytes]'), CHART],
      });
    }
  });

  proves(
    ["M73"],
    "are available when a session continues, and in a fork of the session",
    async () => {
      const s = newSessionFixture();
      const first = artist([asks("draw", {}), says("Done.")]);
      await s.outcome(s.start(first.role, TOLD, { session: await s.session() }));
      const session = await s.session();
      const second = artist([says("Done.")]);
      await s.outcome(s.start(second.role, "More.", { session }));
      expect(seen(second.model.requests[0]).slice(0, 2)).toEqual(BOTH);
      const copy = await session.fork({ atStep: 1, executionId: "execution_1" });
      const third = artist([says("Done.")]);
      await s.outcome(s.start(third.role, "Else.", { session: copy }));
      expect(seen(third.model.requests[0]).slice(0, 2)).toEqual(BOTH);
    },
  );

  proves(["M73"], "are in the requests that are rebuilt from a persisted run", async () => {
    for (const options of [IMAGES, {}, { inputModalities: ["file", "image"] }]) {
      const { role, model } = artist([asks("draw", {}), says("Done.")], {}, options);
      const fixture = newFixture();
      const { snapshot } = await rested(fixture, fixture.start(role, [...TOLD, REPORT]));
      expect(model.requests).toHaveLength(2);
      for (const [index, request] of model.requests.entries())
        expect(rebuildRequest(JSON.stringify(snapshot), { stepNumber: index + 1 }).request).toEqual(
          request,
        );
    }
  });
});

describe("attachments for another model", () => {
  proves(["M73"], "are those it accepts, and the first model sees all of them again", async () => {
    const fixture = newFixture();
    const run = fixture.start(artist([asks("draw", {}), says("Done.")]).role, TOLD);
    const { snapshot } = await rested(fixture, run);
    const blind = artist([asks("draw", {}), says("Done.")], {}, { id: "blind" });
    const forked = await rested(fixture, fixture.fork(blind.role, snapshot, { atStep: 1 }));
    expect(JSON.stringify(blind.model.requests)).not.toMatch(/"content"/);
    const { role, model } = artist([says("Done.")]);
    await fixture.outcome(fixture.fork(role, forked.snapshot, { atStep: 1 }));
    expect(seen(model.requests[0])).toEqual([...BOTH, expect.objectContaining(drawn)]);
  });

  for (const { inputModalities, expected } of [
    { inputModalities: ["image"], expected: told },
    { inputModalities: [], expected: toldBlind },
  ] as const)
    proves(
      ["M73"],
      `are inherited by a subagent whose model accepts ${inputModalities.join() || "text"}`,
      async () => {
        const helper = part("helper", [says("Ok.")], { scripted: { inputModalities } });
        const script = [asks("draw", {}), calls(spawn("helper", "Help.")), says("Done.")];
        const lead = part("lead", script, {
          subagents: [helper.role],
          contextPolicy: { inheritMessages: true },
          tools: [draw()],
          scripted: IMAGES,
        });
        const fixture = newFixture();
        await fixture.outcome(fixture.start(lead.role, TOLD));
        const [, task, , result] = helper.model.requests[0]?.messages ?? [];
        expect(task).toEqual({ ...expected, origin: "inherited" });
        expect(result).toMatchObject(inputModalities.length === 0 ? { role: "tool" } : drawn);
        expect("content" in (result ?? {})).toBe(inputModalities.length > 0);
      },
    );
});

async function journalOf(store: Store, runId: RunId): Promise<string> {
  const lines: string[] = [];
  for await (const line of store.read(runId)) lines.push(line);
  return lines.join("\n");
}

describe("attachments in a journal", () => {
  /** Unique bytes that do not compress. */
  const noise = (count: number): string =>
    createHash("shake256", { outputLength: count }).update(String(count)).digest("base64");
  const big = { ...CHART, data: noise(2_000_000) };
  const large = { ...CHART, data: noise(1_000_000) };

  proves(
    ["M73"],
    "are stored once for a task, a tool result and a message, and can be replayed",
    async () => {
      const store = memoryStore({ clock: new ManualClock() });
      const door = latch();
      const tools = [
        spyTool("wait", async () => {
          await door.opened;
          return toolResult({ attachments: [large] });
        }),
      ];
      const script = [asks("wait", {}), asks("wait", {}), says("Done.")];
      const { role, model } = soloist(script, { tools }, IMAGES);
      const fixture = newFixture({ store, roles: [role] });
      const run = fixture.start(role, [words("Look at"), big]);
      await until(() => model.requests.length === 1);
      void run.steer([words("And at"), big]);
      door.open();
      await fixture.outcome(run);
      expect(JSON.stringify(model.requests.at(-1)).split(big.data)).toHaveLength(3);
      const journal = await journalOf(store, run.runId);
      const once = big.data.length + large.data.length;
      expect(journal.length / once).toBeGreaterThan(0.95);
      expect(journal.length / once).toBeLessThan(1.05);
      const again = soloist(script, { tools }, IMAGES);
      const recording = await loadRecording(store, run.runId);
      const { messages } = await run.result;
      const replayed = await replay(recording, { role: again.role });
      expect(replayed).toMatchObject({ status: "completed", messages });
    },
  );

  proves(
    ["M73"],
    "are restored when another process recovers the run, whether the task was read or not",
    async () => {
      for (const isTaskHandled of [true, false]) {
        const store = memoryStore({ clock: new ManualClock() });
        const ids = sequentialIds();
        const process = (role: AgentRole): Orchestrator =>
          new Orchestrator({ clock: new ManualClock(), ids, store, roles: [role] });
        const door = latch();
        const stuck = spyTool("draw", () => door.opened, { retryAfterCrash: true });
        const first = artist([asks("draw", {})], { tools: [stuck] });
        const run = process(first.role).start(first.role, TOLD);
        const letter = isTaskHandled ? run.steer([DRAWN]) : undefined;
        await until(() =>
          isTaskHandled ? stuck.calls.length === 1 : first.model.requests.length === 1,
        );
        const second = artist([...(isTaskHandled ? [] : [asks("draw", {})]), says("Done.")], {
          tools: [draw({ retryAfterCrash: true })],
        });
        const again = await process(second.role).resume(run.runId, { takeOver: true });
        const lost = rejectionOf(run.result);
        expect(await again.result).toMatchObject({ status: "completed" });
        door.open();
        expect(await lost).toMatchObject({ code: "run_fenced" });
        void letter?.catch(() => undefined);
        expect(seen(second.model.requests.at(-1))).toEqual(BOTH);
      }
    },
  );
});

proves(
  ["M73"],
  "events, spans, redaction and terminal contain lines and never bytes of attachments",
  async () => {
    const shown: SpanContent[] = [];
    const recording = recorder();
    const redact = (content: SpanContent): SpanContent => {
      shown.push(content);
      return content;
    };
    const tracing = openTelemetry({ tracer: recording.tracer, content: { redact } });
    const clock = new ManualClock();
    const terminal = new FakeTerminal();
    const helper = part("helper", [says("Ok.")], { scripted: IMAGES });
    const script = [asks("draw", {}), calls(spawn("helper", "Help.")), says("Done.")];
    const lead = part("lead", script, {
      subagents: [helper.role],
      contextPolicy: { inheritMessages: true },
      tools: [draw()],
      scripted: IMAGES,
    });
    const fixture = newFixture({
      tracing,
      clock,
      sinks: [terminalView({ stream: terminal, env: {}, clock })],
    });
    await fixture.outcome(fixture.start(lead.role, TOLD));
    const [chat] = contentOf(recording.spans()).filter(({ span }) => span.startsWith("chat"));
    expect(chat?.["input.messages"]).toEqual([
      { role: "user", parts: [{ type: "text", content: TOLD_TEXT }] },
    ]);
    const left = [
      shown,
      fixture.sink.events,
      recording.spans().map(({ attributes }) => attributes),
    ];
    for (const text of [...left.map((one) => JSON.stringify(one)), terminal.writes.join("")]) {
      expect(text).not.toContain(CHART.data);
      expect(text).not.toContain(DRAWN.data);
    }
    expect(JSON.stringify(shown)).toContain("chart.png");
  },
);

proves(["M73"], "`stripToText` removes the attachments from persisted messages", async () => {
  const fixture = newFixture();
  const run = fixture.start(artist([asks("draw", {}), says("Done.")]).role, TOLD);
  const { messages } = await fixture.outcome(run);
  expect(JSON.stringify(messages)).toContain(DRAWN.data);
  const texts = stripToText(messages);
  expect(JSON.stringify(texts)).not.toMatch(/"content"/);
  expect(texts.map(({ text }) => text)).toEqual(messages.map(({ text }) => text));
});
