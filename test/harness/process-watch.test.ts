// Goal: the watch over test processes detects each fault.
// Method: cause each fault on purpose, in this process and in a separate one.

import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { expect, test } from "vitest";

import { OtlpSink } from "../support/otlp-sink.ts";
import { proves } from "./proves.ts";
import { takeFaults, takeOtherHosts } from "./process-watch.ts";

const run = promisify(execFile);
// TEST-NET-1 (RFC 5737) and a name that does not resolve (RFC 2606).
const OTHERS = ["http://192.0.2.1/", "http://host.invalid/"];

proves(["R25"], "fails a request to another machine, and with it the test", async () => {
  for (const url of OTHERS) {
    await expect(fetch(url)).rejects.toThrow();
    expect(takeOtherHosts()[0]).toBe(new URL(url).hostname);
  }
});

proves(
  ["R25"],
  "ends a process that a test started when it connects to another machine",
  async () => {
    for (const url of OTHERS) {
      const program = `process.on("unhandledRejection", () => {}); await fetch(${JSON.stringify(url)}).catch(() => {});`;
      const ended = run(process.execPath, ["--input-type=module", "--eval", program]);
      await expect(ended).rejects.toThrow(`got ${new URL(url).hostname}`);
    }
  },
);

test("permits connections to this machine by each of its names", async () => {
  await using sink = await OtlpSink.open();
  const { port } = new URL(sink.endpoint);
  for (const host of ["localhost", "127.0.0.1"]) await fetch(`http://${host}:${port}/v1/traces`);
  await run(process.execPath, ["--eval", `fetch("http://127.0.0.1:${port}/v1/traces")`]);
});

test("reports an unhandled rejection and a warning once", async () => {
  void Promise.reject(new Error("Not handled."));
  process.emitWarning("Look here.");
  await new Promise((resolve) => setImmediate(resolve));
  expect(takeFaults()).toEqual({
    rejections: [new Error("Not handled.")],
    warnings: ["Warning: Look here."],
    otherHosts: [],
  });
});
