// Goal: defining a model loads no code of its provider, and a process that has used a model can
// exit.
// Method: programs in their own process report the modules that they loaded and the sockets that
// are open at exit.

import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { expect, test } from "vitest";

import { proves } from "../../harness/proves.ts";
import { OpenAiServer, says } from "../../support/openai-server.ts";

const MODEL = new URL("../../../src/model/openai/openai-model.ts", import.meta.url).href;

/** Returns the output of a program. Fails if the program does not exit by itself. */
async function output(program: string): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [
    "--input-type=module",
    "--eval",
    program,
  ]);
  return stdout.trim();
}

test("loads no code of the provider before the first call", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  const loaded = await output(`
    import { registerHooks } from "node:module";
    const loaded = new Set();
    registerHooks({
      resolve(specifier, context, next) {
        if (specifier === "openai" || /^node:(http|zlib)/.test(specifier)) loaded.add(specifier);
        return next(specifier, context);
      },
    });
    const { openai } = await import(${JSON.stringify(MODEL)});
    const model = openai("m", { baseUrl: ${JSON.stringify(server.baseUrl)}, apiKey: "none" });
    model.assertReady();
    const before = [...loaded];
    await model.generate({ messages: [], tools: [], maxOutputTokens: 9 }, { signal: new AbortController().signal });
    console.log(JSON.stringify({ before, after: [...loaded].sort() }));
  `);
  expect(JSON.parse(loaded)).toEqual({
    before: [],
    after: ["node:http", "node:https", "node:zlib", "openai"],
  });
});

proves(["M20"], "lets the process exit while sockets are idle", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  const printed = await output(`
    import { subscribe } from "node:diagnostics_channel";
    const sockets = [];
    subscribe("net.client.socket", ({ socket }) => sockets.push(socket));
    process.on("beforeExit", () => console.log(JSON.stringify(sockets.map(({ destroyed }) => (destroyed ? "closed" : "open")))));
    const { openai } = await import(${JSON.stringify(MODEL)});
    const model = openai("m", { baseUrl: ${JSON.stringify(server.baseUrl)}, apiKey: "none" });
    const request = { messages: [], tools: [], maxOutputTokens: 9 };
    const { signal } = new AbortController();
    await Promise.all([model.generate(request, { signal }), model.generate(request, { signal, onDelta() {} })]);
  `);
  expect(JSON.parse(printed)).toEqual(["open", "open"]);
});
