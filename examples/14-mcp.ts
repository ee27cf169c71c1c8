// Tools of an MCP server in a child process. The server is killed during a call, and the run still
// completes.

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

import { defineAgent, Orchestrator } from "espalier";
import { observe } from "espalier/hooks";
import { connectMcp } from "espalier/mcp";
import { asks, says, ScriptedModel } from "espalier/testing";

// `npx -y @modelcontextprotocol/server-everything` starts the same server; this way no download is needed.
const entry = import.meta.resolve("@modelcontextprotocol/server-everything/dist/index.js");
const reportPid = "data:text/javascript,process.stderr.write(`pid ${process.pid}`)";
const command = process.execPath;
const args = ["--import", reportPid, fileURLToPath(entry), "stdio"];

let pid = 0;
const onStderr = (text: string): void => {
  pid = Number(/pid (\d+)/.exec(text)?.[1] ?? pid);
};
const model = new ScriptedModel([
  asks("everything_get-tiny-image", {}),
  asks("everything_trigger-long-running-operation", { duration: 600, steps: 60_000 }),
  asks("everything_echo", { message: "Still there?" }),
  says("It has pictures, and it comes back."),
]);

const server = await connectMcp({
  name: "everything",
  transport: { type: "stdio", command, args, onStderr },
  // One of its tools can only be called as a task, which agents cannot do.
  filter: ({ name }) => name !== "simulate-research-query",
  needsApproval: "destructive",
});
const tourist = defineAgent({
  name: "tourist",
  instructions: server.instructions ?? "Try what there is.",
  model,
  tools: server.tools,
});
try {
  assert.ok(server.tools.some(({ name }) => name === "everything_echo"));

  // The server dies as soon as the long call reports progress.
  const first = pid;
  const orchestrator = new Orchestrator({
    hooks: [
      observe(["tool.progressed"], () => {
        if (pid === first) process.kill(first, "SIGKILL");
      }),
    ],
  });
  const result = await orchestrator.start(tourist, "What can this server do?").result;

  const executions = result.steps.flatMap(({ tools }) => tools.executions);
  for (const { call, type, text } of executions) console.log(`${call.toolName} ${type}: ${text}`);
  assert.equal(result.status, "completed");
  assert.deepEqual(
    executions.map(({ type }) => type),
    ["succeeded", "failed", "succeeded"],
  );
  assert.deepEqual(
    executions[0]?.attachments?.map(({ mediaType }) => mediaType),
    ["image/png"],
  );
  assert.match(executions[1]?.text ?? "", /disconnected during the call/);
  assert.equal(executions[2]?.text, "Echo: Still there?");
  assert.notEqual(pid, first);
} finally {
  await server.close();
}
