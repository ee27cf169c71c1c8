// Goal: the offline planner surveys a folder of any shape as a model would, with the tools and
// messages that it is sent.
// Method: whole runs with the real orchestrator on temporary folders; compare the shape of the tree
// and the whole report.

import { chmodSync, rmSync } from "node:fs";

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { createSurveyTools } from "../../../src/cli/folder-tools.ts";
import { createOfflinePlanner } from "../../../src/cli/survey/offline-planner.ts";
import { createSurveyLead, surveySchema } from "../../../src/cli/survey/survey-roles.ts";
import {
  type RunResult,
  type StartOptions,
  type SubagentLimits,
  approve,
  ModelError,
  type Model,
} from "../../../src/index.ts";
import { findMessageProblems, formatEventTree } from "../../../src/testing/index.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { temporaryFolder, type TemporaryFolder } from "../../support/temporary-folder.ts";

const QUESTION = "What is each part for?";

const NESTED = {
  "readme.md": "# The project\nText.\n",
  "core/engine.ts": "// Engine: turns the wheels. Owns them.\nexport class Engine {}\n",
  "core/parts/wheel.ts": "/** A wheel that turns. */\nexport function wheel() {}\n",
  "core/parts/round/rim.ts": "export const rim = 1;\nexport const spoke = 2;\n",
  "docs/guide.md": "# How to drive\n",
};

test("surveys a nested folder by a parallel tree of depth 2 and reports each part", async () => {
  using folder = temporaryFolder(NESTED);
  const { result, fixture } = await survey(folder);

  expect(`\n${treeOf(fixture)}\n`).toMatchInlineSnapshot(`
    "
    lead completed (completed) 4 steps
    ├─ step 1 asked for 1
    │  └─ folder_list failed (tool_error)
    ├─ step 2 asked for 1
    │  └─ folder_list succeeded
    ├─ step 3 asked for 3
    │  ├─ SpawnSubagent succeeded
    │  │  └─ lead/surveyor#1 completed (completed) 4 steps
    │  │     ├─ step 1 asked for 1
    │  │     │  └─ folder_list succeeded
    │  │     ├─ step 2 asked for 2
    │  │     │  ├─ SpawnSubagent succeeded
    │  │     │  │  └─ lead/surveyor#1/surveyor#1 completed (completed) 4 steps
    │  │     │  │     ├─ step 1 asked for 1
    │  │     │  │     │  └─ folder_list succeeded
    │  │     │  │     ├─ step 2 asked for 1
    │  │     │  │     │  └─ folder_list succeeded
    │  │     │  │     ├─ step 3 asked for 2
    │  │     │  │     │  ├─ folder_read succeeded
    │  │     │  │     │  └─ folder_read succeeded
    │  │     │  │     └─ step 4 asked for 1
    │  │     │  │        └─ Finish succeeded
    │  │     │  └─ folder_read succeeded
    │  │     ├─ step 3 asked for 1
    │  │     │  ├─ folder_read_whole asked (approval) denied (nobody)
    │  │     │  └─ folder_read_whole refused (denied)
    │  │     └─ step 4 asked for 1
    │  │        └─ Finish succeeded
    │  ├─ SpawnSubagent succeeded
    │  │  └─ lead/surveyor#2 completed (completed) 3 steps
    │  │     ├─ step 1 asked for 1
    │  │     │  └─ folder_list succeeded
    │  │     ├─ step 2 asked for 1
    │  │     │  └─ folder_read succeeded
    │  │     └─ step 3 asked for 1
    │  │        └─ Finish succeeded
    │  └─ SpawnSubagent succeeded
    │     └─ lead/skimmer#1 completed (completed) 2 steps
    │        ├─ step 1 asked for 1
    │        │  └─ folder_read succeeded
    │        └─ step 2 asked for 1
    │           └─ Finish succeeded
    └─ step 4 answered
    "
  `);
  expect(`\n${result.text}\n`).toMatchInlineSnapshot(`
    "
    # Survey

    Question: What is each part for?
    5 files in 5 folders, surveyed in 3 parts.

    ## What was found

    - core/engine.ts: reading it whole was denied

    ## The parts

    - **./** (1 file)
      - \`readme.md\`: The project
    - **core/** (1 file)
      - \`engine.ts\`: Engine: turns the wheels. Owns them.
    - **core/parts/** (1 file)
      - \`wheel.ts\`: A wheel that turns.
    - **core/parts/round/** (1 file)
      - \`rim.ts\`: export const rim = 1;
    - **docs/** (1 file)
      - \`guide.md\`: How to drive
    "
  `);
  expect(spawnsPerReply(result)).toEqual({
    lead: [3],
    "lead/surveyor#1": [1],
  });
});

