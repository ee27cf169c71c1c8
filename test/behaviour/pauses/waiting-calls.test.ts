// Goal: an approval after a pause runs the call that the model made, whatever was altered in an
// unsigned paused run.
// Method: arguments of a question are replaced together with their hash; the message of the model
// is unchanged.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { describe, expect } from "vitest";
import { z } from "zod";

import { transform, type Hook } from "../../../src/hooks/hook.ts";
import type { JsonObject } from "../../../src/kernel/json.ts";
import { RecordCodec } from "../../../src/orchestrator/durability/record-codec.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import {
  approve,
  computeArgumentsHash,
  provideResult,
  type Answer,
} from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import type { ToolInput } from "../../../src/tools/arguments/input-schema.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { fates } from "../../support/guard-stories.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { altered } from "../../support/altered.ts";
import { approveAll, questionOf, refusalOf } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, receivedTexts } from "../../harness/scripted-agents.ts";

const UNVERIFIED =
  "Not executed: the arguments of pay could not be verified after a pause. Call it again if you still need it.";
const DEFERRAL = "agents.0.state.step.deferrals.0";

interface StoryOptions {
  readonly input?: ToolInput;
  readonly hooks?: readonly Hook[];
  readonly isExternal?: boolean;
}

/** A paused run whose model wants to pay `{ amount: 1 }`. */
async function pausedPayment(options: StoryOptions = {}, settings: OrchestratorOptions = {}) {
  const { input = z.looseObject({}), hooks = [], isExternal = false } = options;
  const ran: unknown[] = [];
  const basics = { name: "pay", description: "Pays.", inputSchema: input };
  const execute = (given: unknown) => void ran.push(given);
  const tool = isExternal
    ? defineTool(basics)
    : defineTool({ ...basics, needsApproval: true, execute });
  const script = [
    calls({ toolName: "pay", arguments: { amount: 1 } }),
    says("Done."),
    says("Done."),
  ];
  const { role, model } = soloist(script, { tools: [tool], hooks });
  const fixture = newFixture(settings);
  const paused = await fixture.run(role);
  const resume = (text: string, answers: readonly Answer[]) =>
    fixture.orchestrator.resume(readPausedRun(text), { answers, role });
  const finish = async (text: string, answers: readonly Answer[] = approveAll(paused)) => {
    const result = await fixture.outcome(resume(text, answers));
    return { fates: fates(result), ran, texts: receivedTexts(model.requests[1]), result };
  };
  return { paused, ran, role, resume, finish };
}

let elsewhere = 0;

/**
 * Returns the paused run with another trace, so that this process knows neither its calls nor its
 * pause.
 */
function fromElsewhere({ pausedRun }: RunResult): string {
  const traceId = String((elsewhere += 1)).padStart(32, "f");
  return altered(JSON.stringify(pausedRun), { traceId });
}

interface Replaced {
  /** The parsed value, with its hash. */
  readonly shown: JsonObject;
  /** The arguments before parsing. Unchanged by default. */
  readonly written?: JsonObject;
  readonly question?: JsonObject;
  readonly deferral?: JsonObject;
}

/** Returns the paused run with other arguments, and an approval of them. */
function forged(paused: RunResult, { shown, written, question: more, deferral = {} }: Replaced) {
  const question = {
    ...questionOf(paused),
    ...(written === undefined ? {} : { writtenArguments: written }),
    arguments: shown,
    argumentsHash: computeArgumentsHash("pay", shown),
    ...more,
  };
  const text = altered(JSON.stringify(paused.pausedRun), {
    "questions.0": question,
    [`${DEFERRAL}.question`]: question,
    ...(written === undefined ? {} : { [`${DEFERRAL}.argumentsText`]: JSON.stringify(written) }),
    ...Object.fromEntries(
      Object.entries(deferral).map(([key, value]) => [`${DEFERRAL}.${key}`, value]),
    ),
  });
  return { text, answers: [approve(question)], question };
}

const cents = () =>
  z.object({
    amount: z.number().transform((amount) => amount * 100),
    currency: z.string().default("USD"),
  });
const MADE = { amount: 100, currency: "USD" };
const LARGE = { amount: 1_000 };

