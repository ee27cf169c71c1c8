// Options of an orchestrator, validated at once, and the settings that follow from them.

import {
  checkAmount,
  checkFunction,
  checkAtLeastOne,
  checkFields,
  checkKeys,
  checkLater,
  checkList,
  checkMethods,
  adviseDefault,
  type FieldCheck,
  type FieldChecks,
  mismatch,
  NO_LIMIT_ADVICE,
} from "../../kernel/argument-checks.ts";
import { adviseOnOption } from "../../kernel/option-names.ts";
import { systemClock, type Clock } from "../../kernel/clock.ts";
import { randomIds, type IdSource } from "../../kernel/id-source.ts";
import { omitUndefined } from "../../kernel/json.ts";
import { Semaphore } from "../../kernel/semaphore.ts";
import { Throttle } from "../../kernel/throttle.ts";
import { checkAgentRole, type AgentRole } from "../../agent/agent-role.ts";
import { checkApprovals, type Approver } from "../../agent/approver.ts";
import type { AgentSettings } from "../../agent/run-ports.ts";
import { checkHooks, type Hook } from "../../hooks/hook.ts";
import { createPriceLookup, type Prices } from "../../model/prices.ts";
import { checkRetryPolicy, type RetryPolicy } from "../../model/retry-policy.ts";
import type { EventSink } from "../../protocol/event.ts";
import type { StreamPart } from "../../protocol/stream-part.ts";
import type { Tracing } from "../../protocol/tracing.ts";
import {
  DEFAULT_SUBAGENT_LIMITS,
  resolveSubagentLimits,
  type SubagentLimits,
} from "../../policies/subagent-limits.ts";
import { DEFAULT_CONCURRENCY, type Concurrency } from "../../run-services/run-limiter.ts";
import { checkGuards, assignGuardNames, type ToolGuard } from "../../tools/tool-guard.ts";
import type { Store } from "../../store/store.ts";
import { checkSigningKey, PausedRunSigner } from "../durability/paused-run-signature.ts";
import {
  DEFAULT_HEARTBEAT_MS,
  DEFAULT_MAX_CRASHES,
  DEFAULT_STALE_AFTER_MS,
  type RunStorage,
} from "../durability/journal.ts";
import { checkRoleNames, RoleRegistry } from "./role-registry.ts";

/**
 * Options of an `Orchestrator`, which apply to all its runs. Every option has a default.
 *
 * @example
 * ```ts
 * const orchestrator = new Orchestrator({
 *   store: memoryStore(),
 *   limits: { maxDepth: 2, maxTotalSubagents: 20 },
 *   approver: (question) => approve(question),
 *   sinks: [{ emit: ({ type, agentPath }) => console.log(agentPath, type) }],
 * });
 * ```
 */
