// A streaming service that is killed in mid-sentence: after a restart the run continues, and its
// client reads on. The service is `examples/service/service.ts`.

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";

import { z } from "zod";

const folder = mkdtempSync(join(tmpdir(), "service-"));
const program = join(import.meta.dirname, "service", "service.ts");

async function startService(): Promise<{ readonly service: ChildProcess; readonly url: string }> {
  const args = [...process.execArgv, program, join(folder, "runs.db"), "0"];
  const service = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: service.stdout }))
    return { service, url: line.replace("Listening on ", "") };
  throw new Error("The service did not start.");
}

const MessageSchema = z.looseObject({
  type: z.string().optional(),
  text: z.string().optional(),
  status: z.string().optional(),
});

interface Message {
  readonly id: string | undefined;
  readonly name: string;
  readonly data: z.infer<typeof MessageSchema>;
}

/** What an `EventSource` in a page does. */
async function* follow(url: string, lastEventId?: string): AsyncGenerator<Message> {
  const headers: Record<string, string> =
    lastEventId === undefined ? {} : { "last-event-id": lastEventId };
  const response = await fetch(url, { headers });
  assert.equal(response.status, 200);
  let unread = "";
  for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    unread += text;
    const messages = unread.split("\n\n");
    unread = messages.pop() ?? "";
    for (const message of messages) {
      const field = (name: string): string | undefined =>
        new RegExp(`^${name}: (.*)$`, "m").exec(message)?.[1];
      const data = MessageSchema.parse(JSON.parse(field("data") ?? "{}"));
      yield { id: field("id"), name: field("event") ?? "", data };
    }
  }
}

const RunSchema = z.object({ runId: z.string() });
let { service, url } = await startService();
process.on("exit", () => service.kill("SIGKILL"));
const begin = async (): Promise<string> => {
  const response = await fetch(`${url}/runs`, { method: "POST", body: "Tell me of trees." });
  return RunSchema.parse(await response.json()).runId;
};

// The page: numbers of events and the text, which begins anew where a `reset` says so.
const seen: number[] = [];
const types: (string | undefined)[] = [];
let lastEventId: string | undefined;
let told = "";
let resets = 0;
function show({ id, name, data }: Message): void {
  lastEventId = id ?? lastEventId;
  if (id !== undefined) seen.push(Number(id));
  if (name === "event") types.push(data.type);
  if (name !== "part") return;
  if (data.type === "reset") resets += 1;
  if (data.type === "reset") told = "";
  if (data.type === "text") told += data.text ?? "";
}

const runId = await begin();
await assert.rejects(async () => {
  for await (const message of follow(`${url}/runs/${runId}`)) {
    show(message);
    if (told.length > 100) service.kill("SIGKILL"); // in the middle of a sentence
  }
}, TypeError); // the connection is gone
assert.ok(told.length > 100 && !types.includes("run.ended"));

({ service, url } = await startService());
let result: Message | undefined;
for await (const message of follow(`${url}/runs/${runId}`, lastEventId)) {
  show(message);
  if (message.name === "result") result = message;
}
console.log(`${told.length} characters, ${resets} reset, events 1 to ${seen.length}`);

assert.equal(result?.data.status, "completed");
assert.equal(told, result.data.text); // what was told is what was said
assert.ok(resets >= 1); // one more, if its first words were said before it asked
assert.deepEqual(
  seen,
  Array.from(seen.keys(), (index) => index + 1),
); // none missed, none twice
assert.ok(types.includes("run.resumed"));
assert.equal(types.filter((type) => type === "tool.ended").length, 1); // it looked things up once

// The next one leaves.
const leftId = await begin();
for await (const { name, data } of follow(`${url}/runs/${leftId}`))
  if (name === "part" && data.type === "text") break;
await setTimeout(1_000); // longer than the service waits for it to come back
for await (const { name, data } of follow(`${url}/runs/${leftId}`))
  if (name === "result") assert.equal(data.status, "cancelled");

// Stopped in good order in the middle of a sentence: the next one continues it.
const movedId = await begin();
await assert.rejects(async () => {
  let said = "";
  for await (const { data } of follow(`${url}/runs/${movedId}`)) {
    if (data.type === "text") said += data.text ?? "";
    if (said.length > 100 && !service.killed) service.kill("SIGTERM");
  }
}, TypeError);
if (service.exitCode === null) await once(service, "exit");
assert.equal(service.exitCode, 0);
({ service, url } = await startService());
for await (const { name, data } of follow(`${url}/runs/${movedId}`))
  if (name === "result") assert.equal(data.status, "completed");

service.kill();
await once(service, "exit");
rmSync(folder, { recursive: true });
