// Entry `espalier/config`: what the command `espalier` works with, said once per project. Plain data: the command makes the orchestrator.

import { checkKeys, checkList, checkText, mismatch } from "../kernel/check.ts";
import { isRecord } from "../kernel/json.ts";
import { checkAgentRole, type AgentRole } from "../agent/agent-role.ts";
import type { Model } from "../model/model.ts";
import type { OrchestratorOptions } from "../orchestrator/tree/settings.ts";
import type { Store } from "../store/store.ts";
import type { ToolsetTool } from "../tools/toolsets.ts";

/** What the command `espalier` works with, in a project. Everything may be left out. */
export interface EspalierConfig extends Pick<
  OrchestratorOptions,
  | "limits"
  | "concurrency"
  | "maxConcurrentRuns"
  | "retry"
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
  /** The roles that can be run by name, and with which runs continue; or a folder of role files, relative to the configuration. */
  readonly roles?: readonly AgentRole[] | string;
  /** Tools that role files may name, besides those of `mcp` and the built-in ones. */
  readonly tools?: readonly ToolsetTool[];
  /** Models that role files may name. Other names are ids of models at OpenAI, or at the server of `OPENAI_BASE_URL`. */
  readonly models?: Readonly<Record<string, Model>>;
  /**
   * MCP servers whose tools role files may name, by the name of the server; or a file that has them under `mcpServers`, relative to the
   * configuration. Default: `mcp.json` beside the configuration, if it is there. A server is started when a role that is run names its tools.
   */
  readonly mcp?: Readonly<Record<string, McpServerEntry>> | string;
  /** Where runs are kept: a store, a file of SQLite, relative to the configuration, or `postgres://…`. Default: `.espalier/runs.db`. */
  readonly store?: Store | string;
}

/**
 * An MCP server, as editors have it in their `mcp.json`: started by `command`, or reached at `url`. `${NAME}` in a text is the environment
 * variable of this name. What else an editor writes there is passed over.
 */
export interface McpServerEntry {
  /** The program that is started, for a server over stdio. */
  readonly command?: string;
  /** Its arguments. */
  readonly args?: readonly string[];
  /** Environment variables besides the few harmless ones that every server gets; `${NAME}` stands for one of ours. */
  readonly env?: Readonly<Record<string, string>>;
  /** The folder in which it is started, from that of the configuration. Default: that one. */
  readonly cwd?: string;
  /** The address of a server over HTTP, in place of `command`. */
  readonly url?: string;
  /** Headers of each request to it. */
  readonly headers?: Readonly<Record<string, string>>;
  /** True: the server is left out. */
  readonly disabled?: boolean;
  /** False: calls need no approval. Default: every call of a tool needs one, unless the server marks the tool as read-only. */
  readonly needsApproval?: boolean;
}

const FIELDS: readonly (keyof EspalierConfig)[] = [
  "roles",
  "tools",
  "models",
  "mcp",
  "store",
  "limits",
  "concurrency",
  "maxConcurrentRuns",
  "retry",
  "prices",
  "graceMs",
  "hooks",
  "guards",
  "hookTimeoutMs",
  "approver",
  "answerTimeoutMs",
  "sinks",
  "tracing",
];

/**
 * The configuration of a project, for the default export of its `espalier.config.ts`. What an orchestrator takes (`limits`, `hooks`, …) is
 * checked when one is made.
 *
 * @throws EspalierError `invalid_option` or `invalid_definition` for a field that is unknown or cannot be used.
 */
export function defineConfig(config: EspalierConfig): EspalierConfig {
  checkKeys("config", config, FIELDS);
  const { roles, tools, models, mcp, store } = config;
  if (typeof roles === "string") checkText("config.roles", roles);
  else if (roles !== undefined) {
    checkList("config.roles", roles);
    for (const [index, role] of roles.entries()) checkAgentRole(`config.roles[${index}]`, role);
  }
  if (tools !== undefined) checkList("config.tools", tools);
  checkNamed("config.models", models, 'Pass them as { fast: openai("…") }.');
  if (typeof mcp === "string") checkText("config.mcp", mcp);
  else checkNamed("config.mcp", mcp, 'Pass them as { files: { command: "npx", args: [ … ] } }.');
  if (typeof store === "string") checkText("config.store", store);
  else if (store !== undefined && !isRecord(store))
    throw mismatch(
      "config.store",
      "a store or a path",
      store,
      'Name a file, for example "runs.db".',
    );
  return config;
}

function checkNamed(field: string, value: unknown, advice: string): void {
  if (value !== undefined && !isRecord(value)) throw mismatch(field, "an object", value, advice);
}
