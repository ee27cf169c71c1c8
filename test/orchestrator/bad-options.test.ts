// Goal: whatever is handed in that cannot work is one clear coded error, at once: nothing is silently taken for "no limit".
// Method: a table of slips as people make them, through calls without types.

import { expect, test } from "vitest";

import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { EspalierError } from "../../src/kernel/error.ts";
import { soloist } from "../harness/soloist.ts";
import { says } from "../../src/testing/scripted-model.ts";

const CYCLE: Record<string, unknown> = {};
CYCLE["self"] = CYCLE;

const later = Promise.resolve({ steps: 0 });

const OPTIONS: readonly (readonly [field: string, options: unknown])[] = [
  ["options", null],
  ["options", later],
  ["options.limit", { limit: 3 }],
  ["limits", { limits: null }],
  ["limits", { limits: later }],
  ["limits", { limits: new Date(0) }],
  ["limits.maxDepth", { limits: { maxDepth: -1 } }],
  ["limits.maxDepth", { limits: { maxDepth: Number.NaN } }],
  ["concurrency", { concurrency: new Map() }],
  ["concurrency.modelCalls", { concurrency: { modelCalls: 0 } }],
  ["retry", { retry: 5 }],
  ["retry", { retry: later }],
  ["retry.maxAttempts", { retry: { maxAttempts: 0 } }],
  ["graceMs", { graceMs: null }],
  ["roles", { roles: 5 }],
  ["roles[0]", { roles: [null] }],
  ["roles[0]", { roles: [{ name: "x" }] }],
  ["sinks", { sinks: {} }],
  ["sinks[0]", { sinks: [() => 1] }],
  ["tracing", { tracing: {} }],
  ["tracing", { tracing: later }],
  ["clock", { clock: {} }],
  ["ids", { ids: null }],
];

const STARTS: readonly (readonly [
  field: string,
  role: unknown,
  task: unknown,
  options: unknown,
])[] = [
  ["role", null, "t", {}],
  ["role", { name: "x", instructions: "y" }, "t", {}],
  ["task", soloist([]).role, " ", {}],
  ["task", soloist([]).role, 5, {}],
  ["start options", soloist([]).role, "t", later],
  ["start options.budgets", soloist([]).role, "t", { budgets: {} }],
  ["budget", soloist([]).role, "t", { budget: null }],
  ["budget", soloist([]).role, "t", { budget: later }],
  ["budget.tokens", soloist([]).role, "t", { budget: { tokens: 5 } }],
  ["budget.steps", soloist([]).role, "t", { budget: { steps: 1.5 } }],
  ["budget.costUsd", soloist([]).role, "t", { budget: { costUsd: Number.POSITIVE_INFINITY } }],
  ["deadlineAtMs", soloist([]).role, "t", { deadlineAtMs: "soon" }],
  ["start options", soloist([]).role, "t", { onText: 5 }],
  ["metadata", soloist([]).role, "t", { metadata: null }],
  ["metadata", soloist([]).role, "t", { metadata: CYCLE }],
  ["metadata", soloist([]).role, "t", { metadata: { run: () => 1 } }],
  ["metadata", soloist([]).role, "t", { metadata: { when: new Date(0) } }],
];

function refusalOf(call: () => unknown): readonly unknown[] {
  try {
    call();
  } catch (error) {
    return EspalierError.is(error)
      ? [error.data["field"], error.message.includes(", got ")]
      : [error];
  }
  return ["nothing was refused"];
}

for (const [field, options] of OPTIONS) {
  test(`an orchestrator refuses ${field}: ${typeof options}`, () => {
    expect(refusalOf(() => Reflect.construct(Orchestrator, [options]))).toEqual([field, true]);
  });
}

for (const [field, role, task, options] of STARTS) {
  test(`a start refuses ${field}: ${typeof options}`, () => {
    const orchestrator = new Orchestrator();
    const call = (): unknown =>
      Reflect.apply(orchestrator.start.bind(orchestrator), undefined, [role, task, options]);
    expect(refusalOf(call)).toEqual([field, true]);
  });
}

test("metadata of any plain shape is taken, also behind an interface", async () => {
  interface Owner {
    readonly name: string;
  }
  const owner: Owner = { name: "Ada" };
  const { role } = soloist([says("done")]);
  const result = await new Orchestrator().start(role, "t", { metadata: { owner } }).result;
  expect(result.agents[0]?.metadata).toEqual({ owner: { name: "Ada" } });
});