test("returns a typed result of a surveyor from its reading and from reports", async () => {
  using folder = temporaryFolder(NESTED);
  const { result } = await survey(folder);

  const core = result.agents.find(({ agentPath }) => agentPath === "lead/surveyor#1");
  expect(surveySchema.parse(core?.output)).toEqual({
    folder: "core/",
    purpose: "1 file and 1 part below.",
    files: [
      { path: "core/engine.ts", purpose: "Engine: turns the wheels. Owns them." },
      { path: "core/parts/wheel.ts", purpose: "A wheel that turns." },
      { path: "core/parts/round/rim.ts", purpose: "export const rim = 1;" },
    ],
    findings: ["core/engine.ts: reading it whole was denied"],
  });
});

proves(["R25"], "produces the same tree and report for the same folder every time", async () => {
  using folder = temporaryFolder(NESTED);
  const first = await survey(folder);
  const second = await survey(folder);

  expect(formatEventTree(second.fixture.sink.events)).toBe(
    formatEventTree(first.fixture.sink.events),
  );
  expect(second.result.text).toBe(first.result.text);
  expect(second.result.usage).toEqual(first.result.usage);
});

test("divides a flat folder into parts of a few files, the last for the lead itself", async () => {
  const names = Array.from(
    { length: 11 },
    (_, index) => `file-${String.fromCharCode(97 + index)}.txt`,
  );
  using folder = temporaryFolder(Object.fromEntries(names.map((name) => [name, `About ${name}.`])));
  const { result } = await survey(folder);

  expect(partsOf(result)).toEqual([
    "Survey file-a.txt, file-b.txt",
    "Survey file-c.txt, file-d.txt",
    "Survey file-e.txt, file-f.txt, file-g.txt",
    "Survey file-h.txt, file-i.txt",
  ]);
  expect(result.text).toContain("11 files in 1 folder, surveyed in 4 parts.");
});

test("makes one part of a folder with one file", async () => {
  using folder = temporaryFolder({ "only.py": '"""Only this."""\ndef main():\n    pass\n' });
  const { result } = await survey(folder);

  expect(partsOf(result)).toEqual(["Survey only.py"]);
  expect(result.text).toContain("- **./** (1 file)\n  - `only.py`: Only this.");
});

test("starts no surveyor for an empty folder", async () => {
  using folder = temporaryFolder();
  const { result } = await survey(folder);

  expect(result.text).toBe("The folder is empty: there is nothing to survey.");
  expect([result.status, result.agents.length]).toEqual(["completed", 1]);
});

test("groups neighbouring folders, and reads the refused part in the lead", async () => {
  const names = Array.from({ length: 12 }, (_, index) => `part${index + 10}`);
  const files = Object.fromEntries(names.map((name) => [`${name}/a.txt`, `About ${name}.`]));
  using folder = temporaryFolder({ ...files, "top.txt": "About the top." });
  const { result } = await survey(folder);

  expect(partsOf(result)).toEqual([
    "Survey part10/, part11/, part12/",
    "Survey part13/, part14/",
    "Survey part15/, part16/, part17/",
    "Survey part18/, part19/",
  ]);
  expect(result.text).toContain("13 files in 13 folders, surveyed in 4 parts.");
});

