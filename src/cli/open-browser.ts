// Opens an address in the browser of the person at this machine, without any other user of the machine seeing it: arguments of processes can be
// seen by all, so what is opened is a file for this user alone, which leads there.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { Shell } from "./shell.ts";

/** What opens a file in the browser, by platform. */
const OPENERS: ReadonlyMap<string, readonly string[]> = new Map([
  ["darwin", ["open"]],
  ["win32", ["rundll32", "url.dll,FileProtocolHandler"]],
]);
const OTHER_OPENER = ["xdg-open"];

/**
 * Opens an address, if there is a person and a browser: the caller prints the address, too. Resolves once it was tried; call the result when
 * the address leads nowhere any more. Never rejects.
 */
export async function openBrowser(
  { env }: Shell,
  address: string,
  platform: string = process.platform,
): Promise<() => Promise<void>> {
  let folder: string | undefined;
  const forget = async (): Promise<void> => {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  };
  try {
    folder = await mkdtemp(join(tmpdir(), "espalier-"));
    const page = join(folder, "open.html");
    await writeFile(page, pageTo(address), { mode: 0o600 });
    const [command = "", ...args] = OPENERS.get(platform) ?? OTHER_OPENER;
    const opener = spawn(command, [...args, page], { env, stdio: "ignore", detached: true });
    await once(opener, "spawn");
    opener.unref();
  } catch {
    // The address was said.
  }
  return forget;
}

/** The address is ours: it has no character that HTML would take for something else. */
function pageTo(address: string): string {
  return `<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=${address}"><title>espalier</title>\n`;
}
