// Goal: the status of a result tells which fields it has, and a completed run has its output (H10).
// Method: narrowing in code without type arguments, and uses that must not compile.

import { expectTypeOf, test } from "vitest";
import { z } from "zod";

import {
  defineAgent,
  Orchestrator,
  RunError,
  type PausedRun,
  type RunResult,
  type CompletedRunResult,
  type Model,
  type PausedRunResult,
} from "../../src/index.ts";
import type { IncompleteRunResult } from "../../src/extend.ts";
import type {
  PauseCode,
  SettledStatus,
  StopCode,
  TerminalStatus,
} from "../../src/protocol/stop.ts";
import { replay, type Recording } from "../../src/testing/index.ts";

declare const model: Model;
declare const paused: PausedRun;
declare const recording: Recording;

const basics = { instructions: "Work.", description: "Works.", model };
const Scored = z.object({ verdict: z.enum(["good", "bad"]), score: z.number().default(0) });
type Scored = z.output<typeof Scored>;
interface Counted {
  count: number;
}

const writer = defineAgent({ ...basics, name: "writer" });
const reviewer = defineAgent({ ...basics, name: "reviewer", output: Scored });
const counter = defineAgent({ ...basics, name: "counter", output: z.object({ count: z.int() }) });
const orchestrator = new Orchestrator();

test("the status narrows a result", async () => {
  const result = await orchestrator.start(reviewer, "Review it.").result;
  expectTypeOf(result).toEqualTypeOf<RunResult<Scored>>();
  expectTypeOf(result.status).toEqualTypeOf<SettledStatus>();
  if (result.status === "completed") expectTypeOf(result.output).toEqualTypeOf<Scored>();
  else expectTypeOf(result.output).toEqualTypeOf<Scored | undefined>();
  if (result.status === "paused") {
    expectTypeOf(result).toEqualTypeOf<PausedRunResult>();
    expectTypeOf(result.pausedRun).toEqualTypeOf<PausedRun>();
    expectTypeOf(result.output).toEqualTypeOf<undefined>();
    expectTypeOf(result.reason.code).toEqualTypeOf<PauseCode>();
  } else {
    expectTypeOf(result.pausedRun).toEqualTypeOf<undefined>();
    expectTypeOf(result.status).toEqualTypeOf<TerminalStatus>();
  }
  switch (result.status) {
    case "completed":
      expectTypeOf(result).toEqualTypeOf<CompletedRunResult<Scored>>();
      break;
    case "stopped":
    case "failed":
    case "cancelled":
      expectTypeOf(result).toEqualTypeOf<IncompleteRunResult<Scored>>();
      break;
    case "paused":
      break;
    default:
      expectTypeOf(result).toBeNever();
  }
});

test("the code of a failed or cancelled run follows from its status", async () => {
  const result = await orchestrator.start(reviewer, "Review it.").result;
  if (result.status === "failed") expectTypeOf(result.reason.code).toEqualTypeOf<"error">();
  if (result.status === "cancelled") expectTypeOf(result.reason.code).toEqualTypeOf<"cancelled">();
});

test("the code of a stopped run is a built-in one or any other", async () => {
  const result = await orchestrator.start(reviewer, "Review it.").result;
  if (result.status !== "stopped") return;
  const { code } = result.reason;
  type Ends = "error" | "cancelled" | "completed";
  expectTypeOf(code).toEqualTypeOf<Exclude<StopCode, Ends> | (string & {})>();
  expectTypeOf<string>().toExtend<typeof code>();
  void (code === "step_limit" || code === "tired");
});

test("destructured fields of a result are narrowed by its status", async () => {
  const { status, output, pausedRun } = await orchestrator.start(reviewer, "Review it.").settled;
  if (status === "completed") expectTypeOf(output).toEqualTypeOf<Scored>();
  if (status === "paused") expectTypeOf(pausedRun).toEqualTypeOf<PausedRun>();
  expectTypeOf(output).toEqualTypeOf<Scored | undefined>();
  expectTypeOf(pausedRun).toEqualTypeOf<PausedRun | undefined>();
});

test("orThrow returns the result of a completed run", async () => {
  const run = orchestrator.start(reviewer, "Review it.");
  expectTypeOf(await run.orThrow()).toEqualTypeOf<CompletedRunResult<Scored>>();
  expectTypeOf((await run.orThrow()).output.verdict).toEqualTypeOf<"good" | "bad">();
  const text = await orchestrator.start(writer, "Write.").orThrow();
  expectTypeOf(text.output).toEqualTypeOf<undefined>();
  const two = new Orchestrator({ roles: [reviewer, counter] });
  expectTypeOf((await two.resume(paused).orThrow()).output).toEqualTypeOf<Scored | Counted>();
  expectTypeOf((await orchestrator.resume(paused).orThrow()).output).toEqualTypeOf<unknown>();
});

test("the error of orThrow has a result that can be resumed if it is paused", async () => {
  try {
    await orchestrator.start(reviewer, "Review it.").orThrow();
  } catch (error) {
    if (!RunError.is(error)) throw error;
    expectTypeOf(error.result).toEqualTypeOf<PausedRunResult | IncompleteRunResult>();
    if (error.result.status === "paused") orchestrator.resume(error.result.pausedRun);
    // @ts-expect-error -- it may not be paused
    orchestrator.resume(error.result.pausedRun);
    // @ts-expect-error -- a completed run is no error
    void (error.result.status === "completed");
  }
});

test("a replay has the same result type, with the segments that it played", async () => {
  const replayed = await replay(recording, { role: reviewer });
  expectTypeOf(replayed.segments.length).toEqualTypeOf<number>();
  if (replayed.status === "completed") expectTypeOf(replayed.output).toEqualTypeOf<Scored>();
  if (replayed.status === "paused") expectTypeOf(replayed.pausedRun).toEqualTypeOf<PausedRun>();
});

test("the result of any role is accepted as a result", async () => {
  expectTypeOf<RunResult<Scored>>().toExtend<RunResult>();
  expectTypeOf<CompletedRunResult<Scored>>().toExtend<RunResult<Scored | Counted>>();
  const result = await orchestrator.start(reviewer, "Review it.").result;
  // @ts-expect-error -- another output
  const wrong: RunResult<Counted> = result;
  // @ts-expect-error -- it may have failed
  void result.output.verdict;
  // @ts-expect-error -- it may not be paused
  const stored: PausedRun = result.pausedRun;
  void [wrong, stored];
});
