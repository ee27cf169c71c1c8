// Goal: the command resumes a run whose process was killed, and first lists the interrupted calls
// (V53).
// Method: the command, spawned and killed while two tools run, one of which must not be repeated.

import { readFileSync } from "node:fs";

import { expect } from "vitest";

import { temporaryFolder } from "../../support/temporary-folder.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { calls, OpenAiServer, says } from "../../support/openai-server.ts";
import { linkPackage, startCommand } from "../../support/cli/process-program.ts";

const CONFIG = `
  import { defineAgent, defineTool, openai } from "espalier";
  import { defineConfig } from "espalier/config";
  import { appendFileSync, existsSync, readFileSync } from "node:fs";
  import { z } from "zod";
  const tool = (name, retryAfterCrash) => defineTool({
    name, description: "Works.", inputSchema: z.object({}), retryAfterCrash,
    execute: () => {
      const isFirst = !existsSync("begun") || !readFileSync("begun", "utf8").includes(name);
      appendFileSync("begun", name + "\\n");
      if (!isFirst) return "Done.";
      process.stderr.write(name + " at work\\n");
      return new Promise(() => setInterval(() => {}, 1_000));
    },
  });
  const price = { inputUsdPerMillion: 0, outputUsdPerMillion: 0 };
  export default defineConfig({
    roles: [defineAgent({
      name: "lead", instructions: "Work.", model: openai("some-model", { price }),
      tools: [tool("look", true), tool("pay", false)],
    })],
  });
`;

proves(
  ["V53"],
  "lists interrupted calls after a crash, starting with those that must not be repeated, and does not repeat these",
  async () => {
    const folder = temporaryFolder({
      "package.json": '{"type":"module"}',
      "espalier.config.ts": CONFIG,
    });
    afterwards(() => folder[Symbol.dispose]());
    linkPackage(folder.path);
    await using server = await OpenAiServer.start((_request, count) =>
      count === 1 ? calls(["look", {}], ["pay", {}]) : says("Gone on."),
    );
    const at = {
      cwd: folder.path,
      env: { OPENAI_BASE_URL: server.baseUrl, OPENAI_API_KEY: "key" },
    };
    const { child, ended, seen } = startCommand(["run", "lead", "Go."], at);
    await seen("look at work");
    await seen("pay at work");
    child.kill("SIGKILL");
    await ended;

    const { code, stdout, stderr } = await startCommand(["resume", "@last"], at).ended;
    expect([code, stdout]).toEqual([0, "Gone on.\n"]);
    expect(stderr).toContain(
      [
        "Interrupted during a call:",
        "  lead · pay: must not be repeated: the model reads that it was interrupted",
        "  lead · look: runs again",
      ].join("\n"),
    );
    expect(readFileSync(folder.at("begun"), "utf8").trim().split("\n").toSorted()).toEqual([
      "look",
      "look",
      "pay",
    ]);
    expect(server.request(2).bodyText).toContain(
      "Not repeated: the process ended during this call",
    );
  },
);
