// Goal: calls succeed or end with a clear fault, whatever their server does, and nothing is done
// twice.
// Method: connections to a hand-made server that dies, hangs, forgets and refuses, over both
// transports, on a manual clock.

import { describe, expect, test } from "vitest";

import { systemClock } from "../../src/kernel/clock.ts";
import type { McpHttp } from "../../src/mcp/mcp-options.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { line, until } from "../support/mcp/connecting.ts";
import { proves } from "../harness/proves.ts";
import { handMadeOverHttp } from "../support/mcp/http-server.ts";
import { everythingOverHttp, handMadeOverStdio, isAlive } from "../support/mcp/servers.ts";

describe("a connection", () => {
  const transports = [
    ["stdio", async () => handMadeOverStdio("well").transport],
    ["http", async () => (await handMadeOverHttp()).transport],
  ] as const;
  describe.each(transports)("over %s", (_name, open) => {
    test("runs calls concurrently and gives each its own answer", async () => {
      const { call } = await line(await open());
      const names = ["meta", "grow", "with.dots/and more", "meta"];
      expect(await Promise.all(names.map((name) => call(name)))).toEqual([
        "{}",
        "grown",
        "dotted",
        "{}",
      ]);
    });

    test("reports the error with which the server answers", async () => {
      const { call } = await line(await open());
      expect(await call("refuse")).toBe("answered: out of order");
    });

    proves(["S7.4"], "rejects data that does not match the tool's own schema", async () => {
      const { call } = await line(await open());
      expect(await call("liar")).toBe(
        `answered: Structured content does not match the tool's output schema: count: expected a number, got "many"`,
      );
    });

    test("passes progress on unchanged", async () => {
      const { connection, call } = await line(await open());
      const abort = new AbortController();
      const progress: unknown[] = [];
      const onProgress = (report: unknown): void => {
        progress.push(report);
        abort.abort();
      };
      expect(await call("hang", { signal: abort.signal, onProgress })).toBe(
        "cancelled: it was cancelled",
      );
      expect(progress).toEqual([{ progress: 0.5, total: 2, message: "hanging" }]);
      await connection.close();
    });

    test("ends a cancelled call at once and informs the server", async () => {
      const { call, hang } = await line(await open());
      const abort = new AbortController();
      const { result } = await hang(abort.signal);
      abort.abort();
      expect(await result).toBe("cancelled: it was cancelled");
      expect((await call("seen")).split("\n").slice(2)).toEqual([
        "tools/list",
        "tools/call hang",
        "notifications/cancelled The caller no longer needs it.",
        "tools/call seen",
      ]);
    });

    test("does not send a call that was cancelled before", async () => {
      const { call } = await line(await open());
      expect(await call("die", { signal: AbortSignal.abort() })).toBe(
        "cancelled: it was cancelled",
      );
      expect((await call("seen")).split("\n").at(-2)).toBe("tools/list");
    });

    test("ends pending calls when it is closed, and every later call fails at once", async () => {
      const { connection, call, hang } = await line(await open());
      const { result } = await hang();
      const closed = connection.close();
      expect(await result).toBe("closed: it was closed");
      expect(await call("meta")).toBe("closed: it was closed");
      await closed;
      await connection.close();
      expect(await call("meta")).toBe("closed: it was closed");
    });
  });
});

