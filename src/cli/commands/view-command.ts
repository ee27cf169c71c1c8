// `espalier view [run]`: the viewer of the project's runs, until Ctrl-C. It looks, answers and cancels by the mailboxes of runs; it makes no store,
// and leads no run.

import type { CommandBody } from "../command-call.ts";
import { namedRun } from "../run-reading.ts";
import { openProjectStore } from "../project.ts";
import { note, say } from "../shell.ts";
import { pageAddress, openViewing, untilLeft, runningViewer } from "../viewing.ts";

export const body: CommandBody = async (call) => {
  const { shell, args, has } = call;
  await using kept = await openProjectStore(call, has("readOnly") ? "read" : "view");
  const { store, name, project } = kept;
  const [named] = args;
  const runId = named === undefined ? undefined : (await namedRun(store, named)).runId;
  if (has("url")) {
    const url = await runningViewer(call, project, name);
    say(shell, runId === undefined ? url : pageAddress(url, runId));
    return 0;
  }
  const left = untilLeft(shell);
  await using viewing = await openViewing(call, { project, store, storeName: name });
  await viewing.show(runId);
  note(shell, `Runs of ${name}. Ctrl-C ends the viewer.`);
  await left;
  return 0;
};
