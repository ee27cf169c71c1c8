// `espalier doctor`: checks the environment of a run: Node, the configuration, a key, the store,
// the MCP servers, and a port for the viewer.

import { once } from "node:events";
import { existsSync } from "node:fs";
import { createServer } from "node:net";

import { stripControlCharacters } from "espalier/terminal";

import type { CommandBody, CommandCall } from "../command-call.ts";
import { BROKEN, describeCause } from "../exit-codes.ts";
import { getPackageVersion } from "../installed-copy.ts";
import { formatJsonLine } from "../json-text.ts";
import { connectServers, readKnownServers } from "../mcp-servers.ts";
import {
  findProject,
  type Project,
  openExistingStore,
  formatStoreName,
  chooseStorePlace,
  type StorePlace,
} from "../project.ts";
import { printLine, type Shell } from "../shell.ts";
import { formatQuantity } from "../../read-model/amounts.ts";

/** Result of a check. */
interface Finding {
  readonly what: string;
  /** `note` is a remark about a working part. */
  readonly state: "well" | "note" | "wrong";
  readonly says: string;
}

const SIGNS: Readonly<Record<Finding["state"], string>> = { well: "✔", note: "▲", wrong: "✖" };

export const body: CommandBody = async (call) => {
  const { shell, has } = call;
  const findings: Finding[] = [
    { what: "espalier", state: "well", says: getPackageVersion() },
    { what: "node", state: "well", says: process.versions.node },
    checkModelKeys(shell),
  ];
  const project = await findProject(shell).catch(describeCause);
  if (typeof project === "string")
    findings.push({ what: "configuration", state: "wrong", says: project });
  else
    findings.push(
      {
        what: "configuration",
        state: "well",
        says: project.configFile ?? `none in ${project.folder}`,
      },
      await checkStore(chooseStorePlace(call, project)),
      ...(await checkMcpServers(call, project)),
    );
  findings.push(await checkViewerPort());
  if (has("json")) printLine(shell, formatJsonLine({ findings }));
  else
    for (const { what, state, says } of findings)
      printLine(shell, stripControlCharacters(`${SIGNS[state]} ${what}: ${says}`));
  return findings.some(({ state }) => state === "wrong") ? BROKEN : 0;
};

function checkModelKeys({ env }: Shell): Finding {
  const known = ["OPENAI_API_KEY", "OPENAI_BASE_URL", "ESPALIER_MODEL"].filter(
    (name) => (env[name] ?? "") !== "",
  );
  if (known.length > 0) return { what: "models", state: "well", says: known.join(", ") };
  const says =
    "neither OPENAI_API_KEY nor OPENAI_BASE_URL is set: models by id need one of them. espalier demo needs neither";
  return { what: "models", state: "note", says };
}

/** Checks the store without creating or removing anything. */
async function checkStore(place: StorePlace): Promise<Finding> {
  const what = "store";
  const name = formatStoreName(place);
  if (place.type === "file" && !existsSync(place.path))
    return { what, state: "well", says: `${name}, which the first run creates` };
  try {
    const chosenStore = await openExistingStore(place, "read");
    await chosenStore[Symbol.asyncDispose]();
    return { what, state: "well", says: name };
  } catch (cause) {
    return { what, state: "wrong", says: describeCause(cause) };
  }
}

async function checkMcpServers(
  { shell }: CommandCall,
  project: Project,
): Promise<readonly Finding[]> {
  try {
    const known = readKnownServers(project, [shell.cwd, project.folder]);
    const names = Object.keys(known.entries);
    return await Promise.all(
      names.map(async (name): Promise<Finding> => {
        const what = `MCP server ${name}`;
        if (known.entries[name]?.disabled === true)
          return { what, state: "note", says: "disabled" };
        try {
          await using server = await connectServers(known, (other) => other === name, shell);
          return { what, state: "well", says: formatQuantity(server.tools.length, "tool") };
        } catch (cause) {
          return { what, state: "wrong", says: describeCause(cause) };
        }
      }),
    );
  } catch (cause) {
    return [{ what: "MCP servers", state: "wrong", says: describeCause(cause) }];
  }
}

const VIEWER_PORT = 4_983;

async function checkViewerPort(): Promise<Finding> {
  const server = createServer().listen(VIEWER_PORT, "127.0.0.1");
  const [{ status }] = await Promise.allSettled([once(server, "listening")]);
  server.close();
  const isFree = status === "fulfilled";
  return {
    what: "viewer",
    state: isFree ? "well" : "note",
    says: `port ${VIEWER_PORT} is ${isFree ? "free" : "in use: the next free one is used"}`,
  };
}
