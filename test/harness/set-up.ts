// Loaded before every test file. Whatever a test does, no promise may be rejected without an owner, no warning may pass unseen, and nothing
// may leave this machine. What a file has registered with OpenTelemetry goes with it: files share a process.

import { context, diag, metrics, propagation, trace } from "@opentelemetry/api";
import * as fc from "fast-check";
import { afterAll, afterEach, expect } from "vitest";

import { freezeShared } from "../../src/kernel/shared.ts";
import { loadPQueue } from "../../src/kernel/turn-queue.ts";
import { cleanUp } from "./afterwards.ts";
import { NO_FAULTS, takeFaults } from "./process-watch.ts";

// A write to a value that is shared is found where it happens.
freezeShared();

// The first call that waits for room loads p-queue. No test depends on how long that takes.
await loadPQueue();

// The machine that runs the tests may sit behind a proxy; the servers of the tests do not.
for (const name of ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"]) {
  delete process.env[name];
  delete process.env[name.toLowerCase()];
}

// The same cases everywhere, every time. `FC_SEED=…` looks at others.
fc.configureGlobal({ seed: Number(process.env["FC_SEED"] ?? 20_261_121) });

afterEach(async () => {
  await cleanUp();
  // Rejections are reported after the microtasks of the tick in which they happened.
  await new Promise((resolve) => setImmediate(resolve));
  expect(takeFaults()).toEqual(NO_FAULTS);
});

afterAll(() => {
  for (const api of [trace, context, propagation, metrics, diag]) api.disable();
});
