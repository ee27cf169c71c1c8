// Roles of a run: all roles that are reachable from the root, each name once, each reference
// resolved.

import { mismatch } from "../../kernel/argument-checks.ts";
import { sha256 } from "../../kernel/crypto.ts";
import { EspalierError } from "../../kernel/error.ts";
import {
  checkDescription,
  getDelegationToolNames,
  type AgentRole,
} from "../../agent/agent-role.ts";
import { getFallbackModels } from "../../model/fallback.ts";
import { findNativeOutputSchema, requireNative } from "../../agent/typed-result.ts";
import type { RoleParts } from "../../agent/run-ports.ts";
import type { Hook } from "../../hooks/hook.ts";
import { compileHooks, NO_HOOKS } from "../../hooks/hook-set.ts";
import type { Model } from "../../model/model.ts";
import { readModel } from "../../model/model-properties.ts";
import { PRICES_AS_OF, type PriceOf } from "../../model/prices.ts";
import { toLedgerLimits, type Budget } from "../../policies/budget.ts";
import { buildToolSet } from "../../tools/tool-set.ts";
import { createSubagentTools } from "./subagent-tools.ts";

const CACHE_KEY_LENGTH = 12;

/** Settings that apply to all roles of a run. */
interface RegistryParts {
  readonly roles: readonly AgentRole[];
  readonly hooks: readonly Hook[];
  readonly priceOf: PriceOf;
}

export class RoleRegistry {
  readonly #roles = new Map<string, AgentRole>();
  readonly root: AgentRole;
  /** True if a role has `allowedTools` or `deniedTools` for its subagents. */
  hasToolLists = false;
  /** True if a role defines guards or hooks. */
  hasGuardsOrHooks = false;
  /** True if the root replaces other roles with the same name. */
  readonly #isReplacing: boolean;
  readonly #hooks: readonly Hook[];
  readonly #priceOf: PriceOf;
  /** Weak, since dynamic roles come and go. */
  readonly #parts = new WeakMap<AgentRole, RoleParts>();
  /** Weak, like `#parts`. */
  readonly #reaches = new WeakMap<AgentRole, Reach>();
  /** Fields that limit costs, by role. */
  readonly #costLimits = new Map<AgentRole, readonly string[]>();

