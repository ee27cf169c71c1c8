// Goal: the program that coding agents copy runs as the page describes.
// Method: run it as a separate process against a server that speaks Chat Completions.

import { execFile } from "node:child_process";

import { expect } from "vitest";

import { proves } from "../harness/proves.ts";
import { calls, OpenAiServer, status } from "../support/openai-server.ts";

const PROGRAM = "examples/coding-agents.ts";

interface Finished {
  readonly code: unknown;
  readonly stdout: string;
  readonly stderr: string;
}

async function runProgram(baseUrl: string, ...args: readonly string[]): Promise<Finished> {
  const env = {
    ...process.env,
    OPENAI_API_KEY: "none",
    OPENAI_BASE_URL: baseUrl,
    ESPALIER_OPENAI_API: "chat_completions",
  };
  return await new Promise((resolve) => {
    execFile(
      process.execPath,
      ["--conditions=@espalier/source", PROGRAM, ...args],
      { env },
      (error, stdout, stderr) => resolve({ code: error?.code ?? 0, stdout, stderr }),
    );
  });
}

/** A buyer with two clerks; the second first misspells its product. */
async function startModel(): Promise<OpenAiServer> {
  return await OpenAiServer.start(({ bodyText }) => {
    if (!bodyText.includes("Ask one clerk per product")) {
      if (bodyText.includes('{\\"euros\\":')) return calls(["Finish", { euros: 12 }]);
      const isCorrected = bodyText.includes("Known: pear tree, bench.");
      const product = isCorrected || bodyText.includes('"pear tree"') ? "pear tree" : "banch";
      return calls(["lookUpPrice", { product }]);
    }
    if (bodyText.includes("Ordered: pear tree, bench."))
      return calls(["Finish", { ordered: true, euros: 24 }]);
    if (bodyText.split('"role":"tool"').length > 3)
      return calls(["Finish", { ordered: false, euros: 24 }]);
    if (bodyText.includes('"role":"tool"'))
      return calls(["placeOrder", { products: ["pear tree", "bench"] }]);
    return calls(
      ["SpawnSubagent", { role: "clerk", task: "pear tree" }],
      ["SpawnSubagent", { role: "clerk", task: "bench" }],
    );
  });
}

proves(["D703"], "places the order once it is approved", async () => {
  await using server = await startModel();
  const { code, stdout, stderr } = await runProgram(server.baseUrl, "--yes");
  expect([code, stdout]).toEqual([0, "{ ordered: true, euros: 24 }\n"]);
  expect(stderr.trim().split("\n").toSorted()).toEqual([
    "buyer/clerk#1: Finish succeeded",
    "buyer/clerk#1: lookUpPrice succeeded",
    "buyer/clerk#2: Finish succeeded",
    "buyer/clerk#2: lookUpPrice retry",
    "buyer/clerk#2: lookUpPrice succeeded",
    "buyer: Finish succeeded",
    "buyer: SpawnSubagent succeeded",
    "buyer: SpawnSubagent succeeded",
    "buyer: placeOrder succeeded",
  ]);
});

proves(
  ["D703"],
  "places no order without approval, and exits with code 1 if the model fails",
  async () => {
    await using server = await startModel();
    const denied = await runProgram(server.baseUrl);
    expect([denied.code, denied.stdout]).toEqual([0, "{ ordered: false, euros: 24 }\n"]);
    await using refusing = await OpenAiServer.start(() => status(401));
    const failed = await runProgram(refusing.baseUrl);
    expect([failed.code, failed.stdout]).toEqual([1, ""]);
    expect(failed.stderr).toMatch(/^failed: /);
  },
);
