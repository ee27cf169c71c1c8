// What holds for all runs of an orchestrator: its options, checked at once and whole, and the settings that
// follow from them.

import {
  checkAmount,
  checkCount,
  checkFields,
  checkKeys,
  checkList,
  checkMethods,
  defaultAdvice,
  mismatch,
  type FieldCheck,
  type FieldChecks,
} from "../../kernel/check.ts";
import { systemClock, type Clock } from "../../kernel/clock.ts";
import { randomIds, type IdSource } from "../../kernel/id-source.ts";
import { defined } from "../../kernel/json.ts";
import { Semaphore } from "../../kernel/semaphore.ts";
import { Throttle } from "../../kernel/throttle.ts";
import { checkAgentRole, type AgentRole } from "../../agent/agent-role.ts";
import { checkApprovals, type Approver } from "../../agent/approver.ts";
import type { AgentSettings } from "../../agent/run-ports.ts";
import { checkHooks, type Hook } from "../../hooks/hook.ts";
import { priceLookup, type Prices } from "../../model/prices.ts";
import { checkRetryPolicy, type RetryPolicy } from "../../model/retry-policy.ts";
import type { EventSink } from "../../protocol/event.ts";
import type { StreamPart } from "../../protocol/stream-part.ts";
import type { Tracing } from "../../protocol/tracing.ts";
import {
  DEFAULT_SUBAGENT_LIMITS,
  subagentLimits,
  type SubagentLimits,
} from "../../policies/subagent-limits.ts";
import { DEFAULT_CONCURRENCY, type Concurrency } from "../../run-services/limiter.ts";
import { checkGuards, namedGuards, type ToolGuard } from "../../tools/tool-guard.ts";
import type { Store } from "../../store/store.ts";
import { checkSigningKey, PausedRunSigner } from "../durability/paused-run-signature.ts";
import {
  DEFAULT_HEARTBEAT_MS,
  DEFAULT_MAX_CRASHES,
  DEFAULT_STALE_AFTER_MS,
  type RunStorage,
} from "../durability/journal.ts";
import { RoleRegistry } from "./role-registry.ts";

