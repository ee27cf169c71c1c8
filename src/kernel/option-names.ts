// Finds the option that an unknown name means. In `option-names.json`, `counterparts` lists names of
// other libraries by the path of our option, where the first match applies; `replacements` lists
// names that no option replaces, by advice; `owners` lists our options by the call that takes them.

import { isMisspelt, normalizeName } from "./misspelling.ts";
import names from "./option-names.json" with { type: "json" };

/** Returns advice that names the option of `known` that `name` means. */
export function adviseOnName(name: string, known: readonly string[]): string {
  return adviseHere(name, known) ?? adviseOnSpelling(name, known) ?? "Correct the name.";
}

/** Does the same as `adviseOnName`, and also names options of other calls. */
export function adviseOnOption(name: string, known: readonly string[]): string {
  const [replacement] = findKeys(names.replacements, name);
  return (
    adviseHere(name, known) ??
    replacement ??
    adviseOnSpelling(name, known) ??
    adviseElsewhere(name) ??
    "Correct the name."
  );
}

function adviseHere(name: string, known: readonly string[]): string | undefined {
  const isKnown = (option: string) => known.includes(option);
  const path = findOptionPaths(name).find((options) => options.some(isKnown));
  return path && `Use ${formatPath(path.slice(path.findIndex(isKnown)))}.`;
}

function adviseOnSpelling(name: string, known: readonly string[]): string | undefined {
  const similar = known.find((option) => isAlmost(name, option) || isMisspelt(name, option));
  return similar && `Use ${similar}.`;
}

function adviseElsewhere(name: string): string | undefined {
  const calls = findOptionPaths(name).flatMap((path) =>
    findKeys(names.owners, path[0] ?? "").map((call) => `Pass ${formatPath(path)} to ${call}.`),
  );
  return calls[0];
}

/** Returns the paths of the options that a name can mean, likely ones first. */
function findOptionPaths(name: string): readonly (readonly string[])[] {
  const owned = Object.values(names.owners).flatMap((options) => options.split(" "));
  const candidates = [...Object.keys(names.counterparts), ...owned].filter((path) =>
    isSameOption(path.split(".").at(-1) ?? "", name),
  );
  return [...findKeys(names.counterparts, name), ...candidates].map((path) => path.split("."));
}

/** Returns the keys of the entries that list the name. */
function findKeys(table: Readonly<Record<string, string>>, name: string): readonly string[] {
  return Object.keys(table).filter((key) =>
    table[key]?.split(" ").some((option) => isSameOption(option, name)),
  );
}

/** Returns true for one name in two spellings, such as `toolChoice` and `tool_choice`. */
function isSameOption(option: string, name: string): boolean {
  const plain = normalizeName(name.replace(/^experimental_/, ""));
  return plain !== "" && normalizeName(option) === plain;
}

/** Formats a path as source code, such as `budget: { steps: … }`. */
function formatPath(path: readonly string[]): string {
  if (path.length === 1) return path.join("");
  return `${path.join(": { ")}: …${" }".repeat(path.length - 1)}`;
}

/** Returns true for an option in another case, or without its last letters, such as its unit. */
function isAlmost(name: string, option: string): boolean {
  return option.length - name.length < 4 && option.toLowerCase().startsWith(name.toLowerCase());
}
