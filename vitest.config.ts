import { defineConfig } from "vitest/config";

/** What takes its time: `npm run test:deep`. Everything else is `npm test`, the loop of a developer. */
const DEEP = [
  "test/**/*.property.test.ts",
  "test/behaviour/cli/process-*.test.ts",
  "test/behaviour/engines/poison-*.test.ts",
  "test/behaviour/engines/surveys-over-*.test.ts",
  "test/behaviour/mcp/reference-server.test.ts",
  "test/behaviour/models/ai-sdk-provider-runs.test.ts",
  "test/behaviour/models/cut-streams.test.ts",
  "test/behaviour/models/transport-faults.test.ts",
  "test/behaviour/pauses/altered-runs.test.ts",
  "test/behaviour/pauses/approvals-from-depth.test.ts",
  "test/behaviour/random-runs/*.test.ts",
  "test/behaviour/recovery/crash-*.test.ts",
  "test/behaviour/recovery/store-faults.test.ts",
  "test/behaviour/replay/*.test.ts",
  "test/behaviour/subagents/set-up-faults*.test.ts",
  "test/behaviour/telemetry/moved-runs.test.ts",
  "test/behaviour/telemetry/recovered-spans.test.ts",
  "test/behaviour/telemetry/trace-size.test.ts",
  "test/behaviour/tools/outcome-matrix.test.ts",
  "test/budget/ledger-crowd.test.ts",
  "test/bundles/**/*.test.ts",
  "test/cli/commands/demo-command*.test.ts",
  "test/cli/demo-story.test.ts",
  "test/cli/folder-tools-race.test.ts",
  "test/docs/coding-agents.test.ts",
  "test/docs/readme.test.ts",
  "test/engine/pg-boss/*.test.ts",
  "test/engine/restate/restate-engine.test.ts",
  "test/engine/restate/restate-engine-contract.test.ts",
  "test/engine/restate/restate-engine-crash.test.ts",
  "test/engine/restate/restate-engine-identity.test.ts",
  "test/engine/store-engine-contract.test.ts",
  "test/examples/app-*.test.ts",
  "test/examples/trace-example.test.ts",
  "test/mcp/connect-mcp-conformance.test.ts",
  "test/mcp/connect-mcp-exit.test.ts",
  "test/mcp/connect-mcp-missing-client.test.ts",
  "test/mcp/http-transport-endless-answers.test.ts",
  "test/mcp/mcp-connection.test.ts",
  "test/model/ai-sdk/ai-sdk-model-provider-*.test.ts",
  "test/orchestrator/durability/run-record-lives.test.ts",
  "test/package/release-process.test.ts",
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
  "test/store/postgres/postgres-store.test.ts",
  "test/store/sql-store-read-only.test.ts",
  "test/store/sqlite/sqlite-store-processes.test.ts",
  "test/store/store-same-behaviour.test.ts",
  "test/stress/**/*.test.ts",
  "test/telemetry/node-setup-burst.test.ts",
  "test/telemetry/node-setup-program.test.ts",
  "test/telemetry/node-setup-slow-backend.test.ts",
  "test/tools/arguments/check-work.test.ts",
  "test/types/advice.test.ts",
];

/** What is about warnings that a process gives once: each file has modules of its own. */
const ISOLATED = [
  "test/behaviour/telemetry/content-limits.test.ts",
  "test/telemetry/node-setup.test.ts",
  "test/telemetry/node-setup-variables.test.ts",
  "test/telemetry/spans/api-versions.test.ts",
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
