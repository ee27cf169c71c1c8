// Crash recovery: a process is killed during a tool call, and another one continues the run.
// Completed work is not repeated.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { z } from "zod";

import { defineAgent, defineTool, Orchestrator, type Model } from "espalier";
import { toCallId } from "espalier/extend";
import { sqliteStore } from "espalier/store/sqlite";

const folder = process.argv[2] ?? mkdtempSync(join(tmpdir(), "recover-"));
const isWorker = process.argv[2] !== undefined;
const log = join(folder, "log.txt");

const look = defineTool({
  name: "look",
  description: "Looks up the price of something.",
  inputSchema: z.object({ thing: z.string() }),
  execute: ({ thing }) => {
    appendFileSync(log, `looked up ${thing}\n`);
    return "12 euros";
  },
});

const pay = defineTool({
  name: "pay",
  description: "Pays an amount.",
  inputSchema: z.object({ euros: z.number() }),
  retryAfterCrash: false, // a payment must not be made twice
  execute: ({ euros }, { idempotencyKey }) => {
    appendFileSync(log, `paid ${euros} euros under ${idempotencyKey.split("/").at(-1)}\n`);
    process.kill(process.pid, "SIGKILL"); // the power goes, right after the payment
    return "Paid.";
  },
});

// In your program: openai("gpt-5-mini"). This one says what follows from the results so far.
const model: Model = {
  provider: "example",
  id: "buyer",
  generate: async ({ messages }) => {
    const results = messages.flatMap((one) => (one.role === "tool" ? [one.text] : []));
    const call = (toolName: string, input: object) => ({
      callId: toCallId(`call_${results.length + 1}`),
      toolName,
      argumentsText: JSON.stringify(input),
    });
    const [calls, text] = [
      [[call("look", { thing: "a pear tree" })], ""] as const,
      [[call("pay", { euros: 12 })], ""] as const,
    ][results.length] ?? [[], `I asked for the payment, and was told: ${results[1] ?? ""}`];
    const finishReason = calls.length > 0 ? "tool_calls" : "stop";
    return { message: { role: "assistant", text, toolCalls: calls }, finishReason };
  },
};

const buyer = defineAgent({
  name: "buyer",
  instructions: "You buy things.",
  model,
  tools: [look, pay],
});
const store = sqliteStore(join(folder, "runs.db"));
const orchestrator = new Orchestrator({ roles: [buyer], store });

if (isWorker) await orchestrator.start(buyer, "Buy a pear tree.", { runId: "order-4711" }).result; // does not come to its end

const worker = spawnSync(process.execPath, [...process.execArgv, process.argv[1] ?? "", folder]);
assert.equal(worker.signal, "SIGKILL");

const [left] = await store.list({ status: "open" });
assert.ok(left);
const run = await orchestrator.resume(left.runId);
await run.result;

// A process that has the store has the result, in this process or another, without the roles.
const { runId } = run;
const { status, text, usage } = await orchestrator.getResult(runId);
console.log(text);

assert.equal(status, "completed");
assert.match(text, /it is unknown whether the call took effect/);
assert.equal(usage.total.modelCalls, 3);

assert.equal(readFileSync(log, "utf8"), "looked up a pear tree\npaid 12 euros under call_2\n");

// Start, recover or take the result, whichever it is. Here the run has ended: it is not done again.
const request = {
  runId: "order-4711",
  role: "buyer",
  task: "Buy a pear tree.",
};
const ordered = await orchestrator.execute(request);

assert.equal(ordered.text, text);

// A program that starts continues all that was lost before. Here, nothing is any more.
const { runs, failed } = await orchestrator.resumeLostRuns();
for (const { runId: lostId, error } of failed) {
  console.error(`${lostId}: ${error.message}`);
}

assert.deepEqual([runs, failed], [[], []]);

// And one that ends waits for what is under way.
await orchestrator.close();
await store.close();
rmSync(folder, { recursive: true });