export interface OrchestratorOptions<out Roles extends AgentRole<unknown, never> = AgentRole> {
  /**
   * Limits on the depth and size of each agent tree. A limit that is left out keeps its default.
   *
   * @default { maxDepth: 3, maxBreadthPerParent: 5, maxTotalSubagents: 10 }
   * @example
   * ```ts
   * const orchestrator = new Orchestrator({ limits: { maxTotalSubagents: 50 } });
   * ```
   */
  readonly limits?: Partial<SubagentLimits>;
  /**
   * Maximum number of model calls and tool calls of a run that are in flight at the same time.
   *
   * @default { modelCalls: 1_024, toolCalls: 1_024 }
   * @example
   * ```ts
   * const orchestrator = new Orchestrator({ concurrency: { modelCalls: 8 } });
   * ```
   */
  readonly concurrency?: Partial<Concurrency>;
  /**
   * Maximum number of runs that execute at the same time in this orchestrator. Started, resumed and
   * forked runs beyond it wait in a FIFO queue. A waiting run is in the store and can be cancelled;
   * its `timeMs` has not started. The events `run.started` and `run.resumed` report the time in the
   * queue as `queuedMs`. A paused run occupies no slot. A run that is started by a tool, a hook or
   * other code of a run does not wait.
   *
   * @default unlimited
   * @example
   * ```ts
   * const orchestrator = new Orchestrator({ maxConcurrentRuns: 20 });
   * ```
   */
  readonly maxConcurrentRuns?: number;
  /**
   * Retries of failed model calls, with exponential backoff from 500 milliseconds to 8 seconds and
   * jitter.
   *
   * @default { maxAttempts: 3, maxDelayMs: 60_000 }
   * @example
   * ```ts
   * const orchestrator = new Orchestrator({ retryPolicy: { maxAttempts: 5, maxDelayMs: 10_000 } });
   * ```
   */
  readonly retryPolicy?: RetryPolicy;
  /**
   * Prices of models that have no `price` themselves.
   *
   * @default a built-in table of OpenAI models
   * @example
   * ```ts
   * import { loadPrices } from "espalier/prices";
   *
   * const orchestrator = new Orchestrator({ prices: await loadPrices() });
   * ```
   */
  readonly prices?: Prices;
  /**
   * Time in milliseconds that a model or tool has to return after its signal is aborted. A run may
   * exceed its time limit by this amount. Code that has not returned by then continues to run, and
   * its result is dropped.
   *
   * @default 5_000
   */
  readonly graceMs?: number;
  /**
   * Roles that the orchestrator finds by name. List the root roles of runs that are resumed, and
   * subagent roles that other roles refer to by name. Roles that appear as values in a `subagents`
   * list need not be listed.
   *
   * @default []
   * @example
   * ```ts
   * const orchestrator = new Orchestrator({ roles: [researcher, writer], store });
   * ```
   */
  readonly roles?: readonly Roles[];
  /**
   * Hooks that apply to every agent. They run before the hooks of the agent's role.
   *
   * @default []
   * @example
   * ```ts
   * import { observe } from "espalier/hooks";
   *
   * const log = observe("tool.ended", (event) => console.log(event.toolName, event.outcome));
   * const orchestrator = new Orchestrator({ hooks: [log] });
   * ```
   */
  readonly hooks?: readonly Hook[];
  /**
   * Guards that allow, deny or ask for approval of each tool call of every agent. They run before
   * the guards of roles.
   *
   * @default []
   * @example
   * ```ts
   * const noShell = toolGuard(({ toolName }) =>
   *   toolName === "shell" ? { type: "deny", reason: "No shell in production." } : { type: "allow" },
   * );
   * const orchestrator = new Orchestrator({ guards: [noShell] });
   * ```
   */
  readonly guards?: readonly ToolGuard[];
  /**
   * Time limit in milliseconds for one call of a hook, guard, stop condition or `needsApproval`
   * function.
   *
   * @default 60_000
   */
  readonly hookTimeoutMs?: number;
  /**
   * Answers questions in this process, without pausing the run. Other agents of the run continue
   * while the approver works. An agent's `timeMs` stops only while nothing else works below the
   * agent.
   *
   * @default none: the run pauses with its questions
   * @example
   * ```ts
   * const readOnly = new Set(["search", "read_file"]);
   * const orchestrator = new Orchestrator({
   *   approver: (question) => (readOnly.has(question.toolName) ? approve(question) : undefined),
   * });
   * ```
   */
  readonly approver?: Approver;
  /**
   * Time in milliseconds after which an unanswered approval is denied and an unanswered external
   * call fails. The time includes pauses of the run.
   *
   * @default unlimited
   */
  readonly answerTimeoutMs?: number;
  /**
   * Handling of questions that no approver answers. `pause` pauses the run until it is resumed with
   * answers. `deny` denies the call, for programs in which nobody can answer later.
   *
   * @default "pause"
   */
  readonly unansweredPolicy?: "pause" | "deny";
  /**
   * Store that persists each run while it executes. With a store, a run can be resumed after its
   * process has died, and be read and answered from other processes.
   *
   * @default none: runs exist in memory only
   * @example
   * ```ts
   * import { sqliteStore } from "espalier/store/sqlite";
   *
   * const orchestrator = new Orchestrator({ roles, store: sqliteStore("runs.db") });
   * ```
   */
  readonly store?: Store;
  /**
   * Secret key that signs paused runs with HMAC-SHA256: a string or bytes, at least 32 long. With a
   * key, `resume` and `fork` reject a paused run that is unsigned or was altered. To rotate keys,
   * pass a list: the first key signs, and all keys verify.
   *
   * @default none: paused runs are not signed
   * @example
   * ```ts
   * const { SIGNING_KEY = "", OLD_SIGNING_KEY = "" } = process.env;
   * const orchestrator = new Orchestrator({ roles, signingKey: [SIGNING_KEY, OLD_SIGNING_KEY] });
   * ```
   */
  readonly signingKey?: string | Uint8Array | readonly (string | Uint8Array)[];
  /**
   * Interval in milliseconds at which an executing run sends a heartbeat to the store.
   *
   * @default 5_000
   */
  readonly heartbeatIntervalMs?: number;
  /**
   * Time in milliseconds without a heartbeat after which another process may take the run over.
   * Must be at least twice `heartbeatIntervalMs`, and the same in all processes that share a store.
   * A process that ended on the same machine is detected at once.
   *
   * @default 30_000
   */
  readonly staleAfterMs?: number;
  /**
   * Number of crashes in a row after which a run fails with the code `crash_loop`. A crash is a
   * process that died while it executed the run; a completed step or tool call resets the count.
   * With less than 3, a run may fail because of crashes that another run in the same process
   * caused.
   *
   * @default 5
   * @example
   * ```ts
   * // Each run survives nine processes.
   * const orchestrator = new Orchestrator({ roles, store, maxCrashes: 10 });
   * ```
   */
  readonly maxCrashes?: number;
  /**
   * Sinks that receive each event of each run, in order. The run does not wait for a sink.
   *
   * @default []
   * @example
   * ```ts
   * const counts = new Map<string, number>();
   * const orchestrator = new Orchestrator({
   *   sinks: [{ emit: ({ type }) => counts.set(type, (counts.get(type) ?? 0) + 1) }],
   * });
   * ```
   */
  readonly sinks?: readonly EventSink[];
  /**
   * Callback for each stream part of every agent of every run. It is called before the
   * `onStreamPart` of the run. Setting it makes all model calls stream.
   *
   * @example
   * ```ts
   * const orchestrator = new Orchestrator({
   *   onStreamPart: (part) => part.type === "text" && process.stdout.write(part.text),
   * });
   * ```
   */
  readonly onStreamPart?: (part: StreamPart) => void;
  /**
   * Tracing that records each run as spans, such as `openTelemetry()` of `espalier/otel`.
   *
   * @default none: events have trace and span ids, but no spans are recorded
   * @example
   * ```ts
   * import { openTelemetry } from "espalier/otel";
   *
   * const orchestrator = new Orchestrator({ tracing: openTelemetry() });
   * ```
   */
  readonly tracing?: Tracing;
  /**
   * Clock for time stamps, durations and timers.
   *
   * @default the system clock
   * @example
   * ```ts
   * import { ManualClock } from "espalier/testing";
   *
   * const clock = new ManualClock();
   * const orchestrator = new Orchestrator({ clock });
   * ```
   */
  readonly clock?: Clock;
  /**
   * Generator of run, agent and trace ids.
   *
   * @default random ids
   * @example
   * ```ts
   * import { sequentialIds } from "espalier/testing";
   *
   * const orchestrator = new Orchestrator({ ids: sequentialIds() });
   * ```
   */
  readonly ids?: IdSource;
}