describe("a waiting call whose arguments were replaced with their hash", () => {
  proves(["D454"], "is refused if the model did not write the arguments", async () => {
    const { paused, ran, resume } = await pausedPayment();
    for (const replaced of [
      { shown: LARGE, written: LARGE },
      // The person would approve one call, and another would run.
      { shown: LARGE, written: { amount: 1 }, question: { unparsed: true } },
    ]) {
      const { text, answers } = forged(paused, replaced);
      const refused = thrownBy(() => resume(text, answers));
      expect(refused).toMatchObject({
        code: "invalid_paused_run",
        data: { toolName: "pay", agentPath: "solo" },
      });
      expect(refused.message).toContain("differ from those that the model wrote");
    }
    expect(ran).toEqual([]);
  });

  proves(["D454"], "is refused if another program executes the call", async () => {
    const { paused, resume } = await pausedPayment({ isExternal: true });
    const { text, question } = forged(paused, { shown: LARGE, written: LARGE });
    const answers = [provideResult(question, "paid")];
    expect(refusalOf(() => resume(text, answers))[0]).toBe("invalid_paused_run");
  });

  proves(
    ["D454"],
    "is denied if the schema does not parse the arguments to the shown value",
    async () => {
      const { paused, finish } = await pausedPayment({ input: cents() });
      const { text, answers } = forged(paused, { shown: { amount: 1_000, currency: "USD" } });
      expect(await finish(text, answers)).toMatchObject({
        fates: [["refused", "blocked"]],
        ran: [],
        texts: [UNVERIFIED],
      });
    },
  );

  proves(["D454"], "is denied if the hash of the schema was altered as well", async () => {
    const { paused, finish } = await pausedPayment();
    const replaced = { shown: LARGE, written: LARGE, deferral: { schemaHash: "0".repeat(64) } };
    const { text, answers } = forged(paused, replaced);
    expect(await finish(text, answers)).toMatchObject({ ran: [], texts: [UNVERIFIED] });
  });

  proves(
    ["D454"],
    "is denied even if the process crashes after it has resumed the run",
    async () => {
      const { paused, ran, role } = await pausedPayment({ input: cents() });
      const { text, answers } = forged(paused, { shown: { amount: 1_000, currency: "USD" } });
      const store = memoryStore();
      await newFixture({ store }).orchestrator.resume(readPausedRun(text), { answers, role })
        .settled;
      // The process crashed after it had recorded the answers, and before the call.
      const codec = new RecordCodec();
      const lines: string[] = [];
      let count = 0;
      for await (const line of store.read(paused.runId)) {
        lines.push(line);
        if (JSON.stringify(codec.read(line)).includes('"answers"')) count ||= lines.length;
      }
      const dead = { token: "dead", hostname: "elsewhere", processId: 1 };
      const left = memoryStore();
      const ownership = await left.create(paused.runId, "solo", dead);
      await left.append(ownership, { firstNumber: 1, records: lines.slice(0, count) });
      await left.release(ownership, "open");
      const run = await newFixture({ store: left }).orchestrator.resume(paused.runId, { role });
      expect([fates(await run.settled), ran]).toEqual([[["refused", "blocked"]], []]);
    },
  );

  proves(["D454"], "runs the arguments of the answer if it has some", async () => {
    const { paused, finish } = await pausedPayment({ input: cents() });
    const { text, question } = forged(paused, { shown: { amount: 1_000, currency: "USD" } });
    const answers = [approve(question, { arguments: { amount: 2 } })];
    expect((await finish(text, answers)).ran).toEqual([{ amount: 200, currency: "USD" }]);
  });
});

describe("a waiting call that was not altered, resumed by another process", () => {
  proves(["D454"], "runs the value that was shown, after one more parse to verify it", async () => {
    let parses = 0;
    const input = cents().transform((value) => {
      parses += 1;
      return value;
    });
    const { paused, finish } = await pausedPayment({ input });
    expect((await finish(fromElsewhere(paused))).ran).toEqual([MADE]);
    expect(parses).toBe(2);
  });

  proves(["D454"], "runs the stored value if its schema is not deterministic", async () => {
    let parses = 0;
    const counted = z.looseObject({}).transform(() => ({ id: (parses += 1) }));
    const one = await pausedPayment({ input: counted });
    expect((await one.finish(fromElsewhere(one.paused))).ran).toEqual([{ id: 1 }]);
    const timed = z.looseObject({}).transform(() => ({ atMs: Date.now() }));
    const other = await pausedPayment({ input: timed });
    const { arguments: shown } = questionOf(other.paused);
    expect((await other.finish(fromElsewhere(other.paused))).ran).toEqual([shown]);
  });

  proves(["D454"], "is denied if its schema now parses to another value", async () => {
    let day = "2026-11-28";
    const input = z.looseObject({}).transform((given) => ({ ...given, day }));
    const { paused, finish } = await pausedPayment({ input });
    day = "2026-11-29";
    expect(await finish(fromElsewhere(paused))).toMatchObject({
      fates: [["refused", "blocked"]],
      ran: [],
      texts: [UNVERIFIED],
    });
  });

  proves(
    ["D454"],
    "accepts the result of an external call, and records the arguments that the model wrote",
    async () => {
      let day = "2026-11-28";
      const input = z.looseObject({}).transform((given) => ({ ...given, day }));
      const { paused, finish } = await pausedPayment({ input, isExternal: true });
      day = "2026-11-29";
      const answers = [provideResult(questionOf(paused), "paid")];
      const { result } = await finish(fromElsewhere(paused), answers);
      const executions = result.steps[0]?.tools.executions;
      expect(executions?.map((one) => [one.type, one.arguments])).toEqual([
        ["succeeded", { amount: 1 }],
      ]);
    },
  );

  proves(["D454"], "runs arguments that a hook has rewritten", async () => {
    const hooks = [transform("beforeTool", () => ({ arguments: { amount: 4 } }))];
    const { paused, finish } = await pausedPayment({ hooks });
    expect((await finish(fromElsewhere(paused))).ran).toEqual([{ amount: 4 }]);
  });

  proves(["D454"], "is not parsed again if the paused run is signed", async () => {
    let parses = 0;
    const input = z.looseObject({}).transform(() => ({ id: (parses += 1) }));
    const signingKey = "k".repeat(32);
    const { paused, finish } = await pausedPayment({ input }, { signingKey });
    await finish(JSON.stringify(paused.pausedRun));
    expect(parses).toBe(1);
  });
});
