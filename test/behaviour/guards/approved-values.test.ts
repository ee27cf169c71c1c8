// Goal: an approved call runs with exactly the value that was shown, whatever its schema does.
// Method: schemas with defaults and transforms that are not idempotent, not deterministic, or whose
// values are not JSON; approved at once, after a pause, and after a crash.

import { describe, expect } from "vitest";
import { z } from "zod";

import type { JsonObject } from "../../../src/kernel/json.ts";
import { approve, provideResult, type Question } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineDelegation, defineTool } from "../../../src/tools/define-tool.ts";
import { jsonSchema } from "../../../src/tools/json-schema.ts";
import type { ToolInput } from "../../../src/tools/arguments/input-schema.ts";
import { prefixTools } from "../../../src/tools/toolsets.ts";
import { withRetries } from "../../../src/tools/wrappers/with-retries.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { playThrough, turns } from "../../support/journal/crash-play.ts";
import { thinker } from "../../support/journal/thinkers.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { approveAll, questionOf } from "../../support/pause-stories.ts";
import { calls, part, receivedTexts } from "../../harness/scripted-agents.ts";
import { asksAbout, fates, refusal, watch } from "../../support/guard-stories.ts";

/** Converts an amount to cents: a second parse would multiply again. */
function cents(more: z.core.$ZodLooseShape = {}): z.ZodObject {
  return z.object({
    amount: z.number().transform((amount) => amount * 100),
    currency: z.string().default("USD"),
    ...more,
  });
}

/** Returns a tool that needs approval, and lists its inputs. */
function payWith(input: ToolInput, ran: unknown[] = []) {
  const tool = defineTool({
    name: "pay",
    description: "Pays.",
    inputSchema: input,
    needsApproval: true,
    execute: (given) => {
      ran.push(given);
      return "paid";
    },
  });
  return { tool, ran };
}

function payer(input: ToolInput, given: JsonObject = { amount: 1 }) {
  const { tool, ran } = payWith(input);
  const solo = soloist([calls({ toolName: "pay", arguments: given }), says("Done.")], {
    tools: [tool],
  });
  return { ...solo, ran };
}

const SHOWN = {
  arguments: { amount: 100, currency: "USD" },
  writtenArguments: { amount: 1 },
};

describe("a call whose schema changes the arguments", () => {
  proves(["D410"], "runs with the shown value when it is approved at once", async () => {
    const { role, ran } = payer(cents());
    const questions: Question[] = [];
    const fixture = newFixture({
      approver: (question) => {
        questions.push(question);
        return approve(question);
      },
    });
    const result = await fixture.run(role);
    expect(questions).toMatchObject([SHOWN]);
    expect(ran).toEqual([SHOWN.arguments]);
    const executions = result.steps[0]?.tools.executions;
    expect(executions?.map((one) => one.arguments)).toEqual([SHOWN.arguments]);
  });

  proves(
    ["D410"],
    "runs with the shown value after a pause, even wrapped and renamed",
    async () => {
      const { tool, ran } = payWith(cents());
      const tools = prefixTools([withRetries(tool)], "my_");
      const solo = soloist(
        [calls({ toolName: "my_pay", arguments: { amount: 1 } }), says("Done.")],
        {
          tools,
        },
      );
      const fixture = newFixture();
      const paused = await fixture.run(solo.role);
      expect(questionOf(paused)).toMatchObject(SHOWN);
      await fixture.outcome(fixture.resume(solo.role, paused.pausedRun, approveAll(paused)));
      expect(ran).toEqual([SHOWN.arguments]);
    },
  );

  proves(["D410"], "runs with the shown value although user code mutates it", async () => {
    const shared = { amount: 1 };
    const { role, ran } = payer(
      z.object({}).transform(() => shared),
      {},
    );
    const fixture = newFixture({
      approver: (question) => {
        shared.amount = 1_000_000;
        return approve(question);
      },
    });
    await fixture.run(role);
    expect(ran).toEqual([{ amount: 1 }]);
  });

  proves(["D410"], "runs with the shown value although each parse returns another", async () => {
    let parses = 0;
    const input = z.object({}).transform(() => ({ id: (parses += 1) }));
    const { role, ran } = payer(input, {});
    const fixture = newFixture();
    const paused = await fixture.run(role);
    expect(questionOf(paused).arguments).toEqual({ id: 1 });
    await fixture.outcome(fixture.resume(role, paused.pausedRun, approveAll(paused)));
    expect([ran, parses]).toEqual([[{ id: 1 }], 1]);
  });

  proves(["D410"], "is guarded with the shown value before and after the pause", async () => {
    const { tool, ran } = payWith(cents());
    const watched = watch();
    const { role } = soloist(
      [calls({ toolName: "pay", arguments: { amount: 1 } }), says("Done.")],
      {
        tools: [tool],
        guards: [watched.guard],
      },
    );
    const fixture = newFixture();
    const paused = await fixture.run(role);
    await fixture.outcome(fixture.resume(role, paused.pausedRun, approveAll(paused)));
    expect(watched.seen()).toEqual([SHOWN.arguments, SHOWN.arguments]);
    expect(ran).toEqual([SHOWN.arguments]);
  });

  proves(["D410"], "is coerced by a JSON Schema before it is shown", async () => {
    const schema = {
      type: "object",
      properties: { amount: { type: "number" }, currency: { type: "string", default: "USD" } },
    };
    const { role, ran } = payer(jsonSchema(schema), { amount: "3" });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    expect(questionOf(paused).arguments).toEqual({ amount: 3 });
    await fixture.outcome(fixture.resume(role, paused.pausedRun, approveAll(paused)));
    expect(ran).toEqual([{ amount: 3 }]);
  });

  proves(["D410"], "runs only with approved values, wherever its process dies", async () => {
    let parses = 0;
    const approved: unknown[] = [];
    const ran: unknown[] = [];
    const build = () => {
      const input = z.object({}).transform(() => ({ id: (parses += 1) }));
      const { tool } = payWith(input, ran);
      const role = defineAgent({
        name: "solo",
        instructions: "You pay.",
        model: thinker("solo", ({ results }) =>
          results.length === 0 ? { calls: [["pay", {}]] } : { text: "Done." },
        ),
        tools: [tool],
      });
      const approver = async (question: Question) => {
        await turns(2);
        approved.push(question.arguments);
        return approve(question);
      };
      return { role, options: { approver } };
    };
    const { appends } = await playThrough(build);
    expect(appends).toBeGreaterThan(3);
    for (let at = 1; at <= appends; at += 1)
      for (const how of ["before", "after"] as const) {
        approved.length = 0;
        ran.length = 0;
        await playThrough(build, [{ at, how }]);
        expect(approved, `${how} ${at}`).toEqual(expect.arrayContaining(ran));
        expect(ran.length).toBeGreaterThan(0);
      }
  });
});

