// Goal: an incremental reader returns the same as folding the whole journal, from line to line and
// for one agent at a time.
// Method: the stored recordings, whole and line by line; random trees are in mortal-fixture.ts.

import { globSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";

import { foldJournal } from "../../../src/orchestrator/durability/fold-journal.ts";
import { RunRecord } from "../../../src/orchestrator/durability/run-record.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { AgentIdSchema, RunIdSchema } from "../../../src/protocol/ids.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { proves } from "../../harness/proves.ts";
import { checkRecord, eventsWithLines } from "../../support/journal/checked-record.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";

const runId = RunIdSchema().parse("run_1");
const owner = { token: "t", hostname: "h", processId: 1 };
const files = globSync("test/fixtures/journals/recorded/*.jsonl");

async function stored(lines: readonly string[]): Promise<Store> {
  const store = memoryStore({ clock: new ManualClock() });
  const held = await store.create(runId, "", owner);
  if (lines.length > 0) await store.append(held, { firstNumber: 1, records: lines });
  return store;
}

/** Skips journals that were cut within a batch and cannot be folded. */
async function checkBeginning(store: Store, record: RunRecord): Promise<void> {
  const isWhole = await foldJournal(runId, store.read(runId)).then(
    () => true,
    () => false,
  );
  if (isWhole) await checkRecord(store, runId, record);
}

function linesOf(file: string): readonly string[] {
  return readFileSync(file, "utf8").trimEnd().split("\n");
}

for (const file of files)
  proves(
    ["V5", "V6"],
    `reads events, steps and requests of ${file}, at once and line by line`,
    async () => {
      const lines = linesOf(file);
      const whole = await stored(lines);
      expect(await checkRecord(whole, runId)).toBeGreaterThan(0);

      const store = memoryStore({ clock: new ManualClock() });
      const held = await store.create(runId, "", owner);
      const record = new RunRecord(store, runId);
      const events: unknown[] = [];
      const take = (event: EspalierEvent, line: number): void => void events.push([event, line]);
      for (const [index, line] of lines.entries()) {
        await store.append(held, { firstNumber: index + 1, records: [line] });
        expect(await record.advance(take)).toBe(index + 1);
        if (index % Math.ceil(lines.length / 4) === 5) await checkBeginning(store, record);
      }
      expect(events).toEqual(await eventsWithLines(whole, runId));
      expect(await record.advance(take)).toBe(lines.length);
      await checkRecord(store, runId, record);
    },
  );

proves(["V7"], "reads only the lines that it needs, and writes none", async () => {
  const lines = linesOf("test/fixtures/journals/recorded/delegations.jsonl");
  const asked: unknown[] = [];
  const real = await stored(lines);
  const store = forwarding(real, {
    read: (...given: Parameters<Store["read"]>) => {
      asked.push(given.slice(1));
      return real.read(...given);
    },
    create: () => expect.fail("it writes"),
    claim: () => expect.fail("it writes"),
    append: () => expect.fail("it writes"),
    heartbeat: () => expect.fail("it writes"),
    release: () => expect.fail("it writes"),
    sendMail: () => expect.fail("it writes"),
    remove: () => expect.fail("it writes"),
  });
  const record = new RunRecord(store, runId);
  await record.advance();
  await record.advance();
  const [root] = record.agentIds;
  if (root === undefined) throw new Error("a root");
  const steps = await record.steps(root);
  expect(await record.steps(root)).toEqual(steps);
  expect(asked).toEqual([
    [1, undefined],
    [lines.length + 1, undefined],
    [1, expect.any(Number)],
  ]);
});

test("rejects unknown runs, agents and steps, and unreadable journals, with their codes", async () => {
  const lines = linesOf("test/fixtures/journals/recorded/parallel.jsonl");
  const none = new RunRecord(memoryStore(), runId);
  await expect(none.advance()).rejects.toMatchObject({ code: "unknown_run" });
  const record = new RunRecord(await stored(lines), runId);
  await record.advance();
  const stranger = AgentIdSchema().parse("agent_99");
  await expect(record.steps(stranger)).rejects.toMatchObject({ code: "unknown_agent" });
  const [root = stranger] = record.agentIds;
  for (const [stepNumber, execution] of [[0], [99], [1.5], [1, 7]] as const)
    await expect(
      record.request({
        agentId: root,
        stepNumber,
        ...(execution === undefined ? {} : { execution }),
      }),
    ).rejects.toMatchObject({ code: "invalid_argument", data: { field: "stepNumber" } });
  const torn = new RunRecord(
    await stored([...lines.slice(0, 3), `${lines[3]?.slice(0, 40)}`]),
    runId,
  );
  const torned = { code: "invalid_journal", data: { record: 4 } };
  await expect(torn.advance()).rejects.toMatchObject(torned);
  expect(torn.lineCount).toBe(3);
  await expect(torn.advance()).rejects.toMatchObject(torned);
  const newer = lines.with(0, lines[0]?.replace('"version":1', '"version":99') ?? "");
  await expect(new RunRecord(await stored(newer), runId).advance()).rejects.toMatchObject({
    code: "unsupported_version",
  });
});

test("reads lines again that a failing store did not return", async () => {
  const lines = linesOf("test/fixtures/journals/recorded/parallel.jsonl");
  const real = await stored(lines);
  let failures = 0;
  const store: Store = forwarding(real, {
    read: async function* (...given) {
      let count = 0;
      for await (const line of real.read(...given)) {
        count += 1;
        if (count === 2 && failures < 3) {
          failures += 1;
          throw new Error("busy");
        }
        yield line;
      }
    },
  });
  const record = new RunRecord(store, runId);
  const events: unknown[] = [];
  for (let call = 0; call < 3; call += 1)
    await expect(record.advance((event, line) => events.push([event, line]))).rejects.toThrow(
      "busy",
    );
  await record.advance((event, line) => events.push([event, line]));
  expect(events).toEqual(await eventsWithLines(real, runId));
  await checkRecord(real, runId, record);
});