const NONE: readonly never[] = Object.freeze([]);

const DEFAULTS = {
  roles: NONE,
  hooks: NONE,
  guards: NONE,
  sinks: NONE,
  graceMs: 5_000,
  hookTimeoutMs: 60_000,
  unansweredPolicy: "pause",
  heartbeatIntervalMs: DEFAULT_HEARTBEAT_MS,
  staleAfterMs: DEFAULT_STALE_AFTER_MS,
  maxCrashes: DEFAULT_MAX_CRASHES,
  clock: systemClock,
  ids: randomIds,
} as const satisfies OrchestratorOptions;

type Defaulted =
  | "roles"
  | "hooks"
  | "sinks"
  | "clock"
  | "ids"
  | "heartbeatIntervalMs"
  | "maxCrashes";

/** The options, with defaults applied. */
export interface Settings
  extends
    AgentSettings,
    Required<Pick<OrchestratorOptions, Defaulted>>,
    Pick<OrchestratorOptions, "maxConcurrentRuns" | "onStreamPart" | "tracing"> {
  /** Where runs are persisted, or `undefined` without a store. */
  readonly storage: (RunStorage & { readonly store: Store }) | undefined;
  readonly limits: SubagentLimits;
  readonly concurrency: Concurrency;
  /** `undefined` if the number of concurrent runs is unlimited. */
  readonly runSlots: Semaphore | undefined;
  /** `undefined` if paused runs are not signed. */
  readonly signer: PausedRunSigner | undefined;
  /** Role registries by root role. See `getRoleRegistry`. */
  readonly registries: WeakMap<AgentRole, RoleRegistry>;
}

