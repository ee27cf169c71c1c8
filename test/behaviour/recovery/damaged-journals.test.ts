// Goal: every damage to a journal or a recording is reported with a code and a remedy, never as a
// zod error or a broken invariant (D1).
// Method: the journal of a run that was paused and recovered, with each line removed, duplicated or
// truncated; and journals of other releases.

import { beforeAll, expect, test } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { storeEngine } from "../../../src/engine/store-engine.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import { isRecord } from "../../../src/kernel/json.ts";
import { RunRecord } from "../../../src/orchestrator/durability/run-record.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { RunClient } from "../../../src/orchestrator/run/run-client.ts";
import { rebuildRecordedRequest } from "../../support/journal/rebuild-recorded-request.ts";
import type { RunId } from "../../../src/protocol/ids.ts";
import { approve, deny } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { replay } from "../../../src/testing/replay/replay.ts";
import { proves } from "../../harness/proves.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";

function lead(): AgentRole {
  const asker = defineAgent({
    name: "asker",
    description: "Asks",
    instructions: "You ask.",
    model: thinker("asker", ({ results }) =>
      results.length === 0 ? { calls: [["pay", { thing: "bill" }]] } : { text: "Paid." },
    ),
    tools: [countedTool(new Map(), "pay", undefined, { needsApproval: true })],
  });
  return defineAgent({
    name: "lead",
    instructions: "You lead. ".repeat(20),
    model: thinker("lead", ({ results }) =>
      results.length === 0
        ? { calls: [["look", { thing: "x" }], spawnCall("asker", "t")] }
        : { text: results.join() },
    ),
    subagents: [asker],
    tools: [countedTool(new Map(), "look")],
  });
}

let runId: RunId;
/** Complete records. */
let lines: readonly string[];
/** Lines as the store has them. */
const stored: string[] = [];

beforeAll(async () => {
  const clock = new ManualClock();
  const store = memoryStore({ clock });
  const role = lead();
  const orchestrator = new Orchestrator({ store, clock, roles: [role] });
  const run = orchestrator.start(role, "Go.");
  const { questions } = await run.result;
  const answers = questions.map((question) => approve(question));
  const result = await (await orchestrator.resume(run.runId, { answers })).result;
  expect(result.status).toBe("completed");
  runId = run.runId;
  lines = (await loadRecording(store, runId)).trimEnd().split("\n");
  for await (const line of store.read(runId)) stored.push(line);
});

async function storeWith(id: RunId, records: readonly string[]): Promise<Store> {
  const store = memoryStore({ clock: new ManualClock() });
  const owner = { token: "t", hostname: "h", processId: 1 };
  const ownership = await store.create(id, "lead", owner);
  if (records.length > 0) await store.append(ownership, { firstNumber: 1, records });
  await store.release(ownership, "paused");
  return store;
}

/** Returns `fine`, or the code of the rejection. */
async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "fine";
  } catch (cause) {
    return EspalierError.is(cause) ? cause.code : `raw ${String(cause)}`;
  }
}

async function keptCode(records: readonly string[]): Promise<string> {
  const store = await storeWith(runId, records);
  return await codeOf(new Orchestrator({ store }).getResult(runId));
}

function withoutLine(index: number): readonly string[] {
  return lines.toSpliced(index, 1);
}

function doubled(index: number): readonly string[] {
  return lines.toSpliced(index, 0, lines[index] ?? "");
}

test("rejects the events of a run with invalid_journal at a line that is not a record", async () => {
  const store = await storeWith(runId, [...stored.slice(0, 1), '{"type":"signal"}']);
  const clock = new ManualClock();
  const run = new RunClient({ store, engine: storeEngine({ clock }), clock }).attach(runId);
  const readAll = async (): Promise<void> => {
    for await (const event of run.events()) expect(event.runId).toBe(runId);
  };
  expect(await codeOf(readAll())).toBe("invalid_journal");
});

