// Completion scripts for shells, generated from the tree of commands. They call the command itself
// for ids of the store. Pure.

import type { Command } from "commander";

export const SHELL_NAMES = ["bash", "zsh", "fish"] as const;
export type ShellName = (typeof SHELL_NAMES)[number];

/** Arguments of `espalier __complete`. */
export const ASKED_WORDS = ["run", "question"] as const;
export type AskedWords = (typeof ASKED_WORDS)[number];

/** Facts of a command that completion needs. */
type Completed = ReturnType<typeof collectCompletions>;

/** Returns the script for a shell. */
export function buildCompletionScript(shell: ShellName, tree: Command): string {
  const commands = tree.commands
    .filter((command) => command.name() !== COMPLETE)
    .map((command) => collectCompletions(command, tree));
  switch (shell) {
    case "bash":
      return buildBashScript(commands);
    case "zsh":
      return buildZshScript(commands);
    case "fish":
      return buildFishScript(commands);
  }
}

/** Hidden command that the scripts call. */
export const COMPLETE = "__complete";

function collectCompletions(command: Command, tree: Command) {
  const [argument] = command.registeredArguments;
  const shared = tree.options.filter(({ long }) => long !== "--version");
  const all = [...[command, ...command.commands].flatMap(({ options }) => options), ...shared];
  const argumentName = argument?.name();
  return {
    name: command.name(),
    summary: command.description().split(". ")[0] ?? "",
    options: all.flatMap(({ long, description }) =>
      long === undefined || long === null ? [] : { flag: long, summary: description },
    ),
    below: command.commands.map((child) => child.name()),
    asks: ASKED_WORDS.find((words) => words === argumentName),
  };
}

function listCompletions({ below, options }: Completed): string {
  return [...below, ...options.map(({ flag }) => flag), "--help"].join(" ");
}

function formatWordsCommand(asks: AskedWords): string {
  return `espalier ${COMPLETE} ${asks} 2>/dev/null`;
}

function buildBashScript(commands: readonly Completed[]): string {
  const cases = commands.map((command) => {
    const { name, asks } = command;
    const ids =
      asks === undefined ? "" : ` [[ $current == -* ]] || words="$(${formatWordsCommand(asks)})";`;
    return `    ${name}) words="${listCompletions(command)}";${ids} ;;`;
  });
  return `# espalier completion for bash: source this file, or save it in your completions folder.
_espalier() {
  local current="\${COMP_WORDS[COMP_CWORD]}" command="" words="" index
  for ((index = 1; index < COMP_CWORD; index++)); do
    [[ \${COMP_WORDS[index]} == -* || \${COMP_WORDS[index - 1]} == --store ]] || { command="\${COMP_WORDS[index]}"; break; }
  done
  case "$command" in
    "") words="${commands.map(({ name }) => name).join(" ")} --help --version" ;;
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _espalier espalier
`;
}

function buildZshScript(commands: readonly Completed[]): string {
  const cases = commands.map((command) => {
    const { name, asks } = command;
    const ids =
      asks === undefined
        ? ""
        : ` [[ $PREFIX == -* ]] || found=(\${(f)"$(${formatWordsCommand(asks)})"});`;
    return `    ${name}) found=(${listCompletions(command)});${ids} ;;`;
  });
  return `#compdef espalier
# espalier completion for zsh: source this file after compinit, or save it in a folder of $fpath as _espalier.
_espalier() {
  local -a found
  local command="" index
  for ((index = 2; index < CURRENT; index++)); do
    [[ \${words[index]} == -* || \${words[index - 1]} == --store ]] || { command="\${words[index]}"; break; }
  done
  case "$command" in
    "") found=(${commands.map(({ name }) => name).join(" ")} --help --version) ;;
${cases.join("\n")}
  esac
  compadd -a found || _files
}
if [ "$funcstack[1]" = "_espalier" ]; then _espalier "$@"; else compdef _espalier espalier; fi
`;
}

function quoteForFish(text: string): string {
  return `'${text.replaceAll(/['\\]/g, "\\$&")}'`;
}

function buildFishScript(commands: readonly Completed[]): string {
  const lines = commands.flatMap(({ name, summary, options, below, asks }) => {
    const seen = `-n '__fish_seen_subcommand_from ${name}'`;
    return [
      `complete -c espalier -n __fish_use_subcommand -f -a ${name} -d ${quoteForFish(summary)}`,
      ...below.map((name) => `complete -c espalier ${seen} -f -a ${name}`),
      ...(asks === undefined
        ? []
        : [`complete -c espalier ${seen} -f -a '(${formatWordsCommand(asks)})'`]),
      ...options.map(
        (option) =>
          `complete -c espalier ${seen} -l ${option.flag.slice(2)} -d ${quoteForFish(option.summary)}`,
      ),
    ];
  });
  return `# espalier completion for fish: save this file as ~/.config/fish/completions/espalier.fish\n${lines.join("\n")}\n`;
}
