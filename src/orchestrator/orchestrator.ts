// Orchestrator: the facade. Checks what it is given, at once and whole, then hands out runs.

import { isDeepStrictEqual } from "node:util";

import {
  checkAmount,
  checkCount,
  checkKeys,
  checkList,
  checkMethods,
  checkText,
  mismatch,
} from "../kernel/check.ts";
import { systemClock, type Clock } from "../kernel/clock.ts";
import { randomIds, type IdSource } from "../kernel/id-source.ts";
import { deepFreeze, type JsonObject } from "../kernel/json.ts";
import { checkRole, type AgentRole } from "../agent/agent-role.ts";
import { checkRetryPolicy, type RetryPolicy } from "../model/retry.ts";
import type { EventSink, Tracing } from "../protocol/event-sink.ts";
import { EVENT_SCHEMA_VERSION, type EventBody } from "../protocol/event.ts";
import { RunIdSchema } from "../protocol/ids.ts";
import { JsonObjectSchema } from "../protocol/json-value.ts";
import { checkBudget, spendLimitsOf, tighterLimits, type Budget } from "../policies/budget.ts";
import { subagentLimits, type SubagentLimits } from "../policies/subagent-limits.ts";
import { BudgetLedger } from "./budget-ledger.ts";
import { EventRecorder } from "./event-recorder.ts";
import { localTracing } from "./local-tracing.ts";
import { RoleRegistry } from "./role-registry.ts";
import { Run } from "./run.ts";
import { runResult, type RunResult } from "./run-result.ts";
import { RunTree } from "./run-tree.ts";
import { DEFAULT_CONCURRENCY, scheduler, type Concurrency } from "./scheduler.ts";
import { bringToLife, live, type RunShared, type TextPiece } from "./supervisor.ts";

/** What holds for all runs of an orchestrator. Everything has a default. */
export interface OrchestratorOptions {
  /** Bounds on the shape of each tree. Default 3 / 5 / 10. */
  readonly limits?: Partial<SubagentLimits>;
  /** How much of one tree goes on at once. Default 32 model calls, 32 tool calls. */
  readonly concurrency?: Partial<Concurrency>;
  /** How model calls are repeated. Default: 3 attempts, doubling from 500 ms. */
  readonly retry?: RetryPolicy;
  /** How long a tool or model that ignores its signal is waited for. Default 5,000 ms. */
  readonly graceMs?: number;
  /** Roles that others refer to by name and that no `subagents` list holds as a value. */
  readonly roles?: readonly AgentRole[];
  readonly sinks?: readonly EventSink[];
  /** Default: no spans, but events carry trace ids all the same. See `espalier/otel`. */
  readonly tracing?: Tracing;
  readonly clock?: Clock;
  readonly ids?: IdSource;
}

/** What holds for one run. */
export interface StartOptions {
  /** Over the whole tree, on top of the root role's own. */
  readonly budget?: Budget;
  /** Plain data for tools, checked to survive JSON; subagents inherit what the context policy hands on. */
  readonly metadata?: object;
  /** Milliseconds since the epoch at which the run must have ended, next to `budget.wallTimeMs`. */
  readonly deadlineAtMs?: number;
  /** Called with each piece of text of any agent, as it arrives. Makes model calls stream. */
  readonly onText?: (piece: TextPiece) => void;
}

const DEFAULT_GRACE_MS = 5_000;

const OPTION_FIELDS = [
  "limits",
  "concurrency",
  "retry",
  "graceMs",
  "roles",
  "sinks",
  "tracing",
  "clock",
  "ids",
];
const START_FIELDS = ["budget", "metadata", "deadlineAtMs", "onText"];

/** Runs trees of agents. Holds no state of its runs; one orchestrator serves any number of them at once. */
export class Orchestrator {
  readonly #limits: SubagentLimits;
  readonly #concurrency: Concurrency;
  readonly #retry: RetryPolicy;
  readonly #graceMs: number;
  readonly #roles: readonly AgentRole[];
  readonly #sinks: readonly EventSink[];
  readonly #tracing: Tracing;
  readonly #clock: Clock;
  readonly #ids: IdSource;

  /** @throws EspalierError `invalid_option`, naming the option, what was expected and what came. */
  constructor(options: OrchestratorOptions = {}) {
    checkKeys("options", options, OPTION_FIELDS);
    const { limits = {}, concurrency = {}, retry = {}, graceMs = DEFAULT_GRACE_MS } = options;
    const { roles = [], sinks = [], tracing = localTracing() } = options;
    const { clock = systemClock, ids = randomIds } = options;
    this.#limits = subagentLimits("limits", limits);
    this.#concurrency = concurrencyOf(concurrency);
    checkRetryPolicy("retry", retry);
    this.#retry = Object.freeze({ ...retry });
    checkAmount("graceMs", graceMs);
    this.#graceMs = graceMs;
    checkEach("roles", roles, checkRole);
    this.#roles = [...roles];
    checkEach("sinks", sinks, (field, sink) => checkMethods(field, sink, ["take"]));
    this.#sinks = [...sinks];
    checkMethods("tracing", tracing, ["place", "within"]);
    this.#tracing = tracing;
    checkMethods("clock", clock, ["nowMs", "setTimer"]);
    this.#clock = clock;
    checkMethods("ids", ids, ["next"]);
    this.#ids = ids;
  }