test("reads or refuses a journal with a missing or duplicated line, or that is truncated", async () => {
  const codes: string[] = [];
  for (const index of lines.keys())
    for (const records of [withoutLine(index), doubled(index), lines.slice(0, index)])
      codes.push(await keptCode(records));
  expect([...new Set(codes)].toSorted()).toEqual([
    "fine",
    "invalid_journal",
    "invalid_state",
    "unknown_run",
  ]);
});

test("refuses a stored journal with a missing, duplicated or truncated line", async () => {
  const codes: string[] = [];
  for (const [index, line] of stored.entries()) {
    if (index > 0 && index < stored.length - 1)
      codes.push(await keptCode(stored.toSpliced(index, 1)));
    if (index > 0) codes.push(await keptCode(stored.toSpliced(index, 0, line)));
    codes.push(await keptCode(stored.with(index, line.slice(0, -5))));
  }
  expect(codes.length).toBeGreaterThan(20);
  expect(new Set(codes)).toEqual(new Set(["invalid_journal"]));
});

/** Returns the lines, with the state of an agent changed in one of them. */
function withStrangeState(index: number): readonly string[] {
  const strange = { keys: { log: { keys: { vetoes: { set: "many" } } } } };
  const first = { set: { status: "pending", conversation: { messages: 1 } } };
  return lines.map((line, at) => {
    if (at !== index) return line;
    const record: unknown = JSON.parse(line);
    if (!isRecord(record)) throw new Error("a record");
    const isFirst = isRecord(record["delta"]) && "set" in record["delta"];
    return JSON.stringify({ ...record, delta: isFirst ? first : strange });
  });
}

proves(
  ["V147"],
  "rejects reads of an agent with an unreadable state with invalid_journal",
  async () => {
    const states = [...lines.keys()].filter(
      (at) => lines[at]?.startsWith(`{"type":"state"`) === true,
    );
    expect(states.length).toBeGreaterThan(5);
    for (const index of states)
      expect(new Set(await agentCodes(withStrangeState(index))), lines[index]).toEqual(
        new Set(["fine", "invalid_journal"]),
      );
  },
);

/**
 * Returns the codes of reading the steps and the first request of each agent; `fine` for success.
 */
async function agentCodes(records: readonly string[]): Promise<readonly string[]> {
  const record = new RunRecord(await storeWith(runId, records), runId);
  const codes = [await codeOf(record.advance())];
  for (const agentId of record.agentIds) {
    codes.push(await codeOf(record.steps(agentId)));
    codes.push(await codeOf(record.request({ agentId, stepNumber: 1 })));
    const rebuilt = rebuildRecordedRequest(records.join("\n"), { agentId, stepNumber: 1 });
    codes.push(await codeOf(rebuilt));
  }
  return codes;
}

/** Returns the value with the call ids of its open questions exchanged. */
function exchanged(value: unknown, ids: ReadonlyMap<unknown, string>): unknown {
  if (Array.isArray(value)) return value.map((one) => exchanged(one, ids));
  if (!isRecord(value)) return value;
  const callId = "question" in value ? ids.get(value["callId"]) : undefined;
  const parts = Object.entries(value).map(([key, part]) => [key, exchanged(part, ids)] as const);
  return { ...Object.fromEntries(parts), ...(callId === undefined ? {} : { callId }) };
}