/** Returns the roles of a run with this root. Throws like the constructor of `RoleRegistry`. */
export function getRoleRegistry(settings: Settings, root: AgentRole): RoleRegistry {
  const known = settings.registries.get(root);
  if (known !== undefined) return known;
  const registry = new RoleRegistry(root, settings);
  settings.registries.set(root, registry);
  return registry;
}

/** Returns where runs are persisted. Throws `invalid_argument` without a store. */
export function requireStorage({ storage }: Settings): RunStorage {
  if (storage !== undefined) return storage;
  throw mismatch("options.store", "a store", undefined, "Pass one to the orchestrator.");
}

/**
 * Number of runs, delegations or model calls that begin in one turn of the event loop: about ten
 * milliseconds of work.
 */
const BEGUN_PER_TURN = 64;

/**
 * Validates options and adds defaults. Throws `invalid_argument`, with the option, the expected and
 * the actual value, or `duplicate_role`.
 */
export function createSettings<Roles extends AgentRole<unknown, never>>(
  input?: OrchestratorOptions<Roles>,
): Settings;
export function createSettings(input: OrchestratorOptions = {}): Settings {
  checkOrchestratorOptions(input);
  const options = { ...DEFAULTS, ...omitUndefined(input) };
  const {
    approver,
    answerTimeoutMs,
    unansweredPolicy,
    prices,
    retryPolicy,
    signingKey,
    ...others
  } = options;
  const { limits, concurrency = {}, guards, maxConcurrentRuns, store } = others;
  const { clock, heartbeatIntervalMs, staleAfterMs } = others;
  checkRoleNames(options.roles);
  checkFields("concurrency", concurrency, { modelCalls: checkSlots, toolCalls: checkSlots });
  return Object.freeze({
    ...others,
    limits:
      limits === undefined ? DEFAULT_SUBAGENT_LIMITS : resolveSubagentLimits("limits", limits),
    concurrency: Object.freeze({ ...DEFAULT_CONCURRENCY, ...omitUndefined(concurrency) }),
    runSlots: maxConcurrentRuns === undefined ? undefined : new Semaphore(maxConcurrentRuns),
    throttle: new Throttle(BEGUN_PER_TURN),
    retryPolicy: Object.freeze({ ...retryPolicy }),
    priceOf: createPriceLookup(prices),
    storage: store && { store, clock, heartbeatIntervalMs, staleAfterMs },
    roles: [...options.roles],
    hooks: [...options.hooks],
    sinks: [...options.sinks],
    guards: Object.freeze(assignGuardNames("orchestrator", guards)),
    approvals: Object.freeze({ approver, answerTimeoutMs, unansweredPolicy }),
    signer: signingKey === undefined ? undefined : new PausedRunSigner(signingKey),
    registries: new WeakMap(),
  });
}