test("surveys the rest in one agent if the tree may grow no deeper", async () => {
  using folder = temporaryFolder({ "a/b/c/d/e/deep.txt": "At the bottom.", "a/b/two.txt": "Two." });
  const { result } = await survey(folder);

  expect(result.refusalsByCode).toEqual({});
  expect(result.agents.map(({ removedTools }) => removedTools)).toEqual([
    [],
    [],
    [{ toolName: "SpawnSubagent", rule: "no_depth_left", source: "lead" }],
  ]);
  expect(result.subagentsByDepth).toEqual({ 1: 1, 2: 1 });
  expect(result.text).toContain("`deep.txt`: At the bottom.");
});

test("delegates all subfolders of a surveyor to one further surveyor", async () => {
  const wide = ["a", "b", "c"].flatMap((part) =>
    ["x", "y", "z"].map((below) => `${part}/${below}/file.txt`),
  );
  using folder = temporaryFolder(Object.fromEntries(wide.map((path) => [path, `About ${path}.`])));
  const { result } = await survey(folder);

  expect(result.refusalsByCode).toEqual({});
  expect(spawnsPerReply(result)).toEqual({
    lead: [3],
    "lead/surveyor#1": [1],
    "lead/surveyor#2": [1],
  });
  expect(result.text).toContain("- c/: 3 paths left out, its budget allows few steps");
});

proves(
  ["S7.36"],
  "has at most one delegation refused, by the lead's limit, for any shape of a folder",
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.stringMatching(/^([abc]\/){0,4}[xyz]$/), { maxLength: 25 }),
        async (paths) => {
          const files = [...new Set(paths)].map(
            (path) => [`${path}.txt`, `About ${path}.`] as const,
          );
          using folder = temporaryFolder(Object.fromEntries(files));
          const { result } = await survey(folder);
          const roots = new Set(files.map(([path]) => path.split("/")[0])).size;
          const refusals = roots > 4 ? { breadth_limit: 1 } : {};
          expect([result.status, result.refusalsByCode]).toEqual(["completed", refusals]);
          expect(result.text).toContain(files.length === 0 ? "nothing to survey" : "# Survey");
        },
      ),
      { numRuns: 25 },
    );
  },
);

test("surveys everything even if fewer subagents may start than it expects", async () => {
  const wide = ["a", "b", "c", "d"].flatMap((part) =>
    ["x", "y", "z"].map((below) => `${part}/${below}/file.txt`),
  );
  using folder = temporaryFolder(Object.fromEntries(wide.map((path) => [path, `About ${path}.`])));
  const { result } = await survey(folder, { limits: { maxTotalSubagents: 6 } });

  expect(result.refusalsByCode).toEqual({ total_limit: 1 });
  expect(result.text).toContain("9 files in 9 folders, surveyed in 4 parts.");
  expect(result.text).toContain("- d/: 3 paths left out, its budget allows few steps");
});

test("surveys alone if no subagent may start", async () => {
  using folder = temporaryFolder(NESTED);
  const { result } = await survey(folder, { limits: { maxTotalSubagents: 0 } });

  expect([result.status, result.agents.length]).toEqual(["completed", 1]);
  expect(result.text).toContain("5 files in 5 folders, surveyed in 0 parts.");
});

proves(["D745"], "skips binary files without a failure, and counts them", async () => {
  const bytes = new Uint8Array([137, 80, 78, 71, 0, 1]);
  const images = Array.from({ length: 7 }, (_, index) => [`images/${index}.png`, bytes] as const);
  using folder = temporaryFolder({ ...Object.fromEntries(images), "readme.md": "# Good\n" });
  const { result } = await survey(folder);

  expect(result.text).toContain("1 file in 1 folder, surveyed in 2 parts.");
  expect(result.text).toContain("- images/: 7 binary files skipped");
  expect(failedTools(result)).toEqual(["lead folder_list tool_error"]);
});

const WIDE = Object.fromEntries(
  ["a", "b", "c", "d", "e", "f"].flatMap((name) =>
    ["1", "2", "3"].map((file) => [`${name}/${file}.ts`, `// About ${name}.`]),
  ),
);