  /**
   * Collects the roles. `isReplacing` means that the root replaces other roles with the same name,
   * by default `false`. Throws `duplicate_role`, `unknown_subagent` or `invalid_argument` if the
   * roles do not fit together.
   */
  constructor(
    root: AgentRole,
    { roles, hooks, priceOf }: RegistryParts,
    { isReplacing = false }: { readonly isReplacing?: boolean } = {},
  ) {
    this.root = root;
    this.#isReplacing = isReplacing;
    this.#hooks = hooks;
    this.#priceOf = priceOf;
    for (const role of [root, ...roles]) this.#add(role);
    for (const role of this.#roles.values()) this.#checkReferences(role);
  }

  /**
   * Returns the values that all agents of a role share, memoised for all runs of the orchestrator.
   */
  getParts(role: AgentRole): RoleParts {
    const known = this.#parts.get(role);
    if (known !== undefined) return known;
    const isHooked = this.#hooks.length > 0 || role.hooks.length > 0;
    const hooks = isHooked ? compileHooks([...this.#hooks, ...role.hooks]) : NO_HOOKS;
    const parts = {
      ...createRoleTools(role, this.getSubagents(role), findNativeOutputSchema(role, hooks)),
      hooks,
      spendLimits: toLedgerLimits(role.budget),
      reserve: toLedgerLimits(role.delegation.reserve),
    };
    this.#parts.set(role, parts);
    return parts;
  }

  get all(): Iterable<AgentRole> {
    return this.#roles.values();
  }

  /** Returns the role of this name, if the run has it. */
  find(name: string): AgentRole | undefined {
    return this.#roles.get(name);
  }

  /** Returns the roles that a role may spawn, in the order of its definition. */
  getSubagents(role: AgentRole): readonly AgentRole[] {
    return role.subagents.flatMap((subagent) => this.#roles.get(readRoleName(subagent)) ?? []);
  }

  /** Returns the role and all roles that can be started below it. */
  findReachable(role: AgentRole): ReadonlySet<AgentRole> {
    return this.#getReach(role).roles;
  }

  #getReach(role: AgentRole): Reach {
    const known = this.#reaches.get(role);
    if (known !== undefined) return known;
    const roles = new Set([role]);
    for (const next of roles) for (const subagent of this.getSubagents(next)) roles.add(subagent);
    const reach = { roles, players: [...roles].flatMap(listPlayers) };
    this.#reaches.set(role, reach);
    return reach;
  }

  /**
   * Throws if a role cannot work: a model without a key, a cost limit over an unknown price, or a
   * model that rejects a setting of the role.
   */
  assertReady(root: AgentRole, runBudget: Budget): void {
    const { roles, players } = this.#getReach(root);
    // The price of a model may depend on values that it reads when it is prepared.
    for (const { model } of players) model.assertReady?.();
    if (runBudget.costUsd !== undefined) this.requirePrices("budget.costUsd", root);
    for (const role of roles) {
      if (role.outputMode === "native") requireNative(role);
      for (const field of this.#costLimits.get(role) ?? NONE) this.requirePrices(field, role);
    }
  }

  /**
   * Throws `price_unknown` if a cost limit at `field` covers a model without a known price: of the
   * role, of a role below it, or of a dynamic role. An unknown price never counts as zero.
   */
  requirePrices(field: string, role: AgentRole): void {
    for (const { name, model } of this.#getReach(role).players) {
      const unknown = getFallbackModels(readModel(name, model)).find(
        (candidate) => this.#priceOf(candidate) === undefined,
      );
      if (unknown !== undefined) throw createPriceError(field, { name, model: unknown });
    }
  }

  /**
   * Returns the names of all tools that agents of these roles, or of their dynamic roles, can have.
   */
  collectToolNames(roles: Iterable<AgentRole>): ReadonlySet<string> {
    return new Set(
      [...roles].flatMap((role) => [
        ...role.tools.map(({ name }) => name),
        ...getDelegationToolNames(role),
        ...(role.dynamicRoles?.tools ?? []).map(({ name }) => name),
      ]),
    );
  }

  #add(role: AgentRole): void {
    const known = this.#roles.get(role.name);
    if (known === role || (this.#isReplacing && known === this.root)) return;
    if (known !== undefined) throw createDuplicateError(role);
    this.#roles.set(role.name, role);
    const costLimits = listCostLimits(role);
    if (costLimits.length > 0) this.#costLimits.set(role, costLimits);
    const { contextPolicy: context, guards, hooks } = role;
    if (context.allowedTools !== undefined || context.deniedTools.length > 0)
      this.hasToolLists = true;
    if (guards.length > 0 || hooks.length > 0) this.hasGuardsOrHooks = true;
    for (const subagent of role.subagents) if (typeof subagent !== "string") this.#add(subagent);
  }

  #checkReferences(role: AgentRole): void {
    const names = new Set<string>();
    for (const [index, subagent] of role.subagents.entries()) {
      const field = `${role.name}.subagents[${index}]`;
      const name = readRoleName(subagent);
      const known = this.#roles.get(name);
      if (known === undefined) throw this.#createUnknownError(field, name);
      if (names.has(name)) throw mismatch(field, "listed once", name, "Remove the duplicate.");
      names.add(name);
      checkDescription(role.name, known);
    }
  }

  #createUnknownError(field: string, name: string): EspalierError {
    const names = [...this.#roles.keys()].join(", ");
    return new EspalierError({
      code: "unknown_subagent",
      message: `Expected ${field} to be the name of a role of this run (${names}), got "${name}". Correct the name, or list the role itself instead of its name.`,
      data: { field, got: name },
    });
  }
}

/** Tools of a role, including its delegation tools, and the roles that these tools can start. */
interface RoleTools extends Pick<RoleParts, "tools" | "nativeOutputSchema" | "roleCacheKey"> {
  readonly subagents: readonly AgentRole[];
}

/** Memoised by role: schemas are built once for all orchestrators. */
const toolsByRole = new WeakMap<AgentRole, RoleTools>();

/**
 * Returns the tools of a role. `output` is the schema that the provider enforces, or `undefined` if
 * the agent reports its typed result with `Finish`.
 */
function createRoleTools(
  role: AgentRole,
  subagents: readonly AgentRole[],
  output: RoleParts["nativeOutputSchema"],
): RoleTools {
  const known = toolsByRole.get(role);
  const isSame =
    known?.subagents.length === subagents.length &&
    known.nativeOutputSchema === output &&
    subagents.every((subagent, index) => subagent === known.subagents[index]);
  if (isSame) return known;
  const { name, instructions, toolDefaults } = role;
  const ownTools =
    output === undefined ? role.tools : role.tools.filter((tool) => tool !== role.finish);
  const tools = buildToolSet(
    name,
    [...ownTools, ...createSubagentTools(role, subagents)],
    toolDefaults,
  );
  // Keyed by the role as it is defined: only these instructions and tools are the common prefix of
  // its agents' requests.
  const head = [typeof instructions === "string" ? instructions : name, tools.specs];
  const beginning = output === undefined ? head : [...head, output];
  const roleCacheKey = sha256(JSON.stringify(beginning)).slice(0, CACHE_KEY_LENGTH);
  const prepared = { subagents, tools, nativeOutputSchema: output, roleCacheKey };
  toolsByRole.set(role, prepared);
  return prepared;
}

const NONE: readonly never[] = Object.freeze([]);

/**
 * Returns the cost limits that a role gives its own agents or those below them, by the names of
 * their fields.
 */
function listCostLimits({ name, budget, delegation, dynamicRoles }: AgentRole): readonly string[] {
  const { share } = delegation;
  const budgets: readonly (readonly [string, Budget | undefined])[] = [
    [`${name}.budget`, budget],
    [`${name}.delegation.share.budget`, share.type === "fixed" ? share.budget : undefined],
    [`${name}.dynamicRoles.budget`, dynamicRoles?.budget],
  ];
  return budgets.flatMap(([field, limits]) =>
    limits?.costUsd === undefined ? [] : [`${field}.costUsd`],
  );
}

/** All roles that can be started from a role, the role itself first. */
interface Reach {
  readonly roles: ReadonlySet<AgentRole>;
  readonly players: readonly Player[];
}

/** Role or dynamic role, by name. */
interface Player {
  readonly name: string;
  readonly model: Model;
}

/** Returns the roles that a role may bring into a run: itself, and its dynamic roles. */
function listPlayers(role: AgentRole): readonly Player[] {
  const models = Object.values(role.dynamicRoles?.models ?? {});
  return [role, ...models.map((model) => ({ name: `defined by ${role.name}`, model }))];
}

function createPriceError(field: string, { name, model }: Player): EspalierError {
  return new EspalierError({
    code: "price_unknown",
    message: `Expected a price for model ${model.id} of role ${name}, which ${field} limits, got none. The built-in table of ${PRICES_AS_OF} has prices only for models of OpenAI itself, and lacks this one. Give the model a price, for example openai(id, { price }), give the orchestrator prices, for example from espalier/prices, or leave the cost limit out.`,
    data: { field, role: name, model: model.id },
  });
}

function readRoleName(subagent: AgentRole | string): string {
  return typeof subagent === "string" ? subagent : subagent.name;
}

/** Throws `duplicate_role` if two different roles, or roles below them, have the same name. */
export function checkRoleNames(roles: readonly AgentRole[]): void {
  const known = new Map<string, AgentRole>();
  const pending = [...roles];
  for (const role of pending) {
    const other = known.get(role.name);
    if (other === role) continue;
    if (other !== undefined) throw createDuplicateError(role);
    known.set(role.name, role);
    pending.push(...role.subagents.filter((subagent) => typeof subagent !== "string"));
  }
}

function createDuplicateError({ name }: AgentRole): EspalierError {
  return new EspalierError({
    code: "duplicate_role",
    message: `Expected role names to be unique, got two different roles named "${name}". Rename one, or use the same value for both.`,
    data: { role: name },
  });
}