describe("a server process that dies", () => {
  test("ends its calls as lost, and the next call starts another process", async () => {
    const peer = handMadeOverStdio("well");
    const { call, hang } = await line(peer.transport);
    const { result } = await hang();
    expect(await call("die")).toBe("lost: the connection was closed");
    expect(await result).toBe("lost: the connection was closed");
    expect(await Promise.all([call("meta"), call("meta"), call("meta")])).toEqual([
      "{}",
      "{}",
      "{}",
    ]);
    expect(peer.pids.map(isAlive)).toEqual([false, true]);
  });

  test("is replaced by the next call if it dies between two calls", async () => {
    const peer = handMadeOverStdio("well");
    const { call, connection } = await line(peer.transport);
    process.kill(await peer.started(1), "SIGKILL");
    await until(() => connection.attributes["network.transport"] === undefined);
    expect(await call("meta")).toBe("{}");
    expect(peer.pids.map(isAlive)).toEqual([false, true]);
  });

  test("is not restarted if `maxAttempts` is 0", async () => {
    const peer = handMadeOverStdio("well");
    const { call } = await line(peer.transport, { reconnect: { maxAttempts: 0 } });
    expect(await call("die")).toBe("lost: the connection was closed");
    const gone = "unreachable: it has ended, and is not restarted";
    expect([await call("meta"), await call("meta")]).toEqual([gone, gone]);
    expect(peer.pids).toHaveLength(1);
  });

  test("is noticed although its grandchild holds its pipes open", async () => {
    const peer = handMadeOverStdio("parent");
    const { clock, call } = await line(peer.transport);
    expect(await peer.started(2)).toBeGreaterThan(0);
    const lost = call("die");
    await until(() => clock.pendingTimers > 0);
    clock.advance(500);
    expect(await lost).toBe("lost: the connection was closed");
    expect(peer.pids.map(isAlive)).toEqual([false, true]);
  });
});