proves(["D746"], "corrects the failed first call of the lead with the second", async () => {
  using folder = temporaryFolder(NESTED);
  const { result } = await survey(folder);

  const calls = result.agents[0]?.steps.slice(0, 2).flatMap(({ tools }) => tools.executions);
  expect(calls?.map(({ call, errorCode }) => [call.argumentsText, errorCode])).toEqual([
    ['{"path":"/"}', "tool_error"],
    ['{"path":"./"}', undefined],
  ]);
  expect(failedTools(result)).toEqual([
    "lead folder_list tool_error",
    "lead/surveyor#1 folder_read_whole denied",
  ]);
});

proves(["D747"], "reads a part in the lead if a limit refuses the fifth delegation", async () => {
  using folder = temporaryFolder(WIDE);
  const { result } = await survey(folder);

  expect(result.refusalsByCode).toEqual({ breadth_limit: 1 });
  expect(spawnsPerReply(result)).toEqual({ lead: [5] });
  expect(result.text).toContain("- **f/** (3 files)");
});

proves(["D748"], "finishes a skimmer after three steps with its reading so far", async () => {
  using folder = temporaryFolder(WIDE);
  const { result } = await survey(folder);

  const skimmer = result.agents.find(({ role }) => role === "skimmer");
  expect([skimmer?.reason.code, skimmer?.steps.length]).toEqual(["step_limit", 3]);
  expect(surveySchema.parse(skimmer?.output)).toMatchObject({
    purpose: "2 files.",
    findings: ["e/: 1 path left out, its budget allows few steps"],
  });
});

proves(
  ["D749"],
  "asks to read a file in full in one subagent, and continues without an answer",
  async () => {
    using folder = temporaryFolder(NESTED);
    const { result, fixture } = await survey(folder);

    const asked = fixture.sink.events.filter(({ type }) => type === "question.answered");
    expect(asked).toMatchObject([{ agentPath: "lead/surveyor#1", toolName: "folder_read_whole" }]);
    expect(result.status).toBe("completed");
    expect(result.text).toContain("- core/engine.ts: reading it whole was denied");
  },
);

test("reads a file beyond its beginning if reading it in full is approved", async () => {
  using folder = temporaryFolder({ "long.txt": `Long.\n${"x".repeat(20_000)}` });
  const fixture = newFixture({ approver: (question) => approve(question) });
  const result = await fixture.run(
    createSurveyLead(createOfflinePlanner(), createSurveyTools(folder.path)),
  );

  const calls = result.agents[1]?.steps.flatMap(({ tools }) => tools.executions);
  const whole = calls?.find(({ call }) => call.toolName === "folder_read_whole");
  expect([whole?.call.argumentsText, whole?.errorCode]).toEqual(['{"path":"long.txt"}', undefined]);
  expect(result.text).not.toContain("denied");
});

test("reports a folder that vanishes before it is listed", async () => {
  using folder = temporaryFolder({ "a.txt": "" });
  const lead = createSurveyLead(createOfflinePlanner(), createSurveyTools(folder.path));
  rmSync(folder.path, { recursive: true });
  const result = await newFixture().run(lead);

  expect(result.status).toBe("completed");
  expect(result.text).toMatch(
    /^The folder could not be listed\. folder_list failed: There is no "\.\/"/,
  );
});

test("reports only the part of a failed surveyor as missing", async () => {
  using folder = temporaryFolder(NESTED);
  const planner = createOfflinePlanner();
  const message = "The model has had enough.";
  const moody: Model = {
    ...planner,
    generate: (request, options) =>
      request.messages.some(({ text }) => text.startsWith("Survey core/\n"))
        ? Promise.reject(new ModelError({ code: "model_invalid_request", message }))
        : planner.generate(request, options),
  };
  const result = await newFixture({ unansweredPolicy: "deny" }).run(
    createSurveyLead(moody, createSurveyTools(folder.path)),
  );

  expect(result.status).toBe("completed");
  expect(result.text).toContain("2 files in 2 folders, surveyed in 2 parts.");
  expect(result.text).toContain(`- Missing: core/. ${message}`);
});

