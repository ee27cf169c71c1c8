// Imports a user file as a module. Errors have the line and a remedy. Node prints the line of a
// syntax error only when it exits, so a child process reads the files once more.

import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve, sep } from "node:path";
import { pathToFileURL } from "node:url";

import type { EspalierError } from "espalier";

import { BROKEN, chooseExitCode, describeCause, UsageError } from "./exit-codes.ts";
import type { Shell } from "./shell.ts";

/**
 * Returns the default export of a file.
 *
 * @throws UsageError with the line if the file has no default export, cannot be loaded or throws.
 * An `EspalierError` from its code keeps its code.
 */
export async function importFile(file: string, shell: Shell): Promise<unknown> {
  const endWatch = await watchExit(file, shell);
  const module = await importModule(file).finally(endWatch);
  const value: unknown = Reflect.get(module, "default");
  if (value !== undefined) return value;
  throw new UsageError(
    `Expected ${file} to have a default export, got none. Write: export default ….`,
  );
}

async function importModule(file: string): Promise<object> {
  try {
    const module: unknown = await import(pathToFileURL(file).href);
    return typeof module === "object" && module !== null ? module : {};
  } catch (cause) {
    const message = cause instanceof Error ? await explainLoadError(file, cause) : undefined;
    if (message !== undefined) throw new UsageError(message, { cause });
    throw await describeThrown(file, cause);
  }
}

/** Returns the error for an exception from the code of a file, with the line of its origin. */
async function describeThrown(file: string, cause: unknown): Promise<Error> {
  const { EspalierError } = await import("espalier");
  const at = cause instanceof Error ? (findUserFrame(cause) ?? file) : file;
  if (EspalierError.is(cause) && chooseExitCode(cause.code) !== BROKEN)
    return new EspalierError({ ...addFileToError(at, cause), cause });
  const thrown = describeCause(cause);
  const place = at.startsWith(file) ? at : `${file} (${at})`;
  return new UsageError(`${place} threw: ${thrown}`, { cause });
}

const FRAME =
  /(?:\(|\bat (?:async )?)(?:file:\/\/)?((?:\/|[A-Za-z]:[\\/])[^\n()]*?):(\d+):\d+\)?$/u;
const LIBRARY = /[\\/]node_modules[\\/]/u;
const OWN_FOLDER = dirname(import.meta.dirname);

/** Returns the first line of the user's code in a stack. */
function findUserFrame({ stack = "" }: Error): string | undefined {
  for (const line of stack.split("\n")) {
    const [, file, number] = FRAME.exec(line) ?? [];
    if (file === undefined || LIBRARY.test(file) || file.startsWith(OWN_FOLDER)) continue;
    return `${file}:${number}`;
  }
  return undefined;
}

/**
 * Ends the command if a file can never be loaded: its code has called `process.exit`, or it awaits
 * a promise that never settles. Returns a function that ends the watch.
 */
async function watchExit(file: string, shell: Shell): Promise<() => void> {
  // Loaded early, because `process.exit` leaves no time.
  const { printError: tellError } = await import("./print-error.ts");
  const printProblem = (why: string): number =>
    tellError(shell, new UsageError(why), process.argv.slice(2));
  const onExit = (exitCode: number): void => {
    const at = findUserFrame(new Error("Only for its stack."));
    if (at === undefined) return;
    process.exitCode = printProblem(
      `${at} called process.exit(${exitCode}) while ${file} was loaded. Throw an error instead.`,
    );
  };
  const onIdle = (): void => {
    shell.leave(
      printProblem(
        `${file} awaits a promise that never settles. Correct the await at its top level.`,
      ),
    );
  };
  process.on("exit", onExit).on("beforeExit", onIdle);
  return () => void process.off("exit", onExit).off("beforeExit", onIdle);
}

/** Returns the fields of an error with the file before its message. */
export function addFileToError(
  file: string,
  { code, message, data }: EspalierError,
): Pick<EspalierError, "code" | "message" | "data"> {
  return { code, message: `${file}: ${message}`, data };
}

/** A stack that begins with the line of a parse error. */
const HEADED = /^(?:file:\/\/)?(\/\S+:\d+|[A-Za-z]:\\[^\n]+:\d+)\n/u;

const WITHOUT_STRIPPING = `or run the command with a loader: NODE_OPTIONS="--import tsx" espalier …`;

/**
 * Explains why a file cannot be loaded, with a remedy. `undefined` if it was loaded, and its code
 * threw.
 */
