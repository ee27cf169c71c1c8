// Goal: stored runs can be read without a browser, and reading changes nothing.
// Method: the commands on a store of four small runs; compare whole outputs.

import { readFileSync } from "node:fs";

import {
  approve,
  defineAgent,
  defineTool,
  ModelError,
  Orchestrator,
  withFallback,
  type Approver,
} from "espalier";
import { asks, ManualClock, says, ScriptedModel } from "espalier/testing";
import { RunFold } from "espalier/view";
import { expect, test } from "vitest";
import { z } from "zod";

import { describeSettledRun } from "../../../src/cli/run-text.ts";
import { proves } from "../../harness/proves.ts";
import { agent, fourRuns, keptRuns, type KeptRuns } from "../../support/cli/kept-runs.ts";
import { performed, type Performed } from "../../support/cli/performed.ts";

proves(["V27"], "lists runs in groups, starting with those that need a person", async () => {
  await using kept = keptRuns();
  await fourRuns(kept);
  const { code, stdout, stderr } = await reading(kept, "runs");
  expect([code, stderr]).toEqual([0, ""]);
  expect(`\n${timeless(stdout)}`).toMatchInlineSnapshot(`
    "
    to do (1)  state                  agents  tokens     cost       time  last seen  task
    run_4      ? input required: pay       1      15  unknown … … ago  buyer: Order the pears.

    done (3)  state                           agents  tokens     cost  time  last seen  task
    run_3     ■ stopped: step_limit                1      15  unknown   0ms … ago  lead: Try it.
    run_2     ✖ failed: model_unauthorized  2 ✖ of 2      30  unknown   0ms … ago  lead: Audit the code.
    run_1     ✔ completed                          1      15  unknown   0ms … ago  lead: Say hello.
    "
  `);
  const json = await reading(kept, "runs", "--json", "--status", "failed,stopped");
  expect(rows(json.stdout)).toEqual([
    ["run_3", "stopped", 1, 0],
    ["run_2", "failed", 2, 2],
  ]);
});

proves(["D764"], "lists the runs of one session, and shows sessions if a run has one", async () => {
  await using kept = keptRuns();
  await kept.orchestrator.start(agent("lead", [says("Hello.")]), "Greet.").result;
  const session = await kept.orchestrator.openSession("customer-42");
  await kept.orchestrator.start(agent("lead", [says("Once.")]), "First.", { session }).result;
  await kept.orchestrator.start(agent("lead", [says("Twice.")]), "Second.", { session }).result;
  const all = await reading(kept, "runs");
  expect(`\n${timeless(all.stdout)}`).toMatchInlineSnapshot(`
    "
    done (3)  state        agents  tokens     cost  time  last seen  session      task
    run_3     ✔ completed       1      15  unknown   0ms … ago  customer-42  lead: Second.
    run_2     ✔ completed       1      15  unknown   0ms … ago  customer-42  lead: First.
    run_1     ✔ completed       1      15  unknown   0ms … ago               lead: Greet.
    "
  `);
  const one = await reading(kept, "runs", "--session", "customer-42", "--limit", "1");
  expect(timeless(one.stdout).split("\n").slice(1, -1)).toHaveLength(1);
  expect(one.stderr).toContain("There are older ones: --limit 2");
  const json = await reading(kept, "runs", "--json", "--session", "customer-42");
  const { runs } = z
    .object({ runs: z.array(z.object({ runId: z.string(), sessionId: z.string() })) })
    .parse(JSON.parse(json.stdout));
  expect(runs).toEqual([
    { runId: "run_3", sessionId: "customer-42" },
    { runId: "run_2", sessionId: "customer-42" },
  ]);
  const none = await reading(kept, "runs", "--session", "other", "--status", "completed");
  expect([none.code, none.stdout]).toEqual([0, ""]);
  expect(none.stderr).toContain("No matching runs in");
});

