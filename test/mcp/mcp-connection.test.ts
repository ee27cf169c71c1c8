// Goal: calls end well or with a clear fault, whatever their server does, and nothing is done twice. Method: connections to a hand-made
// server that dies, hangs, forgets and refuses, over both transports; time stands still unless a test moves it.

import { describe, expect, test } from "vitest";

import { systemClock } from "../../src/kernel/clock.ts";
import type { McpHttp } from "../../src/mcp/mcp-options.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { line, until } from "./connecting.ts";
import { proves } from "../harness/proves.ts";
import { handMadeOverHttp } from "./http-server.ts";
import { everythingOverHttp, handMadeOverStdio, isAlive } from "./servers.ts";

describe("over both transports", () => {
  const transports = [
    ["stdio", async () => handMadeOverStdio("well").transport],
    ["http", async () => (await handMadeOverHttp()).transport],
  ] as const;
  describe.each(transports)("%s", (_name, open) => {
    test("calls run at once, and each gets its own answer", async () => {
      const { call } = await line(await open());
      const names = ["meta", "grow", "with.dots/and more", "meta"];
      expect(await Promise.all(names.map((name) => call(name)))).toEqual([
        "{}",
        "grown",
        "dotted",
        "{}",
      ]);
    });

    test("what the server answers with an error is that error", async () => {
      const { call } = await line(await open());
      expect(await call("refuse")).toBe("answered: out of order");
    });

    proves(["S7.4"], "data that does not fit the tool's own schema is not taken", async () => {
      const { call } = await line(await open());
      expect(await call("liar")).toBe(
        `answered: Structured content does not match the tool's output schema: count: expected a number, got "many"`,
      );
    });

    test("progress comes through as it is", async () => {
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

    test("a call that is cancelled ends at once, and the server is informed", async () => {
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

    test("a call that was cancelled before never leaves", async () => {
      const { call } = await line(await open());
      expect(await call("die", { signal: AbortSignal.abort() })).toBe(
        "cancelled: it was cancelled",
      );
      expect((await call("seen")).split("\n").at(-2)).toBe("tools/list");
    });

    test("closing ends calls under way, and every call after it fails at once", async () => {
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

describe("a child that dies", () => {
  test("ends its calls, of which nothing is known, and the next call starts another", async () => {
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

  test("between two calls is noticed by the second", async () => {
    const peer = handMadeOverStdio("well");
    const { call, connection } = await line(peer.transport);
    process.kill(await peer.started(1), "SIGKILL");
    await until(() => connection.attributes["network.transport"] === undefined);
    expect(await call("meta")).toBe("{}");
    expect(peer.pids.map(isAlive)).toEqual([false, true]);
  });

  test("stays dead if it is not to be started again", async () => {
    const peer = handMadeOverStdio("well");
    const { call } = await line(peer.transport, { reconnect: { maxAttempts: 0 } });
    expect(await call("die")).toBe("lost: the connection was closed");
    const gone = "unreachable: it has ended, and is not restarted";
    expect([await call("meta"), await call("meta")]).toEqual([gone, gone]);
    expect(peer.pids).toHaveLength(1);
  });

  test("while its grandchild holds its pipes open is noticed all the same", async () => {
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
  test("that forgot the session gets a new one and the call again: once", async () => {
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

  test("that refuses every session is given up after the second", async () => {
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

  test("that refuses a call is not asked again", async () => {
    const { transport, server, refuse } = await handMadeOverHttp();
    const { call } = await line(transport);
    refuse(401, 429, 503);
    expect(await call("meta")).toBe("unauthorized: HTTP 401");
    expect(await call("meta")).toMatch(/^answered: HTTP 429: /);
    expect(await call("meta")).toMatch(/^lost: HTTP 503: /);
    expect(await call("meta")).toBe("{}");
    expect(server.seen.slice(3)).toEqual(["tools/call meta"]);
  });

  test("whose stream ends without an answer has lost the call; the session stays", async () => {
    const { transport, server, cutStreams } = await handMadeOverHttp();
    const { call, hang } = await line(transport);
    const { result } = await hang();
    cutStreams();
    expect(await result).toBe("lost: the connection broke before an answer came");
    expect(await call("meta")).toBe("{}");
    expect(server.seen.slice(3)).toEqual(["tools/call hang", "tools/call meta"]);
  });

  test("keeps serving the calls of a session that another one has replaced", async () => {
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

  test("is rid of the stream of a call that was cancelled", async () => {
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

  test("whose stream breaks is asked for the rest of it, and the call ends well", async () => {
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
    // Done by the time we ask for the rest: this server gives only what it has written by then.
    const input = { duration: 0.1, steps: 2 };
    expect(await call("trigger-long-running-operation", { arguments: input })).toBe(
      "Long running operation completed. Duration: 0.1 seconds, Steps: 2.",
    );
    expect(requests).toEqual(["POST", "GET the rest"]);
  });

  test("that is gone gives a clear fault each time, and serves again when it is back", async () => {
    const peer = await everythingOverHttp();
    const { call } = await line(peer.transport, { clock: systemClock });
    await peer.kill();
    const gone = `unreachable: fetch failed: connect ECONNREFUSED 127.0.0.1:${peer.port} (tried 3 times)`;
    expect([await call("get-sum"), await call("get-sum")]).toEqual([gone, gone]);
    await everythingOverHttp(peer.port);
    expect(await call("echo", { arguments: { message: "back" } })).toBe("Echo: back");
  });

  test("is waited for as long as the policy says, and no longer than the caller or the connection lives", async () => {
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

/** The same bytes, until this word has come: then the connection breaks. */
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

/** A clock that says for how long it is asked to wait. */
class WatchedClock extends ManualClock {
  #delays: readonly number[] = [];

  override setTimer(delayMs: number, wake: () => void): () => void {
    this.#delays = [...this.#delays, delayMs];
    return super.setTimer(delayMs, wake);
  }

  /** Resolves once a timer was set for so long since the last time this was asked. */
  async waits(delayMs: number): Promise<void> {
    await until(() => this.#delays.includes(delayMs));
    this.#delays = this.#delays.filter((other) => other !== delayMs);
  }
}
