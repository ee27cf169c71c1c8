// Goal: the research runs in the background, in parallel, and writes nothing without approval.
// Method: the program against a server that speaks Chat Completions; each researcher is answered
// once both have made their requests.

import { existsSync, readFileSync } from "node:fs";

import { expect } from "vitest";

import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { calls, OpenAiServer, says, type Handler } from "../support/openai-server.ts";
import { shownIn, startApp } from "./app-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const LEAD = "Split the question";
const researcher = (task: string) =>
  ["SpawnSubagent", { role: "researcher", task, background: true }] as const;

/** Two researchers, neither of which is answered before both have made requests, then a report. */
function researching(file: string): Handler {
  const { promise: areBothThere, resolve } = Promise.withResolvers<void>();
  let there = 0;
  return async (request) => {
    const shown = shownIn(request);
    if (!shown.includes(LEAD)) {
      if (shown.includes('"tool"')) return says("It froze (notes.md:1).");
      there += 1;
      if (there === 2) resolve();
      await areBothThere;
      return calls(["search", { words: "frost" }], ["read_text", { file: "../secret.txt" }]);
    }
    if (!shown.includes('"tool"'))
      return calls(researcher("The weather?"), researcher("The soil?"));
    if (shown.includes("Written to") || shown.includes("Not executed")) return says("It froze.");
    const reports = shown.split("(notes.md:1)").length - 1;
    return reports < 2
      ? calls(["WaitForSubagents", {}])
      : calls(["write_report", { file, text: "# Frost" }]);
  };
}

async function research(options: { input?: string; args?: readonly string[]; file?: string }) {
  const { input = "", args = [], file = "report.md" } = options;
  const folder = temporaryFolder({ "in/notes.md": "The frost of 1911.\n", "secret.txt": "secret" });
  afterwards(() => folder[Symbol.dispose]());
  await using server = await OpenAiServer.start(researching(file));
  const env = { OPENAI_BASE_URL: server.baseUrl };
  const all = ["--in", "in", ...args, "Why did it fail?"];
  const end = await startApp("research/research.ts", all, { cwd: folder.path, env, input }).ended;
  const report = folder.at(file);
  const written = existsSync(report) ? readFileSync(report, "utf8") : undefined;
  return { ...end, written, shown: server.requests.map(shownIn).join("\n") };
}

proves(
  ["D201"],
  "runs two researchers in parallel and writes the report once a person approves",
  async () => {
    const { code, stdout, stderr, written, shown } = await research({ input: "y\n" });
    expect([code, stdout, written], stderr).toEqual([0, "It froze.\n", "# Frost"]);
    expect(stderr).toContain("7 characters go into report.md. Write it? [y/N]");
    expect(stderr.indexOf("7 characters")).toBeGreaterThan(
      stderr.lastIndexOf("researcher#2 completed"),
    );
    expect(shown).toContain("notes.md:1: The frost of 1911.");
    expect([shown.includes("There is no ../secret.txt."), shown.includes(" secret\\n")]).toEqual([
      true,
      false,
    ]);
  },
);

for (const [said, options] of [
  ["no", { input: "n\n" }],
  ["nothing", { input: "" }],
  ["no, by the flag", { args: ["--write", "no"] }],
] as const)
  proves(["D201"], `writes nothing if the answer is ${said}`, async () => {
    const { code, stdout, written } = await research(options);
    expect([code, stdout, written]).toEqual([0, "It froze.\n", undefined]);
  });

proves(["D201"], "asks nobody with the flag, and writes to no other place", async () => {
  const { written, stderr } = await research({ args: ["--write", "yes"] });
  expect([written, stderr.includes("[y/N]")]).toEqual(["# Frost", false]);
});