  /**
   * Starts a run: `role` at the root, told to do `task`. It begins in the next tick.
   *
   * @throws EspalierError before anything has started, if the roles do not fit together (`unknown_subagent`, `duplicate_role`), a
   * model cannot work (`missing_api_key`), a cost limit covers an unknown price (`price_unknown`), or an option is not usable.
   */
  start(role: AgentRole, task: string, options: StartOptions = {}): Run {
    checkRole("role", role);
    checkText("task", task);
    checkKeys("start options", options, START_FIELDS);
    const { budget = {}, deadlineAtMs, onText } = options;
    checkBudget("budget", budget);
    if (deadlineAtMs !== undefined) checkAmount("deadlineAtMs", deadlineAtMs);
    if (onText !== undefined) checkMethods("start options", options, ["onText"]);
    const metadata = frozenMetadata(options.metadata === undefined ? {} : options.metadata);
    const registry = new RoleRegistry(role, this.#roles);
    registry.assertReady(role, budget);
    const scope = this.#scope(registry, onText);
    const limits = tighterLimits(spendLimitsOf(role.budget), spendLimitsOf(budget));
    const root = bringToLife(scope, {
      role,
      task,
      metadata,
      agentPath: role.name,
      depth: 0,
      parent: undefined,
      limits,
      wallTimeMs: earlier(role.budget.wallTimeMs, budget.wallTimeMs),
      deadlineAtMs,
    });
    const { runId, tree, ledger, recorder } = scope;
    const place = { ...root.identity, executionId: null, stepId: null, callId: null };
    let traceId = "";
    return new Run({
      runId,
      root,
      tree,
      subscribe: (sink) => recorder.subscribe(sink),
      begin: () => {
        const started = {
          schemaVersion: EVENT_SCHEMA_VERSION,
          role: role.name,
          task,
          limits: this.#limits,
        } as const;
        const event = recorder.record(place, {
          type: "run.started",
          ...started,
          budget: ledger.remaining(root.identity.agentId),
        });
        traceId = event.traceId;
        return live(scope, root, { inherited: [], spawnCallId: undefined });
      },
      conclude: () => {
        const result = runResult(traceId, tree, ledger);
        recorder.record(place, runEnded(result));
        return result;
      },
    });
  }

  #scope(registry: RoleRegistry, onText: StartOptions["onText"]): RunShared {
    const clock = this.#clock;
    return {
      runId: RunIdSchema.parse(this.#ids.next("run")),
      tree: new RunTree(this.#limits),
      ledger: new BudgetLedger(clock),
      slots: scheduler(this.#concurrency),
      recorder: new EventRecorder({ clock, tracing: this.#tracing, sinks: this.#sinks }),
      registry,
      clock,
      ids: this.#ids,
      graceMs: this.#graceMs,
      retry: this.#retry,
      onText,
    };
  }
}

function runEnded(result: RunResult): EventBody<"run.ended"> {
  const { status, reason, subagentsByDepth, refusalsByCode, durationMs } = result;
  const { own, descendants, total } = result.usage;
  const error = status === "failed" ? result.agents[0]?.errors.at(-1) : undefined;
  const usage = { own, descendants, total };
  const failure = error === undefined ? {} : { error };
  return {
    type: "run.ended",
    status,
    reason,
    ...failure,
    usage,
    subagentsByDepth,
    refusalsByCode,
    durationMs,
  };
}

function earlier(left: number | undefined, right: number | undefined): number | undefined {
  if (left === undefined || right === undefined) return left ?? right;
  return Math.min(left, right);
}

function frozenMetadata(metadata: unknown): JsonObject {
  const advice =
    "Hand in plain data: text, numbers, true, false, null, lists and objects of these.";
  try {
    const parsed = JsonObjectSchema.safeParse(JSON.parse(JSON.stringify(metadata)));
    if (parsed.success && isDeepStrictEqual(parsed.data, metadata)) return deepFreeze(parsed.data);
  } catch {
    // A cycle, a depth or a getter that JSON cannot take.
  }
  throw mismatch("metadata", "an object of JSON values", metadata, advice);
}

function checkEach(
  field: string,
  list: unknown,
  check: (field: string, value: unknown) => void,
): void {
  checkList(field, list);
  if (Array.isArray(list))
    for (const [index, value] of list.entries()) check(`${field}[${index}]`, value);
}

function concurrencyOf(given: Partial<Concurrency>): Concurrency {
  checkKeys("concurrency", given, Object.keys(DEFAULT_CONCURRENCY));
  for (const [name, limit] of Object.entries(given)) {
    if (limit === undefined) continue;
    checkCount(`concurrency.${name}`, limit);
    if (limit === 0)
      throw mismatch(`concurrency.${name}`, "at least 1", limit, "With none nothing could run.");
  }
  return Object.freeze({
    modelCalls: given.modelCalls ?? DEFAULT_CONCURRENCY.modelCalls,
    toolCalls: given.toolCalls ?? DEFAULT_CONCURRENCY.toolCalls,
  });
}
