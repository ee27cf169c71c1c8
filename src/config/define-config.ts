// Entry `espalier/config`: the configuration of the command `espalier` in a project. Plain data:
// the command creates the orchestrator.

import {
  checkFields,
  checkFunction,
  checkLater,
  checkList,
  checkText,
  mismatch,
  type FieldCheck,
} from "../kernel/argument-checks.ts";
import { isRecord } from "../kernel/json.ts";
import { checkAgentRole, type AgentRole } from "../agent/agent-role.ts";
import type { Model } from "../model/model.ts";
import type { OrchestratorOptions } from "../orchestrator/tree/orchestrator-settings.ts";
import type { Store } from "../store/store.ts";
import type { ToolsetTool } from "../tools/toolsets.ts";

/**
 * Configuration of the command `espalier` in a project. All fields are optional.
 *
 * @example
 * ```ts
 * const config: EspalierConfig = {
 *   roles: "roles",
 *   models: { fast: openai("gpt-5-mini") },
 *   store: "runs.db",
 *   limits: { maxDepth: 2 },
 * };
 * ```
 */
export interface EspalierConfig<Context = unknown> extends Pick<
  OrchestratorOptions,
  | "limits"
  | "concurrency"
  | "maxConcurrentRuns"
  | "retryPolicy"
  | "prices"
  | "graceMs"
  | "hooks"
  | "guards"
  | "hookTimeoutMs"
  | "approver"
  | "answerTimeoutMs"
  | "sinks"
  | "tracing"
> {
  /**
   * Roles that the command runs and resumes by name, or a folder of role files relative to the
   * configuration.
   *
   * @example
   * ```ts
   * const config = defineConfig({ roles: [researcher, writer] });
   * ```
   */
  readonly roles?: readonly AgentRole<unknown, Context>[] | string;
  /**
   * Tools that role files may name, besides those of `mcp` and the built-in ones.
   *
   * @default []
   */
  readonly tools?: readonly ToolsetTool<Context>[];
  /**
   * Function that returns the context of each run that the command starts or resumes, for its tools
   * and hooks. Required if a role or tool needs a context.
   *
   * @default none: runs have no context
   * @example
   * ```ts
   * const config = defineConfig({ roles: [researcher], context: () => ({ userId: "ann" }) });
   * ```
   */
  readonly context?: () => Context | Promise<Context>;
  /**
   * Models that role files may name. Any other name is the id of a model at OpenAI, or at the
   * server of `OPENAI_BASE_URL`.
   *
   * @example
   * ```ts
   * const config = defineConfig({ models: { fast: openai("gpt-5-mini") } });
   * ```
   */
  readonly models?: Readonly<Record<string, Model>>;
  /**
   * MCP servers whose tools role files may name, by the name of the server, or a file with
   * `mcpServers` relative to the configuration. A server starts when a role that runs names its
   * tools.
   *
   * @default "mcp.json" beside the configuration, if it exists
   *
   * @example
   * ```ts
   * const config = defineConfig({
   *   mcp: { git: { command: "npx", args: ["-y", "@example/git-mcp-server"] } },
   * });
   * ```
   */
  readonly mcp?: Readonly<Record<string, McpServerEntry>> | string;
  /**
   * The store of runs: a `Store`, the path of a SQLite file relative to the configuration, or a URL
   * `postgres://…`.
   *
   * @default ".espalier/runs.db"
   *
   * @example
   * ```ts
   * const config = defineConfig({ store: "postgres://localhost/espalier" });
   * ```
   */
  readonly store?: Store | string;
}

/**
 * An MCP server in the format of `mcp.json` in editors: a program that is started (`command`), or
 * an address (`url`). `${NAME}` in a text is replaced by the environment variable `NAME`. Other
 * fields are ignored.
 *
 * @example
 * ```ts
 * const github: McpServerEntry = {
 *   url: "https://mcp.example/github",
 *   headers: { Authorization: "Bearer ${GITHUB_TOKEN}" },
 * };
 * ```
 */
export interface McpServerEntry {
  /** The program of a server over stdio. */
  readonly command?: string;
  /**
   * Arguments of the program.
   *
   * @default []
   */
  readonly args?: readonly string[];
  /**
   * Environment variables of the program, besides a few harmless ones that every server gets.
   *
   * @example
   * ```ts
   * const server: McpServerEntry = { command: "github-mcp", env: { TOKEN: "${GITHUB_TOKEN}" } };
   * ```
   */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * The working directory of the program, relative to the configuration.
   *
   * @default the folder of the configuration
   */
  readonly cwd?: string;
  /** The address of a server over HTTP, in place of `command`. */
  readonly url?: string;
  /** Headers of each request to `url`. */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Leaves the server out.
   *
   * @default false
   */
  readonly disabled?: boolean;
  /**
   * Requires an approval for each tool call, unless the server marks the tool as read-only. `false`
   * requires none.
   *
   * @default true
   */
  readonly needsApproval?: boolean;
}

const CHECKS: Readonly<Record<keyof EspalierConfig, FieldCheck>> = {
  roles: (field, roles) => {
    if (typeof roles === "string") return checkText(field, roles);
    if (!Array.isArray(roles)) return checkList(field, roles);
    for (const [index, role] of roles.entries()) checkAgentRole(`${field}[${index}]`, role);
  },
  tools: checkList,
  context: checkFunction,
  models: (field, models) => checkNamed(field, models, 'Pass them as { fast: openai("…") }.'),
  mcp: (field, mcp) => {
    if (typeof mcp === "string") return checkText(field, mcp);
    checkNamed(field, mcp, 'Pass them as { files: { command: "npx", args: [ … ] } }.');
  },
  store: (field, store) => {
    if (typeof store === "string") return checkText(field, store);
    const advice = 'Name a file, for example "runs.db".';
    if (!isRecord(store)) throw mismatch(field, "a store or a path", store, advice);
  },
  limits: checkLater,
  concurrency: checkLater,
  maxConcurrentRuns: checkLater,
  retryPolicy: checkLater,
  prices: checkLater,
  graceMs: checkLater,
  hooks: checkLater,
  guards: checkLater,
  hookTimeoutMs: checkLater,
  approver: checkLater,
  answerTimeoutMs: checkLater,
  sinks: checkLater,
  tracing: checkLater,
};

/**
 * Validates the configuration of a project, for the default export of its `espalier.config.ts`.
 * Options of the orchestrator, such as `limits` and `hooks`, are validated when the command creates
 * one.
 *
 * @throws EspalierError `invalid_argument` if a field is unknown or has the wrong type.
 * @throws EspalierError `invalid_argument` if a role or a text is invalid.
 *
 * @example
 * ```ts
 * export default defineConfig({
 *   roles: "roles",
 *   models: { fast: openai("gpt-5-mini") },
 *   store: "runs.db",
 * });
 * ```
 */
export function defineConfig<Context = unknown>(
  config: EspalierConfig<Context> &
    (unknown extends Context ? unknown : Required<Pick<EspalierConfig<Context>, "context">>),
): EspalierConfig<Context> {
  checkFields("config", config, CHECKS);
  return config;
}

function checkNamed(field: string, value: unknown, advice: string): void {
  if (!isRecord(value)) throw mismatch(field, "an object", value, advice);
}
