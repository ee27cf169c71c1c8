// `espalier view [run]`: opens the viewer of the project's runs, until Ctrl-C. It reads runs, and
// sends answers and cancellations to their mailboxes. It creates no store, and owns no run.

import type { CommandBody } from "../command-call.ts";
import { resolveRunName } from "../stored-run-reader.ts";
import { openProjectStore } from "../project.ts";
import { printNotice, printLine } from "../shell.ts";
import {
  buildRunPageUrl,
  openViewer,
  waitForExitSignal,
  locateRunningViewer,
} from "../open-viewer.ts";

export const body: CommandBody = async (call) => {
  const { shell, args, has } = call;
  await using chosenStore = await openProjectStore(call, has("readOnly") ? "read" : "view");
  const { store, name, project } = chosenStore;
  const [named] = args;
  const runId = named === undefined ? undefined : (await resolveRunName(chosenStore, named)).runId;
  if (has("url")) {
    const url = await locateRunningViewer(call, project, name);
    printLine(shell, runId === undefined ? url : buildRunPageUrl(url, runId));
    return 0;
  }
  const left = waitForExitSignal(shell);
  await using viewing = await openViewer(call, { project, store, storeName: name });
  await viewing.show(runId);
  printNotice(shell, `Runs of ${name}. Ctrl-C ends the viewer.`);
  await left;
  return 0;
};
