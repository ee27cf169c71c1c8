// Goal: a client that follows a run by server-sent events, disconnects and reconnects, receives
// every event once, and the result at the end.
// Method: the text of the stream is parsed as an EventSource does; time is advanced by hand.

import { expect } from "vitest";
import { z } from "zod";

import type { Model } from "../../../src/model/model.ts";
import { toSse } from "../../../src/orchestrator/run/to-sse.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { allOf } from "../../support/all-of.ts";
import { roleOf } from "../../support/limited-models.ts";
import { rejectionOf } from "../../support/thrown.ts";

const MessageSchema = z.object({
  id: z.string().optional(),
  event: z.string(),
  data: z
    .string()
    .transform((text): unknown => JSON.parse(text))
    .pipe(z.record(z.string(), z.unknown())),
});
type Message = z.infer<typeof MessageSchema>;

/**
 * Parses one message by the rules of the format: a line for each field, and an empty line at the
 * end.
 */
function read(text: string): Message {
  const lines = text.split("\n");
  expect(lines.splice(-2)).toEqual(["", ""]);
  const fields = lines.map((line) => /^(\w+): (.*)$/.exec(line)?.slice(1) ?? []);
  return MessageSchema.parse(Object.fromEntries(fields));
}

const worker = () =>
  soloist([asks("work", {}), says("Line one.\nLine two.")], { tools: [spyTool("work")] }).role;

proves(
  ["F6"],
  "events have their numbers, stream parts have none, and the result is last",
  async () => {
    const fixture = newFixture();
    const run = fixture.start(worker());
    const messages = toSse(run);
    const result = await fixture.outcome(run);
    const all = (await allOf(messages)).map(read);
    const events = all.filter(({ event }) => event === "event");
    expect(events.map(({ id }) => Number(id))).toEqual(fixture.sink.events.map(({ seq }) => seq));
    expect(events.map(({ data }) => data)).toEqual(JSON.parse(JSON.stringify(fixture.sink.events)));
    const pieces = all.filter(({ event }) => event === "part");
    expect(pieces.every(({ id }) => id === undefined)).toBe(true);
    const texts = pieces.map(({ data }) => (data["type"] === "text" ? data["text"] : "")).join("");
    expect(texts).toBe("Line one.\nLine two.");
    const { runId, status, reason, text, questions, errors } = result;
    expect(all.slice(-1)).toEqual([
      { event: "result", data: { runId, status, reason, text, questions, errors } },
    ]);
  },
);

proves(["F6"], "a stream of one agent contains its events and parts, and the result", async () => {
  const fixture = newFixture();
  const reader = soloist([says("Read.")], { name: "reader", description: "Reads." }).role;
  const spawn = asks("SpawnSubagent", { role: "reader", task: "Read." });
  const lead = soloist([spawn, says("Led.")], { subagents: [reader] }).role;
  const run = fixture.start(lead);
  const messages = toSse(run, { agentId: run.rootAgentId });
  await fixture.outcome(run);
  const all = (await allOf(messages)).map(read);
  const ofAgents = all.slice(0, -1).map(({ data }) => data["agentId"]);
  expect(new Set(ofAgents)).toEqual(new Set([run.rootAgentId]));
  const parts = all.filter(({ event }) => event === "part").map(({ data }) => data["text"]);
  expect(parts).toContain("Led.");
  expect(all.at(-1)?.event).toBe("result");
});

