// Settings: what holds for all runs of an orchestrator, its options with their defaults.

import { mismatch } from "../../kernel/check.ts";
import { systemClock } from "../../kernel/clock.ts";
import { randomIds } from "../../kernel/id-source.ts";
import { Semaphore } from "../../kernel/semaphore.ts";
import { Throttle } from "../../kernel/throttle.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import type { AgentSettings } from "../../agent/run-ports.ts";
import {
  DEFAULT_SUBAGENT_LIMITS,
  subagentLimits,
  type SubagentLimits,
} from "../../policies/subagent-limits.ts";
import { priceLookup } from "../../model/prices.ts";
import type { Tracing } from "../../protocol/tracing.ts";
import type { Store } from "../../store/store.ts";
import { namedGuards, type NamedGuard } from "../../tools/tool-guard.ts";
import {
  DEFAULT_HEARTBEAT_MS,
  DEFAULT_MAX_CRASHES,
  DEFAULT_STALE_AFTER_MS,
  type RunStorage,
} from "../durability/journal.ts";
import { PausedRunSigner } from "../durability/paused-run-signature.ts";
import { DEFAULT_CONCURRENCY, type Concurrency } from "../../run-services/limiter.ts";
import type { PieceListener } from "../../run-services/live-pieces.ts";
import { RoleRegistry } from "./role-registry.ts";
import {
  checkOrchestratorOptions,
  concurrencyOf,
  DEFAULT_GRACE_MS,
  DEFAULT_HOOK_TIMEOUT_MS,
  type OrchestratorOptions,
} from "./orchestrator-options.ts";

/** The options, with the defaults in the place of what was left out. */
export interface Settings
  extends
    AgentSettings,
    Required<Pick<OrchestratorOptions, "roles" | "hooks" | "sinks" | "clock" | "ids">> {
  readonly limits: SubagentLimits;
  readonly concurrency: Concurrency;
  readonly maxConcurrentRuns: number | undefined;
  /** `undefined` if the number of concurrent runs is not limited. */
  readonly runSlots: Semaphore | undefined;
  readonly store: Store | undefined;
  /** Undefined: paused runs are not signed. */
  readonly signer: PausedRunSigner | undefined;
  /** How the ownership of kept runs is shown, and when it counts as gone. */
  readonly heartbeatMs: number;
  readonly staleAfterMs: number;
  /** After how many crashes in a row a run fails. */
  readonly maxCrashes: number;
  readonly onPiece: PieceListener | undefined;
  /** Undefined: events have ids by chance, and no spans. */
  readonly tracing: Tracing | undefined;
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

/** Returns where runs are persisted, or `undefined` without a store. */
export function findStorage(settings: Settings): RunStorage | undefined {
  const { store, clock, heartbeatMs, staleAfterMs } = settings;
  return store && { store, clock, heartbeatMs, staleAfterMs };
}

/** Returns where runs are persisted. Throws `invalid_option` without a store. */
export function requireStorage(settings: Settings): RunStorage {
  const storage = findStorage(settings);
  if (storage !== undefined) return storage;
  throw mismatch("options.store", "a store", undefined, "Hand one to the orchestrator.");
}

/** Runs, delegations or model calls that begin in one turn of the event loop: about ten milliseconds of work. */
const BEGUN_PER_TURN = 64;

/** `given`: default, no option at all. Throws `invalid_option`, naming the option, what was expected and what came. */
export function settingsOf<Roles extends AgentRole<unknown, never>>(
  given?: OrchestratorOptions<Roles>,
): Settings;
export function settingsOf(given?: OrchestratorOptions): Settings {
  if (given !== undefined) checkOrchestratorOptions(given);
  const options = given ?? {};
  const { limits, concurrency, graceMs = DEFAULT_GRACE_MS, roles = [], sinks = [] } = options;
  const { maxConcurrentRuns } = options;
  const { hooks = [], guards = [], hookTimeoutMs = DEFAULT_HOOK_TIMEOUT_MS } = options;
  const { approver, answerTimeoutMs, unanswered = "pause", store, signingKey } = options;
  const { heartbeatMs = DEFAULT_HEARTBEAT_MS, staleAfterMs = DEFAULT_STALE_AFTER_MS } = options;
  const { maxCrashes = DEFAULT_MAX_CRASHES } = options;
  const { tracing, clock = systemClock, ids = randomIds } = options;
  return Object.freeze({
    limits: limits === undefined ? DEFAULT_SUBAGENT_LIMITS : subagentLimits("limits", limits),
    concurrency: concurrency === undefined ? DEFAULT_CONCURRENCY : concurrencyOf(concurrency),
    maxConcurrentRuns,
    runSlots: maxConcurrentRuns === undefined ? undefined : new Semaphore(maxConcurrentRuns),
    throttle: new Throttle(BEGUN_PER_TURN),
    retry: Object.freeze({ ...options.retry }),
    priceOf: priceLookup(options.prices),
    graceMs,
    roles: [...roles],
    hooks: [...hooks],
    guards: guards.length === 0 ? NO_GUARDS : Object.freeze(namedGuards("orchestrator", guards)),
    hookTimeoutMs,
    approvals: Object.freeze({ approver, answerTimeoutMs, unanswered }),
    store,
    signer: signingKey === undefined ? undefined : new PausedRunSigner(signingKey),
    heartbeatMs,
    staleAfterMs,
    maxCrashes,
    sinks: [...sinks],
    onPiece: options.onPiece,
    tracing,
    clock,
    ids,
    registries: new WeakMap(),
  });
}

const NO_GUARDS: readonly NamedGuard[] = Object.freeze([]);
