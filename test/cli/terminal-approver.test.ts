// Goal: a question at the terminal is complete, is never answered by one key, and is answered as it
// was shown (V52).
// Method: the real prompts over streams that stand for a terminal, typed into key by key.

import { PassThrough } from "node:stream";

import { expect } from "vitest";

import { createTerminalApprover } from "../../src/cli/terminal-approver.ts";
import type { Shell } from "../../src/cli/shell.ts";
import type { Answer, Question } from "../../src/protocol/question.ts";
import { AgentIdSchema, CallIdSchema, QuestionIdSchema } from "../../src/protocol/ids.ts";
import { proves } from "../harness/proves.ts";

const LONG = "x".repeat(400);
const QUESTION: Question = {
  questionId: QuestionIdSchema().parse("q1"),
  kind: "approval",
  agentId: AgentIdSchema().parse("a1"),
  agentPath: "lead/buyer#2",
  callId: CallIdSchema().parse("c1"),
  toolName: "pay",
  arguments: { eur: 400, note: LONG },
  argumentsHash: "hash",
  reason: "More than 100 EUR.",
  askedAtMs: 0,
  deadlineAtMs: null,
};
const DOWN = "\u001b[B";
const ENTER = "\r";
const CTRL_C = "\u0003";
const BACKSPACE = "\u007f";

interface Asked {
  readonly answer: Answer | undefined;
  readonly shown: string;
  readonly happened: readonly string[];
}

/** Asks, and types each of `keys` once the prompt before it is visible. */
async function asked(
  keys: readonly string[],
  { question = QUESTION, signal = new AbortController().signal } = {},
): Promise<Asked> {
  let shown = "";
  const happened: string[] = [];
  const stdin = Object.assign(new PassThrough(), { isTTY: true, setRawMode: () => {} });
  const stderr = Object.assign(new PassThrough(), { columns: 500, rows: 50 });
  const waiting = [...keys];
  stderr.setEncoding("utf8").on("data", (text: string) => {
    shown += text;
    // A prompt is redrawn at every key, so the test types one key at a time, once the prompt reads.
    setImmediate(() => {
      const key = waiting.shift();
      if (key !== undefined) stdin.write(key);
    });
  });
  const shell: Shell = {
    stdin,
    stdout: new PassThrough(),
    stderr,
    env: {},
    cwd: "/",
    isVerbose: false,
    onSignal: () => {},
    leave: (code) => {
      throw new Error(`left with ${code}`);
    },
  };
  const approver = createTerminalApprover({
    shell,
    makeRoom: () => {
      happened.push("room");
      return () => void happened.push("back");
    },
    interrupt: () => void happened.push("interrupt"),
  });
  const answer = await approver(question, { signal });
  return { answer, shown, happened };
}

const REF = { questionId: "q1", argumentsHash: "hash" };

proves(["V52"], "shows arguments in full and sends no answer on Enter alone", async () => {
  const { answer, shown, happened } = await asked(["", "", "", ENTER]);
  expect(answer).toBeUndefined();
  expect(shown).toContain(LONG);
  expect(shown).toContain("More than 100 EUR.");
  expect(happened).toEqual(["room", "back"]);
});

proves(
  ["D420"],
  "shows 1 MB of arguments in full at once, and does not offer to edit them",
  async () => {
    const question = { ...QUESTION, arguments: { text: "ab\n".repeat(330_000) } };
    const startedMs = performance.now();
    const { answer, shown } = await asked(["", "", "", ENTER], { question });
    expect(performance.now() - startedMs).toBeLessThan(1_500);
    expect(answer).toBeUndefined();
    expect(shown).toContain(JSON.stringify(question.arguments, null, 2));
    expect(shown).not.toContain("Edit the arguments");
  },
);

proves(["D421"], "shows control characters in arguments by their code points", async () => {
  const question = { ...QUESTION, arguments: { command: "ls\u009d; rm -r /\u009c\u202e" } };
  const { shown } = await asked(["", "", "", ENTER], { question });
  expect(shown).toContain('"ls\\u009d; rm -r /\\u009c\\u202e"');
  expect(shown).not.toMatch(/[\u0080-\u009f\u202e]/);
});

proves(
  ["V52"],
  "approves the exact call with two keys, and passes Ctrl-C on to the run without an answer",
  async () => {
    expect((await asked(["", "", "", DOWN, ENTER])).answer).toEqual({ type: "approved", ...REF });
    const { answer, happened } = await asked(["", "", "", CTRL_C]);
    expect([answer, happened]).toEqual([undefined, ["room", "interrupt", "back"]]);
  },
);

proves(["V52"], "requires a reason for a denial, and sends no answer on Ctrl-C", async () => {
  const begun = ["", "", "", DOWN, DOWN, ENTER];
  const denied = await asked([...begun, ENTER, "T", "o", "o", ENTER]);
  expect(denied.answer).toEqual({ type: "denied", ...REF, reason: "Too" });
  expect(denied.shown).toContain("Enter some text.");
  expect((await asked([...begun, "T", CTRL_C])).answer).toBeUndefined();
});

proves(
  ["V52"],
  "shows edited arguments again, does not send them on Enter alone, and refuses a non-object",
  async () => {
    const question = { ...QUESTION, arguments: { eur: 400 } };
    const begun = ["", "", "", DOWN, DOWN, DOWN, ENTER];
    const edit = [BACKSPACE, BACKSPACE, "}"];
    const edited = await asked([...begun, ...edit, ENTER, "", "", DOWN, ENTER], { question });
    expect(edited.answer).toEqual({ type: "approved", ...REF, arguments: { eur: 40 } });
    expect(edited.shown).toMatch(/pay, edited[\s\S]+"eur": 40\b/);
    const left = await asked([...begun, ...edit, ENTER, "", "", ENTER], { question });
    expect(left.answer).toBeUndefined();
    const broken = await asked([...begun, BACKSPACE, ENTER, "}", ENTER, "", "", DOWN, ENTER], {
      question,
    });
    expect(broken.shown).toContain("Write a JSON object");
    expect(broken.answer).toEqual({ type: "approved", ...REF, arguments: { eur: 400 } });
  },
);

proves(
  ["V52"],
  "accepts a result as JSON or text, or a failure, for an external call",
  async () => {
    const question: Question = { ...QUESTION, kind: "external" };
    const begun = ["", "", ""];
    const given = await asked([...begun, DOWN, ENTER, "4", "2", ENTER], { question });
    expect(given.answer).toEqual({ type: "result", ...REF, result: 42 });
    const failed = await asked([...begun, DOWN, DOWN, ENTER, "N", "o", ENTER], { question });
    expect(failed.answer).toEqual({ type: "failure", ...REF, message: "No" });
    expect((await asked([...begun, ENTER], { question })).answer).toBeUndefined();
  },
);

proves(
  ["V52"],
  "does not show, or withdraws, a question that needs no answer any more",
  async () => {
    const { shown } = await asked([], { signal: AbortSignal.abort() });
    expect(shown).toBe("");
    const { promise: over, resolve: end } = Promise.withResolvers<void>();
    const controller = new AbortController();
    const pending = asked([], { signal: controller.signal });
    void pending.then(() => end());
    setImmediate(() => setImmediate(() => controller.abort()));
    await over;
    expect((await pending).happened).toEqual(["room", "back"]);
  },
);
