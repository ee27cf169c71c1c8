// Goal: the `output` of a role defines the type of the result, whichever way a run starts or
// continues, and a wrong use is an error in the user's file (H10).
// Method: the types that inference finds in code without type arguments, and uses that must not
// compile.

import { expectTypeOf, test } from "vitest";
import { z } from "zod";

import {
  defineAgent,
  defineDelegation,
  Orchestrator,
  type AgentRole,
  type JsonObject,
  type JsonValue,
  type InferOutput,
  type PausedRun,
  type Run,
  type RunResult,
  type Session,
  type CompletedRunResult,
  type Model,
} from "../../src/index.ts";
import { jsonSchema } from "../../src/tools/json-schema.ts";

declare const model: Model;
declare const paused: PausedRun;

interface Review {
  readonly verdict: "good" | "bad";
  readonly notes?: readonly string[] | undefined;
}

const basics = { instructions: "Work.", description: "Works.", model };
const ReviewSchema = z.object({ verdict: z.enum(["good", "bad"]), score: z.number().default(0) });
type Scored = z.output<typeof ReviewSchema>;

const writer = defineAgent({ ...basics, name: "writer" });
const reviewer = defineAgent({ ...basics, name: "reviewer", output: ReviewSchema });
const counter = defineAgent({
  ...basics,
  name: "counter",
  output: z.object({ count: z.string().transform((text) => text.length) }),
});
const imported = defineAgent({
  ...basics,
  name: "imported",
  output: jsonSchema<Review>({ type: "object" }),
});
const loose = defineAgent({ ...basics, name: "loose", output: jsonSchema({ type: "object" }) });

test("the output type of a role is the parsed type of its schema", () => {
  expectTypeOf(writer).toEqualTypeOf<AgentRole<undefined>>();
  expectTypeOf(reviewer).toEqualTypeOf<AgentRole<Scored>>();
  expectTypeOf(counter).toEqualTypeOf<AgentRole<{ count: number }>>();
  expectTypeOf(imported).toEqualTypeOf<AgentRole<Review>>();
  expectTypeOf(loose).toEqualTypeOf<AgentRole<JsonObject>>();
  expectTypeOf<InferOutput<typeof reviewer>>().toEqualTypeOf<Scored>();
  expectTypeOf<InferOutput<typeof reviewer | typeof counter>>().toEqualTypeOf<
    Scored | { count: number }
  >();
});

test("an output may be a list or a union, and has one of three modes", async () => {
  const lister = defineAgent({
    ...basics,
    name: "lister",
    output: z.array(ReviewSchema),
    outputMode: "native",
  });
  const chooser = defineAgent({
    ...basics,
    name: "chooser",
    output: z.discriminatedUnion("kind", [
      z.object({ kind: z.literal("found"), count: z.int() }),
      z.object({ kind: z.literal("none") }),
    ]),
  });
  expectTypeOf(lister).toEqualTypeOf<AgentRole<Scored[]>>();
  const { output } = await new Orchestrator().start(chooser, "Choose.").result;
  if (output?.kind === "found") expectTypeOf(output.count).toEqualTypeOf<number>();
  // @ts-expect-error -- not every form has it
  void output?.count;
  // @ts-expect-error -- no such way
  defineAgent({ ...basics, name: "wrong", output: ReviewSchema, outputMode: "json" });
});

test("a custom delegation receives the result of a subagent as JSON", () => {
  defineDelegation({
    name: "review",
    description: "Has it reviewed.",
    inputSchema: z.object({}),
    execute: async (_input, { spawn }) => {
      const outcome = await spawn({ role: "reviewer", task: "Review it." });
      if (outcome.type !== "ended") return outcome;
      const { output } = outcome.result;
      expectTypeOf(output).toEqualTypeOf<JsonValue | undefined>();
      // @ts-expect-error -- its type is not declared
      void output?.verdict;
      return outcome;
    },
  });
});

test("a role with any output is accepted wherever a role is expected", () => {
  const roles: readonly AgentRole[] = [writer, reviewer, counter, imported, loose];
  expectTypeOf(roles).items.toEqualTypeOf<AgentRole>();
  const lead = defineAgent({ ...basics, name: "lead", subagents: [...roles, "writer"] });
  expectTypeOf(lead).toEqualTypeOf<AgentRole<undefined>>();
  // @ts-expect-error -- a role with another output
  const wrong: AgentRole<{ count: number }> = reviewer;
  void wrong;
  // @ts-expect-error -- a schema of something else than what is said
  defineAgent<{ count: number }>({ ...basics, name: "wrong", output: ReviewSchema });
  // @ts-expect-error -- no schema
  defineAgent({ ...basics, name: "wrong", output: { verdict: "good" } });
});

test("a started run has the output type of its role in every method that returns a result", async () => {
  const orchestrator = new Orchestrator();
  const run = orchestrator.start(reviewer, "Review it.");
  expectTypeOf(run).toEqualTypeOf<Run<Scored>>();
  expectTypeOf(run.result).resolves.toEqualTypeOf<RunResult<Scored>>();
  expectTypeOf(run.settled).resolves.toEqualTypeOf<RunResult<Scored>>();
  expectTypeOf(run.orThrow).returns.resolves.toEqualTypeOf<CompletedRunResult<Scored>>();
  expectTypeOf(run.cancel).returns.resolves.toEqualTypeOf<RunResult<Scored>>();
  const { output } = await run.result;
  expectTypeOf(output).toEqualTypeOf<Scored | undefined>();
  // @ts-expect-error -- it may have failed
  void output.verdict;
  // @ts-expect-error -- no such field
  void output?.verdikt;
  // @ts-expect-error -- the run of another role
  const wrong: Run<{ count: number }> = run;
  void wrong;
  expectTypeOf(
    (await orchestrator.start(writer, "Write.").result).output,
  ).toEqualTypeOf<undefined>();
});

