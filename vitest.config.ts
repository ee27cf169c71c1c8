import { defineConfig } from "vitest/config";

/** What takes its time: `npm run test:deep`. Everything else is `npm test`, the loop of a developer. */
const DEEP = [
  "test/model/cut-streams.test.ts",
  "test/model/transport-faults.test.ts",
  "test/**/*.property.test.ts",
  "test/bundles/**/*.test.ts",
  "test/examples/app-*.test.ts",
  "test/engine/engine-contract-here.test.ts",
  "test/engine/poison-*.test.ts",
  "test/engine/restate.test.ts",
  "test/engine/restate-contract.test.ts",
  "test/engine/restate-crash.test.ts",
  "test/engine/restate-identity.test.ts",
  "test/ai-sdk/provider-*.test.ts",
  "test/engine/pg-boss-*.test.ts",
  "test/cli/demo.test.ts",
  "test/cli/demo-*.test.ts",
  "test/cli/folder-race.test.ts",
  "test/cli/process-*.test.ts",
  "test/docs/coding-agents.test.ts",
  "test/examples/trace-example.test.ts",
  "test/golden/tool-matrix.test.ts",
  "test/mcp/endless-answers.test.ts",
  "test/mcp/mcp-connection.test.ts",
  "test/mcp/mcp-exit.test.ts",
  "test/mcp/mcp-runs.test.ts",
  "test/mcp/missing-client.test.ts",
  "test/page/page-answers.test.ts",
  "test/page/page-chat.test.ts",
  "test/page/page-deliberate.test.ts",
  "test/page/page-errors.test.ts",
  "test/page/page-facts.test.ts",
  "test/page/page-focus.test.ts",
  "test/page/page-live.test.ts",
  "test/page/page-marks.test.ts",
  "test/page/page-panels.test.ts",
  "test/page/page-screens.test.ts",
  "test/page/page-waits.test.ts",
  "test/package/release-process.test.ts",
  "test/pause/altered-runs.test.ts",
  "test/properties/**/*.test.ts",
  "test/stress/**/*.test.ts",
  "test/journal/crash-*.test.ts",
  "test/journal/every-recording.test.ts",
  "test/journal/replay*.test.ts",
  "test/journal/run-record-lives.test.ts",
  "test/journal/store-faults.test.ts",
  "test/mcp/conformance.test.ts",
  "test/orchestrator/ledger-crowd.test.ts",
  "test/engine/surveys-over-*.test.ts",
  "test/runs/readme.test.ts",
  "test/store/earlier-stores.test.ts",
  "test/store/postgres-store.test.ts",
  "test/store/reading-stores.test.ts",
  "test/store/same-behaviour.test.ts",
  "test/store/sqlite-processes.test.ts",
  "test/telemetry/moved-runs.test.ts",
  "test/telemetry/recovered-spans.test.ts",
  "test/telemetry/slow-backend.test.ts",
  "test/telemetry/span-burst.test.ts",
  "test/telemetry/span-program.test.ts",
  "test/telemetry/trace-size.test.ts",
  "test/tools/schema-work.test.ts",
  "test/tree/approvals-from-depth.test.ts",
  "test/tree/set-up-faults*.test.ts",
  "test/types/advice.test.ts",
];

/** What is about warnings that a process gives once: each file has modules of its own. */
const ISOLATED = [
  "test/telemetry/api-versions.test.ts",
  "test/telemetry/content-limits.test.ts",
  "test/telemetry/node-*.test.ts",
];

const isDeep = process.env["DEEP"] !== undefined;

export default defineConfig({
  resolve: { conditions: ["@espalier/source"] },
  ssr: { resolve: { conditions: ["@espalier/source"] } },
  test: {
    setupFiles: ["test/harness/set-up.ts"],
    pool: "threads",
    maxWorkers: "100%",
    // For what hangs alone: on a machine that is busy with other things a test may take ten times as long.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
    coverage: { provider: "v8", include: ["src/**"] },
    projects: isDeep
      ? [
          {
            extends: true,
            test: {
              name: "deep",
              include: DEEP,
              isolate: false,
              typecheck: { enabled: true, include: ["test/types/**/*.test-d.ts"] },
            },
          },
        ]
      : [
          {
            extends: true,
            // Importing `src` anew for each file was most of the time.
            test: {
              name: "shared",
              include: ["test/**/*.test.ts"],
              exclude: [...DEEP, ...ISOLATED],
              isolate: false,
            },
          },
          { extends: true, test: { name: "isolated", include: ISOLATED, isolate: true } },
        ],
  },
});
