// All that can be called, on one page: commands, arguments, options, and the file that does each. Nothing of the library is imported here,
// and a file of a command only when the command is used: help and completion are made of this alone.

import { Command } from "commander";

import type { CommandFile } from "./command-call.ts";
import { ownVersion } from "./installed-copy.ts";

/** Makes the action of a command out of what loads its file. */
export type ActionOf = (load: () => Promise<CommandFile>) => (command: Command) => Promise<void>;

/** The tree of commands. */
export function commandTree(actionOf: ActionOf): Command {
  const tree = new Command("espalier")
    .description("Runs trees of agents that cannot run wild, and shows them.")
    .option("--verbose", "say of errors where they happened, too")
    .version(ownVersion(), "-v, --version", "say the version")
    .helpOption("-h, --help", "say how to use it")
    .addHelpText("after", EXIT_CODES_TEXT);
  const add: Add = (declaration, load) => {
    const action = actionOf(load);
    tree
      .command(declaration)
      .helpOption("-h, --help", "say how to use it")
      .action(async function (this: Command) {
        await action(this);
      });
    return tree.commands.at(-1) ?? tree;
  };
  addViews(add);
  addRequests(add);
  return tree;
}

type Add = (declaration: string, load: () => Promise<CommandFile>) => Command;

const EXIT_CODES_TEXT = `
Exit codes: 0 completed; 1 failed; 2 wrong use, configuration or role file; 3 stopped by a limit;
4 paused, needs an answer; 5 a replay or a comparison differs; 6 the store; 130, 143 by a signal.`;

const STORE = [
  "--store <path>",
  "where runs are kept: a file of SQLite, or postgres://…; else as the configuration says, ESPALIER_STORE, or .espalier/runs.db",
] as const;

function addViews(add: Add): void {
  add("view [run]", () => import("./commands/view-command.ts"))
    .description(
      "Shows the runs of the project in the browser, while they run, too. <run>: an id, the beginning of one, or @last.",
    )
    .option(...STORE)
    .option(
      "--port <number>",
      "where to listen; 0: any that is free; else the first free from 4983 on",
    )
    .option("--no-open", "open no browser")
    .option("--no-content", "show no prompts, tasks, arguments, results, nor words of errors")
    .option("--read-only", "answer no question, and ask nothing of runs")
    .option("--new-token", "close the pages that are open: their token is good no more")
    .option("--url", "say the address of the viewer that runs already, with its token");
}

function addRequests(add: Add): void {
  add("cancel <run>", () => import("./commands/cancel-command.ts"))
    .description("Cancels a run, wherever it is led. <run>: an id, the beginning of one, or @last.")
    .option("--reason <text>", "why, on record with the run")
    .option(...STORE);
}
