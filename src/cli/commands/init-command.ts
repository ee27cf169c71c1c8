// `espalier init`: creates two roles and a file for MCP servers, and prints how to run them. Never
// overwrites a file. Lists its changes, and asks a person at the terminal first.

import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import type { CommandBody, CommandCall } from "../command-call.ts";
import { BROKEN, describeCause, UsageError } from "../exit-codes.ts";
import { SET_MODULE } from "../import-file.ts";
import { isConfirmed, isTerminal, printNotice, readSetting, type Shell } from "../shell.ts";

const PACKAGES = ["espalier", "zod"];
const MCP_CLIENT = "@modelcontextprotocol/client";
const SCRIPT = { name: "lead", command: "espalier run lead.md" };
const DEFAULT_MODEL = "gpt-5-mini";

export const body: CommandBody = async (call) => {
  const { shell } = call;
  const manifest = readManifest(shell.cwd);
  const wishes = manifest === undefined ? NO_WISHES : await readWishes(call, manifest);
  const plan = planActions(call, manifest, wishes);
  if (plan.length === 0) {
    printNotice(shell, "Everything already exists. Nothing was changed.");
    return 0;
  }
  printNotice(shell, "espalier init:");
  for (const { says } of plan) printNotice(shell, `  ${says}`);
  if (!call.has("yes") && !isTerminal(shell))
    throw new UsageError(
      "Cannot ask for confirmation without a terminal. Use --yes. Nothing was changed.",
    );
  if (!call.has("yes") && !(await isConfirmed(shell, "Make these changes?", true))) {
    printNotice(shell, "Nothing was changed.");
    return 0;
  }
  for (const { act } of plan) {
    const exitCode = await act();
    if (exitCode !== 0) return exitCode;
  }
  if (manifest !== undefined && !manifest.isModule && !wishes.isModule)
    printNotice(
      shell,
      `Before you write roles or a configuration in TypeScript, run: ${SET_MODULE}`,
    );
  printNotice(shell, `Try it: OPENAI_API_KEY=… npx ${SCRIPT.command} "What is this project?"`);
  return 0;
};

interface InitAction {
  readonly says: string;
  /** Performs the action. Returns an exit code. */
  readonly act: () => Promise<number>;
}

/** Optional changes of the project. */
interface Wishes {
  /** Whether package.json gets `"type": "module"`. */
  readonly isModule: boolean;
  readonly hasMcpClient: boolean;
}

const NO_WISHES: Wishes = { isModule: false, hasMcpClient: false };

/** Returns the changes that options request. Asks a person at a terminal about the others. */
async function readWishes(
  { shell, has, isOff }: CommandCall,
  { isModule, dependencies }: Manifest,
): Promise<Wishes> {
  const isAsked = isTerminal(shell) && !has("yes");
  const wants = async (option: string, question: string): Promise<boolean> =>
    has(option) || (isAsked && (await isConfirmed(shell, question, false)));
  const setsModule =
    !isModule &&
    (await wants(
      "module",
      'Set "type": "module" in package.json, for roles and a configuration in TypeScript?',
    ));
  const installsClient =
    !isOff("install") &&
    !dependencies.includes(MCP_CLIENT) &&
    (await wants("mcp", `Install ${MCP_CLIENT}, for the servers in mcp.json?`));
  return { isModule: setsModule, hasMcpClient: installsClient };
}

function planActions(
  call: CommandCall,
  manifest: Manifest | undefined,
  wishes: Wishes,
): readonly InitAction[] {
  const { cwd } = call.shell;
  const model =
    call.text("model") ?? readSetting(call.shell.env, "ESPALIER_MODEL") ?? DEFAULT_MODEL;
  const files = Object.entries(createFiles(model)).flatMap(([name, text]) => {
    const file = join(cwd, name);
    if (existsSync(file)) return [];
    // A file that another process has created in the meantime stays.
    const act = async (): Promise<number> => {
      writeFileSync(file, text, { flag: "wx" });
      return 0;
    };
    return [{ says: `create ${name}`, act }];
  });
  return [...files, ...(manifest === undefined ? [] : planPackageActions(call, manifest, wishes))];
}

function createFiles(model: string): Readonly<Record<string, string>> {
  return {
    "lead.md": `---
description: Leads the work and writes the answer
model: ${JSON.stringify(model)}
tools: [folder_list, folder_search]
subagents: [reader]
limits: { maxDepth: 1, maxTotalSubagents: 5 }
---

You answer questions about the folder that you can read.

1. List it with folder_list. Call folder_search if the question contains words to search for.
2. Start one reader per part that matters, all in one reply. A reader sees nothing of this conversation: name the files, and ask
   what you want to know.
3. Answer in a few lines. Name the files that your answer is based on, and what you did not read.
`,
    "reader.md": `---
description: Reads the files that you name and answers your question about them
model: ${JSON.stringify(model)}
tools: [folder_*]
budget: { steps: 10, totalTokens: 100000 }
---

Read the files that your task names, and answer what it asks. Quote what matters, with the path. Say so if something is missing.
`,
    "mcp.json": `${JSON.stringify({ mcpServers: {} }, null, 2)}\n`,
  };
}

