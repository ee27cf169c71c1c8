// Goal: importing the package is cheap: modules load when they are first needed, and no class
// exists twice.
// Method: run `npm run build` into a separate folder; programs that import the files print what was
// loaded. Sizes and counts have limits, times never.

import { execFile } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { promisify } from "node:util";

import { transform } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";

import { bundle, removeDocstrings } from "../../scripts/bundle.ts";
import { proves } from "../harness/proves.ts";

const MOST_FILES = 2;
const MOST_BYTES = 955 * 1024;
/** All packages that load on import. Those that are not listed load when they are first needed. */
const PACKAGES = ["jsonrepair", "nanoid", "zod"];
const BUILT_IN = ["node:async_hooks", "node:os", "node:process"];

let folder = "";

// Within the project, so that the packages are found.
beforeAll(async () => {
  folder = await mkdtemp(resolve("node_modules/.bundles-"));
  await bundle(folder);
});
afterAll(() => rm(folder, { recursive: true }));

/** Returns what a separate program prints as JSON. */
async function printed<Value>(schema: z.ZodType<Value>, program: string): Promise<Value> {
  const flags = ["--disable-warning=ExperimentalWarning", "--input-type=module", "--eval"];
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, program]);
  return schema.parse(JSON.parse(stdout));
}

const SourceMapSchema = z.object({ sources: z.array(z.string()) });
const LoadedSchema = z.object({
  own: z.array(z.number()),
  packages: z.array(z.string()),
  builtIn: z.array(z.string()),
});

/** Returns the modules that load while a file is imported. */
function loadedBy(file: string): Promise<z.infer<typeof LoadedSchema>> {
  return printed(
    LoadedSchema,
    `
    import { registerHooks } from "node:module";
    const own = [];
    const packages = new Set();
    const builtIn = new Set();
    registerHooks({
      resolve(specifier, context, next) {
        const found = next(specifier, context);
        if (found.url.startsWith("node:")) builtIn.add(found.url);
        return found;
      },
      load(url, context, next) {
        const loaded = next(url, context);
        const [, name] = /.*\\/node_modules\\/((?:@[^/]+\\/)?[^/.][^/]*)\\//.exec(url) ?? [];
        if (name !== undefined) packages.add(name);
        else if (url.startsWith("file:")) own.push(loaded.source.length);
        return loaded;
      },
    });
    await import(${JSON.stringify(`${folder}/${file}`)});
    console.log(JSON.stringify({ own, packages: [...packages].sort(), builtIn: [...builtIn].sort() }));
  `,
  );
}

test("removes nothing but comments from a source", async () => {
  for (const file of globSync("src/**/*.ts")) {
    const source = await readFile(file, "utf8");
    const minified = [source, removeDocstrings(source)].map((text) => minify(text));
    const [before, after] = await Promise.all(minified);
    expect(after, file).toBe(before);
  }
});

async function minify(source: string): Promise<string> {
  const { code } = await transform(source, { loader: "ts", minifyWhitespace: true });
  return code;
}

proves(["M46"], "loads two files for the root, and no package that is not needed yet", async () => {
  const { own, packages, builtIn } = await loadedBy("index.js");
  const bytes = own.reduce((all, one) => all + one, 0);
  expect(own.length).toBeLessThanOrEqual(MOST_FILES);
  expect(bytes).toBeLessThanOrEqual(MOST_BYTES);
  expect({ packages, builtIn }).toEqual({ packages: PACKAGES, builtIn: BUILT_IN });
});

proves(
  ["M46"],
  "builds no zod schema on import, and only the needed ones on first use",
  async () => {
    const [imported, ofZod, used] = await printed(
      z.array(z.number()),
      `
    let made = 0;
    const { defineProperty } = Object;
    Object.defineProperty = (...given) => {
      if (given[1] === "_zod") made += 1;
      return defineProperty(...given);
    };
    const { z } = await import("zod");
    const before = made;
    const { assertEvent } = await import(${JSON.stringify(`${folder}/index.js`)});
    const counts = [made - before];
    z.string();
    counts.push(made - before);
    try { assertEvent({ type: "none" }); } catch {}
    counts.push(made - before);
    console.log(JSON.stringify(counts));
  `,
    );
    expect([imported, ofZod]).toEqual([0, 1]);
    expect(used).toBeGreaterThan(1);
    expect(used).toBeLessThan(20);
  },
);

proves(["D650"], "loads p-queue only for a run in which a call has to wait", async () => {
  const loaded = (concurrency: object) =>
    printed(
      z.boolean(),
      `
    import { registerHooks } from "node:module";
    let isLoaded = false;
    registerHooks({
      load(url, context, next) {
        if (url.includes("/p-queue/")) isLoaded = true;
        return next(url, context);
      },
    });
    const { defineAgent, Orchestrator } = await import(${JSON.stringify(`${folder}/index.js`)});
    const { says, ScriptedModel } = await import(${JSON.stringify(`${folder}/testing/index.js`)});
    const helper = defineAgent({
      name: "helper",
      description: "Helps.",
      instructions: "Help.",
      model: new ScriptedModel(() => says("Helped.")),
    });
    const two = ["a", "b"].map((task) => ({ toolName: "SpawnSubagent", arguments: { role: "helper", task } }));
    const model = new ScriptedModel([{ calls: two }, says("Led.")]);
    const lead = defineAgent({ name: "lead", instructions: "Lead.", model, subagents: [helper] });
    const orchestrator = new Orchestrator({ concurrency: ${JSON.stringify(concurrency)} });
    const { text } = await orchestrator.start(lead, "Go.").result;
    if (text !== "Led.") throw new Error(text);
    console.log(JSON.stringify(isLoaded));
  `,
    );
  expect(await loaded({ modelCalls: 2 })).toBe(false);
  expect(await loaded({ modelCalls: 1 })).toBe(true);
});

test("contains no module in two files, whichever entries are used", async () => {
  const names = await readdir(folder, { recursive: true });
  const seen = new Map<string, string[]>();
  for (const name of names.filter((one) => one.endsWith(".js.map"))) {
    const map = SourceMapSchema.parse(JSON.parse(await readFile(join(folder, name), "utf8")));
    for (const source of map.sources) {
      const path = relative(resolve("."), resolve(folder, dirname(name), source));
      seen.set(path, [...(seen.get(path) ?? []), name]);
    }
  }
  expect(seen.size).toBeGreaterThan(300);
  expect([...seen].filter(([, files]) => files.length > 1)).toEqual([]);
  expect([...seen.keys()].filter((path) => !existsSync(path))).toEqual([]);
});
