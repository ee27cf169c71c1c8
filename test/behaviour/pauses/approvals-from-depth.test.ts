// Goal: a question from any depth reaches the root with its place in the tree. Its answer is
// applied once, to the call that asked, whichever process resumes the run.
// Method: trees that ask at several depths are paused in this process and resumed in fresh ones
// through files. The effects of their tools are read from a file that all processes write to.

import { describe, expect, test } from "vitest";

import { EspalierError } from "../../../src/kernel/error.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import {
  approve,
  computeArgumentsHash,
  deny,
  provideResult,
  type Answer,
  type Question,
} from "../../../src/protocol/question.ts";
import { proves } from "../../harness/proves.ts";
import { checkRun, latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { approveAll, asked, ending, questionOf } from "../../support/pause-stories.ts";
import { askingTree } from "../../support/peers-approvals.ts";
import { station, type Station } from "../../support/peers-processes.ts";
import { thrownBy } from "../../support/thrown.ts";
import { until } from "../../harness/scripted-agents.ts";

interface Paused {
  readonly fixture: Fixture;
  readonly at: Station;
  readonly role: ReturnType<typeof askingTree>;
  readonly paused: RunResult;
}

/** A run of the tree, paused by the questions that its task causes. */
async function pausedOver(task: string): Promise<Paused> {
  const at = station();
  const role = askingTree({ logFile: at.logFile, mayWork: Promise.resolve() });
  const fixture = newFixture();
  return { fixture, at, role, paused: await fixture.outcome(fixture.start(role, task)) };
}

/** Returns the paths of the agents that called a model, in order. */
function requestsIn(events: readonly EspalierEvent[]): readonly string[] {
  return events.filter(({ type }) => type === "model.requested").map((event) => event.agentPath);
}

/** Returns the status and the last text of each agent. */
function rests(result: RunResult): Readonly<Record<string, string>> {
  return Object.fromEntries(
    result.agents.map(({ agentPath, status, text }) => [agentPath, `${status}: ${text}`]),
  );
}

/** Returns the outcomes of the calls in an agent's steps. */
function callsOf(result: RunResult, agentPath: string): readonly unknown[] {
  const agent = result.agents.find((one) => one.agentPath === agentPath);
  return (agent?.steps ?? []).flatMap(({ tools }) =>
    tools.executions.map(({ call, type, text }) => [call.toolName, type, text]),
  );
}

/** Returns the problem and the agent path that the error contains, in its data and its message. */
function named(work: () => unknown): readonly unknown[] {
  const { code, message, data } = thrownBy(work);
  const path = data["agentPath"];
  return [code, data["problem"], path, typeof path === "string" && message.includes(path)];
}

/** Returns the agents with their executions. */
function executions({ agents }: RunResult): readonly unknown[] {
  return agents.map(({ agentId, executionId }) => [agentId, executionId]);
}

describe("a question two levels down", () => {
  proves(
    ["R149"],
    "reaches the root while others work, and a fresh process executes the call once, in the grandchild",
    async () => {
      const held = latch();
      const at = station();
      const role = askingTree({ logFile: at.logFile, mayWork: held.opened });
      const fixture = newFixture();
      const run = fixture.start(role, "One question.");
      const workers = (): number =>
        fixture.sink.ofType("tool.started").filter(({ toolName }) => toolName === "work").length;
      await until(() => fixture.sink.ofType("question.asked").length === 1 && workers() === 2);
      expect([at.log(), fixture.sink.ofType("run.paused")]).toEqual([[], []]);
      held.open();
      const paused = await fixture.outcome(run);

      const path = "root/child#1/grandchild#1";
      expect([ending(paused), asked(paused)]).toEqual([
        ["paused", "input_required"],
        [[path, "write"]],
      ]);
      expect(fixture.sink.ofType("run.paused")[0]?.questions).toEqual(paused.questions);
      expect(rests(paused)).toEqual({
        root: "paused: ",
        "root/child#1": "paused: ",
        "root/child#2": "completed: South.",
        [path]: "paused: ",
        "root/child#1/grandchild#2": "completed: Worked.",
        "root/child#2/grandchild#1": "completed: Worked.",
      });
      const worked = at.log();
      expect(worked.toSorted()).toEqual([
        "root/child#1/grandchild#2 worked",
        "root/child#1/grandchild#2 worked",
        "root/child#2/grandchild#1 worked",
        "root/child#2/grandchild#1 worked",
      ]);

      const after = await at.goOnAfresh(paused, approveAll(paused));
      const result = after.result ?? expect.fail("refused");
      checkRun(result, [...fixture.sink.events, ...after.events]);
      expect([result.runId, ending(result), result.text]).toEqual([
        paused.runId,
        ["completed", "completed"],
        "Root.",
      ]);
      expect(at.log()).toEqual([...worked, `${path} wrote one`]);
      expect(callsOf(result, path)).toEqual([["write", "succeeded", "written: one"]]);
      expect(requestsIn(after.events)).toEqual([path, "root/child#1", "root"]);
      expect(executions(result)).toEqual(executions(paused));
      expect(result.usage.total).toMatchObject({ modelCalls: 14, toolCalls: 10 });
    },
  );

  test("is not executed if a fresh process denies it, and the grandchild continues with the reason", async () => {
    const { at, fixture, paused } = await pausedOver("One question.");
    const before = at.log();
    const after = await at.goOnAfresh(paused, [deny(questionOf(paused), "Not today.")]);
    const result = after.result ?? expect.fail("refused");
    checkRun(result, [...fixture.sink.events, ...after.events]);
    const path = "root/child#1/grandchild#1";
    expect([ending(result), at.log(), callsOf(result, path)]).toEqual([
      ["completed", "completed"],
      before,
      [["write", "refused", expect.stringContaining("Not today.")]],
    ]);
    expect(rests(result)[path]).toBe("completed: Asked.");
  });

  test("pauses the run again if another question follows, and each answer may come from a new process", async () => {
    const { at, fixture, paused } = await pausedOver("One after another.");
    const path = "root/child#1/grandchild#1";
    const second = await at.goOnAfresh(paused, approveAll(paused));
    const again = second.result ?? expect.fail("refused");
    checkRun(again, [...fixture.sink.events, ...second.events]);
    expect([ending(again), asked(again), again.pausedRun?.pauseCount, at.log()]).toEqual([
      ["paused", "input_required"],
      [[path, "write"]],
      2,
      [`${path} wrote one`],
    ]);
    const third = await at.goOnAfresh(again, approveAll(again));
    const result = third.result ?? expect.fail("refused");
    checkRun(result, [...fixture.sink.events, ...second.events, ...third.events]);
    expect([ending(result), at.log()]).toEqual([
      ["completed", "completed"],
      [`${path} wrote one`, `${path} wrote two`],
    ]);
    expect([second, third].map(({ events }) => requestsIn(events))).toEqual([
      [path],
      [path, "root/child#1", "root"],
    ]);
    expect(new Set([process.pid, second.pid, third.pid]).size).toBe(3);
  });
});

describe("questions at three depths at once", () => {
  proves(
    ["R149", "X17"],
    "are asked together, and each answer given in a fresh process is used once by the agent that asked",
    async () => {
      const { at, fixture, paused } = await pausedOver("Many questions.");
      expect([asked(paused), at.log()]).toEqual([
        [
          ["root", "write"],
          ["root/child#1", "write"],
          ["root/child#1/grandchild#1", "write"],
          ["root/child#1/grandchild#2", "mail"],
        ],
        [],
      ]);
      const answers = [
        provideResult(questionOf(paused, 3), "sent"),
        deny(questionOf(paused, 1), "Not the child."),
        approve(questionOf(paused, 2), { arguments: { line: "another" } }),
        approve(questionOf(paused, 0)),
      ];
      const after = await at.goOnAfresh(paused, answers);
      const result = after.result ?? expect.fail("refused");
      checkRun(result, [...fixture.sink.events, ...after.events]);
      expect([ending(result), at.log().toSorted()]).toEqual([
        ["completed", "completed"],
        ["root wrote root's", "root/child#1/grandchild#1 wrote another"],
      ]);
      const paths = result.agents.map(({ agentPath }) => agentPath);
      expect(paths.map((path) => [path, callsOf(result, path)[0]])).toEqual([
        ["root", ["write", "succeeded", "written: root's"]],
        ["root/child#1", ["write", "refused", expect.stringContaining("Not the child.")]],
        ["root/child#1/grandchild#1", ["write", "succeeded", "written: another"]],
        ["root/child#1/grandchild#2", ["mail", "succeeded", "sent"]],
      ]);
      const answered = after.events.flatMap((event) =>
        event.type === "question.answered"
          ? [`${event.agentPath} ${event.answer} ${event.source}`]
          : [],
      );
      expect(answered.toSorted()).toEqual([
        "root approved caller",
        "root/child#1 denied caller",
        "root/child#1/grandchild#1 approved caller",
        "root/child#1/grandchild#2 result caller",
      ]);
    },
  );

  test("are two questions if two grandchildren make identical calls, and only the approved one runs", async () => {
    for (const approved of [0, 1]) {
      const { at, fixture, paused } = await pausedOver("The same twice.");
      const [one, two] = [questionOf(paused, 0), questionOf(paused, 1)];
      expect([one.argumentsHash === two.argumentsHash, one.callId === two.callId]).toEqual([
        true,
        true,
      ]);
      const answers = [one, two].map((question, index) =>
        index === approved ? approve(question) : deny(question),
      );
      const after = await at.goOnAfresh(paused, answers.toReversed());
      const result = after.result ?? expect.fail("refused");
      checkRun(result, [...fixture.sink.events, ...after.events]);
      expect(at.log()).toEqual([`root/child#1/grandchild#${approved + 1} wrote one`]);
    }
  });
});

describe("a refused answer", () => {
  proves(
    ["X17", "R149"],
    "names the agent that asked, runs nothing, and leaves the run resumable",
    async () => {
      const { fixture, at, role, paused } = await pausedOver("Many questions.");
      const [root, child, deep, mail] = [0, 1, 2, 3].map((index) => questionOf(paused, index));
      if (root === undefined || child === undefined) expect.fail("no questions above");
      if (deep === undefined || mail === undefined) expect.fail("no questions below");
      const good = [approve(root), approve(child), approve(deep), provideResult(mail, "sent")];
      const altered = { ...deep, argumentsHash: computeArgumentsHash("write", { line: "other" }) };
      const wrong: Readonly<Record<string, readonly Answer[]>> = {
        "twice the same": [...good, approve(deep)],
        "twice, otherwise": [...good, deny(child)],
        altered: good.with(2, approve(altered)),
        "the hash of another": good.with(
          1,
          approve({ ...child, argumentsHash: deep.argumentsHash }),
        ),
        "of the wrong kind": good.with(3, approve(mail)),
        missing: good.toSpliced(2, 1),
        "that does not fit": good.with(2, approve(deep, { arguments: { line: 1 } })),
      };
      const events = fixture.sink.events.length;
      const refusals = Object.entries(wrong).map(([what, answers]) => [
        what,
        ...named(() => fixture.resume(role, paused.pausedRun, answers)),
      ]);
      const path = "root/child#1/grandchild#1";
      expect(refusals).toEqual([
        ["twice the same", "invalid_answer", "duplicate", path, true],
        ["twice, otherwise", "invalid_answer", "duplicate", "root/child#1", true],
        ["altered", "invalid_answer", "altered", path, true],
        ["the hash of another", "invalid_answer", "altered", "root/child#1", true],
        ["of the wrong kind", "invalid_answer", "wrong_kind", "root/child#1/grandchild#2", true],
        ["missing", "invalid_answer", "missing", path, true],
        ["that does not fit", "invalid_answer", "invalid_arguments", path, true],
      ]);
      expect([fixture.sink.events.length, at.log()]).toEqual([events, []]);
      const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, good));
      expect([ending(result), at.log().length]).toEqual([["completed", "completed"], 3]);
    },
  );

  proves(
    ["X17", "R149"],
    "is refused in this process and in a fresh one if its question was answered before",
    async () => {
      const { fixture, at, role, paused } = await pausedOver("One after another.");
      const old = approveAll(paused);
      const second = await fixture.outcome(fixture.resume(role, paused.pausedRun, old));
      const path = "root/child#1/grandchild#1";
      const again = (answers: readonly Answer[]) => () =>
        fixture.resume(role, second.pausedRun, answers);
      const refused = ["invalid_answer", "already_answered", path, true];
      expect(named(again(old))).toEqual(refused);
      expect(named(again([...approveAll(second), ...old]))).toEqual(refused);
      expect(named(again([deny(questionOf(paused))]))).toEqual(refused);
      const afresh = await at.goOnAfresh(second, old);
      const { code, message, data } = afresh.refused ?? expect.fail("it went on");
      const rethrown = (): never => {
        throw new EspalierError({ code, message, data });
      };
      expect([named(rethrown), afresh.events]).toEqual([refused, []]);
      expect(at.log()).toEqual([`${path} wrote one`]);
      const after = await at.goOnAfresh(second, approveAll(second));
      expect([after.result?.status, at.log()]).toEqual([
        "completed",
        [`${path} wrote one`, `${path} wrote two`],
      ]);
    },
  );

  test("is unknown if its question belongs to another run with the same tree", async () => {
    const mine = await pausedOver("One question.");
    const role = mine.role;
    const yours = await mine.fixture.outcome(mine.fixture.start(role, "One question."));
    const stranger: Question = questionOf(mine.paused);
    expect(questionOf(yours).argumentsHash).toBe(stranger.argumentsHash);
    const { code, data } = thrownBy(() =>
      mine.fixture.resume(role, yours.pausedRun, [approve(stranger)]),
    );
    expect([code, data["problem"]]).toEqual(["invalid_answer", "unknown"]);
  });

  test("is refused for a pause that was resumed before, so the grandchild's call runs once", async () => {
    const { fixture, at, role, paused } = await pausedOver("One question.");
    const given = paused.pausedRun ?? expect.fail("not paused");
    const { orchestrator } = fixture;
    const first = orchestrator.resume(given, { answers: approveAll(paused), role });
    const codes = [approveAll(paused), [deny(questionOf(paused))]].map(
      (answers) => thrownBy(() => orchestrator.resume(given, { answers, role })).code,
    );
    const result = await fixture.outcome(first);
    expect([codes, result.status]).toEqual([["already_resumed", "already_resumed"], "completed"]);
    expect(at.log().filter((line) => line.endsWith("wrote one"))).toHaveLength(1);
  });
});