const STORE_METHODS =
  "create claim append heartbeat release read sendMail readMail find list".split(" ");

/** Check of each option. */
const CHECKS: Readonly<Record<keyof OrchestratorOptions, FieldCheck>> = {
  limits: checkLater,
  concurrency: checkLater,
  maxConcurrentRuns: (field, value) => checkAtLeastOne(field, value, NO_LIMIT_ADVICE),
  retryPolicy: checkLater,
  prices: hasMethods("getPrice"),
  graceMs: isAmount(DEFAULTS.graceMs),
  roles: isListOf(checkAgentRole),
  hooks: checkHooks,
  guards: checkGuards,
  hookTimeoutMs: isAmount(DEFAULTS.hookTimeoutMs),
  approver: checkLater,
  answerTimeoutMs: checkLater,
  unansweredPolicy: checkLater,
  store: hasMethods(...STORE_METHODS),
  signingKey: checkLater,
  heartbeatIntervalMs: isAmount(DEFAULTS.heartbeatIntervalMs),
  staleAfterMs: isAmount(DEFAULTS.staleAfterMs),
  maxCrashes: (field, value) => checkAtLeastOne(field, value, adviseDefault(DEFAULTS.maxCrashes)),
  sinks: isListOf(hasMethods("emit")),
  onStreamPart: checkFunction,
  tracing: hasMethods("traceEvent", "runInSpan", "getIds"),
  clock: hasMethods("nowMs", "monotonicMs", "setTimer"),
  ids: hasMethods("next"),
};

/**
 * Throws `invalid_argument`, with the option, the expected and the actual value. `limits` and
 * `concurrency` are checked where their defaults are added.
 */
function checkOrchestratorOptions(options: OrchestratorOptions): void {
  const checks: FieldChecks = CHECKS;
  checkKeys("options", options, Object.keys(checks), adviseOnOption);
  for (const [field, value] of Object.entries(options))
    if (value !== undefined) checks[field]?.(field, value);
  if (options.retryPolicy !== undefined) checkRetryPolicy("retryPolicy", options.retryPolicy);
  checkApprovals(options);
  if ("signingKey" in options) checkSigningKey("signingKey", options.signingKey);
  checkSignsOfLife(options);
}

function checkSignsOfLife(options: OrchestratorOptions): void {
  const {
    heartbeatIntervalMs = DEFAULTS.heartbeatIntervalMs,
    staleAfterMs = DEFAULTS.staleAfterMs,
  } = options;
  if (heartbeatIntervalMs === 0)
    throw mismatch(
      "heartbeatIntervalMs",
      "more than 0",
      0,
      adviseDefault(DEFAULTS.heartbeatIntervalMs),
    );
  if (staleAfterMs >= 2 * heartbeatIntervalMs) return;
  const expected = `at least twice heartbeatIntervalMs (${2 * heartbeatIntervalMs})`;
  throw mismatch("staleAfterMs", expected, staleAfterMs, "Raise it: one heartbeat may be late.");
}

function isListOf(check: FieldCheck): FieldCheck {
  return (field, list) => {
    checkList(field, list);
    if (Array.isArray(list)) list.forEach((value, index) => check(`${field}[${index}]`, value));
  };
}

function hasMethods(...methods: readonly string[]): FieldCheck {
  return (field, value) => checkMethods(field, value, methods);
}

function isAmount(byDefault: number): FieldCheck {
  return (field, value) => checkAmount(field, value, adviseDefault(byDefault));
}

function checkSlots(field: string, count: unknown): void {
  checkAtLeastOne(field, count, "With 0, no call could run.");
}
