// Extends the SDK's transport over standard input and output. Owns the child process and the end of
// its standard error.
// 1. When `close()` resolves, the child has ended, if the system allows it: its input is closed,
//    then it receives SIGTERM after 2 s and SIGKILL after 4 s.
// 2. After that none of its pipes keeps this process alive, even if a grandchild holds them open.
// 3. The end of the child is noticed even if a grandchild holds its pipes open. (The SDK waits for
//    the pipes.)

import { ChildProcess } from "node:child_process";
import { once } from "node:events";

import { type JSONRPCMessage, ReadBuffer } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import type { Clock } from "../kernel/clock.ts";
import { omitUndefined } from "../kernel/json.ts";
import { callListener } from "../kernel/warn-once.ts";
import { McpFault } from "./mcp-fault.ts";
import type { McpSettings, McpStdio } from "./mcp-options.ts";
import { JsonMeter } from "./json-meter.ts";

/** Time between SIGTERM and SIGKILL. */
const TERMINATION_MS = 1_000;
/** Longest wait for the end of a killed child. */
const REAP_MS = 2_000;
/** Time for which the pipes of an ended child stay open, so that its last output is read. */
const LINGER_MS = 500;
/** Characters of standard error that are kept for messages. */
const KEPT_CHARACTERS = 2_000;
/** Maximum number of answers that wait until the server reads them. */
const MAX_ANSWERS = 1_000;

export class StdioTransport extends StdioClientTransport {
  readonly #clock: Clock;
  #child: ChildProcess | undefined;
  #excess: McpFault | undefined;
  #answerCount = 0;
  #errorText = "";
  #closed: Promise<void> | undefined;

  constructor(options: McpStdio, { clock, maxResponseBytes }: McpSettings) {
    const { command, args = [], env = {}, cwd, onStderr } = options;
    super({
      command,
      args: [...args],
      env: { ...env },
      stderr: "pipe",
      ...omitUndefined({ cwd }),
    });
    this.#clock = clock;
    // The SDK creates its own buffer, which limits only bytes.
    Reflect.set(this, "_readBuffer", new BoundedLines(maxResponseBytes));
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- not an EventTarget
    this.onerror = (error) => {
      if (error instanceof McpFault) this.#end(error);
    };
    const decoder = new TextDecoder();
    this.stderr?.on("data", (chunk: Uint8Array) => {
      const text = decoder.decode(chunk, { stream: true });
      this.#errorText = (this.#errorText + text).slice(-KEPT_CHARACTERS);
      if (onStderr !== undefined)
        callListener(
          onStderr,
          () => onStderr(text),
          (why) => `onStderr of an MCP server threw: ${why}`,
        );
    });
  }

  /** The end of the server's standard error. */
  get errorText(): string {
    return this.#errorText.trim();
  }

  /** Set once the server has exceeded a limit, which ends the connection. */
  get excess(): McpFault | undefined {
    return this.#excess;
  }

  /** How the child ended. `undefined` while it runs. */
  get ending(): string | undefined {
    const { pid, exitCode = null, signalCode = null } = this.#child ?? {};
    if (pid === undefined) return undefined;
    if (exitCode !== null) return `it exited with code ${exitCode}`;
    return signalCode === null ? undefined : `it was ended by ${signalCode}`;
  }

  override async start(): Promise<void> {
    const started = super.start();
    // The SDK does not expose the child. Its process id alone could be reused when a signal is
    // sent.
    const child: unknown = Reflect.get(this, "_process");
    if (child instanceof ChildProcess) {
      this.#child = child;
      child.once("exit", () => {
        const stop = this.#clock.setTimer(LINGER_MS, () => destroyPipes(child));
        child.once("close", stop);
      });
    }
    await started;
  }

  override async send(message: JSONRPCMessage): Promise<void> {
    if ("method" in message) return await super.send(message);
    if (this.#answerCount >= MAX_ANSWERS)
      this.#end(new McpFault("lost", `it does not read the answers to ${MAX_ANSWERS} requests`));
    if (this.#excess !== undefined) return;
    this.#answerCount += 1;
    try {
      await super.send(message);
    } finally {
      this.#answerCount -= 1;
    }
  }

  /** Sends SIGTERM at once, and SIGKILL a second later. For a child that never worked. */
  terminate(): void {
    const child = this.#child;
    if (child?.pid === undefined || hasExited(child)) return;
    child.kill("SIGTERM");
    const stop = this.#clock.setTimer(TERMINATION_MS, () => child.kill("SIGKILL"));
    child.once("exit", stop);
  }

  /** Closes the transport. Never rejects; a second call waits for the first. */
  override close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    await super.close();
    const child = this.#child;
    if (child === undefined) return;
    // The SDK does not wait for a child that it has killed.
    if (child.pid !== undefined && !hasExited(child))
      await once(child, "exit", { signal: AbortSignal.timeout(REAP_MS) }).catch(() => undefined);
    destroyPipes(child);
  }

  /** Ends a child that exceeds a limit. The first reason counts. */
  #end(fault: McpFault): void {
    if (this.#excess !== undefined) return;
    this.#excess = fault;
    this.terminate();
  }
}

function destroyPipes({ stdin, stdout, stderr }: ChildProcess): void {
  for (const pipe of [stdin, stdout, stderr]) pipe?.destroy();
}

function hasExited(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

// Limits the lines that a server writes to its standard output. Holds back chunks without a line
// end, because the SDK's buffer copies the whole line for each chunk.

/** The buffer of the SDK's transport, which closes the connection when `append` throws. */
export class BoundedLines extends ReadBuffer {
  readonly #json: JsonMeter;
  #heldBack: Buffer[] = [];

  constructor(maxBytes: number) {
    super({ maxBufferSize: Infinity });
    this.#json = new JsonMeter("line", maxBytes);
  }

  /** Throws a fault `too_large` if a line exceeds a limit. */
  override append(chunk: Buffer): void {
    const excess = this.#json.read(chunk, "its answer");
    if (excess !== undefined) throw excess;
    this.#heldBack.push(chunk);
    if (!chunk.includes("\n")) return;
    super.append(Buffer.concat(this.#heldBack));
    this.#heldBack = [];
  }

  override clear(): void {
    this.#heldBack = [];
    super.clear();
  }
}
