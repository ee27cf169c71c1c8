// All that can be called, on one page: commands, arguments, options, and the file that does each. Nothing of the library is imported here,
// and a file of a command only when the command is used: help and completion are made of this alone.

import { Command } from "commander";

import type { CommandBody } from "./command-call.ts";
import { COMPLETE } from "./completion-scripts.ts";
import { ownVersion } from "./installed-copy.ts";

/** Returns the action of a command, from the function that loads its body. */
export type ActionOf = (load: () => Promise<CommandBody>) => (command: Command) => Promise<void>;

/** The tree of commands. */
export function commandTree(actionOf: ActionOf): Command {
  const tree = new Command("espalier")
    .description("Runs trees of agents that cannot run wild, and shows them.")
    .option("--verbose", "say of errors where they happened, too")
    .version(ownVersion(), "-v, --version", "say the version")
    .helpOption("-h, --help", "say how to use it")
    .addHelpText("after", EXIT_CODES_TEXT);
  const add: Add = (declaration, load, below = tree) => {
    const action = actionOf(load);
    return below
      .command(declaration)
      .helpOption("-h, --help", "say how to use it")
      .action(async function (this: Command) {
        await action(this);
      });
  };
  tree.commandsGroup("Run agents:");
  addWork(add);
  addDemo(add);
  tree.commandsGroup("Look at runs:");
  addViews(add);
  addReading(add);
  tree.commandsGroup("Answer and continue runs:");
  addAnswers(add);
  addRequests(add);
  tree.commandsGroup("Set up a project:");
  addSetUp(add, tree);
  return tree;
}

type Add = (declaration: string, load: () => Promise<CommandBody>, below?: Command) => Command;

const EXIT_CODES_TEXT = `
Exit codes: 0 completed; 1 failed; 2 wrong use, configuration or role file; 3 stopped by a limit;
4 paused, needs an answer; 6 the store; 129, 130, 143 by a signal.`;

const RUN = "<run>: an id, the beginning of one, or @last.";
const STORE = [
  "--store <path>",
  "where runs are kept: a file of SQLite, or postgres://…; else as the configuration says, ESPALIER_STORE, or .espalier/runs.db",
] as const;
const MODEL = [
  "--model <name>",
  "the model of role files that name none: an id at OpenAI or OPENAI_BASE_URL, or ai-sdk:<provider>/<id>; else ESPALIER_MODEL",
] as const;
const ALLOW_READ = [
  "--allow-read <folder>",
  "what folder_list, folder_read and folder_search of role files may see; else the working folder",
] as const;
const ANSWER = [
  "--answer <mode>",
  "who answers questions: ask (you, at this terminal), pause the run, or deny",
] as const;
const JSON_OUTPUT = ["--json", "one JSON object on stdout"] as const;
const EVENTS = ["--events", "the events of the run on stdout, one JSON object a line"] as const;
const QUIET = ["--quiet", "nothing on stderr but what goes wrong and what is asked"] as const;
const OTEL = [
  "--otel",
  "send spans to OTEL_EXPORTER_OTLP_ENDPOINT, or to port 4318 of this machine",
] as const;

const VIEW = ["--view", "show the run in the browser while it lives"] as const;
const VIEW_PORT = [
  "--port <number>",
  "where the viewer listens; 0: any that is free; else the first free from 4983 on",
] as const;
const NO_OPEN = ["--no-open", "open no browser"] as const;

function addWork(add: Add): void {
  add("run <role> [task]", async () => (await import("./commands/run-command.ts")).body)
    .description(
      "Runs a role: a role file (lead.md), a program that exports one (lead.ts), or its name. The task may be - for stdin.",
    )
    .option(
      "--budget <limits>",
      "cost=1,steps=50,time=10m,tokens=100000,calls=20; none takes one away; else cost=1,steps=120,time=10m",
    )
    .option(...MODEL)
    .option(...ALLOW_READ)
    .option(...ANSWER)
    .option("--session <id>", "the session whose history the run begins with and adds to")
    .option(...STORE)
    .option("--no-store", "keep the run nowhere")
    .option(...JSON_OUTPUT)
    .option(...EVENTS)
    .option(...QUIET)
    .option(...VIEW)
    .option(...VIEW_PORT)
    .option(...NO_OPEN)
    .option(...OTEL);
}