function planPackageActions(
  { shell, isOff }: CommandCall,
  manifest: Manifest,
  { isModule, hasMcpClient }: Wishes,
): readonly InitAction[] {
  const change = {
    ...(isModule ? { type: "module" } : {}),
    ...(SCRIPT.name in manifest.scripts
      ? {}
      : { scripts: { ...manifest.scripts, [SCRIPT.name]: SCRIPT.command } }),
  };
  const changes = [
    ...(isModule ? ['set "type": "module" in package.json'] : []),
    ...("scripts" in change
      ? [`add to package.json the script ${SCRIPT.name}: ${SCRIPT.command}`]
      : []),
  ];
  const written: readonly InitAction[] = changes.map((says, index) => ({
    says,
    act: async () => {
      // All changes are written at once, indented as before.
      const { file, text, whole } = manifest;
      const indentation = /^\{\r?\n(?<space>[ \t]+)/.exec(text)?.groups?.["space"] ?? "  ";
      const changed = JSON.stringify({ ...whole, ...change }, null, indentation);
      if (index === 0) writeFileSync(file, `${changed}\n`);
      return 0;
    },
  }));
  const wanted = hasMcpClient ? [...PACKAGES, MCP_CLIENT] : PACKAGES;
  const missing = wanted.filter((name) => !manifest.dependencies.includes(name));
  if (missing.length === 0 || isOff("install")) return written;
  const [command, ...args] = [...findInstaller(shell.cwd), ...missing];
  const says = `run ${[command, ...args].join(" ")}`;
  return [...written, { says, act: () => runChildProcess(command ?? "npm", args, shell) }];
}

interface Manifest {
  readonly file: string;
  readonly text: string;
  readonly whole: object;
  readonly isModule: boolean;
  readonly scripts: object;
  /** Names of the dependencies. */
  readonly dependencies: readonly string[];
}

/** Returns `undefined` if the folder has no package.json. */
function readManifest(folder: string): Manifest | undefined {
  const file = join(folder, "package.json");
  if (!existsSync(file)) return undefined;
  const text = readFileSync(file, "utf8");
  let whole: unknown;
  try {
    whole = JSON.parse(text);
  } catch (cause) {
    const got = describeCause(cause);
    throw new UsageError(`Expected ${file} to be JSON, got: ${got}. Fix the file.`, { cause });
  }
  if (typeof whole !== "object" || whole === null)
    throw new UsageError(`Expected ${file} to contain an object. Fix the file.`);
  const getObject = (name: string): object => {
    const value: unknown = Reflect.get(Object(whole), name);
    return typeof value === "object" && value !== null ? value : {};
  };
  const ownName: unknown = Reflect.get(whole, "name");
  const names = ["dependencies", "devDependencies"].flatMap((name) => Object.keys(getObject(name)));
  const dependencies = typeof ownName === "string" ? [...names, ownName] : names;
  const isModule = Reflect.get(whole, "type") === "module";
  return { file, text, whole, isModule, scripts: getObject("scripts"), dependencies };
}

/** Returns the install command for the present lock file. */
function findInstaller(folder: string): readonly string[] {
  const has = (name: string): boolean => existsSync(join(folder, name));
  if (has("pnpm-lock.yaml")) return ["pnpm", "add"];
  if (has("yarn.lock")) return ["yarn", "add"];
  if (has("bun.lock") || has("bun.lockb")) return ["bun", "add"];
  return ["npm", "install"];
}

async function runChildProcess(
  command: string,
  args: readonly string[],
  shell: Shell,
): Promise<number> {
  const child = spawn(command, args, {
    cwd: shell.cwd,
    env: shell.env,
    stdio: ["ignore", "pipe", "pipe"],
    // On Windows, npm is a shell script.
    shell: process.platform === "win32",
  });
  child.stdout.pipe(shell.stderr, { end: false });
  child.stderr.pipe(shell.stderr, { end: false });
  const exitCode = await new Promise<number>((resolve) => {
    child.on("error", () => resolve(BROKEN));
    child.on("close", (code) => resolve(code ?? BROKEN));
  });
  if (exitCode === 0) return 0;
  printNotice(
    shell,
    `${command} could not install the packages (exit code ${exitCode}). Run it yourself: ${[command, ...args].join(" ")}`,
  );
  return BROKEN;
}