/** What holds for all runs of an orchestrator. Everything has a default. */
export interface OrchestratorOptions<out Roles extends AgentRole<unknown, never> = AgentRole> {
  /** Bounds on the shape of each tree. Default 3 / 5 / 10. */
  readonly limits?: Partial<SubagentLimits>;
  /** How much of one tree runs at once. Default 1,024 model calls, 1,024 tool calls. */
  readonly concurrency?: Partial<Concurrency>;
  /**
   * Bounds how many runs work at once in this orchestrator, first come, first served: started, resumed,
   * recovered and forked ones. A run that waits is in the store, can be cancelled, and its `timeMs`
   * does not run; `queuedMs` of `run.started` and `run.resumed` is the time that it waited. A paused run
   * has no slot. A run that a tool, hook or other code of a run starts does not wait.
   *
   * @default unlimited
   * @example
   * ```ts
   * const orchestrator = new Orchestrator({ maxConcurrentRuns: 20 });
   * ```
   */
  readonly maxConcurrentRuns?: number;
  /** How model calls are repeated. Default: 3 attempts, waits that double from 500 ms to 8 s, each up to half shorter by chance. */
  readonly retryPolicy?: RetryPolicy;
  /** Prices of models that say none themselves: `await loadPrices()` of `espalier/prices`. Default: our own table, of OpenAI's models. */
  readonly prices?: Prices;
  /**
   * How long a tool or model that ignores its signal is waited for, in milliseconds: a run may last so much longer than its limit in time.
   * After that it is left behind; its code continues to run, and its result is dropped. Default 5,000.
   */
  readonly graceMs?: number;
  /** Roles that others refer to by name and that no `subagents` list holds as a value, and the roots of runs that are to be resumed. */
  readonly roles?: readonly Roles[];
  /** What watches and changes all agents, before the hooks of their roles. */
  readonly hooks?: readonly Hook[];
  /** What says of each tool call of any agent whether it may run, before the guards of roles. */
  readonly guards?: readonly ToolGuard[];
  /** How long a hook, a guard, a stop condition or a check whether an approval is needed may take. Default 60,000 ms. */
  readonly hookTimeoutMs?: number;
  /**
   * Answers questions about calls while the rest of the run continues: an agent's `timeMs` stands still only while nothing else continues below
   * it. Default: none; the run pauses.
   */
  readonly approver?: Approver;
  /** After this time an unanswered question counts as denied, a call that is executed elsewhere as failed. Default: never. */
  readonly answerTimeoutMs?: number;
  /** What becomes of questions that no approver answers: `pause` the run (default), or `deny`, where no answer can come later. */
  readonly unansweredPolicy?: "pause" | "deny";
  /**
   * Where runs are kept as they happen, so that they can be recovered after a crash: `memoryStore()`, `sqliteStore("runs.db")`,
   * `postgresStore(…)`. Default: nowhere.
   */
  readonly store?: Store;
  /**
   * A secret by which paused runs are signed (HMAC-SHA256): text or bytes, at least 32. With it, `resume` and `fork` refuse a paused run
   * that has no signature or was altered. Of a list, the first key signs, and all verify. Default: paused runs are not signed.
   *
   * @example
   * new Orchestrator({ signingKey: [process.env.NEW_KEY, process.env.OLD_KEY] });
   */
  readonly signingKey?: string | Uint8Array | readonly (string | Uint8Array)[];
  /** How often the store gets a sign of life of a run that is led, in milliseconds. Default 5,000. */
  readonly heartbeatIntervalMs?: number;
  /**
   * For how long the process that leads a run may show no sign of life before another may take the run over, in milliseconds: at least twice
   * `heartbeatIntervalMs`, and the same in all processes that share a store. Default 30,000.
   */
  readonly staleAfterMs?: number;
  /**
   * After how many crashes in a row a run fails with `crash_loop`: processes that died while they led
   * the run, without a completed step or tool call in between. Below 3, a run may fail because of
   * crashes that another run of the same process has caused.
   * @default 5
   * @example
   * new Orchestrator({ roles, store, maxCrashes: 10 }); // gives each run ten processes
   */
  readonly maxCrashes?: number;
  /** Sinks that get each event of each run, in order. Nothing waits for them. Default: none. */
  readonly sinks?: readonly EventSink[];
  /** Called with each stream part of every agent of every run, before the `onStreamPart` of its run. Makes model calls stream. */
  readonly onStreamPart?: (part: StreamPart) => void;
  /** Default: no spans, but events carry trace ids all the same. See `espalier/otel`. */
  readonly tracing?: Tracing;
  /** Default: the wall clock, the monotonic clock and the timers of the machine. */
  readonly clock?: Clock;
  /** Makes ids of runs, agents and traces: `sequentialIds()` in tests. Default: random ones. */
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

/** The options, with the defaults in the place of what was left out. */
export interface Settings
  extends
    AgentSettings,
    Required<Pick<OrchestratorOptions, Defaulted>>,
    Pick<OrchestratorOptions, "maxConcurrentRuns" | "onStreamPart" | "tracing"> {
  /** Where runs are persisted, or `undefined` without a store. */
  readonly storage: (RunStorage & { readonly store: Store }) | undefined;
  readonly limits: SubagentLimits;
  readonly concurrency: Concurrency;
  /** Undefined: the number of concurrent runs is not limited. */
  readonly runSlots: Semaphore | undefined;
  /** Undefined: paused runs are not signed. */
  readonly signer: PausedRunSigner | undefined;
  /** The roles of its runs, by the role at the root: see `registryOf`. */
  readonly registries: WeakMap<AgentRole, RoleRegistry>;
}

/** The roles of a run with this one at its root. Throws what `RoleRegistry` throws. */
export function registryOf(settings: Settings, root: AgentRole): RoleRegistry {
  const known = settings.registries.get(root);
  if (known !== undefined) return known;
  const registry = new RoleRegistry(root, settings);
  settings.registries.set(root, registry);
  return registry;
}

/** Returns where runs are persisted. Throws `invalid_option` without a store. */
export function requireStorage({ storage }: Settings): RunStorage {
  if (storage !== undefined) return storage;
  throw mismatch("options.store", "a store", undefined, "Pass one to the orchestrator.");
}

/** Runs, delegations or model calls that begin in one turn of the event loop: about ten milliseconds of work. */
const BEGUN_PER_TURN = 64;

/** `given`: default, no option at all. Throws `invalid_option`, naming the option, what was expected and what came. */
export function makeSettings<Roles extends AgentRole<unknown, never>>(
  given?: OrchestratorOptions<Roles>,
): Settings;
export function makeSettings(given: OrchestratorOptions = {}): Settings {
  checkOrchestratorOptions(given);
  const options = { ...DEFAULTS, ...defined(given) };
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
  checkFields("concurrency", concurrency, { modelCalls: checkSlots, toolCalls: checkSlots });
  return Object.freeze({
    ...others,
    limits: limits === undefined ? DEFAULT_SUBAGENT_LIMITS : subagentLimits("limits", limits),
    concurrency: Object.freeze({ ...DEFAULT_CONCURRENCY, ...defined(concurrency) }),
    runSlots: maxConcurrentRuns === undefined ? undefined : new Semaphore(maxConcurrentRuns),
    throttle: new Throttle(BEGUN_PER_TURN),
    retryPolicy: Object.freeze({ ...retryPolicy }),
    priceOf: priceLookup(prices),
    storage: store && { store, clock, heartbeatIntervalMs, staleAfterMs },
    roles: [...options.roles],
    hooks: [...options.hooks],
    sinks: [...options.sinks],
    guards: Object.freeze(namedGuards("orchestrator", guards)),
    approvals: Object.freeze({ approver, answerTimeoutMs, unansweredPolicy }),
    signer: signingKey === undefined ? undefined : new PausedRunSigner(signingKey),
    registries: new WeakMap(),
  });
}

const STORE_METHODS =
  "create claim append heartbeat release read sendMail readMail find list".split(" ");

/** Checked with other options, or where it is filled up. */
const LATER: FieldCheck = () => undefined;

/** How each option is checked if it is given. */
const CHECKS: Readonly<Record<keyof OrchestratorOptions, FieldCheck>> = {
  limits: LATER,
  concurrency: LATER,
  maxConcurrentRuns: checkSlots,
  retryPolicy: LATER,
  prices: hasMethods("getPrice"),
  graceMs: isAmount(DEFAULTS.graceMs),
  roles: isListOf(checkAgentRole),
  hooks: checkHooks,
  guards: checkGuards,
  hookTimeoutMs: isAmount(DEFAULTS.hookTimeoutMs),
  approver: LATER,
  answerTimeoutMs: LATER,
  unansweredPolicy: LATER,
  store: hasMethods(...STORE_METHODS),
  signingKey: LATER,
  heartbeatIntervalMs: isAmount(DEFAULTS.heartbeatIntervalMs),
  staleAfterMs: isAmount(DEFAULTS.staleAfterMs),
  maxCrashes: (field, value) => checkCount(field, value, defaultAdvice(DEFAULTS.maxCrashes)),
  sinks: isListOf(hasMethods("emit")),
  onStreamPart: (_field, onStreamPart) =>
    checkMethods("options", { onStreamPart }, ["onStreamPart"]),
  tracing: hasMethods("traceEvent", "runInSpan", "getIds"),
  clock: hasMethods("nowMs", "monotonicMs", "setTimer"),
  ids: hasMethods("next"),
};

/** Throws `invalid_option`, naming the option, what was expected and what came. `limits` and `concurrency` are checked where they are filled up. */
function checkOrchestratorOptions(options: OrchestratorOptions): void {
  const checks: FieldChecks = CHECKS;
  checkKeys("options", options, Object.keys(checks));
  for (const [field, value] of Object.entries(options))
    if (value !== undefined) checks[field]?.(field, value);
  if (options.retryPolicy !== undefined) checkRetryPolicy("retryPolicy", options.retryPolicy);
  checkApprovals(options);
  if ("signingKey" in options) checkSigningKey("signingKey", options.signingKey);
  checkSignsOfLife(options);
}

function checkSignsOfLife(options: OrchestratorOptions): void {
  if (options.maxCrashes === 0)
    throw mismatch("maxCrashes", "at least 1", 0, defaultAdvice(DEFAULTS.maxCrashes));
  const {
    heartbeatIntervalMs = DEFAULTS.heartbeatIntervalMs,
    staleAfterMs = DEFAULTS.staleAfterMs,
  } = options;
  if (heartbeatIntervalMs === 0)
    throw mismatch(
      "heartbeatIntervalMs",
      "more than 0",
      0,
      defaultAdvice(DEFAULTS.heartbeatIntervalMs),
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
  return (field, value) => checkAmount(field, value, defaultAdvice(byDefault));
}

function checkSlots(field: string, count: unknown): void {
  checkCount(field, count);
  if (count === 0) throw mismatch(field, "at least 1", count, "With 0, no call could run.");
}