describe("a call whose schema has changed since it was shown", () => {
  const resumedWith = async (before: ToolInput, after: ToolInput, given?: JsonObject) => {
    const fixture = newFixture();
    const paused = await fixture.run(payer(before, given).role);
    const { role, ran, model } = payer(after, given);
    const resumed = fixture.resume(role, paused.pausedRun, approveAll(paused));
    const result = await fixture.outcome(resumed);
    return { fates: fates(result), ran, texts: receivedTexts(model.requests[0]) };
  };

  proves(["D411"], "is denied if the schema returns another value for the arguments", async () => {
    const euros = cents({ currency: z.string().default("EUR") });
    expect(await resumedWith(cents(), euros)).toEqual({
      fates: [["refused", "blocked"]],
      ran: [],
      texts: [refusal("pay", "This is no longer the approved call: its schema has changed.")],
    });
  });

  proves(["D411"], "runs if the schema returns the same value for the arguments", async () => {
    const described = cents({ note: z.string().optional() });
    expect(await resumedWith(cents(), described)).toMatchObject({
      fates: [["succeeded"]],
      ran: [SHOWN.arguments],
    });
  });

  proves(
    ["D411"],
    "runs with the stored value if only code outside the visible schema has changed",
    async () => {
      const thousands = z.object({
        amount: z.number().transform((amount) => amount * 1_000),
        currency: z.string().default("USD"),
      });
      expect(await resumedWith(cents(), thousands)).toMatchObject({
        fates: [["succeeded"]],
        ran: [SHOWN.arguments],
      });
    },
  );
});

describe("a call with a value that is not JSON", () => {
  const dated = (offsetMs = 0) =>
    z.object({
      day: z.string().transform((text) => new Date(Date.parse(text) + offsetMs)),
      tags: z.array(z.string()).transform((tags) => new Set(tags)),
      count: z.string().transform((text) => BigInt(text)),
      by: z.string().transform((name) => new Map([[name, Number.NaN]])),
    });
  const given = { day: "2026-11-28", tags: ["a"], count: "7", by: "me" };
  const value = {
    day: new Date("2026-11-28"),
    tags: new Set(["a"]),
    count: 7n,
    by: new Map([["me", Number.NaN]]),
  };
  const resumedWith = async (before: ToolInput, after = before) => {
    const fixture = newFixture();
    const paused = await fixture.run(payer(before, given).role);
    const { role, ran, model } = payer(after, given);
    const resumed = fixture.resume(role, paused.pausedRun, approveAll(paused));
    const result = await fixture.outcome(resumed);
    const question = questionOf(paused);
    return { question, fates: fates(result), ran, texts: receivedTexts(model.requests[0]) };
  };

  proves(["D412"], "is shown as the model wrote it, marked as unparsed", async () => {
    const { question, ran, fates: ends } = await resumedWith(dated());
    expect(question).toMatchObject({ arguments: given, unparsed: true });
    expect([ends, ran]).toEqual([[["succeeded"]], [value]]);
  });

  proves(["D412"], "is denied if a later parse returns another value", async () => {
    expect(await resumedWith(dated(), dated(1))).toMatchObject({
      fates: [["refused", "blocked"]],
      ran: [],
      texts: [
        refusal(
          "pay",
          "This is no longer the approved call: its schema produced other argument values.",
        ),
      ],
    });
  });

  proves(["D412"], "is denied after a pause if the value has no fingerprint", async () => {
    class Money {
      readonly amount = 1;
    }
    const input = z.looseObject({}).transform(() => ({ money: new Money() }));
    expect(await resumedWith(input)).toMatchObject({
      fates: [["refused", "blocked"]],
      ran: [],
      texts: [
        refusal(
          "pay",
          "The approved arguments could not be stored, so this call cannot be compared with them.",
        ),
      ],
    });
    const { role, ran } = payer(input, given);
    await newFixture({ approver: (question) => approve(question) }).run(role);
    expect(ran).toEqual([{ money: new Money() }]);
  });

  proves(["D412"], "is denied if the value was changed while the approver was asked", async () => {
    const shared = new Map([["amount", 1]]);
    const { role, ran } = payer(
      z.object({}).transform(() => ({ shared })),
      {},
    );
    const fixture = newFixture({
      approver: (question) => {
        shared.set("amount", 2);
        return approve(question);
      },
    });
    expect(fates(await fixture.run(role))).toEqual([["refused", "blocked"]]);
    expect(ran).toEqual([]);
  });
});

