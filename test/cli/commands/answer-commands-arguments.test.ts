// Goal: wrong arguments in an approval are refused before anything is stored, so that they can be
// corrected.
// Method: the command within the test, on a store with a paused run, in a process without its role.

import { once } from "node:events";

import { expect } from "vitest";
import { z } from "zod";

import { defineTool, Orchestrator, type AgentRole, type Approver } from "espalier";
import { asks, ManualClock, says, type ScriptedReply } from "espalier/testing";

import { readOpenQuestions } from "../../../src/cli/stored-run-reader.ts";
import { proves } from "../../harness/proves.ts";
import { agent, keptRuns, type KeptRuns } from "../../support/cli/kept-runs.ts";
import { performed } from "../../support/cli/performed.ts";

const paid: unknown[] = [];

const ASKS = asks("pay", { eur: 400, to: "farm" });

function buyer(...before: readonly ScriptedReply[]): AgentRole {
  const pay = defineTool({
    name: "pay",
    description: "Pays.",
    inputSchema: z.object({
      eur: z.number().refine((eur) => eur < 500, "less than 500"),
      to: z.enum(["farm", "shop"]),
    }),
    needsApproval: true,
    execute: (input) => {
      paid.push(input);
      return "Paid.";
    },
  });
  return agent("buyer", [...before, says("Ordered.")], { tools: [pay] });
}

async function asking(): Promise<
  KeptRuns & { readonly run: Parameters<typeof readOpenQuestions>[1] }
> {
  const kept = keptRuns();
  const { runId } = await kept.orchestrator.start(buyer(ASKS), "Buy.").result;
  paid.length = 0;
  return { ...kept, run: runId };
}

const approve = async ({ path, folder }: KeptRuns, input: unknown, ...more: readonly string[]) =>
  await performed(
    ["approve", "@last", "--store", path, "--arguments", JSON.stringify(input), ...more],
    { cwd: folder },
  );

proves(
  ["D531"],
  "refuses arguments that do not match the schema, and accepts corrected ones",
  async () => {
    await using kept = await asking();
    const { store, run } = kept;
    const before = await store.readMail(run);
    for (const [input, problem] of [
      [{ eur: "many", to: "farm" }, 'eur: expected a number, got "many"'],
      [{ eur: 4, to: "moon" }, 'to: expected one of "farm", "shop", got "moon"'],
      [{ to: "farm" }, "eur: expected a number, but it is missing"],
      [{}, "to: expected"],
    ] as const) {
      const { code, stdout, stderr } = await approve(kept, input);
      expect([code, stdout]).toEqual([2, ""]);
      expect(stderr).toContain(problem);
      expect(stderr).toContain("Correct them and answer again. [invalid_answer]");
    }
    const json = await approve(kept, { eur: [] }, "--json");
    expect([json.code, JSON.parse(json.stdout)]).toEqual([
      2,
      { error: { code: "invalid_answer", message: expect.stringContaining("eur: ") as unknown } },
    ]);
    expect(await store.readMail(run)).toEqual(before);
    expect((await readOpenQuestions(store, run)).length).toBe(1);
    // Text that spells a number is coerced, as in arguments of a model.
    expect((await approve(kept, { eur: "40", to: "shop" })).code).toBe(0);
    const orchestrator = new Orchestrator({ store, clock: new ManualClock(0), roles: [buyer()] });
    const result = await (await orchestrator.resume(run)).result;
    expect([result.status, paid]).toEqual(["completed", [{ eur: 40, to: "shop" }]]);
  },
);

proves(
  ["D531"],
  "accepts arguments that fit the tool although its JSON Schema refuses them",
  async () => {
    await using kept = keptRuns();
    const seen: unknown[] = [];
    const pay = defineTool({
      name: "pay",
      description: "Pays.",
      inputSchema: z.object({
        amount: z.number().multipleOf(0.01),
        code: z.string().regex(/^abc$/i),
        mail: z.string().trim().max(9).pipe(z.email()),
        count: z.coerce.number(),
        label: z.coerce.string(),
        urgent: z.coerce.boolean(),
        note: z.coerce.string().nullable(),
      }),
      needsApproval: true,
      execute: (input) => {
        seen.push(input);
        return "Paid.";
      },
    });
    const first = {
      amount: 1.13,
      code: "ABC",
      mail: " a@b.de ",
      count: "5",
      label: 5,
      urgent: 1,
      note: null,
    };
    const role = (...before: readonly ScriptedReply[]): AgentRole =>
      agent("payer", [...before, says("Done.")], { tools: [pay] });
    const { runId } = await kept.orchestrator.start(role(asks("pay", first)), "Pay.").result;
    const next = { ...first, mail: "   c@d.de        ", count: "7.0", urgent: "yes", note: 8 };
    expect((await approve(kept, next)).code).toBe(0);
    const { store } = kept;
    const leader = new Orchestrator({ store, clock: new ManualClock(0), roles: [role()] });
    const result = await (await leader.resume(runId)).result;
    expect([result.status, seen]).toEqual([
      "completed",
      [
        {
          amount: 1.13,
          code: "ABC",
          mail: "c@d.de",
          count: 7,
          label: "5",
          urgent: true,
          note: "8",
        },
      ],
    ]);
  },
);

proves(
  ["D532"],
  "asks again if only the tool's own check refuses the arguments of an answer",
  async () => {
    await using kept = await asking();
    const { store, run } = kept;
    const lead = () => new Orchestrator({ store, clock: new ManualClock(0), roles: [buyer()] });
    expect((await approve(kept, { eur: 900, to: "shop" })).code).toBe(0);
    const refused = await (await lead().resume(run)).result;
    expect([refused.status, refused.questions.length, paid]).toEqual(["paused", 1, []]);
    expect((await approve(kept, { eur: 90, to: "shop" })).code).toBe(0);
    const result = await (await lead().resume(run)).result;
    expect([result.status, paid]).toEqual(["completed", [{ eur: 90, to: "shop" }]]);
  },
);

proves(["D531"], "refuses wrong arguments while another process runs the agents", async () => {
  await using kept = keptRuns();
  const { store, orchestrator } = kept;
  const { promise: isAsked, resolve: ask } = Promise.withResolvers<undefined>();
  const role = buyer(ASKS);
  const approver: Approver = async (_question, { signal }) => {
    ask(undefined);
    await once(signal, "abort");
    return undefined;
  };
  const leader = new Orchestrator({ store, clock: new ManualClock(0), approver });
  const run = leader.start(role, "Buy.");
  await isAsked;
  await run.whenPersisted();
  const [question] = await readOpenQuestions(store, run.runId);
  if (question === undefined) throw new Error("It asks.");
  const { questionId, argumentsHash } = question;
  const answer = { type: "approved", questionId, argumentsHash } as const;
  await expect(
    orchestrator.answer(run.runId, [{ ...answer, arguments: { eur: true, to: "farm" } }]),
  ).rejects.toMatchObject({
    code: "invalid_answer",
    data: { problem: "invalid_arguments", questionId, parameters: ["eur"] },
  });
  expect(await store.readMail(run.runId)).toEqual([]);
  await run.cancel("Enough.");
});
