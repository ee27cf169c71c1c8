// `espalier roles check [folder]`: what is wrong with role files, each by file and line; their models, tools and subagents included.

import { dirname } from "node:path";

import { stripControlCharacters } from "espalier/terminal";

import { type CommandBody, type CommandCall, readableFolder } from "../command-call.ts";
import { MISUSED, describeCause } from "../exit-codes.ts";
import { jsonLine } from "../json-text.ts";
import { sharedServers, type SharedServers } from "../mcp-servers.ts";
import { findProject } from "../project.ts";
import { roleTextsIn, type FoundRole, roleToRun } from "../roles-at-hand.ts";
import { note, say } from "../shell.ts";
import { numberOf } from "../../view/amounts.ts";

interface CheckedFile {
  readonly file: string;
  readonly role: string;
  /** Undefined: it is well. */
  readonly problem: string | undefined;
}

export const body: CommandBody = async (call) => {
  const { shell, args, has } = call;
  const folder = readableFolder(shell, args[0]);
  const texts = roleTextsIn(folder);
  await using servers = sharedServers();
  const checked: CheckedFile[] = [];
  for (const text of texts) checked.push(await checkedFile(call, text, servers));
  const faults = checked.flatMap(({ problem }) => problem ?? []);
  if (has("json")) say(shell, jsonLine({ files: checked }));
  // A file that several name is at fault once.
  else for (const fault of new Set(faults)) say(shell, stripControlCharacters(fault));
  const count = new Set(faults).size;
  const found = count === 0 ? "no problems" : numberOf(count, "problem");
  note(shell, `${numberOf(texts.length, "role file")} in ${folder}, ${found}.`);
  return faults.length === 0 ? 0 : MISUSED;
};

/** Files that name no model are well: it is named where they are run. */
const ANY_MODEL = "any-model";

async function checkedFile(
  { shell }: CommandCall,
  { file, name, text }: FoundRole,
  { connect }: SharedServers,
): Promise<CheckedFile> {
  const project = await findProject(shell);
  const models = { model: undefined, usualModel: ANY_MODEL };
  const search = { shell, project, ...models, readFolder: dirname(file), connect };
  try {
    await using hand = await roleToRun(file, search);
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