proves(["V27"], "shows a failed run with its root cause first, then its tree", async () => {
  await using kept = keptRuns();
  await fourRuns(kept);
  const { code, stdout, stderr } = await reading(kept, "show", "run_2");
  expect([code, stderr]).toEqual([0, ""]);
  expect(`\n${stdout}`).toMatchInlineSnapshot(`
    "
    run_2 ✖ failed: model_unauthorized
    lead: Audit the code.
    Wrong key.
    started 2026-01-02T03:04:05.000Z · lasted 0ms · 2 agents · 30 tokens · cost unknown (no price for scripted)

    Why, first cause first:
      ✖ lead · step 2: model_unauthorized
        Wrong key.

    agent        state     step  own tok  tree tok  own cost  tree cost  time  task
    lead         ✖ failed     2       15        30   unknown    unknown   0ms  Audit the code. · Wrong key.
    └─ reader#1  ✖ failed     2       15        15   unknown    unknown   0ms  Read the docs. · Wrong key.
    ✖ failed in 0ms  2 agents
    "
  `);
  expect(`\n${(await reading(kept, "show", "run_2", "--errors")).stdout}`).toMatchInlineSnapshot(`
    "
    run_2 ✖ failed: model_unauthorized
    lead: Audit the code.
    Wrong key.
    started 2026-01-02T03:04:05.000Z · lasted 0ms · 2 agents · 30 tokens · cost unknown (no price for scripted)

    Why, first cause first:
      ✖ lead · step 2: model_unauthorized
        Wrong key.

    Agents that did not complete (2)
      lead · step 2: failed (model_unauthorized): Wrong key.
      lead/reader#1 · step 2: failed (model_unauthorized): Wrong key.

    Calls that failed (2)
      lead · step 1 · SpawnSubagent: failed (subagent_failed), after 0ms: Wrong key.
      lead/reader#1 · step 1 · read: failed (tool_error), after 0ms: ENOENT
    "
  `);
});

proves(
  ["D220"],
  "shows the limit that stopped a subagent of a completed run, without an error",
  async () => {
    await using kept = keptRuns();
    const reader = agent("reader", [asks("none", {})], { budget: { steps: 1 } });
    const spawn = asks("SpawnSubagent", { role: "reader", task: "Read the docs." });
    const lead = agent("lead", [spawn, says("All is well.")], { subagents: [reader] });
    const run = kept.orchestrator.start(lead, "Audit the code.");
    const result = await run.result;
    expect(`\n${(await reading(kept, "show", "run_1")).stdout}`).toMatchInlineSnapshot(`
      "
      run_1 ✔ completed
      lead: Audit the code.
      started 2026-01-02T03:04:05.000Z · lasted 0ms · 2 agents · 45 tokens · cost unknown (no price for scripted)

      Limits reached, first one first:
        ■ lead/reader#1 · step 1: step_limit
          The steps budget of lead/reader#1 allows 1; 1 is spent and 1 more was requested.

      agent        state         step  own tok  tree tok  own cost  tree cost  time  task
      lead         ✔ completed      2       30        45   unknown    unknown   0ms  Audit the code.
      └─ reader#1  ■ step_limit     1       15        15   unknown    unknown   0ms  Read the docs. · The steps budget of lead/reader#1 allows 1; 1 is spent and 1 mo…
      ✔ completed in 0ms  2 agents

      Result
      All is well.
      "
    `);
    const fold = new RunFold(run.runId);
    for await (const event of run.events({ from: 1 })) fold.apply(event);
    const options = { isQuiet: true, isKept: true, command: "espalier", resumeOptions: "" };
    expect(describeSettledRun(result, fold.causes(), options)).toEqual([
      "Limits reached, first one first:",
      "  ■ lead/reader#1 · step 1: step_limit",
      `    ${result.agents[1]?.reason.message}`,
    ]);
  },
);