proves(
  ["X17"],
  "executes no call by an answer if an edited journal exchanged the calls of two questions",
  async () => {
    const executed: string[] = [];
    const role = defineAgent({
      name: "buyer",
      instructions: "You buy.",
      model: thinker("buyer", ({ results }) =>
        results.length > 0
          ? { text: "Done." }
          : {
              calls: [
                ["look", { thing: "bill" }],
                ["pay", { thing: "bill" }],
              ],
            },
      ),
      tools: ["look", "pay"].map((name) => {
        const execute = (): string => String(executed.push(name));
        return countedTool(new Map(), name, execute, { needsApproval: true });
      }),
    });
    const store = memoryStore({ clock: new ManualClock() });
    const run = new Orchestrator({ store, roles: [role] }).start(role, "Go.");
    const { questions } = await run.result;
    const [look, pay] = questions;
    if (look === undefined || pay === undefined) throw new Error("two questions");
    const ids = new Map([
      [look.callId, pay.callId],
      [pay.callId, look.callId],
    ]);
    const whole = (await loadRecording(store, run.runId)).trimEnd().split("\n");
    const edited = whole.map((line) => JSON.stringify(exchanged(JSON.parse(line), ids)));
    expect(edited).not.toEqual(whole);
    const answers = [approve(look), deny(pay)];
    const codes: string[] = [];
    for (const records of [edited, whole]) {
      const orchestrator = new Orchestrator({
        store: await storeWith(run.runId, records),
        roles: [role],
      });
      const recovering = orchestrator.resume(run.runId, { answers });
      codes.push(await codeOf(recovering.then((recovered) => recovered.result)));
      codes.push(executed.join());
    }
    expect(codes).toEqual(["invalid_paused_run", "", "fine", "look"]);
  },
);

test("does not recover a journal without a state", async () => {
  const first = lines.findIndex((line) => line.startsWith(`{"type":"state"`));
  const store = await storeWith(runId, lines.slice(0, first));
  const orchestrator = new Orchestrator({ store, roles: [lead()] });
  expect(await codeOf(orchestrator.resume(runId))).toBe("invalid_journal");
});

test("replays or refuses a recording with a missing or duplicated ledger operation", async () => {
  const codes: string[] = [];
  for (const [index, line] of lines.entries())
    if (line.startsWith(`{"type":"ledger"`))
      for (const records of [withoutLine(index), doubled(index)])
        codes.push(await codeOf(replay(records.join("\n"), { role: lead() })));
  expect([...new Set(codes)].filter((code) => code.startsWith("raw"))).toEqual([]);
  expect(new Set(codes).size).toBeGreaterThan(1);
});

test("rebuilds or refuses a request of a journal with a missing or duplicated line", async () => {
  const codes = new Set<string>();
  for (const index of lines.keys())
    for (const records of [withoutLine(index), doubled(index)])
      codes.add(await codeOf(rebuildRecordedRequest(records.join("\n"), { stepNumber: 1 })));
  expect([...codes].toSorted()).toEqual(["fine", "invalid_journal", "invalid_paused_run"]);
});

proves(
  ["D646"],
  "refuses a journal of another version, also if only the part after a pause has that version",
  async () => {
    for (const version of [0, 2, 4]) {
      const opened = JSON.stringify({ ...JSON.parse(lines[0] ?? ""), version });
      const records = [...lines, opened];
      const refusal = {
        code: "unsupported_version",
        message: `Expected a journal of format version 1, got version ${version}. Read it with the version of espalier that wrote it.`,
        data: { expected: 1, got: version },
      };
      const read = new Orchestrator({ store: await storeWith(runId, records) }).getResult(runId);
      await expect(read).rejects.toMatchObject(refusal);
      const other = ["", opened, ...lines.slice(1)].join("\n");
      for (const recording of [records.join("\n"), other])
        await expect(replay(recording, { role: lead() })).rejects.toMatchObject(refusal);
    }
  },
);

test("replays a recording with blank lines, Windows line breaks or a byte order mark", async () => {
  for (const text of [
    `\uFEFF${lines.join("\n")}`,
    `\n\n${lines.join("\n")}`,
    lines.join("\r\n"),
    `\uFEFF\r\n${lines.join("\r\n\r\n")}\r\n`,
  ])
    expect((await replay(text, { role: lead() })).status).toBe("completed");
});

proves(
  ["D646"],
  "refuses to return a result whose record is missing, and names the last line",
  async () => {
    const records = lines.filter((line) => !line.startsWith('{"type":"result"'));
    const store = await storeWith(runId, records);
    await expect(new Orchestrator({ store }).getResult(runId)).rejects.toMatchObject({
      code: "invalid_journal",
      data: { runId, record: records.length },
    });
  },
);
