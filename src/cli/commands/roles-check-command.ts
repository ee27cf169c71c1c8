// `espalier roles check [folder]`: reports problems in role files by file and line, including their
// models, tools and subagents.

import { dirname } from "node:path";

import { stripControlCharacters } from "espalier/terminal";

import { type CommandBody, type CommandCall, resolveReadableFolder } from "../command-call.ts";
import { MISUSED, describeCause } from "../exit-codes.ts";
import { formatJsonLine } from "../json-text.ts";
import { createSharedServers, type SharedServers } from "../mcp-servers.ts";
import { findProject } from "../project.ts";
import { readFolderRoles, type FoundRole, loadRoleToRun } from "../available-roles.ts";
import { printNotice, printLine } from "../shell.ts";
import { formatQuantity } from "../../read-model/amounts.ts";

interface CheckedFile {
  readonly file: string;
  readonly role: string;
  /** `undefined` if the file is valid. */
  readonly problem: string | undefined;
}

export const body: CommandBody = async (call) => {
  const { shell, args, has } = call;
  const folder = resolveReadableFolder(shell, args[0]);
  const texts = readFolderRoles(folder);
  await using servers = createSharedServers();
  const checked: CheckedFile[] = [];
  for (const text of texts) checked.push(await checkRoleFile(call, text, servers));
  const faults = checked.flatMap(({ problem }) => problem ?? []);
  if (has("json")) printLine(shell, formatJsonLine({ files: checked }));
  // A problem in a file that several roles name is reported once.
  else for (const fault of new Set(faults)) printLine(shell, stripControlCharacters(fault));
  const count = new Set(faults).size;
  const summary = count === 0 ? "no problems" : formatQuantity(count, "problem");
  printNotice(shell, `${formatQuantity(texts.length, "role file")} in ${folder}, ${summary}.`);
  return faults.length === 0 ? 0 : MISUSED;
};

/**
 * Placeholder for the model of files that name none. The real model is chosen when they are run.
 */
const ANY_MODEL = "any-model";

async function checkRoleFile(
  { shell }: CommandCall,
  { file, name, text }: FoundRole,
  { connect }: SharedServers,
): Promise<CheckedFile> {
  const project = await findProject(shell);
  const models = { model: undefined, usualModel: ANY_MODEL };
  const search = { shell, project, ...models, readFolder: dirname(file), connect };
  try {
    await using hand = await loadRoleToRun(file, search);
    const names = new Set(hand.roles.map((role) => role.name));
    const missing = hand.root.subagents
      .flatMap((subagent) => (typeof subagent === "string" ? [subagent] : []))
      .find((subagent) => !names.has(subagent));
    const problem =
      missing === undefined
        ? undefined
        : `${file}:${findLine("subagents", text)}: Expected a role file or a role of the configuration named ${missing}, got none.`;
    return { file, role: name, problem };
  } catch (cause) {
    return { file, role: name, problem: describeCause(cause) };
  }
}

function findLine(field: string, text: string): number {
  return text.split("\n").findIndex((line) => line.startsWith(field)) + 1 || 1;
}
