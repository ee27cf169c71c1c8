// Goal: the commands that are suggested next can be typed, for questions of each kind and number
// and for answers that do not fit.
// Method: real paused and ended runs, their messages, and the command within the test over their
// store.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { defineTool, type RunResult, ModelError } from "espalier";
import { says, type ScriptedReply } from "espalier/testing";
import { RunFold } from "espalier/view";
import { expect } from "vitest";
import { z } from "zod";

import { describeSettledRun } from "../../src/cli/run-text.ts";
import { StoredRunReader } from "../../src/cli/stored-run-reader.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { proves } from "../harness/proves.ts";
import { latch } from "../harness/run-scripted.ts";
import { forwarding } from "../support/journal/forwarding-store.ts";
import { agent, keptRuns, type KeptRuns } from "../support/cli/kept-runs.ts";
import { calls, OpenAiServer, says as replies } from "../support/openai-server.ts";
import { linesOf, writtenRun } from "../support/viewer-server/written-runs.ts";
import { performed, withVariable } from "../support/cli/performed.ts";

const TOOLS = [
  defineTool({
    name: "pay",
    description: "Pays.",
    inputSchema: z.object({ eur: z.number() }),
    needsApproval: true,
    execute: ({ eur }) => `Paid ${eur}.`,
  }),
  defineTool({
    name: "askUser",
    description: "Asks.",
    inputSchema: z.object({ question: z.string() }),
  }),
];
const PAY = { toolName: "pay", arguments: { eur: 400 } };
const ASK = { toolName: "askUser", arguments: { question: "Which?" } };
const LOUD = { isQuiet: false, isKept: true, command: "npx espalier", resumeOptions: "" };

/** Starts a run that pauses with these calls. */
async function paused(
  { orchestrator }: KeptRuns,
  asked: NonNullable<ScriptedReply["calls"]>,
): Promise<RunResult> {
  const buyer = agent("buyer", [{ calls: asked }, says("Done.")], { tools: TOOLS });
  return await orchestrator.start(buyer, "Buy.").result;
}

proves(["V136"], "prints how to answer a paused run, for every kind of question", async () => {
  const next = async (...asked: (typeof PAY | typeof ASK)[]): Promise<string | undefined> => {
    await using kept = keptRuns();
    return describeSettledRun(await paused(kept, asked), [], LOUD).at(-1);
  };
  expect([await next(PAY), await next(ASK), await next(PAY, ASK)]).toEqual([
    'Answer: npx espalier approve run_1, or npx espalier deny run_1 --reason "…". Then: npx espalier resume run_1',
    'Answer: npx espalier answer run_1 --result "…". Then: npx espalier resume run_1',
    "List how to answer each: npx espalier questions. Then: npx espalier resume run_1",
  ]);
});

