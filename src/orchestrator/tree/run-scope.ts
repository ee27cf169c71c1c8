// What the agents of one run share, put together from what its orchestrator was told.

import { steadyClock } from "../../kernel/clock.ts";
import { Pace } from "../../kernel/pace.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import { hookSet, joinHooks } from "../../hooks/hook-set.ts";
import { textHash } from "../../protocol/definition.ts";
import { RunIdSchema, type RunId } from "../../protocol/ids.ts";
import type { ToolSet } from "../../tools/tool-set.ts";
import { toolsOf } from "./agent-assembly.ts";
import { BudgetLedger } from "../budget/ledger.ts";
import { EventRecorder } from "./event-recorder.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import { hasObserver, observerSink } from "./observer-sink.ts";
import type { Settings } from "../run/orchestrator-options.ts";
import type { RoleRegistry } from "./role-registry.ts";
import { RunDefinitions } from "./run-definitions.ts";
import type { RunShared } from "./run-shared.ts";
import { RunTree } from "./run-tree.ts";
import { scheduler } from "./limiter.ts";
import type { StandingRun } from "../durability/restored-run.ts";
import { tellThreshold } from "./budget-events.ts";

export interface ScopeParts {
  readonly registry: RoleRegistry;
  readonly onText: RunShared["onText"];
  /** The run that goes on; undefined: a new one. */
  readonly run?: StandingRun;
  readonly answers?: RunShared["answers"];
  /** Default: none. */
  readonly session?: RunShared["session"];
  /** Makes the journal of the run, where it is kept. */
  readonly journal?: (runId: RunId) => RunJournal | undefined;
}

/** Some ten milliseconds of work. */
const SPAWNS_PER_TURN = 64;

export function runScope(settings: Settings, given: ScopeParts): RunShared {
  const { registry, onText, run, session, answers = new Map() } = given;
  const { ids, tracing, concurrency } = settings;
  const clock = steadyClock(settings.clock, run?.pausedAtMs);
  const { graceMs, retry, hookTimeoutMs, desk, guards } = settings;
  const runId = run?.runId ?? RunIdSchema.parse(ids.next("run"));
  const journal = given.journal?.(runId);
  const tree = new RunTree(run?.limits ?? settings.limits, run);
  const hooksOf = once((role: AgentRole) => hookSet(joinHooks(settings.hooks, role.hooks)));
  const hooks = [settings.hooks, ...[...registry.all].map((role) => role.hooks)];
  const observers = hooks.some(hasObserver) ? [observerSink(tree, hooksOf)] : [];
  const recorder = new EventRecorder({
    clock,
    tracing,
    sinks: [...(journal === undefined ? [] : [journal.sink]), ...settings.sinks, ...observers],
    eventCount: run?.eventCount ?? 0,
  });
  const ledger = new BudgetLedger(clock, {
    onThreshold: (reached) => tellThreshold({ tree, recorder }, reached),
    onOperation: (done) => journal?.append({ type: "ledger", done }),
  });
  const definitions = new RunDefinitions(run?.definitions, (hash, text) =>
    journal?.append({ type: "definition", hash, text }),
  );
  const toolsOfRole = once((role: AgentRole) => toolsOf(role, registry));
  return {
    runId,
    tree,
    ledger,
    slots: scheduler(concurrency),
    pace: new Pace(SPAWNS_PER_TURN),
    recorder,
    journal,
    definitions,
    registry,
    clock,
    ids,
    graceMs,
    retry,
    hookTimeoutMs,
    desk,
    guards,
    session,
    answers,
    onText,
    toolsOf: toolsOfRole,
    cacheKeyOf: once((role: AgentRole) => cacheKeyOf(role, toolsOfRole(role))),
    hooksOf,
  };
}

const CACHE_KEY_LENGTH = 12;

/** By the role as it is defined: what its agents are told besides differs, and is not what their requests begin with alike. */
function cacheKeyOf({ instructions }: AgentRole, { specs }: ToolSet): string {
  return textHash(JSON.stringify([instructions, specs])).slice(0, CACHE_KEY_LENGTH);
}

/** Makes something for each role once. */
function once<Made>(make: (role: AgentRole) => Made): (role: AgentRole) => Made {
  const made = new Map<AgentRole, Made>();
  return (role) => {
    const known = made.get(role) ?? make(role);
    made.set(role, known);
    return known;
  };
}