describe("a server over HTTP", () => {
  test("gets a new session and the call once again if it forgot the session", async () => {
    const { transport, server, forget } = await handMadeOverHttp();
    const { call } = await line(transport);
    forget();
    expect(await Promise.all([call("meta"), call("meta")])).toEqual(["{}", "{}"]);
    expect(server.seen).toEqual([
      "initialize",
      "notifications/initialized",
      "tools/list",
      "initialize",
      "notifications/initialized",
      "tools/call meta",
      "tools/call meta",
    ]);
  });

  test("is abandoned after it has refused a second session", async () => {
    const { transport, server, refuse } = await handMadeOverHttp();
    const { call } = await line(transport);
    refuse(400, 404);
    expect(await call("meta")).toMatch(/^unreachable: HTTP 404: /);
    expect(server.seen).toEqual([
      "initialize",
      "notifications/initialized",
      "tools/list",
      "initialize",
      "notifications/initialized",
    ]);
    expect(await call("meta")).toBe("{}");
  });

  test("is not called again if it refuses a call", async () => {
    const { transport, server, refuse } = await handMadeOverHttp();
    const { call } = await line(transport);
    refuse(401, 429, 503);
    expect(await call("meta")).toBe("unauthorized: HTTP 401");
    expect(await call("meta")).toMatch(/^answered: HTTP 429: /);
    expect(await call("meta")).toMatch(/^lost: HTTP 503: /);
    expect(await call("meta")).toBe("{}");
    expect(server.seen.slice(3)).toEqual(["tools/call meta"]);
  });

  test("loses a call whose stream ends without an answer, but not the session", async () => {
    const { transport, server, cutStreams } = await handMadeOverHttp();
    const { call, hang } = await line(transport);
    const { result } = await hang();
    cutStreams();
    expect(await result).toBe("lost: the connection broke before an answer came");
    expect(await call("meta")).toBe("{}");
    expect(server.seen.slice(3)).toEqual(["tools/call hang", "tools/call meta"]);
  });

  test("serves the calls of a session that another one has replaced", async () => {
    const { transport, server, refuse, openStreams, cutStreams } = await handMadeOverHttp();
    const { call, hang } = await line(transport);
    const { result } = await hang();
    refuse(404);
    expect(await call("meta")).toBe("{}");
    expect(openStreams.size).toBe(1);
    cutStreams();
    expect(await result).toBe("lost: the connection broke before an answer came");
    expect(server.seen.filter((seen) => seen === "initialize")).toHaveLength(2);
  });

  test("has the stream of a cancelled call closed", async () => {
    const { transport, openStreams } = await handMadeOverHttp();
    const { hang } = await line(transport);
    const abort = new AbortController();
    const { result } = await hang(abort.signal);
    expect(openStreams.size).toBe(1);
    abort.abort();
    await result;
    await until(() => openStreams.size === 0);
  });

  test("is informed when its session ends", async () => {
    const { transport, server } = await handMadeOverHttp();
    const { connection } = await line(transport);
    await connection.close();
    expect(server.seen.slice(3)).toEqual(["DELETE"]);
  });

  test("is asked for the rest of a broken stream, and the call succeeds", async () => {
    const peer = await everythingOverHttp();
    const requests: string[] = [];
    const transport: McpHttp = {
      ...peer.transport,
      fetch: async (url, init = {}) => {
        const { method = "GET", headers, body } = init;
        const isResumed = new Headers(headers).has("last-event-id");
        const isCall = typeof body === "string" && body.includes("tools/call");
        if (isResumed || isCall) requests.push(isResumed ? `${method} the rest` : method);
        const response = await fetch(url, init);
        return isCall ? new Response(brokenAfter("progress", response.body), response) : response;
      },
    };
    const { call } = await line(transport, { clock: systemClock });
    // Done by the time the rest is requested: this server sends only the part written by then.
    const input = { duration: 0.1, steps: 2 };
    expect(await call("trigger-long-running-operation", { arguments: input })).toBe(
      "Long running operation completed. Duration: 0.1 seconds, Steps: 2.",
    );
    expect(requests).toEqual(["POST", "GET the rest"]);
  });

  test("causes a clear fault each time it is gone, and serves again when it is back", async () => {
    const peer = await everythingOverHttp();
    const { call } = await line(peer.transport, { clock: systemClock });
    await peer.kill();
    const gone = `unreachable: fetch failed: connect ECONNREFUSED 127.0.0.1:${peer.port} (tried 3 times)`;
    expect([await call("get-sum"), await call("get-sum")]).toEqual([gone, gone]);
    await everythingOverHttp(peer.port);
    expect(await call("echo", { arguments: { message: "back" } })).toBe("Echo: back");
  });

  test("is retried according to the policy, until the caller or the connection ends", async () => {
    const peer = await everythingOverHttp();
    const clock = new WatchedClock();
    const reconnect = { maxAttempts: 3, delayMs: 70 };
    const { connection, call } = await line(peer.transport, { clock, reconnect });
    await peer.kill();
    const abort = new AbortController();
    const patient = call("get-sum");
    const impatient = call("get-sum", { signal: abort.signal });
    await clock.waits(70);
    abort.abort();
    expect(await impatient).toBe("cancelled: it was cancelled");
    clock.advance(70);
    await clock.waits(140);
    clock.advance(140);
    expect(await patient).toMatch(/^unreachable: .* \(tried 3 times\)$/);
    const late = call("get-sum");
    await clock.waits(70);
    await connection.close();
    expect(await late).toBe("closed: it was closed");
    expect(clock.pendingTimers).toBe(0);
  });
});

/** Passes the bytes on until this word has come, then breaks the connection. */
function brokenAfter(
  word: string,
  body: ReadableStream<Uint8Array<ArrayBuffer>> | null,
): ReadableStream<Uint8Array<ArrayBuffer>> | null {
  const decoder = new TextDecoder();
  return (
    body?.pipeThrough(
      new TransformStream({
        transform: (chunk, controller) => {
          controller.enqueue(chunk);
          if (decoder.decode(chunk).includes(word)) controller.error(new Error("It broke."));
        },
      }),
    ) ?? null
  );
}

/** A clock that records the timers set. */
class WatchedClock extends ManualClock {
  #delays: readonly number[] = [];

  override setTimer(delayMs: number, wake: () => void): () => void {
    this.#delays = [...this.#delays, delayMs];
    return super.setTimer(delayMs, wake);
  }

  /** Resolves once a timer of this length was set since the last call with it. */
  async waits(delayMs: number): Promise<void> {
    await until(() => this.#delays.includes(delayMs));
    this.#delays = this.#delays.filter((other) => other !== delayMs);
  }
}