proves(["V136"], "names the right command for an answer of the wrong kind", async () => {
  for (const [call, args, fitting] of [
    [PAY, ["answer", "@last", "--result", "yes"], "approve"],
    [ASK, ["approve", "@last"], "answer"],
  ] as const) {
    await using kept = keptRuns();
    const { questions } = await paused(kept, [call]);
    const at = { cwd: kept.folder, env: { npm_command: "exec" } };
    const wrong = await performed([...args, "--store", kept.path], at);
    expect([wrong.code, wrong.stdout]).toEqual([2, ""]);
    expect(wrong.stderr).toContain(
      `. Use: npx espalier --store ${kept.path} ${fitting} ${questions[0]?.questionId}`,
    );
    expect(wrong.stderr).not.toMatch(/answers\[|[^x] espalier /);
    const more = fitting === "answer" ? ["--result", "Pears."] : [];
    const right = await performed([fitting, "@last", ...more, "--store", kept.path], at);
    expect(right.code).toBe(0);
  }
});

proves(
  ["V137"],
  "prints the reason of a failed run once, with amounts formatted as in a report",
  async () => {
    await using kept = keptRuns();
    const message = "No JSON:\ndata: 1";
    const error = new ModelError({ code: "model_protocol_error", message });
    const run = kept.orchestrator.start(agent("lead", [{ error }]), "Go.");
    const result = await run.result;
    const fold = new RunFold(run.runId);
    for await (const event of run.events({ from: 1 })) fold.apply(event);
    expect(describeSettledRun(result, fold.causes(), LOUD)).toEqual([
      "run_1 failed (error) · 1 agent, 0 tokens, cost unknown (no price for scripted), 0ms",
      "  ✖ lead · step 1: model_protocol_error",
      "    No JSON:\n    data: 1",
      "See it: npx espalier show run_1 --errors",
    ]);
    const total = { ...result.usage.total, totalTokens: 4_735, costUsd: 0, unpricedCalls: 0 };
    const rich = { ...result, durationMs: 61_000, usage: { ...result.usage, byModel: {}, total } };
    expect(describeSettledRun(rich, [], LOUD)[0]).toBe(
      `run_1 failed (error): ${message} · 1 agent, 4,735 tokens, cost $0, 1m 01s`,
    );
  },
);

proves(["V139"], "reads the answers again only if new mail has arrived", async () => {
  await using kept = keptRuns();
  const { questions, runId } = await paused(kept, [PAY, ASK]);
  const [pay = "", ask = ""] = questions.map(({ questionId }) => questionId);
  const answer = (name: string, ...words: readonly string[]) =>
    performed([...words, name, "--store", kept.path], { cwd: kept.folder });
  const { store } = kept;
  let wholeReads = 0;
  const counting = forwarding(store, {
    read: (...asked: Parameters<typeof store.read>) => {
      if ((asked[1] ?? 1) === 1) wholeReads += 1;
      return store.read(...asked);
    },
  });
  const stored = await store.find(runId);
  if (stored === undefined) throw new Error("no such run");
  const reading = new StoredRunReader(counting, stored);
  const looks = async (): Promise<readonly unknown[]> => {
    for (let look = 0; look < 3; look += 1) await reading.advance();
    return [reading.questions.map(({ questionId }) => questionId), wholeReads];
  };
  expect(await looks()).toEqual([[pay, ask], 1]); // Once by the test itself.
  await answer(pay, "approve");
  expect(await looks()).toEqual([[ask], 2]);
  await answer(ask, "answer", "--result", "red");
  expect(await looks()).toEqual([[], 3]);
});

proves(["V139"], "lists a run whose questions are answered as waiting for a process", async () => {
  await using kept = keptRuns();
  const { questions } = await paused(kept, [PAY, ASK]);
  const at = { cwd: kept.folder };
  const store = ["--store", kept.path];
  const seen = async (): Promise<readonly unknown[]> => {
    const runs = await performed(["runs", ...store], at);
    const show = await performed(["show", "@last", ...store], at);
    const [first = ""] = show.stdout.split("\n");
    return [
      runs.stdout.split("\n")[0]?.slice(0, 9),
      first,
      /input required \(\d\)/.exec(show.stdout)?.[0],
      show.stderr,
    ];
  };
  const [pay = "", ask = ""] = questions.map(({ questionId }) => questionId);
  await performed(["approve", pay, ...store], at);
  expect(await seen()).toEqual(["to do (1)", "run_1 ? input required", "input required (1)", ""]);
  await performed(["answer", ask, "--result", "Pears.", ...store], at);
  expect(await seen()).toEqual([
    "to do (1)",
    "run_1 … waiting",
    undefined,
    `Run run_1 is waiting: no process owns it. Run it here: espalier --store ${kept.path} resume run_1\n`,
  ]);
});

proves(
  ["V140"],
  "reports a requested cancellation of a run that another process owns",
  async () => {
    await using kept = keptRuns();
    const { opened, open } = latch();
    const run = kept.orchestrator.start(agent("lead", [says("Done.", { after: opened })]), "Wait.");
    await run.whenPersisted();
    const cancel = async () =>
      await performed(["cancel", "@last", "--store", kept.path], { cwd: kept.folder });
    const { code, stderr } = await cancel();
    expect([code, stderr]).toEqual([
      0,
      "Cancellation requested: the process that owns run_1 cancels it.\n",
    ]);
    open();
    await run.result;
  },
);

proves(["V142"], "refuses a model that would not be used", async () => {
  using folder = temporaryFolder({
    "lead.md": "---\nmodel: large\nsubagents: [reader]\n---\nWork.\n",
    "reader.md": "---\nmodel: small\ndescription: Reads.\n---\nWork.\n",
  });
  await using server = await OpenAiServer.start(() => replies("no"));
  withVariable("OPENAI_BASE_URL", server.baseUrl);
  const run = ["run", "lead.md", "Go.", "--model", "mine"];
  const { code, stdout, stderr } = await performed(run, { cwd: folder.path });
  expect([code, stdout, stderr]).toEqual([
    2,
    "",
    "--model applies to role files without a model, but lead.md names large. Leave --model out, or remove the line model: … there. [usage]\n",
  ]);
  expect(server.requests).toEqual([]);
});

proves(["V143"], "reports an answer that does not fit its call", async () => {
  const pay = `import { defineTool } from "espalier";
import { z } from "zod";
const input = z.object({ eur: z.number().refine((eur) => eur < 999, "less") });
const pay = { name: "pay", description: "Pays.", inputSchema: input, needsApproval: true, execute: () => "Paid." };
export default { tools: [defineTool(pay)] };`;
  using folder = temporaryFolder({
    "lead.md": "---\nmodel: m\ntools: [pay]\n---\nWork.\n",
    "espalier.config.mjs": pay,
  });
  await using server = await OpenAiServer.start((_request, count) =>
    count === 1 ? calls(["pay", { eur: 400 }]) : replies("Done."),
  );
  withVariable("OPENAI_BASE_URL", server.baseUrl);
  const at = { cwd: folder.path };
  expect((await performed(["run", "lead.md", "Go."], at)).code).toBe(4);
  expect((await performed(["approve", "@last", "--arguments", '{"eur":1000}'], at)).code).toBe(0);
  const first = await performed(["resume", "@last"], at);
  expect([first.code, first.stdout]).toEqual([4, ""]);
  expect(first.stderr).toMatch(/was rejected: Expected the arguments of the answer .* to fit pay/);
  expect((await performed(["approve", "@last"], at)).code).toBe(0);
  const second = await performed(["resume", "@last"], at);
  expect([second.code, second.stdout]).toEqual([0, "Done.\n"]);
  expect(second.stderr).not.toContain("came to nothing");
});

proves(
  ["V156"],
  "names the owner of a run that is to be resumed, and how to take it over",
  async () => {
    await using kept = keptRuns();
    withVariable("OPENAI_BASE_URL", "http://127.0.0.1:1");
    writeFileSync(join(kept.folder, "buyer.md"), "---\nmodel: some-model\n---\nWork.\n");
    const run = kept.orchestrator.start(agent("buyer", [says("Done.")]), "Buy.");
    run.requestPause();
    const { runId } = await run.result;
    const lines = await linesOf(kept.store, runId);
    await kept.store.remove(runId, 0);
    await (await writtenRun(kept.store, runId, "buyer: Buy.")).append(lines);
    const at = { cwd: kept.folder, env: { npm_command: "exec" } };
    const args = ["resume", "run_1", "--store", kept.path];
    const refused = await performed(args, at);
    expect(refused).toEqual({
      code: 2,
      stdout: "",
      stderr: `Cannot resume run_1: process 1 on elsewhere owns it. Follow it: npx espalier --store ${kept.path} tail run_1. If that process no longer works, take the run over: npx espalier --store ${kept.path} resume run_1 --take-over [run_active]\n`,
    });
    expect((await performed([...args, "--take-over"], at)).stderr).not.toContain("run_active");
  },
);
