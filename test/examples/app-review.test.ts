// Goal: the code review reviews each file that a branch changes, returns a typed decision, and
// stays within its budget.
// Method: the program in a temporary git repository, against a server that speaks Chat Completions.

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";

import { expect } from "vitest";

import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { calls, OpenAiServer, says, type Handler } from "../support/openai-server.ts";
import { shownIn, startApp } from "./app-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const A = "src/a.ts";
const B = "src/b.ts";
const LEAD = "Start one reviewer";
const FINDING = { file: A, line: 2, severity: "blocker", problem: "It divides by zero." } as const;

/** Creates a repository whose branch changes two of three files. */
function repository(): string {
  const folder = temporaryFolder({ [A]: "one\n", [B]: "one\n", "src/c.ts": "one\n" });
  afterwards(() => folder[Symbol.dispose]());
  const git = (...args: readonly string[]): void => {
    const who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"];
    execFileSync("git", [...who, ...args], { cwd: folder.path, stdio: "pipe" });
  };
  git("init", "--quiet", "--initial-branch=main");
  git("add", ".");
  git("commit", "--quiet", "--message=First");
  git("checkout", "--quiet", "-b", "work");
  for (const file of [A, B]) writeFileSync(folder.at(file), "one\nhalf / 0\n");
  git("commit", "--quiet", "--all", "--message=Second");
  return folder.path;
}

/**
 * A lead that starts a reviewer per file, and reviewers that read the change and report a finding
 * in the first of them.
 */
const reviewing: Handler = (request) => {
  const shown = shownIn(request);
  if (shown.includes(LEAD))
    return shown.includes('"tool"')
      ? calls(["Finish", { verdict: "request_changes", summary: "One.", findings: [FINDING] }])
      : calls(
          ["SpawnSubagent", { role: "reviewer", task: A }],
          ["SpawnSubagent", { role: "reviewer", task: B }],
        );
  const file = shown.includes(A) ? A : B;
  if (!shown.includes('"tool"')) return calls(["read_change", { file }]);
  return calls(["Finish", { result: file === A ? [FINDING] : [] }]);
};

async function review(handler: Handler, ...args: readonly string[]) {
  await using server = await OpenAiServer.start(handler);
  const env = { OPENAI_BASE_URL: server.baseUrl };
  const all = ["--price", "1,10", ...args];
  const end = await startApp("code-review/review.ts", all, { cwd: repository(), env }).ended;
  return { ...end, requests: server.requests };
}

proves(
  ["D200"],
  "gives each changed file to a reviewer that reads its diff, and reports their verdict",
  async () => {
    const { code, stdout, stderr, requests } = await review(reviewing);
    expect([code, stdout, stderr.split("\n").filter(Boolean).length]).toEqual([
      1,
      `${A}:2: blocker: It divides by zero.\n$0.0004 of $0.5 spent.\nrequest_changes: One.\n`,
      2,
    ]);
    const read = requests.map(shownIn).filter((shown) => shown.includes("+half / 0"));
    const files = read.map((shown) => [A, B].filter((file) => shown.includes(`b/${file}`)).join());
    expect(new Set(files)).toEqual(new Set([A, B]));
    expect(requests.map(shownIn).some((shown) => shown.includes("src/c.ts"))).toBe(false);
  },
);

proves(["D200"], "requests a verdict of another form again", async () => {
  let isFirst = true;
  const { code, stdout, requests } = await review((request, count) => {
    const shown = shownIn(request);
    if (!isFirst || !shown.includes(LEAD) || !shown.includes('"tool"'))
      return reviewing(request, count);
    isFirst = false;
    return calls(["Finish", { verdict: "fine", summary: "One.", findings: [] }]);
  });
  expect([code, stdout.includes("request_changes: One.")]).toEqual([1, true]);
  expect(requests.map(shownIn).at(-1)).toContain("verdict");
});

proves(["D200"], "stops a review at its budget, reports that and approves nothing", async () => {
  const dear = { prompt_tokens: 10, completion_tokens: 8_000, total_tokens: 8_010 };
  const { code, stdout, stderr, requests } = await review(
    (request, count) => {
      const reply = reviewing(request, count);
      if (reply instanceof Promise || reply.type !== "says") return reply;
      return shownIn(request).includes(LEAD) ? reply : { ...reply, usage: dear };
    },
    "--budget",
    "0.10",
  );
  expect(stdout).toMatch(/^Not reviewed: src\/a\.ts, src\/b\.ts$/m);
  expect(stderr).toContain("stopped: ");
  expect(requests.length).toBeLessThan(8);
  expect(code).toBe(2);
});

proves(
  ["D200"],
  "reports the reason instead of a verdict if the budget has no room for a first call",
  async () => {
    const { code, stdout, requests } = await review(() => says("never"), "--budget", "0.000001");
    expect([code, requests.length]).toEqual([2, 0]);
    expect(stdout).toMatch(/^No verdict\. The review was stopped: .*cost/m);
  },
);

proves(["D200"], "makes no request if nothing has changed", async () => {
  const { code, stdout, requests } = await review(() => says("never"), "--base", "work");
  expect([code, stdout, requests.length]).toEqual([0, "Nothing has changed since work.\n", 0]);
});
