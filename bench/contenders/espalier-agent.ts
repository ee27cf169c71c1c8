// The same with espalier as it comes: default options, tracing on. Each variant differs from that in one thing. Limits on the shape of the
// tree are raised where the work is larger than their defaults.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { z } from "zod";

import {
  defineAgent,
  defineTool,
  openai,
  Orchestrator,
  type AgentRole,
  type OrchestratorOptions,
  type RunId,
  type StartOptions,
} from "espalier";
import type { Store } from "espalier/extend";
import { openTelemetry } from "espalier/otel";
import { setUpNodeTracing } from "espalier/otel/node";
import { sqliteStore } from "espalier/store/sqlite";

import {
  modelName,
  roleName,
  spansOf,
  type AgentWork,
  type SpanCounts,
} from "../workloads/agent-work.ts";
import type { Contender, TracedWork, WorkWatch } from "./contender.ts";
import type { Variant } from "../harness/workload.ts";

/** Spans arrive well before; a flush that takes as long as this has lost some. */
const FLUSH_TIMEOUT_MS = 30_000;

/** What `new Orchestrator()` is given for tracing, and what counts the spans. */
export interface BenchTracing {
  readonly options: Pick<OrchestratorOptions, "tracing">;
  flush(): Promise<void>;
  /** Ends the tracing; `expected` are the spans of all that was done. */
  close(expected: SpanCounts): Promise<TracedWork | undefined>;
}

/** Tracing as `setUpNodeTracing` comes, unless the variant says otherwise. `OTEL_EXPORTER_OTLP_ENDPOINT` says where spans go. */
export function benchTracing(variant: Variant): BenchTracing {
  const nothing = { flush: () => Promise.resolve(), close: () => Promise.resolve(undefined) };
  if (variant === "espalier, untraced") return { options: {}, ...nothing };
  if (variant === "espalier, no SDK") return { options: { tracing: openTelemetry() }, ...nothing };
  const content = variant === "espalier, content";
  const node = setUpNodeTracing({ serviceName: "bench", ...(content ? { content } : {}) });
  const bound = { timeoutMs: FLUSH_TIMEOUT_MS };
  return {
    options: { tracing: node.tracing },
    flush: async () => void (await node.flush(bound)),
    close: async (expected) => {
      const { deliveredSpans, lostSpans, pendingSpans } = await node.shutdown(bound);
      return { expected, endedSpans: deliveredSpans + lostSpans + pendingSpans };
    },
  };
}

function storeOf(variant: Variant, folder: string): Store | undefined {
  const path = join(folder, "runs.db");
  if (variant === "espalier, SQLite") return sqliteStore(path);
  if (variant === "espalier, SQLite of the process")
    return sqliteStore(path, { durability: "process" });
  return undefined;
}

/** What the shape of the tree needs, where that is more than the defaults. */
function limitsFor({ child }: AgentWork): OrchestratorOptions {
  if (child === undefined) return {};
  return { limits: { maxDepth: 10, maxBreadthPerParent: 1_000, maxTotalSubagents: 1_000 } };
}

function roleFor(work: AgentWork, serverUrl: string, watch: WorkWatch): AgentRole {
  const common = {
    name: roleName(work.level),
    description: "Works",
    instructions: "You work.",
    model: openai(modelName(work), { baseUrl: `${serverUrl}/v1` }),
  };
  if (work.child !== undefined)
    return defineAgent({ ...common, subagents: [roleFor(work.child, serverUrl, watch)] });
  const add = defineTool({
    name: "add",
    description: "Adds two numbers.",
    inputSchema: z.object({ a: z.number(), b: z.number() }),
    execute: ({ a, b }) => {
      watch.onToolCall?.();
      return String(a + b);
    },
  });
  return defineAgent({ ...common, tools: [add] });
}

export function espalierAgent(variant: Variant, serverUrl: string): Contender {
  const tracing = benchTracing(variant);
  const folder = mkdtempSync(join(tmpdir(), "bench-"));
  const store = storeOf(variant, folder);
  const done = { runs: 0, agents: 0, modelCalls: 0, toolCalls: 0 };
  let lastRunId: RunId | undefined;

  return {
    prepare: (work, watch = {}) => {
      const orchestrator = new Orchestrator({
        ...limitsFor(work),
        ...tracing.options,
        ...(store === undefined ? {} : { store }),
      });
      const role = roleFor(work, serverUrl, watch);
      const { onDelta } = watch;
      const options: StartOptions =
        onDelta === undefined
          ? {}
          : { onStreamPart: (piece) => piece.type === "text" && onDelta(piece.text) };
      const spans = spansOf(work);
      return async () => {
        const run = orchestrator.start(role, "Begin.", options);
        lastRunId = run.runId;
        const { status, reason, agents, text } = await run.result;
        if (status !== "completed" || text === "") throw new Error(reason.message);
        const completed = agents.filter((agent) => agent.status === "completed").length;
        if (completed !== spans.agents)
          throw new Error(`Expected ${spans.agents} agents to complete, got ${completed}.`);
        done.runs += spans.runs;
        done.agents += spans.agents;
        done.modelCalls += spans.modelCalls;
        done.toolCalls += spans.toolCalls;
      };
    },
    flush: tracing.flush,
    journalBytes: async () => {
      let bytes = 0;
      if (store !== undefined && lastRunId !== undefined)
        for await (const record of store.read(lastRunId)) bytes += Buffer.byteLength(record);
      return bytes;
    },
    close: async () => {
      const traced = await tracing.close(done);
      await store?.close();
      rmSync(folder, { recursive: true });
      return traced;
    },
  };
}
