// Declares all commands with their arguments, options and files. It imports no library code, and
// loads the file of a command only when the command is called: help and completion need nothing
// else.

import { Command } from "commander";

import type { CommandBody } from "./command-call.ts";
import { COMPLETE } from "./completion-scripts.ts";
import { getPackageVersion } from "./installed-copy.ts";

/** Returns the action of a command, from the function that loads its body. */
export type ActionOf = (load: () => Promise<CommandBody>) => (command: Command) => Promise<void>;

/** The tree of commands. */
export function buildCommandTree(actionOf: ActionOf): Command {
  const tree = new Command("espalier");
  tree
    .description("Run trees of agents within limits and one budget, and inspect their runs.")
    .option("--verbose", "show where errors occurred")
    .option(...STORE)
    .version(getPackageVersion(), "-v, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand("help [command]", "Print the help of a command.")
    .addHelpText("after", EXIT_CODES_TEXT)
    .configureHelp({
      showGlobalOptions: true,
      visibleGlobalOptions: ({ parent }) =>
        parent === null ? [] : tree.options.filter(({ long }) => long !== "--version"),
    });
  const add: Add = (declaration, load, below = tree) => {
    const action = actionOf(load);
    return below
      .command(declaration)
      .helpOption("-h, --help", "print this help")
      .action(async function (this: Command) {
        await action(this);
      });
  };
  tree.commandsGroup("Run agents:");
  addWork(add);
  addDemo(add);
  tree.commandsGroup("Inspect runs:");
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
Exit codes: 0 completed; 1 failed; 2 usage, configuration or role file error; 3 stopped by a limit;
4 paused, needs an answer; 6 store error; 129, 130, 143 ended by a signal.`;

const RUN = "<run>: a run id, a prefix of one, or @last.";
const STORE = [
  "--store <path>",
  "store of the runs: a SQLite file or postgres://… (default: the configuration, ESPALIER_STORE or .espalier/runs.db)",
] as const;
const MODEL = [
  "--model <name>",
  "model of role files without a model: an id at OpenAI or OPENAI_BASE_URL, or ai-sdk:<provider>/<id> (default: ESPALIER_MODEL)",
] as const;
const ALLOW_READ = [
  "--allow-read <folder>",
  "folder that folder_list, folder_read and folder_search of role files may read (default: the working folder)",
] as const;
const ANSWER = [
  "--answer <mode>",
  "how to answer questions: ask (at this terminal), pause (the run) or deny",
] as const;
const BY = [
  "--by <name>",
  "name of the person who answers, recorded with the run (default: the login name)",
] as const;
const JSON_OUTPUT = ["--json", "print one JSON object on stdout"] as const;
const EVENTS = [
  "--events",
  "print the events of the run on stdout, one JSON object per line",
] as const;
const ROLES = [
  "--roles <place>",
  "folder of its role files (default: the working folder), or its program",
] as const;
const QUIET = ["--quiet", "print only problems and questions on stderr"] as const;
const OTEL = [
  "--otel",
  "send spans to OTEL_EXPORTER_OTLP_ENDPOINT (default: port 4318 of this machine)",
] as const;

const VIEW = ["--view", "show the run in the browser while it is active"] as const;
const VIEW_PORT = [
  "--port <number>",
  "port of the viewer; 0 for any free port (default: the first free port from 4983)",
] as const;
const NO_OPEN = ["--no-open", "do not open a browser"] as const;

function addWork(add: Add): void {
  add("run <role> [task]", async () => (await import("./commands/run-command.ts")).body)
    .description(
      "Run a role, given as a role file (lead.md), a module that exports one (lead.ts) or a role name. Use - to read the task from stdin.",
    )
    .option(
      "--budget <limits>",
      "limits, such as cost=1,steps=50,time=10m,tokens=100000,tool-calls=20; none removes a limit (default: cost=1,steps=120,time=10m)",
    )
    .option(...MODEL)
    .option(...ALLOW_READ)
    .option(...ANSWER)
    .option("--session <id>", "session whose history the run continues")
    .option("--no-store", "do not store the run")
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
      "Survey a folder (default: src, or the working folder) with a tree of agents: a lead delegates parts to surveyors and writes a report. Needs no API key.",
    )
    .option("--fast", "skip the simulated delays and the wait for an answer")
    .option("--no-store", "do not store the run")
    .option(...VIEW)
    .option(...VIEW_PORT)
    .option(...NO_OPEN)
    .addHelpText("after", DEMO_TEXT);
}

const DEMO_TEXT = `
Without a model, tokens, prices and delays are simulated, and the task is not answered.

OPENAI_API_KEY, OPENAI_BASE_URL   the server of the model: OpenAI, or any with Chat Completions;
                                  one of the two is enough
ESPALIER_OPENAI_API               responses, for a server with that API, or chat_completions
ESPALIER_MODEL                    the model to use there; without all three, an offline planner
                                  works by fixed rules. ai-sdk:anthropic/claude-sonnet-5: that
                                  model over the package @ai-sdk/anthropic, if it is installed,
                                  with the key that it needs (ANTHROPIC_API_KEY)
OTEL_EXPORTER_OTLP_ENDPOINT       where to send the trace, such as http://localhost:4318
ESPALIER_JAEGER_URL               the Jaeger that shows it, for a link to the trace; without it
                                  http://localhost:16686 if the trace goes to this machine
NO_COLOR                          plain lines instead of a live tree`;

function addViews(add: Add): void {
  add("view [run]", async () => (await import("./commands/view-command.ts")).body)
    .description(
      "Show the runs of the project in the browser, live. <run>: a run id, a prefix of one, or @last.",
    )
    .option(...VIEW_PORT)
    .option(...NO_OPEN)
    .option("--no-content", "hide prompts, tasks, arguments, results and error messages")
    .option("--read-only", "disable answers and all other actions")
    .option("--new-token", "create a new token and invalidate open pages")
    .option("--url", "print the address of the running viewer, with its token; --port: its port");
}

/** Declares commands that read runs and change nothing. */
function addReading(add: Add): void {
  add("runs", async () => (await import("./commands/runs-command.ts")).body)
    .description("List runs: those to do something about, active ones, ended ones.")
    .option(
      "--status <status,…>",
      "list only these: input_required, working, waiting, lost, paused, completed, failed, stopped, cancelled, ended",
    )
    .option("--session <id>", "list only runs of this session")
    .option("--limit <number>", "list this many of the newest runs (default: 20)")
    .option("--watch", "refresh the list until Ctrl-C")
    .option(...JSON_OUTPUT);
  add("show [run] [agent] [step]", async () => (await import("./commands/show-command.ts")).body)
    .description(
      `Show a run, one of its agents (by path), or one step with its texts and tool calls. ${RUN} Default: @last. [step]: a step number; 1.2 for the second step of the first execution.`,
    )
    .option("--errors", "show only failures, the root cause first")
    .option("--request", "also show the request to the model of a step")
    .option(...JSON_OUTPUT);
  add("tail <run>", async () => (await import("./commands/tail-command.ts")).body)
    .description(
      "Follow a run, in whichever process it runs, until it pauses or ends: as a tree on a terminal, else as lines. Exit with the code of the run.",
    )
    .option("--from <event>", "print lines, starting with the event of this number")
    .option("--agent <path>", "print lines, only of this agent and its subagents")
    .option("--events", "print events as JSON, one per line");
}

function addAnswers(add: Add): void {
  const question =
    "<question>: a code from `questions`, a question id, a prefix of one, a run with one open question, or @last.";
  add("questions", async () => (await import("./commands/answer-commands.ts")).listQuestions)
    .description("List pending questions: calls that need approval or an external result.")
    .option(...JSON_OUTPUT);
  add("approve <question>", async () => (await import("./commands/answer-commands.ts")).approveCall)
    .description(`Approve a call. ${question}`)
    .option("--arguments <json>", "run the call with these arguments instead")
    .option("--yes", "do not ask for confirmation at a terminal")
    .option(...BY)
    .option(...JSON_OUTPUT);
  add("deny <question>", async () => (await import("./commands/answer-commands.ts")).denyCall)
    .description(`Deny a call. ${question}`)
    .option("--reason <text>", "the reason, which the model reads")
    .option(...BY)
    .option(...JSON_OUTPUT);
  add("answer <question>", async () => (await import("./commands/answer-commands.ts")).answerCall)
    .description(`Provide the result or the failure of an external call. ${question}`)
    .option("--result <json>", "the result: JSON or text")
    .option("--failure <text>", "the failure message, which the model reads")
    .option(...BY)
    .option(...JSON_OUTPUT);
}

function addRequests(add: Add): void {
  add("resume <run>", async () => (await import("./commands/resume-command.ts")).body)
    .description(
      `Resume a paused, interrupted or limit-stopped run. Roles come from the configuration, from role files or from a program. ${RUN}`,
    )
    .option(...ROLES)
    .option("--take-over", "resume even if another process seems to own the run")
    .option("--grant <amounts>", "raise limits of the run, such as cost=1,steps=50,time=10m")
    .option(...MODEL)
    .option(...ALLOW_READ)
    .option(...ANSWER)
    .option(...JSON_OUTPUT)
    .option(...EVENTS)
    .option(...QUIET);
  add("cancel <run>", async () => (await import("./commands/cancel-command.ts")).body)
    .description(`Cancel a run, in whichever process it runs. ${RUN}`)
    .option("--reason <text>", "the reason, recorded with the run")
    .option(...ROLES);
}

function addSetUp(add: Add, tree: Command): void {
  add("init", async () => (await import("./commands/init-command.ts")).body)
    .description(
      "Create lead.md, reader.md and mcp.json, and add a script and packages. Overwrite nothing.",
    )
    .option("--yes", "do not ask for confirmation")
    .option("--no-install", "do not install packages")
    .option("--module", 'set "type": "module" in package.json, for roles in TypeScript')
    .option("--mcp", "install the MCP client, for the servers in mcp.json")
    .option("--model <name>", "model of the roles (default: ESPALIER_MODEL or gpt-5-mini)");
  const roles = tree.command("roles").description("Manage role files.");
  add("check [folder]", async () => (await import("./commands/roles-check-command.ts")).body, roles)
    .description("Check role files and report problems by file and line.")
    .option(...JSON_OUTPUT);
  add("doctor", async () => (await import("./commands/doctor-command.ts")).body)
    .description("Check Node, configuration, API key, store, MCP servers and ports.")
    .option(...JSON_OUTPUT);
  add(
    "completion <shell>",
    async () => (await import("./commands/completion-commands.ts")).printCompletion,
  ).description("Print the completion script for bash, zsh or fish.");
  tree.addCommand(
    add(
      `${COMPLETE} <words>`,
      async () => (await import("./commands/completion-commands.ts")).printWords,
      new Command(),
    ),
    { hidden: true },
  );
}
