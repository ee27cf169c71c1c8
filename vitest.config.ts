import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { conditions: ["@espalier/source"] },
  ssr: { resolve: { conditions: ["@espalier/source"] } },
  test: {
    include: ["test/**/*.test.ts"],
    typecheck: { enabled: true, include: ["test/types/**/*.test-d.ts"] },
    setupFiles: ["test/harness/set-up.ts"],
    testTimeout: 30_000,
    coverage: { provider: "v8", include: ["src/**"] },
  },
});
