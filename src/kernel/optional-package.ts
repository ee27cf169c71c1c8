// Optional packages, which users install only for the features that need them.

import { EspalierError, getErrorMessage } from "./error.ts";
import { isRecord } from "./json.ts";

/**
 * Returns the error for a package that could not be loaded: `missing_package` if it is not
 * installed, otherwise the cause. `without` describes the missing feature.
 */
export function createLoadError(name: string, without: string, cause: unknown): unknown {
  if (!isMissing(name, cause)) return cause;
  return new EspalierError({
    code: "missing_package",
    message: `The package ${name} is not installed: without it, ${without}. Run: npm install ${name}.`,
    data: { package: name },
    cause,
  });
}

/** Loads an optional package. Rejects like `createLoadError`. */
export async function loadPackage<Package>(
  name: string,
  without: string,
  load: () => Promise<Package>,
): Promise<Package> {
  try {
    return await load();
  } catch (cause) {
    throw createLoadError(name, without, cause);
  }
}

function isMissing(name: string, cause: unknown): boolean {
  const code = isRecord(cause) ? cause["code"] : undefined;
  if (code !== "ERR_MODULE_NOT_FOUND" && code !== "MODULE_NOT_FOUND") return false;
  const message = getErrorMessage(cause);
  // Node quotes the package, other runtimes and loaders the module.
  return [`'${name}'`, `"${name}"`, `'${name}/`, `"${name}/`].some((text) =>
    message.includes(text),
  );
}
