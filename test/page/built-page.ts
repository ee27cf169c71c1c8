// Builds the page for a test into a folder of its own.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { build } from "vite";

export interface BuiltPage {
  readonly folder: string;
  remove(): void;
}

export async function buildPage(): Promise<BuiltPage> {
  const folder = mkdtempSync(join(tmpdir(), "page-"));
  await build({
    configFile: "viewer-page/vite.config.ts",
    logLevel: "error",
    build: { outDir: folder },
  });
  return { folder, remove: () => rmSync(folder, { recursive: true }) };
}