proves(["F6"], "a client that reconnects continues after its last event", async () => {
  const held = latch();
  const fixture = newFixture({ store: memoryStore({ clock: new ManualClock() }) });
  const { role } = soloist([asks("work", {}), says("Done.", { after: held.opened })], {
    tools: [spyTool("work")],
  });
  const run = fixture.start(role);
  const first = toSse(run);
  const had: Message[] = [];
  while (had.at(-1)?.id !== "6") {
    const { value } = await first.next();
    had.push(read(value ?? ""));
  }
  await first.return?.();
  expect(await first.next()).toEqual({ done: true, value: undefined });
  for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
  const second = toSse(run, { from: 1, lastEventId: "6" });
  held.open();
  await fixture.outcome(run);
  const ids = [...had, ...(await allOf(second)).map(read)].flatMap(({ id }) => id ?? []);
  expect(ids.map(Number)).toEqual(fixture.sink.events.map(({ seq }) => seq));
  const whole = (await allOf(toSse(run, { from: 1, lastEventId: null }))).map(read);
  expect(whole.flatMap(({ id }) => id ?? []).length).toBe(ids.length);
  for (const lastEventId of ["", "x", "-1", "1.5", "9".repeat(16)])
    expect(() => toSse(run, { lastEventId })).toThrow(/number of an event/);
  for (const heartbeatIntervalMs of [-1, 0])
    expect(() => toSse(run, { heartbeatIntervalMs: heartbeatIntervalMs })).toThrow(
      /heartbeatIntervalMs/,
    );
});

proves(
  ["F6"],
  "a silent run sends heartbeats, and a client that disconnects leaves no timer behind",
  async () => {
    const held = latch();
    const clock = new ManualClock();
    const fixture = newFixture({ clock });
    const run = fixture.start(soloist([says("Done.", { after: held.opened })]).role);
    const messages = toSse(run, { heartbeatIntervalMs: 1_000, clock });
    const left = toSse(run, { heartbeatIntervalMs: 1_000, clock });
    const heard: string[] = [];
    const reading = (async () => {
      for await (const message of messages) heard.push(message.split("\n")[0] ?? "");
    })();
    const waiting = (async () => {
      while ((await left.next()).done !== true);
    })();
    for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
    const before = heard.length;
    for (let tick = 0; tick < 3; tick += 1) {
      clock.advance(1_000);
      await flushEventLoop();
    }
    expect(heard.slice(before)).toEqual([": still here", ": still here", ": still here"]);
    await left.return?.();
    await waiting;
    held.open();
    await reading;
    expect(heard.at(-1)).toBe("event: result");
    await fixture.outcome(run); // No timer is left.
  },
);

proves(["F6"], "a reader that is too slow is disconnected, and may reconnect", async () => {
  const fixture = newFixture({ store: memoryStore({ clock: new ManualClock() }) });
  const run = fixture.start(worker());
  const slow = toSse(run, { maxBacklog: 3 });
  await fixture.outcome(run);
  expect((await rejectionOf(allOf(slow))).code).toBe("backlog_overflow");
  expect((await allOf(toSse(run, { from: 1 }))).at(-1)).toContain("event: result");
});

proves(["F6"], "a run that fails while its client is slow rejects the client's read", async () => {
  const [begin, finish] = [latch(), latch()];
  const inner = memoryStore({ clock: new ManualClock() });
  let isBroken = false;
  const store = forwarding(inner, {
    append: async (...given: Parameters<typeof inner.append>) => {
      if (isBroken) throw new Error("full");
      return await inner.append(...given);
    },
  });
  const model: Model = {
    provider: "own",
    id: "own",
    generate: async (_request, { onDelta }) => {
      await begin.opened;
      onDelta?.({ type: "text", text: "Done." });
      await finish.opened;
      const message = { role: "assistant", text: "Done.", toolCalls: [] } as const;
      return { message, finishReason: "stop" };
    },
  };
  const run = newFixture({ store }).start(roleOf(model));
  const messages = toSse(run);
  const first = (async () => {
    let text: string | undefined;
    do text = (await messages.next()).value;
    while (text?.startsWith("event: part") === false);
    return text;
  })();
  for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
  begin.open();
  expect(read((await first) ?? "").data).toMatchObject({ type: "text", text: "Done." });
  isBroken = true;
  finish.open();
  expect((await rejectionOf(run.result)).code).toBe("store_failed");
  for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
  expect((await rejectionOf(allOf(messages))).code).toBe("store_failed");
});
