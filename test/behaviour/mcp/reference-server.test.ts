// Goal: a run that uses a real MCP server ends properly, whatever happens to the server.
// Method: the reference server from the registry in its own process, over both transports, in real
// time. Every test waits for events, not for time to pass.

import { describe, expect } from "vitest";

import { connectMcp, type McpServer } from "../../../src/mcp/connect-mcp.ts";
import type { McpOptions } from "../../../src/mcp/mcp-options.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { EspalierEvent, EventSink } from "../../../src/protocol/event.ts";
import type { ToolExecution } from "../../../src/protocol/tool-outcome.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { toolFilter } from "../../../src/tools/tool-filter.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { caller, executionsOf, made, textsOf, type Asked } from "../../support/mcp/agents.ts";
import { afterwards } from "../../harness/afterwards.ts";
import {
  everythingOverHttp,
  everythingOverStdio,
  isAlive,
  type HttpPeer,
  type StdioPeer,
} from "../../support/mcp/servers.ts";

/** The real server, and a function that ends it like a crash. */
interface Peer {
  readonly server: McpServer;
  crash(): Promise<void>;
  /** Makes it reachable again, if it does not restart by itself. */
  restart(): Promise<unknown>;
  /** True if a process of the server that we started runs. */
  isRunning(): boolean;
}

const isNoTask = ({ name }: { readonly name: string }): boolean =>
  name !== "simulate-research-query";

type More = Pick<McpOptions, "reconnect">;

async function connected(options: More & Pick<McpOptions, "transport">): Promise<McpServer> {
  const server = await connectMcp({ name: "everything", filter: isNoTask, ...options });
  afterwards(() => server.close());
  return server;
}

async function overStdio(more: More = {}): Promise<Peer> {
  const peer: StdioPeer = everythingOverStdio();
  const server = await connected({ transport: peer.transport, ...more });
  // The server executes a cancelled call to its end, and closing would wait for that.
  afterwards(() => {
    for (const pid of peer.pids.filter(isAlive)) process.kill(pid, "SIGKILL");
  });
  return {
    server,
    crash: async () => {
      const pid = await peer.started(peer.pids.length);
      process.kill(pid, "SIGKILL");
    },
    restart: async () => {},
    isRunning: () => peer.pids.some(isAlive),
  };
}

async function overHttp(more: More = {}): Promise<Peer> {
  const peer: HttpPeer = await everythingOverHttp();
  const server = await connected({ transport: peer.transport, ...more });
  return {
    server,
    crash: () => peer.kill(),
    restart: () => everythingOverHttp(peer.port),
    isRunning: () => false,
  };
}

/** A call that would take ten minutes, and reports progress every few milliseconds. */
const LONG: readonly [string, object] = [
  "everything_trigger-long-running-operation",
  { duration: 600, steps: 60_000 },
];

/** Returns the attachments of a result, with the beginning of their data. */
function shortened(execution: ToolExecution | undefined): unknown {
  return execution?.attachments?.map((part) => ({ ...part, data: part.data?.slice(0, 6) }));
}

/** Calls `act` once, at the first event of a type. */
function on(type: EspalierEvent["type"], act: () => unknown): EventSink {
  let isDone = false;
  return {
    emit: (event) => {
      if (isDone || event.type !== type) return;
      isDone = true;
      act();
    },
  };
}