function addDemo(add: Add): void {
  add("demo [folder] [task]", async () => (await import("./commands/demo-command.ts")).body)
    .description(
      "Surveys a folder (else src, or the working folder) with a tree of agents: a lead hands parts to surveyors and writes a report. Needs no key.",
    )
    .option(...VIEW)
    .option(...VIEW_PORT)
    .option(...NO_OPEN)
    .addHelpText("after", DEMO_TEXT);
}

const DEMO_TEXT = `
It looks for the words that the task has in quotes.

OPENAI_API_KEY, OPENAI_BASE_URL   the server to ask: OpenAI, or any that speaks Chat Completions;
                                  one of the two is enough
ESPALIER_OPENAI_API               responses, for a server that speaks that instead, or chat
ESPALIER_MODEL                    the model to use there; without all three, an offline planner
                                  works by fixed rules. ai-sdk:anthropic/claude-sonnet-5: that
                                  model over the package @ai-sdk/anthropic, if it is installed,
                                  with the key that it wants (ANTHROPIC_API_KEY)
OTEL_EXPORTER_OTLP_ENDPOINT       where to send the trace, as in http://localhost:4318
ESPALIER_JAEGER_URL               the Jaeger that shows it, for a link to the trace; without it
                                  http://localhost:16686 if the trace goes to this machine
NO_COLOR                          plain lines instead of a live tree`;

function addViews(add: Add): void {
  add("view [run]", async () => (await import("./commands/view-command.ts")).body)
    .description(
      "Shows the runs of the project in the browser, while they run, too. <run>: an id, the beginning of one, or @last.",
    )
    .option(...STORE)
    .option(...VIEW_PORT)
    .option(...NO_OPEN)
    .option("--no-content", "show no prompts, tasks, arguments, results, nor words of errors")
    .option("--read-only", "answer no question, and ask nothing of runs")
    .option("--new-token", "close the pages that are open: their token is good no more")
    .option(
      "--url",
      "say the address of the viewer that runs already, with its token; --port: where it listens",
    );
}

/** Commands that look at runs, and change nothing. */
function addReading(add: Add): void {
  add("runs", async () => (await import("./commands/runs-command.ts")).body)
    .description("Lists runs: those that need you, those under way, those that are over.")
    .option(
      "--status <status,…>",
      "only these: needs_you, working, waiting, lost, paused, completed, failed, stopped, cancelled, ended",
    )
    .option("--limit <number>", "so many of the newest (default: 20)")
    .option("--watch", "draw the list again and again, until Ctrl-C")
    .option(...JSON_OUTPUT)
    .option(...STORE);
  add("show [run] [agent] [step]", async () => (await import("./commands/show-command.ts")).body)
    .description(
      `Shows a run, one of its agents by its path, or a step of that with what was said and called. ${RUN} Default: @last. [step]: its number; 1.2 for the second of the first execution.`,
    )
    .option("--errors", "only what went wrong, the first cause first")
    .option("--request", "of a step, what the model was asked, too")
    .option(...JSON_OUTPUT)
    .option(...STORE);
  add("tail <run>", async () => (await import("./commands/tail-command.ts")).body)
    .description(
      "Follows a run, wherever it is led, until it rests: its tree on a terminal, else lines. Exits as the run does.",
    )
    .option("--from <event>", "as lines, from this event on, by its number")
    .option("--agent <path>", "as lines, only of this agent and those below it")
    .option("--events", "events as JSON, one a line")
    .option(...STORE);
}