test("a continued run has the output type of the passed role, or of the orchestrator's roles", async () => {
  const bare = new Orchestrator();
  expectTypeOf(bare.resume(paused)).toEqualTypeOf<Run>();
  expectTypeOf(bare.fork(paused)).toEqualTypeOf<Run>();
  expectTypeOf(await bare.resume("run")).toEqualTypeOf<Run>();
  expectTypeOf((await bare.resume(paused).result).output).toEqualTypeOf<unknown>();

  const one = new Orchestrator({ roles: [reviewer] });
  expectTypeOf(one.resume(paused)).toEqualTypeOf<Run<Scored>>();
  expectTypeOf(one.fork(paused, { atStep: 1 })).toEqualTypeOf<Run<Scored>>();
  expectTypeOf(await one.resume("run", { takeOver: true })).toEqualTypeOf<Run<Scored>>();
  expectTypeOf((await one.resumeLostRuns()).runs).items.toEqualTypeOf<Run<Scored>>();

  const two = new Orchestrator({ roles: [reviewer, counter] });
  expectTypeOf((await two.resume(paused).result).output).toEqualTypeOf<
    Scored | { count: number } | undefined
  >();
  expectTypeOf(two.resume(paused, { role: counter })).toEqualTypeOf<Run<{ count: number }>>();
  expectTypeOf(two.resume(paused, { role: imported })).toEqualTypeOf<Run<Review>>();
  expectTypeOf(two.fork(paused, { role: counter })).toEqualTypeOf<Run<{ count: number }>>();
  expectTypeOf(await two.resume("run", { role: counter })).toEqualTypeOf<Run<{ count: number }>>();
  expectTypeOf(
    bare.fork(paused, { role: defineAgent({ ...basics, name: "made", output: ReviewSchema }) }),
  ).toEqualTypeOf<Run<Scored>>();
  // @ts-expect-error -- the run of another role
  const wrong: Run<Review> = two.resume(paused, { role: counter });
  void wrong;
  // @ts-expect-error -- what it gives follows from roles alone
  const guessed: Run<Review> = bare.resume(paused);
  void guessed;
});

test("runs that are recovered together have the output type of the orchestrator's roles", async () => {
  const { runs } = await new Orchestrator({ roles: [reviewer] }).resumeLostRuns();
  for (const { result } of runs)
    expectTypeOf((await result).output).toEqualTypeOf<Scored | undefined>();
  // @ts-expect-error -- the runs of another role
  const wrong: readonly Run<{ count: number }>[] = runs;
  void wrong;
});

test("a run that is recovered or forked with a role has only the output type of that role", async () => {
  const orchestrator = new Orchestrator();
  // @ts-expect-error -- the run of another role
  const recovered: Run<Review> = await orchestrator.resume("run", { role: counter });
  // @ts-expect-error -- the run of another role
  const forked: Run<Review> = orchestrator.fork(paused, { role: counter });
  void [recovered, forked];
});

test("an execution of a session has the output type of its role when it starts and when it continues", async () => {
  const orchestrator = new Orchestrator();
  const session = await orchestrator.openSession("s");
  expectTypeOf(session).toEqualTypeOf<Session>();
  const chat = orchestrator.start(imported, "Review it.", { session });
  expectTypeOf(chat).toEqualTypeOf<Run<Review>>();
  const branch = await session.fork();
  expectTypeOf(orchestrator.start(counter, "Count.", { session: branch })).toEqualTypeOf<
    Run<{ count: number }>
  >();
  expectTypeOf(orchestrator.resume(paused, { session, role: imported })).toEqualTypeOf<
    Run<Review>
  >();
  expectTypeOf(await orchestrator.resume("run", { session, role: imported })).toEqualTypeOf<
    Run<Review>
  >();
  // @ts-expect-error -- the output of another role
  const wrong: Run<{ count: number }> = orchestrator.start(imported, "Review it.", { session });
  void wrong;
});

test("an iterated run has the typed result at its end, and JSON until then", async () => {
  const run = new Orchestrator().start(reviewer, "Review it.");
  for await (const { state } of run.iterate())
    expectTypeOf(state.log.output).toEqualTypeOf<JsonValue | undefined>();
  expectTypeOf((await run.result).output).toEqualTypeOf<Scored | undefined>();
});

test("the result of a run that is known only by its id is JSON", async () => {
  const orchestrator = new Orchestrator({ roles: [reviewer] });
  expectTypeOf((await orchestrator.getResult("run")).output).toEqualTypeOf<JsonValue | undefined>();
  expectTypeOf(orchestrator.activeRuns()).items.toEqualTypeOf<Run>();
  expectTypeOf(orchestrator.findActiveRun("run")).toEqualTypeOf<Run | undefined>();
});

test("code for any run, result or orchestrator accepts those with an output type", () => {
  const show = (_run: Run, _result: Promise<RunResult>, _orchestrator: Orchestrator): void =>
    undefined;
  const orchestrator = new Orchestrator({ roles: [reviewer, counter] });
  const run = orchestrator.start(reviewer, "Review it.");
  show(run, run.result, orchestrator);
});