describe.each([
  ["stdio", overStdio],
  ["http", overHttp],
] as const)("a run over %s", (transport, open) => {
  proves(
    ["X28"],
    `continues with a new server after the real one was killed in the middle of a call (${transport})`,
    async () => {
      const { server, crash, restart, isRunning } = await open();
      const back = Promise.withResolvers<void>();
      const fixture = newFixture({
        sinks: [
          on("tool.progressed", () => crash()),
          on("tool.ended", () => restart().then(() => back.resolve(), back.reject)),
        ],
      });
      const model = new ScriptedModel([
        asks(...LONG),
        asks("everything_echo", { message: "still there?" }, { after: back.promise }),
        says("It came back."),
      ]);
      const role = defineAgent({ name: "solo", instructions: "Work.", model, tools: server.tools });
      const result = await fixture.run(role);
      expect([result.status, result.text]).toEqual(["completed", "It came back."]);
      expect(
        executionsOf(result).map(({ type, errorCode, severity, text }) => [
          type,
          errorCode,
          severity,
          text,
        ]),
      ).toEqual([
        [
          "failed",
          "tool_error",
          "recoverable",
          `everything_trigger-long-running-operation failed: The MCP server "everything" disconnected during the call: ${
            transport === "stdio"
              ? "the connection was closed."
              : "the connection broke before an answer came."
          } The call may have taken effect: check that before you call it again.`,
        ],
        ["succeeded", undefined, undefined, "Echo: still there?"],
      ]);
      await server.close();
      expect(isRunning()).toBe(false);
    },
  );

  proves(
    ["X28"],
    `gets a clear error for each call to a server that is gone for good, and continues (${transport})`,
    async () => {
      const { server, crash } = await open({
        reconnect: transport === "stdio" ? { maxAttempts: 0 } : { maxAttempts: 2, delayMs: 1 },
      });
      const fixture = newFixture({ sinks: [on("tool.progressed", () => crash())] });
      const calls: readonly Asked[] = [LONG, ["everything_get-env"], ["everything_get-env"]];
      const result = await fixture.run(caller(server.tools, calls));
      expect([result.status, result.text]).toEqual(["completed", "Done."]);
      const gone =
        transport === "stdio"
          ? /^everything_get-env failed: The MCP server "everything" cannot be reached: it has ended, and is not restarted\. Nothing was done\. Do without it if you can\.$/
          : /^everything_get-env failed: The MCP server "everything" cannot be reached: fetch failed: connect ECONNREFUSED 127\.0\.0\.1:\d+ \(tried 2 times\)\. Nothing was done\. Do without it if you can\.$/;
      expect(textsOf(executionsOf(result)).slice(1)).toEqual([
        expect.stringMatching(gone),
        expect.stringMatching(gone),
      ]);
    },
  );

  proves(
    ["X28"],
    `ends at once if it is cancelled in the middle of a call, and the server serves on (${transport})`,
    async () => {
      const { server } = await open();
      const fixture = newFixture({ sinks: [on("tool.progressed", () => run.cancel("Enough."))] });
      const run = fixture.start(caller(server.tools, [LONG]));
      const result = await fixture.outcome(run);
      expect([result.status, result.reason.code]).toEqual(["cancelled", "cancelled"]);
      expect(executionsOf(result).map(({ type }) => type)).toEqual(["cancelled"]);
      expect(textsOf(await made(server.tools, [["everything_echo", { message: "on" }]]))).toEqual([
        "Echo: on",
      ]);
    },
  );

  proves(
    ["X28"],
    `abandons a call that takes too long, and the server serves on (${transport})`,
    async () => {
      const { server } = await open();
      const fixture = newFixture({
        sinks: [on("tool.progressed", () => fixture.clock.advance(60_000))],
      });
      const calls: readonly Asked[] = [LONG, ["everything_get-sum", { a: 2, b: 3 }]];
      const executions = await made(server.tools, calls, fixture);
      expect(executions.map(({ type, errorCode }) => [type, errorCode])).toEqual([
        ["failed", "tool_timeout"],
        ["succeeded", undefined],
      ]);
      expect(executions[1]?.text).toBe("The sum of 2 and 3 is 5.");
    },
  );

  proves(
    ["X28"],
    `preserves all kinds of results, reports progress and rejects wrong arguments itself (${transport})`,
    async () => {
      const { server } = await open();
      const fixture = newFixture();
      const executions = await made(
        server.tools,
        [
          ["everything_get-tiny-image"],
          ["everything_get-resource-reference", { resourceType: "Blob", resourceId: 7 }],
          ["everything_get-resource-links", { count: 1 }],
          ["everything_get-structured-content", { location: "Chicago" }],
          ["everything_trigger-long-running-operation", { duration: 0.01, steps: 2 }],
          ["everything_echo", { message: ["no", "text"] }],
          ["everything_get-resource-reference", { resourceId: -1 }],
        ],
        fixture,
      );
      const [image, resource, links, data, long, wrong, refused] = executions;
      expect(image?.text).toMatch(
        /^Here's the image you requested:\n\[image\/png, [\d,]+ bytes\]\nThe image above is the MCP logo\.$/,
      );
      expect(shortened(image)).toEqual([{ type: "image", mediaType: "image/png", data: "iVBORw" }]);
      expect(shortened(resource)).toEqual([
        {
          type: "file",
          mediaType: "text/plain",
          uri: "demo://resource/dynamic/blob/7",
          data: "UmVzb3",
        },
      ]);
      expect(links?.attachments).toEqual([
        {
          type: "file",
          mediaType: "text/plain",
          name: "Blob Resource 1",
          uri: "demo://resource/dynamic/blob/1",
        },
      ]);
      expect(data?.text).toBe(
        '{"temperature":36,"conditions":"Light rain / drizzle","humidity":82}',
      );
      expect(long?.text).toBe(
        "Long running operation completed. Duration: 0.01 seconds, Steps: 2.",
      );
      expect([wrong?.errorCode, wrong?.text]).toEqual([
        "invalid_arguments",
        expect.stringMatching(
          /^The arguments of everything_echo do not fit its schema:\n- message: /,
        ),
      ]);
      expect([refused?.errorCode, refused?.text]).toEqual([
        "tool_error",
        "everything_get-resource-reference failed: Invalid resourceId: -1. Must be a finite positive integer.",
      ]);
      expect(
        fixture.sink
          .ofType("tool.progressed")
          .map(({ toolName, done, total }) => [toolName, done, total]),
      ).toEqual([
        ["everything_trigger-long-running-operation", 1, 2],
        ["everything_trigger-long-running-operation", 2, 2],
      ]);
    },
  );

  proves(
    ["X28"],
    `applies guards and filters to tools of the server as to any other (${transport})`,
    async () => {
      const { server } = await open();
      const { run } = newFixture();
      const result = await run(
        caller(
          server.tools,
          [
            ["everything_get-env"],
            ["everything_echo", { message: "x" }],
            ["everything_get-sum", { a: 1, b: 1 }],
          ],
          {
            guards: [
              toolGuard(() => ({ type: "deny", reason: "It shows secrets." }), {
                name: "discreet",
                tools: ["everything_get-env"],
              }),
            ],
            toolFilters: [toolFilter((name) => name !== "everything_echo", { name: "mute" })],
          },
        ),
      );
      expect(
        executionsOf(result).map(({ type, errorCode, blockedBy }) => [type, errorCode, blockedBy]),
      ).toEqual([
        ["refused", "blocked", "discreet"],
        ["refused", "tool_not_available", "mute"],
        ["succeeded", undefined, undefined],
      ]);
    },
  );
});
