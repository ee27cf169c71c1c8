// Connections for tests: closed after the test, on a manual clock.

import { expect } from "vitest";

import { McpConnection, type McpCall } from "../../../src/mcp/mcp-connection.ts";
import { McpFault } from "../../../src/mcp/mcp-fault.ts";
import {
  resolveMcpSettings,
  type McpOptions,
  type McpTransport,
} from "../../../src/mcp/mcp-options.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { CallFixture } from "../tool-calls.ts";
import { flushEventLoop } from "../../harness/run-scripted.ts";
import { afterwards } from "../../harness/afterwards.ts";

/** A connection, its clock, and helpers for calls. */
export interface Line {
  readonly clock: ManualClock;
  readonly connection: McpConnection;
  /** Returns the text of the result or of the fault. */
  call(name: string, more?: Partial<McpCall> & { readonly signal?: AbortSignal }): Promise<string>;
  /** Resolves once a call of `hang` has reached the server; `result` is the outcome of the call. */
  hang(signal?: AbortSignal): Promise<{ readonly result: Promise<string> }>;
}

export async function line(transport: McpTransport, more: Partial<McpOptions> = {}): Promise<Line> {
  const clock = new ManualClock();
  const settings = resolveMcpSettings({
    name: "peer",
    transport,
    clock,
    reconnect: { delayMs: 0 },
    ...more,
  });
  const connection = await McpConnection.open(settings);
  afterwards(async () => {
    await connection.close();
    expect(clock.pendingTimers, "timers left behind").toBe(0);
  });
  const { tools } = await connection.list();
  const call: Line["call"] = async (name, { signal = never, ...options } = {}) => {
    const tool = tools.find((other) => other.name === name);
    if (tool === undefined) throw new Error(`Expected a tool named ${name}.`);
    const asked = { tool, arguments: {}, trace: {}, onProgress: () => {}, caller, ...options };
    try {
      const { content } = await connection.call(asked, signal);
      return content.map((part) => (part.type === "text" ? part.text : part.type)).join("\n");
    } catch (thrown) {
      return faultText(thrown);
    }
  };
  const hang: Line["hang"] = async (signal = never) => {
    const begun = Promise.withResolvers<void>();
    const result = call("hang", { signal, onProgress: () => begun.resolve() });
    await begun.promise;
    return { result };
  };
  return { clock, connection, call, hang };
}

/** Returns the fault with which connecting fails. */
export async function refusal(
  transport: McpTransport,
  more: Partial<McpOptions> = {},
): Promise<McpFault> {
  try {
    await line(transport, more);
  } catch (thrown) {
    if (thrown instanceof McpFault) return thrown;
    throw thrown;
  }
  throw new Error("Expected no connection, got one.");
}

const never = new AbortController().signal;
const caller = new CallFixture().context();

function faultText(thrown: unknown): string {
  if (!(thrown instanceof McpFault)) throw thrown;
  return `${thrown.kind}: ${thrown.message}`;
}

/** Waits until the condition holds, up to the time limit of the test. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await flushEventLoop();
}
