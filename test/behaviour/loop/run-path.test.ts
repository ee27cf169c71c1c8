// Goal: the code path of a run does not grow unnoticed, and unused features cost nothing.
// Method: `npm run path`, in a separate process, against fixed bounds. They may fall; raising one
// takes a page in docs/decisions.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { promisify } from "node:util";

import { expect } from "vitest";
import { z } from "zod";

import { proves } from "../../harness/proves.ts";

const Figures = z.object({
  files: z.int(),
  functions: z.int(),
  namedOverThreeLines: z.int(),
  calls: z.int(),
  lines: z.int(),
});
const Measured = z.object({
  cold: Figures,
  warm: Figures,
  single: Figures,
  frames: z.object({ model: z.int(), tool: z.int(), limits: z.int() }),
  coldOnly: z.array(z.string()),
});

/** The run without store, sink and tracing, as `npm run path` measures it. */
const PLAIN = {
  cold: { calls: 2_004 },
  warm: { lines: 4_144, namedOverThreeLines: 297 },
  single: { functions: 293 },
  frames: { model: 9, tool: 11, limits: 8 },
};
/** The same run traced by OpenTelemetry, with a memory store. */
const OBSERVED = {
  cold: { calls: 15_871 },
  warm: { lines: 6_555, namedOverThreeLines: 512 },
  single: { functions: 591 },
  frames: { model: 15, tool: 20, limits: 10 },
};

async function measure(...flags: readonly string[]) {
  const script = ["--conditions=@espalier/source", "scripts/run-path.ts", ...flags];
  const { stdout } = await promisify(execFile)(process.execPath, script);
  const [figures = "", ...folders] = stdout.trim().split("\n");
  const files = folders.flatMap((line) => {
    const [folder, _count, ...names] = line.split(" ");
    return names.map((name) => `${folder}/${name}`);
  });
  return { ...Measured.parse(JSON.parse(figures)), files };
}

function findExcess(measured: z.infer<typeof Measured>, bounds: typeof PLAIN): readonly string[] {
  const { cold, warm, single, frames } = measured;
  const compared: readonly (readonly [string, number, number])[] = [
    ["calls, cold", cold.calls, bounds.cold.calls],
    ["lines, warm", warm.lines, bounds.warm.lines],
    ["named functions, warm", warm.namedOverThreeLines, bounds.warm.namedOverThreeLines],
    ["functions of a single agent", single.functions, bounds.single.functions],
    ["frames to the model", frames.model, bounds.frames.model],
    ["frames to the tool", frames.tool, bounds.frames.tool],
    ["frames to the spawn limits", frames.limits, bounds.frames.limits],
  ];
  return compared.flatMap(([name, is, most]) =>
    is > most ? [`${name}: ${is}, at most ${most}`] : [],
  );
}

proves(["H22"], "a plain run stays within its bounds", async () => {
  expect(findExcess(await measure(), PLAIN)).toEqual([]);
});

proves(["H22"], "a traced run with a store stays within its bounds", async () => {
  expect(findExcess(await measure("--observed"), OBSERVED)).toEqual([]);
});

/** Files of features that a plain run does not use, by feature. */
const UNUSED = {
  store: ["src/agent/persistence.ts", "src/orchestrator/durability/", "src/store/"],
  ids: ["src/run-services/run-ids.ts", "src/kernel/trace-ids.ts", "src/kernel/crypto.ts"],
  tracing: ["src/protocol/span-tree.ts", "src/telemetry/", "src/run-services/guarded-tracing.ts"],
  streams: ["src/run-services/part-emitter.ts", "src/orchestrator/run/run-iterators.ts"],
  hooks: ["src/agent/hooked-model-call.ts", "src/agent/phases/rewrite-calls.ts", "src/hooks/"],
  time: ["src/agent/agent-time.ts", "src/budget/account-time.ts"],
  fallback: ["src/model/fallback.ts"],
  limits: ["src/model/model-limits.ts", "src/kernel/turn-queue.ts"],
  groups: ["src/agent/spawn-group.ts", "src/orchestrator/tree/subagent-service.ts"],
  questions: ["src/agent/pending-answers.ts", "src/agent/tool-calls/call-questions.ts"],
  compaction: ["src/agent/phases/compact.ts", "src/agent/phases/summarize-results.ts"],
  events: ["src/agent/model-events.ts", "src/model/request-prefix.ts"],
  results: ["src/orchestrator/tree/tool-report.ts", "src/protocol/definition.ts"],
  sessions: ["src/orchestrator/sessions/"],
};

proves(["H22"], "a plain run enters no file of a feature that it does not use", async () => {
  const { files, coldOnly } = await measure();
  const unused = Object.values(UNUSED).flat();
  for (const path of unused) expect([path, existsSync(path)]).toEqual([path, true]);
  const isUnused = (file: string): boolean => unused.some((path) => file.startsWith(path));
  expect(files.filter(isUnused)).toEqual([]);
  // Prompt and tools are hashed once per role (docs/decisions/2026-11-29-late-data.md).
  expect(coldOnly.filter(isUnused)).toEqual(["src/kernel/crypto.ts", "src/protocol/definition.ts"]);
});