async function explainLoadError(file: string, error: Error): Promise<string | undefined> {
  const { message } = error;
  const place = HEADED.exec(error.stack ?? "")?.[1] ?? (await findSyntaxError(file, error));
  const at = place ?? file;
  const code: unknown = Reflect.get(error, "code");
  const misread = findMisreadModule(error, stripLineNumber(place) ?? file);
  const folder = misread === undefined ? undefined : findPackageFolder(misread);
  if (folder !== undefined)
    return `${at}: ${message.replace(/\.$/u, "")}. Node reads ${misread === (stripLineNumber(place) ?? file) ? "the file" : misread} as CommonJS, since ${join(folder, "package.json")} lacks "type": "module". Run in ${folder}: ${SET_MODULE}`;
  switch (code) {
    case "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX":
      return `${at}: ${message}. Use erasable syntax only (a union or an object instead of an enum, a field instead of a parameter property), ${WITHOUT_STRIPPING}`;
    case "ERR_INVALID_TYPESCRIPT_SYNTAX":
      return `${at}: ${message}. Correct it.`;
    case "ERR_UNKNOWN_FILE_EXTENSION":
      return `${at}: ${message}. Node loads .ts, .js and .mjs. Rename it, ${WITHOUT_STRIPPING}`;
    case "ERR_MODULE_NOT_FOUND":
      return `${message}. ${adviseOnMissingModule(message)}`;
    default:
      // Otherwise the code of the file threw the error.
      return isSyntaxError(error) || (error instanceof SyntaxError && place !== undefined)
        ? `${at}: ${message}. Correct it.`
        : undefined;
  }
}

/** Command that makes Node read the files of a project as ES modules. */
export const SET_MODULE = "npm pkg set type=module";

const MISREAD =
  /import statement outside a module|Unexpected token 'export'|'import\.meta' outside a module|await is only valid/u;
const WITHOUT_EXPORT = /^The requested module '(\.[^']+\.[jt]s)' does not provide an export named/u;

/**
 * Returns the file with the syntax of an ES module that was read as CommonJS: `file`, or a file
 * that it imports.
 */
function findMisreadModule(error: Error, file: string): string | undefined {
  if (Reflect.get(error, "code") === "ERR_REQUIRE_CYCLE_MODULE") return file;
  if (!(error instanceof SyntaxError)) return undefined;
  if (MISREAD.test(error.message)) return file;
  const [, path] = WITHOUT_EXPORT.exec(error.message) ?? [];
  if (path === undefined) return undefined;
  const imported = resolve(dirname(file), path);
  const isModule = /^ *export\b/mu.test(readFileSync(imported, "utf8"));
  return isModule && !isModulePackage(findPackageFolder(imported)) ? imported : undefined;
}

function isModulePackage(folder: string | undefined): boolean {
  if (folder === undefined) return true;
  const text = readFileSync(join(folder, "package.json"), "utf8");
  return /"type"\s*:\s*"module"/u.test(text);
}

function stripLineNumber(place: string | undefined): string | undefined {
  return place?.replace(/:\d+$/u, "");
}

/**
 * Returns the folder of the package.json that determines how Node reads a file. `undefined` without
 * one, or if it belongs to an installed package.
 */
function findPackageFolder(file: string): string | undefined {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json")))
      return folder.split(sep).includes("node_modules") ? undefined : folder;
    if (dirname(folder) === folder) return undefined;
  }
}

function adviseOnMissingModule(message: string): string {
  const [, wanted = ""] = /^Cannot find (?:module|package) '([^']+)'/.exec(message) ?? [];
  const written = wanted.replace(/\.js$/, ".ts");
  if (written !== wanted && existsSync(written))
    return "A file of that name ends in .ts: import it with that extension, since nothing is compiled.";
  if (/^[@~#]?\//.test(wanted) && !wanted.startsWith("/"))
    return `Paths of tsconfig.json are not supported: import the file by a relative path, ${WITHOUT_STRIPPING}`;
  if (wanted.startsWith("/") || wanted.startsWith(".")) return "Check its path.";
  return `Run: npm install ${wanted.split("/", wanted.startsWith("@") ? 2 : 1).join("/")}`;
}

/** Maximum number of checked files. */
const MAX_FILES = 50;
/** Imports of a file by a relative path. */
const RELATIVE_IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*["'](\.{1,2}\/[^"'\n]+)["']/gu;
const CHECKED = /\.[cm]?js$/u;

/**
 * Returns true for a file that cannot be parsed, and false for an error from running code, such as
 * `JSON.parse`.
 */
function isSyntaxError(error: Error): boolean {
  return error instanceof SyntaxError && /^ +at compileSourceTextModule /mu.test(error.stack ?? "");
}

/**
 * Returns `file:line` of the first syntax error in a file and its imports. `undefined` without one.
 */
async function findSyntaxError(file: string, error: Error): Promise<string | undefined> {
  if (!isSyntaxError(error)) return undefined;
  const files = new Set([file]);
  for (const path of files) {
    const place = CHECKED.test(path) ? await checkSyntax(path) : undefined;
    if (place !== undefined) return place;
    for (const imported of findImports(path)) if (files.size < MAX_FILES) files.add(imported);
  }
  return undefined;
}

function findImports(file: string): readonly string[] {
  const text = readFileSync(file, "utf8");
  return [...text.matchAll(RELATIVE_IMPORT)]
    .map(([, path = ""]) => resolve(dirname(file), path))
    .filter((path) => existsSync(path));
}

function checkSyntax(file: string): Promise<string | undefined> {
  return new Promise((done) => {
    execFile(process.execPath, ["--check", file], (_failure, _stdout, stderr) => {
      const [place = ""] = stderr.split("\n");
      done(place.startsWith(`${file}:`) ? place : undefined);
    });
  });
}
