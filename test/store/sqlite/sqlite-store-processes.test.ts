// Goal: several processes share a file; a killed process loses nothing that was acknowledged, and
// its runs are free at once (D4).
// Method: real processes, killed by SIGKILL during their appends, and superseded by others.

import { spawn, type ChildProcessByStdio } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

import { afterAll, expect, test } from "vitest";

import { RunIdSchema } from "../../../src/protocol/ids.ts";
import { sqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { BATCH_SIZE, recordOf } from "../../support/store/appended-records.ts";
import { textsOf } from "../../support/store/texts-of.ts";

const folder = mkdtempSync(join(tmpdir(), "store-"));
afterAll(() => rmSync(folder, { recursive: true }));

const runId = RunIdSchema().parse("run_1");

function append(
  path: string,
  ...rest: readonly string[]
): ChildProcessByStdio<null, Readable, null> {
  const program = join(import.meta.dirname, "../../support/store/appending-process.ts");
  const options = ["--no-warnings", program, path, ...rest];
  return spawn(process.execPath, options, { stdio: ["ignore", "pipe", "inherit"] });
}

function records(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => recordOf(index + 1));
}

test("loses no acknowledged record if a process is killed during its appends", async () => {
  const path = join(folder, "killed.db");
  for (const [round, batches] of [1, 2, 25, 60, 110].entries()) {
    const child = append(path, runId, `token_${round}`, "1000000");
    const ended = new Promise((resolve) => child.once("close", resolve));
    let acknowledged = 0;
    let seen = 0;
    for await (const line of createInterface(child.stdout)) {
      acknowledged = Number(line);
      seen += 1;
      if (seen === batches) child.kill("SIGKILL");
    }
    await ended;
    expect([child.exitCode, child.signalCode]).toEqual([null, "SIGKILL"]);
    const store = sqliteStore(path);
    const found = await store.find(runId);
    const { recordCount = 0, epoch, status, owner } = found ?? {};
    expect({ epoch, status, processId: owner?.processId }).toEqual({
      epoch: round + 1,
      status: "open",
      processId: child.pid,
    });
    // Complete batches only, and every acknowledged one: one more may have been committed without
    // an acknowledgement.
    expect([acknowledged, acknowledged + BATCH_SIZE]).toContain(recordCount);
    expect(await textsOf(store.read(runId))).toEqual(records(recordCount));
    await store.close();
  }
});

test("refuses the next append of a process that was superseded", async () => {
  const path = join(folder, "superseded.db");
  const child = append(path, runId, "first", "1000000");
  const ended = new Promise((resolve) => child.once("close", resolve));
  const owner = { token: "second", hostname: hostname(), processId: process.pid };
  const store = sqliteStore(path);
  let last = "";
  let isTaken = false;
  for await (const line of createInterface(child.stdout)) {
    last = line;
    if (isTaken) continue;
    isTaken = true;
    // The owning process is alive: only `takeOver` succeeds.
    const claim = { owner, staleAfterMs: Infinity };
    await expect(store.claim(runId, claim)).rejects.toMatchObject({ code: "run_active" });
    expect((await store.claim(runId, { ...claim, takeOver: true })).epoch).toBe(2);
  }
  await ended;
  expect([last, child.exitCode]).toEqual(["run_fenced", 0]);
  const found = await store.find(runId);
  expect(found?.owner).toEqual(owner);
  expect(await textsOf(store.read(runId))).toEqual(records(found?.recordCount ?? 0));
  await store.close();
});

test("accepts concurrent appends of several processes to one file", async () => {
  const path = join(folder, "shared.db");
  const names = ["run_a", "run_b", "run_c"];
  const children = names.map((name) => append(path, name, name, "60"));
  const exits = await Promise.all(
    children.map(
      (child) =>
        new Promise((resolve) => {
          child.stdout.resume();
          child.once("close", resolve);
        }),
    ),
  );
  expect(exits).toEqual([0, 0, 0]);
  const store = sqliteStore(path);
  for (const name of names) {
    const id = RunIdSchema().parse(name);
    expect((await store.find(id))?.status).toBe("ended");
    expect(await textsOf(store.read(id))).toEqual(records(60 * BATCH_SIZE));
  }
  await store.close();
});
