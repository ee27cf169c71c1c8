// Goal: the scripts for zsh and fish complete input in the shells themselves.
// Method: each shell as users have it, zsh at a terminal of its own, with `espalier` as a function
// that knows two runs. Tests of a shell that is not installed are reported as skipped.

import { execFile, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { promisify } from "node:util";

import { expect, test } from "vitest";

import { temporaryFolder, type TemporaryFolder } from "../../support/temporary-folder.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { performed } from "../../support/cli/performed.ts";

/** The input, and the line after its completion. */
const COMPLETED = [
  ["espalier dem", "espalier demo"],
  ["espalier run --allow", "espalier run --allow-read"],
  ["espalier resume run_a", "espalier resume run_abc"],
  ["espalier roles ch", "espalier roles check"],
  ["espalier resume --take", "espalier resume --take-over"],
  ["espalier init --no-i", "espalier init --no-install"],
] as const;
const TYPED = COMPLETED.map(([typed]) => typed);

/** Types each argument, completes it, and prints the resulting line. `LOAD` loads the script. */
const IN_ZSH = `
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; unsetopt zle_bracketed_paste; $LOAD"
zpty -w shell 'espalier() { [[ "$1 $2" == "__complete run" ]] && print -l @last run_abc run_xyz }'
zpty -w shell 'try() { zle complete-word; print -r -- "[$BUFFER]"; BUFFER=; zle accept-line }; zle -N try; bindkey "^T" try'
zpty -w shell 'print rea""dy'
zpty -r shell line '*ready*'
for words in "$@"; do
  zpty -w -n shell "$words"$'\\x14'
  zpty -r shell line '*\\[*\\]*'
  print -r -- "\${\${line##*\\[}%%\\]*}"
done
zpty -d shell
`;
const IN_FISH = `
source $argv[1]
function espalier
  test "$argv[1] $argv[2]" = "__complete run"; and printf '@last\\nrun_abc\\nrun_xyz\\n'
end
for words in $argv[2..]
  complete -C $words | string split -f 1 \\t
end
`;

async function scriptFor(shell: string): Promise<TemporaryFolder> {
  const folder = temporaryFolder({ "try.zsh": IN_ZSH, "try.fish": IN_FISH });
  afterwards(() => folder[Symbol.dispose]());
  const { stdout } = await performed(["completion", shell], { cwd: folder.path });
  writeFileSync(folder.at("_espalier"), stdout);
  return folder;
}

/** Returns the output of a shell, line by line. */
async function printed(
  shell: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<readonly string[]> {
  const options = { env: { PATH: process.env["PATH"] ?? "", TERM: "xterm", ...env } };
  const { stdout } = await promisify(execFile)(shell, [...args], options);
  return stdout
    .trimEnd()
    .split("\n")
    .map((line) => line.trimEnd());
}

const isThere = (shell: string): boolean => spawnSync(shell, ["-c", "true"]).status === 0;

const LOADS = {
  "sourced after compinit": "autoload -U compinit; compinit -u -D; source ./_espalier",
  "in a folder of $fpath": "fpath=($PWD $fpath); autoload -U compinit; compinit -u -D",
};

for (const [how, load] of Object.entries(LOADS)) {
  const title = `the script for zsh completes commands, options and ids of runs (${how})`;
  if (isThere("zsh"))
    proves(["V47"], title, async () => {
      const { path } = await scriptFor("zsh");
      const shown = await printed("zsh", ["-f", `${path}/try.zsh`, ...TYPED], {
        LOAD: `cd ${path}; ${load}`,
        HOME: path,
      });
      expect(shown).toEqual(COMPLETED.map(([, completed]) => completed));
    });
  else test.skip(`${title}: zsh is not installed`);
}

const IN_FISH_TITLE = "the script for fish completes commands, options and ids of runs";
if (isThere("fish"))
  proves(["V47"], IN_FISH_TITLE, async () => {
    const { path } = await scriptFor("fish");
    const args = ["--no-config", `${path}/try.fish`, `${path}/_espalier`, ...TYPED];
    const shown = await printed("fish", args, { HOME: path });
    expect(shown).toEqual(COMPLETED.map(([, completed]) => completed.split(" ").at(-1)));
  });
else test.skip(`${IN_FISH_TITLE}: fish is not installed`);
