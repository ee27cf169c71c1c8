// The MCP servers of a project, from its configuration or its mcp.json, and their tools. A tool
// needs an approval unless its server declares it read-only, or the entry of the server disables
// approvals.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

import type { FunctionTool } from "espalier";
import type { McpServerEntry } from "espalier/config";
import type { McpServer, McpTransport } from "espalier/mcp";
import { z } from "zod";

import type { Project } from "./project.ts";
import type { Shell } from "./shell.ts";
import { describeCause, UsageError } from "./exit-codes.ts";

/** Servers by name, with their file. */
export interface KnownServers {
  readonly entries: Readonly<Record<string, McpServerEntry>>;
  /** For messages, and as the base of relative folders. */
  readonly file: string;
}

/** Tools of connected servers. The owner must close it. */
export interface ServerTools extends AsyncDisposable {
  readonly tools: readonly FunctionTool[];
}

const FILE = "mcp.json";

const texts = z.record(z.string(), z.string());
const EntrySchema = z.looseObject({
  type: z.enum(["stdio", "http", "streamable-http"]).exactOptional(),
  command: z.string().exactOptional(),
  args: z.array(z.string()).exactOptional(),
  env: texts.exactOptional(),
  cwd: z.string().exactOptional(),
  url: z.string().exactOptional(),
  headers: texts.exactOptional(),
  disabled: z.boolean().exactOptional(),
  needsApproval: z.boolean().exactOptional(),
});
const FileSchema = z.looseObject({ mcpServers: z.record(z.string(), EntrySchema) });

/**
 * Returns the servers of a project: those of its configuration, else of the first mcp.json in these
 * folders.
 *
 * @throws UsageError for a missing or invalid file.
 */
export function readKnownServers(
  { config, folder, configFile }: Project,
  folders: readonly string[],
): KnownServers {
  const { mcp } = config;
  if (typeof mcp === "string") return readServerFile(resolve(folder, mcp));
  if (mcp !== undefined) {
    const file = configFile ?? folder;
    return {
      entries: checkServerConfig(z.record(z.string(), EntrySchema), mcp, `${file}: mcp`),
      file,
    };
  }
  const file = folders.map((folder) => join(folder, FILE)).find((path) => existsSync(path));
  return file === undefined ? { entries: {}, file: join(folder, FILE) } : readServerFile(file);
}

function readServerFile(file: string): KnownServers {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(file, "utf8"));
  } catch (cause) {
    const got = describeCause(cause);
    throw new UsageError(`Expected ${file} to be JSON, got: ${got}. Fix the file.`, { cause });
  }
  return { entries: checkServerConfig(FileSchema, content, file).mcpServers, file };
}

function checkServerConfig<Value>(schema: z.ZodType<Value>, value: unknown, where: string): Value {
  const { data, error } = schema.safeParse(value);
  if (data !== undefined) return data;
  const [issue] = error?.issues ?? [];
  const at = issue?.path.join(".") ?? "";
  throw new UsageError(
    `${where}: Expected { "mcpServers": { "name": { "command": "…" } or { "url": "…" } } }, got something else${at === "" ? "" : ` at ${at}`}: ${issue?.message ?? ""}.`,
  );
}

/**
 * Connects to the servers for which `isWanted` is true, all at once, and returns their tools. If
 * one is unreachable, the others are closed again.
 *
 * @throws UsageError for an entry with neither command nor url. Also throws the errors of
 * `connectMcp`: `invalid_argument` names the package if the client is not installed.
 */
export async function connectServers(
  { entries, file }: KnownServers,
  isWanted: (name: string) => boolean,
  shell: Shell,
): Promise<ServerTools> {
  const wanted = Object.entries(entries).filter(
    ([name, entry]) => entry.disabled !== true && isWanted(name),
  );
  if (wanted.length === 0) return { tools: [], [Symbol.asyncDispose]: async () => {} };
  const settled = await Promise.allSettled(
    wanted.map(async ([name, entry]) => await connectServer(name, entry, file, shell)),
  );
  const servers = settled.flatMap((outcome) =>
    outcome.status === "fulfilled" ? [outcome.value] : [],
  );
  const close = async (): Promise<void> => {
    await Promise.all(servers.map((server) => server.close()));
  };
  const failure = settled.find((outcome) => outcome.status === "rejected");
  if (failure !== undefined) {
    await close();
    throw failure.reason;
  }
  return { tools: servers.flatMap(({ tools }) => tools), [Symbol.asyncDispose]: close };
}

/** Connects like `connectServers`, but to each server only once. Closing it closes all servers. */
export interface SharedServers extends AsyncDisposable {
  readonly connect: typeof connectServers;
}

export function createSharedServers(): SharedServers {
  const connections = new Map<string, Promise<ServerTools>>();
  const toServer = (known: KnownServers, name: string, shell: Shell): Promise<ServerTools> => {
    const key = JSON.stringify([known.file, name]);
    const connecting =
      connections.get(key) ?? connectServers(known, (other) => other === name, shell);
    connections.set(key, connecting);
    return connecting;
  };
  return {
    connect: async (known, isWanted, shell) => {
      const names = Object.keys(known.entries).filter(isWanted);
      const servers = await Promise.all(names.map((name) => toServer(known, name, shell)));
      return {
        tools: servers.flatMap(({ tools }) => tools),
        [Symbol.asyncDispose]: async () => {},
      };
    },
    [Symbol.asyncDispose]: async () => {
      for (const outcome of await Promise.allSettled(connections.values()))
        if (outcome.status === "fulfilled") await outcome.value[Symbol.asyncDispose]();
    },
  };
}

async function connectServer(
  name: string,
  entry: McpServerEntry,
  file: string,
  shell: Shell,
): Promise<McpServer> {
  const { connectMcp } = await import("espalier/mcp");
  return await connectMcp({
    name,
    transport: createServerTransport(name, entry, file, shell),
    needsApproval:
      entry.needsApproval === false
        ? false
        : (tool) =>
            tool.annotations.readOnlyHint !== true &&
            `The server ${name} does not mark ${tool.name} as read-only.`,
  });
}

function createServerTransport(
  name: string,
  entry: McpServerEntry,
  file: string,
  { env, stderr, isVerbose }: Shell,
): McpTransport {
  const { command, args = [], url, headers = {} } = entry;
  const expandVariables = (text: string): string =>
    text.replaceAll(/\$\{(?<variable>\w+)\}/g, (_whole, variable: string) => {
      const value = env[variable];
      if (value !== undefined) return value;
      throw new UsageError(
        `${file}: The server ${name} needs the environment variable ${variable}, which is not set. Set it.`,
      );
    });
  const expandAll = (texts: Readonly<Record<string, string>>): Record<string, string> =>
    Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, expandVariables(text)]));
  if (url !== undefined)
    return { type: "http", url: expandVariables(url), headers: expandAll(headers) };
  if (command === undefined)
    throw new UsageError(
      `${file}: Expected the server ${name} to have a command or a url, got neither. Set one of them.`,
    );
  return {
    type: "stdio",
    command: expandVariables(command),
    args: args.map(expandVariables),
    env: expandAll(entry.env ?? {}),
    cwd: resolve(dirname(file), expandVariables(entry.cwd ?? ".")),
    ...(isVerbose ? { onStderr: (text: string) => void stderr.write(text) } : {}),
  };
}