describe("an answer that changes the arguments", () => {
  const edit = (question: Question) => approve(question, { arguments: { amount: 2 } });

  proves(["D413"], "is parsed once, like arguments of the model", async () => {
    let parses = 0;
    const counted = cents().transform((parsed) => {
      parses += 1;
      return parsed;
    });
    const { role, ran } = payer(counted);
    await newFixture({ approver: edit }).run(role);
    expect([ran, parses]).toEqual([[{ amount: 200, currency: "USD" }], 2]);

    const fixture = newFixture();
    const again = payer(cents());
    const paused = await fixture.run(again.role);
    const answers = [edit(questionOf(paused))];
    await fixture.outcome(fixture.resume(again.role, paused.pausedRun, answers));
    expect(again.ran).toEqual([{ amount: 200, currency: "USD" }]);
  });
});

describe("an external call and a delegation", () => {
  proves(
    ["D414"],
    "shows the parsed value of an external call, and does not parse it again",
    async () => {
      let parses = 0;
      const input = cents().transform((value) => ({ ...value, parses: (parses += 1) }));
      const tool = defineTool({ name: "pay", description: "Pays elsewhere.", inputSchema: input });
      const { role } = soloist(
        [calls({ toolName: "pay", arguments: { amount: 1 } }), says("Done.")],
        {
          tools: [tool],
        },
      );
      const fixture = newFixture();
      const paused = await fixture.run(role);
      const question = questionOf(paused);
      const value = { amount: 100, currency: "USD", parses: 1 };
      expect(question).toMatchObject({ arguments: value, writtenArguments: { amount: 1 } });
      const answers = [provideResult(question, "paid")];
      const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, answers));
      const executions = result.steps[0]?.tools.executions;
      expect(executions?.map((one) => [one.type, one.arguments])).toEqual([["succeeded", value]]);
      expect(parses).toBe(1);
    },
  );

  proves(
    ["D414"],
    "runs a delegation with the shown value, and preserves it while its subagent waits",
    async () => {
      const ran: unknown[] = [];
      let parses = 0;
      const input = z
        .object({ topic: z.string() })
        .transform(({ topic }) => ({ topic: `${topic}${(parses += 1)}` }));
      const { tool } = payWith(z.object({}));
      const helper = part("helper", [calls({ toolName: "pay", arguments: {} }), says("Helped.")], {
        tools: [tool],
      });
      const help = defineDelegation({
        name: "help",
        description: "Lets somebody help.",
        inputSchema: input,
        execute: ({ topic }, { spawn }) => {
          ran.push(topic);
          return spawn({ role: "helper", task: topic });
        },
      });
      const lead = part(
        "lead",
        [calls({ toolName: "help", arguments: { topic: "t" } }), says("Done.")],
        {
          tools: [help],
          subagents: [helper.role],
          guards: [asksAbout("Sure?", { tools: ["help"] })],
        },
      );
      const fixture = newFixture();
      const first = await fixture.run(lead.role);
      expect(questionOf(first).arguments).toEqual({ topic: "t1" });
      const second = await fixture.outcome(
        fixture.resume(lead.role, first.pausedRun, approveAll(first)),
      );
      expect([ran, second.questions.map(({ toolName }) => toolName)]).toEqual([["t1"], ["pay"]]);
      const last = await fixture.outcome(
        fixture.resume(lead.role, second.pausedRun, approveAll(second)),
      );
      const executions = last.steps[0]?.tools.executions;
      expect(executions?.map((one) => one.arguments)).toEqual([{ topic: "t1" }]);
      expect(parses).toBe(1);
    },
  );
});
