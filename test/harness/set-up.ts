// Loaded before every test file. No test may leave a rejection unhandled, emit an unexpected
// warning, or reach another machine. Registrations with OpenTelemetry are removed after each file,
// since files share a process.

import { context, diag, metrics, propagation, trace } from "@opentelemetry/api";
import * as fc from "fast-check";
import { afterAll, afterEach, expect } from "vitest";

import { freezeShared } from "../../src/kernel/freeze-shared.ts";
import { loadPQueue } from "../../src/kernel/turn-queue.ts";
import { cleanUp } from "./afterwards.ts";
import { NO_FAULTS, takeFaults } from "./process-watch.ts";

// A write to a shared value throws where it happens.
freezeShared();

// The first call that waits for a slot loads p-queue. No test depends on how long that takes.
await loadPQueue();

// The machine that runs the tests may use a proxy; the servers of the tests do not.
for (const name of ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"]) {
  delete process.env[name];
  delete process.env[name.toLowerCase()];
}

// All machines test the same random cases every time. `FC_SEED=…` selects others.
fc.configureGlobal({ seed: Number(process.env["FC_SEED"] ?? 20_261_121) });

afterEach(async () => {
  await cleanUp();
  // Rejections are reported after the microtasks of the tick in which they occurred.
  await new Promise((resolve) => setImmediate(resolve));
  expect(takeFaults()).toEqual(NO_FAULTS);
});

afterAll(() => {
  for (const api of [trace, context, propagation, metrics, diag]) api.disable();
});