function addAnswers(add: Add): void {
  const question =
    "<question>: its number in `questions`, its id, the beginning of it, a run that asks one alone, or @last.";
  add("questions", async () => (await import("./commands/answer-commands.ts")).listQuestions)
    .description("Lists what runs ask: calls that need an approval, or a result from elsewhere.")
    .option(...STORE)
    .option(...JSON_OUTPUT);
  add("approve <question>", async () => (await import("./commands/answer-commands.ts")).approveCall)
    .description(`Lets a call run. ${question}`)
    .option("--arguments <json>", "run it with these arguments instead")
    .option("--yes", "do not ask at a terminal whether the call on the screen may run")
    .option(...STORE)
    .option(...JSON_OUTPUT);
  add("deny <question>", async () => (await import("./commands/answer-commands.ts")).denyCall)
    .description(`Forbids a call. ${question}`)
    .option("--reason <text>", "why; the model reads it")
    .option(...STORE)
    .option(...JSON_OUTPUT);
  add("answer <question>", async () => (await import("./commands/answer-commands.ts")).answerCall)
    .description(`Says what came of a call that runs elsewhere. ${question}`)
    .option("--result <json>", "its result: JSON, or text")
    .option("--failure <text>", "what went wrong; the model reads it")
    .option(...STORE)
    .option(...JSON_OUTPUT);
}

function addRequests(add: Add): void {
  add("resume <run>", async () => (await import("./commands/resume-command.ts")).body)
    .description(
      `Goes on with a run that is paused, was cut off, or is granted more, with the roles of the configuration, or with role files. ${RUN}`,
    )
    .option("--roles <folder>", "where its role files are; else the working folder")
    .option("--take-over", "also if another process seems to lead it")
    .option(
      "--grant <amounts>",
      "more of what limits the run, or has stopped it: cost=1,steps=50,time=10m",
    )
    .option(...MODEL)
    .option(...ALLOW_READ)
    .option(...ANSWER)
    .option(...STORE)
    .option(...JSON_OUTPUT)
    .option(...EVENTS)
    .option(...QUIET);
  add("cancel <run>", async () => (await import("./commands/cancel-command.ts")).body)
    .description(`Cancels a run, wherever it is led. ${RUN}`)
    .option("--reason <text>", "why, on record with the run")
    .option("--roles <folder>", "where its role files are; else the working folder")
    .option(...STORE);
}

function addSetUp(add: Add, tree: Command): void {
  add("init", async () => (await import("./commands/init-command.ts")).body)
    .description(
      "Makes lead.md, reader.md and mcp.json, and adds a script and packages. Overwrites nothing.",
    )
    .option("--yes", "do it without asking")
    .option("--no-install", "install no packages")
    .option("--module", 'set "type": "module" in package.json, for roles in TypeScript')
    .option("--mcp", "install the MCP client, for the servers in mcp.json")
    .option("--model <name>", "the model of the roles; else ESPALIER_MODEL, or gpt-5-mini");
  const roles = tree.command("roles").description("Looks after role files.");
  add("check [folder]", async () => (await import("./commands/roles-check-command.ts")).body, roles)
    .description("Says what is wrong with role files, by file and line.")
    .option(...JSON_OUTPUT);
  add("doctor", async () => (await import("./commands/doctor-command.ts")).body)
    .description("Looks at Node, configuration, key, store, MCP servers and ports.")
    .option(...STORE)
    .option(...JSON_OUTPUT);
  add(
    "completion <shell>",
    async () => (await import("./commands/completion-commands.ts")).printCompletion,
  ).description("Gives the completion script for bash, zsh or fish.");
  tree.addCommand(
    add(
      `${COMPLETE} <words>`,
      async () => (await import("./commands/completion-commands.ts")).printWords,
      new Command(),
    ).option(...STORE),
    { hidden: true },
  );
}