test("stops at the end of its budget with the limit as the reason", async () => {
  using folder = temporaryFolder(NESTED);
  const { result } = await survey(folder, { budget: { steps: 8 } });

  expect([result.status, result.reason.code]).toEqual(["stopped", "step_limit"]);
  expect(result.usage.total.steps).toBe(8);
});

test("preserves names with quotes, line breaks and dashes in tasks", async () => {
  using folder = temporaryFolder({ '- "odd"\nname/file.txt': "Odd.", " x/y.txt": "Spaced." });
  const { result } = await survey(folder);

  expect(result.text).toContain("2 files in 2 folders, surveyed in 2 parts.");
});

test("sends only valid requests, and keeps within a short reply cap", async () => {
  using folder = temporaryFolder(NESTED);
  const planner = createOfflinePlanner();
  const seen: string[] = [];
  const watched: Model = {
    ...planner,
    generate: async (request, options) => {
      seen.push(...findMessageProblems(request.messages));
      const capped = await planner.generate({ ...request, maxOutputTokens: 3 }, options);
      expect(capped).toMatchObject({ finishReason: "length", usage: { outputTokens: 3 } });
      expect(capped.message.toolCalls).toEqual([]);
      return await planner.generate(request, options);
    },
  };
  const result = await newFixture({ unansweredPolicy: "deny" }).run(
    createSurveyLead(watched, createSurveyTools(folder.path)),
  );

  expect([seen, result.status]).toEqual([[], "completed"]);
});

test("names a folder without permission in the report", async ({ skip }) => {
  if (process.getuid?.() === 0) skip("root may enter every folder");
  using folder = temporaryFolder({ "locked/a.txt": "", "b.txt": "Open." });
  chmodSync(folder.at("locked"), 0o000);
  const { result } = await survey(folder);
  chmodSync(folder.at("locked"), 0o700);

  expect(result.text).toContain('"locked" cannot be listed (EACCES)');
});

interface SurveyOptions extends Pick<StartOptions, "budget"> {
  readonly task?: string;
  readonly limits?: Partial<SubagentLimits>;
}

async function survey(
  folder: TemporaryFolder,
  { task = QUESTION, limits = {}, budget = {} }: SurveyOptions = {},
): Promise<{ readonly result: RunResult; readonly fixture: Fixture }> {
  const fixture = newFixture({ limits, unansweredPolicy: "deny" });
  const lead = createSurveyLead(createOfflinePlanner(), createSurveyTools(folder.path));
  const result = await fixture.outcome(fixture.start(lead, task, { budget }));
  return { result, fixture };
}

/** Returns the tree without its token counts, which depend on every word of the instructions. */
function treeOf(fixture: Fixture): string {
  return formatEventTree(fixture.sink.events).replaceAll(/, \d+ of \d+ tokens/g, "");
}

/** Returns the first lines of the tasks that the lead delegated. */
function partsOf(result: RunResult): readonly string[] {
  return result.agents
    .filter(({ depth }) => depth === 1)
    .map(({ task }) => task.slice(0, task.indexOf("\n")));
}

/** Returns the failed calls, in the order of their agents. */
function failedTools({ agents }: RunResult): readonly string[] {
  return agents.flatMap(({ agentPath, toolErrors }) =>
    toolErrors
      .filter(({ toolName }) => toolName.startsWith("folder_"))
      .map(({ toolName, code }) => `${agentPath} ${toolName} ${code}`),
  );
}

/** Returns how many subagents each agent requested, by reply. */
function spawnsPerReply(result: RunResult): Readonly<Record<string, readonly number[]>> {
  const countSpawns = ({ tools }: RunResult["steps"][number]) =>
    tools.calls.filter(({ toolName }) => toolName === "SpawnSubagent").length;
  const spawns = result.agents.map(({ agentPath, steps }) => {
    return [agentPath, steps.map(countSpawns).filter((count) => count > 0)] as const;
  });
  return Object.fromEntries(spawns.filter(([, counts]) => counts.length > 0));
}