proves(
  ["V27"],
  "shows an agent with its steps, and a step with its request, reply and calls",
  async () => {
    await using kept = keptRuns();
    await fourRuns(kept);
    const agent = await reading(kept, "show", "run_2", "lead/reader#1");
    expect(`\n${agent.stdout}`).toMatchInlineSnapshot(`
      "
      lead/reader#1 · failed
      reader, scripted (scripted)
      model_unauthorized: Wrong key.
      own 15 tokens, cost unknown · with subagents 15 tokens, cost unknown

      Task:
      Read the docs.

      step  time  tokens     cost  calls
      1      0ms      15  unknown  read ✖ tool_error 0ms
                                     ENOENT
      2      0ms       0  unknown  ✖ model_unauthorized: Wrong key.
      "
    `);
    const step = await reading(kept, "show", "run_2", "reader#1", "1", "--request");
    expect(`\n${step.stdout}`).toMatchInlineSnapshot(`
      "
      lead/reader#1 · execution 1 · step 1 of 2
      scripted (scripted) · 10 in · 5 out · cost unknown · 0ms

      Asked:
        system (instructions)
          Work.
        user (task)
          Read the docs.
        tools: read

      Calls:
        read {"path":"a.ts"}
          failed (tool_error), 0ms
          read failed: ENOENT
      "
    `);
    expect((await reading(kept, "show", "run_2", "reader#1", "1.1")).code).toBe(0);
  },
);

test("shows who approved a call, and the arguments with which it ran", async () => {
  await using kept = keptRuns();
  const pay = defineTool({
    name: "pay",
    description: "Pays.",
    inputSchema: z.object({ eur: z.number() }),
    needsApproval: true,
    execute: ({ eur }) => `Paid ${eur}.`,
  });
  const model = new ScriptedModel([asks("pay", { eur: 90 }), says("Done.")]);
  const lead = defineAgent({ name: "lead", instructions: "Pay.", model, tools: [pay] });
  const { store } = kept;
  const approver: Approver = (question) => approve(question, { arguments: { eur: 40 } });
  const orchestrator = new Orchestrator({ store, approver, clock: new ManualClock() });
  await orchestrator.start(lead, "Pay.", { runId: "run_1" }).result;
  const { stdout } = await reading(kept, "show", "run_1", "lead", "1");
  expect(stdout.slice(stdout.indexOf("Calls:"))).toBe(`Calls:
  pay {"eur":90}
    was approved by the approver with {"eur":40} after 0ms
    received {"eur":40}
    succeeded, 0ms
    Paid 40.
`);
});

proves(
  ["D420"],
  "shows the first 100,000 characters of a task and an answer, and all with --json",
  async () => {
    await using kept = keptRuns();
    const long = `${"ab\n".repeat(40_000)}end`;
    const lead = agent("lead", [says(`Said ${long}`)]);
    await kept.orchestrator.start(lead, `Read ${long}`, { runId: "run_1" }).result;
    const shown = await reading(kept, "show", "run_1", "lead");
    const step = await reading(kept, "show", "run_1", "lead", "1", "--request");
    const more = "ab\n    ab… (20,008 more characters; --json shows all)";
    expect(step.stdout.split(more)).toHaveLength(3);
    expect(shown.stdout).toContain("ab… (20,008 more characters; --json shows all)");
    for (const { stdout } of [shown, step]) expect(stdout).not.toContain("end");
    const whole = await reading(kept, "show", "run_1", "lead", "1", "--request", "--json");
    expect(whole.stdout.split("ab\\nend")).toHaveLength(3);
  },
);

test("names both models of a step that a fallback answered", async () => {
  await using kept = keptRuns();
  const down = { error: new ModelError({ code: "model_unavailable", message: "Down." }) };
  const model = withFallback([
    new ScriptedModel([down], { id: "big" }),
    new ScriptedModel([asks("none", {}), says("Done.")], { id: "small", allowUnknownTools: true }),
  ]);
  const lead = defineAgent({ name: "lead", instructions: "Work.", model });
  await kept.orchestrator.start(lead, "Try it.").result;
  const { stdout } = await reading(kept, "show", "run_1", "lead");
  expect(`\n${stdout}`).toMatchInlineSnapshot(`
    "
    lead · completed
    lead, big (scripted)
    own 30 tokens, cost unknown · with subagents 30 tokens, cost unknown

    Task:
    Try it.

    step  time  tokens     cost  calls
    1      0ms      15  unknown  ↻ attempt 1 failed (then small): model_unavailable: Down.
                                 answered by small (instead of big)
                                 none ✖ unknown_tool 0ms
                                   There is no tool named "none". You have no tools; answer in text.
    2      0ms      15  unknown  answered by small (instead of big)
    "
  `);
  const step = await reading(kept, "show", "run_1", "lead", "2");
  expect(step.stdout.split("\n")[1]).toBe(
    "small (instead of big) · 10 in · 5 out · cost unknown · 0ms",
  );
});

proves(["V27"], "prints one JSON object on stdout and nothing else with --json", async () => {
  await using kept = keptRuns();
  await fourRuns(kept);
  for (const args of [["run_2"], ["run_2", "lead"], ["run_2", "lead", "1"], ["@last"]]) {
    const { code, stdout, stderr } = await reading(kept, "show", ...args, "--json");
    expect([code, stderr, stdout.trimEnd().includes("\n")]).toEqual([0, "", false]);
    expect(JSON.parse(stdout)).toBeTypeOf("object");
  }
  const last = await reading(kept, "show", "@last", "--json");
  expect(JSON.parse(last.stdout)).toMatchObject({
    run: { runId: "run_4", status: "input_required", owner: null },
  });
  // The JSON cannot control the terminal either.
  const failed = await reading(kept, "show", "run_2", "--json");
  expect(failed.stdout).toContain("Wrong \\u001b[31mkey.\\u202e");
});

test("refuses a missing run, agent or step as wrong use and lists the existing ones", async () => {
  await using kept = keptRuns();
  await fourRuns(kept);
  const told = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await reading(kept, ...args);
    expect([code, stdout]).toEqual([2, ""]);
    return stderr;
  };
  expect(await told("show", "run_9")).toContain("No run matches");
  expect(await told("show", "run_")).toContain(
    "is ambiguous (4 matches: run_4, run_3, run_2, run_1)",
  );
  expect(await told("show", "run_2", "writer")).toBe(
    'Expected the path of an agent (lead, lead/reader#1), got "writer". [usage]\n',
  );
  expect(await told("show", "run_2", "lead", "9")).toBe(
    'Expected a step of lead in execution 1 (1 to 2), got "9". [usage]\n',
  );
  expect(await told("show", "run_2", "lead", "two")).toContain("Expected a step number");
  expect(await told("runs", "--limit", "0")).toContain("Expected --limit");
  expect(await told("runs", "--status", "fine")).toContain('got "fine"');
  expect(await told("tail", "run_2", "--from", "x")).toContain("Expected --from");
  const nowhere = await performed(["runs", "--store", "none.db"], { cwd: kept.folder });
  expect([nowhere.code, nowhere.stdout]).toEqual([2, ""]);
});

proves(["V27"], "changes no byte of a store by reading", async () => {
  await using kept = keptRuns();
  await fourRuns(kept);
  await kept.store.close();
  const before = readFileSync(kept.path);
  for (const args of [
    ["runs"],
    ["show", "run_4"],
    ["show", "run_2", "lead", "1"],
    ["tail", "run_1"],
  ])
    await reading(kept, ...args);
  expect(readFileSync(kept.path).equals(before)).toBe(true);
});

function reading({ folder, path }: KeptRuns, ...args: readonly string[]): Promise<Performed> {
  return performed([...args, "--store", path], { cwd: folder });
}

/** Removes times since an event and of runs that have not ended, which depend on the machine. */
function timeless(text: string): string {
  return text
    .replaceAll(/ +\S+(?: \S+)? ago/g, " … ago")
    .replaceAll(/ +time  last sign/g, "  time  last sign")
    .replaceAll(/ +\d+h \d\dm … ago/g, " … … ago");
}

const List = z.object({
  runs: z.array(
    z.object({
      runId: z.string(),
      status: z.string(),
      agentCount: z.number(),
      failedAgents: z.number(),
    }),
  ),
});

function rows(json: string): readonly unknown[] {
  return List.parse(JSON.parse(json)).runs.map(Object.values);
}
