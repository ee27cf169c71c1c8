// Goal: with a signing key every change of a paused run is detected, wherever it is passed.
// Method: the story of the altered runs, paused and resumed with keys; random alterations, rotating
// keys, and missing keys.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { inspect } from "node:util";

import { describe, expect, test } from "vitest";

import { EspalierError } from "../../../src/kernel/error.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { approve } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { altered } from "../../support/altered.ts";
import { alterations } from "../../support/alterations.ts";
import { pauseStory, resumeStory } from "../../support/altered-run-story.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls } from "../../harness/scripted-agents.ts";

const KEY = "a key of thirty-two bytes or more";
const OTHER = new TextEncoder().encode("another key of thirty-two or more");
const PAY = { toolName: "pay", arguments: { amount: 3 } };

function clerk(pay = payTool()) {
  return soloist([calls(PAY), says("done")], { name: "clerk", tools: [pay] }).role;
}

function refusalOf(attempt: () => unknown): readonly unknown[] {
  try {
    attempt();
  } catch (error) {
    if (EspalierError.is(error)) return [error.code, error.data["problem"]];
    throw error;
  }
  return expect.fail("nothing was thrown");
}

proves(
  ["D455"],
  "all of 300 alterations of a signed run are refused, and the original is accepted",
  async () => {
    const { text } = await pauseStory({ signingKey: KEY });
    const codes = new Set<unknown>();
    for (const { text: changed } of alterations(text, 300, 3))
      codes.add(await resumeStory(changed, { signingKey: KEY }));
    expect([...codes]).toEqual(["invalid_signature"]);
    expect(await resumeStory(text, { signingKey: KEY })).toMatchObject({ steps: 14 });
  },
);

proves(
  ["D455"],
  "changed limits, grants, pause counts and signatures of a signed run are refused",
  async () => {
    const { text } = await pauseStory({ signingKey: KEY });
    const changes = [
      { "accounts.*.limits": {}, "agents.*.state.step.context.budget": {} },
      { "accounts.0.grants": [{ by: "Ada", atMs: 0, budget: { steps: 20 } }] },
      { pauseCount: 2 },
      { signature: "" },
      { signature: "0".repeat(64) },
    ];
    for (const change of changes)
      expect(await resumeStory(altered(text, change), { signingKey: KEY })).toBe(
        "invalid_signature",
      );
  },
);

proves(
  ["D455"],
  "a signed run is accepted if its JSON has another key order and white space",
  async () => {
    const { text } = await pauseStory({ signingKey: KEY });
    const run: unknown = JSON.parse(text);
    const reversed = Object.fromEntries(Object.entries(run ?? {}).toReversed());
    expect(await resumeStory(JSON.stringify(reversed, null, 2), { signingKey: KEY })).toMatchObject(
      {
        steps: 14,
      },
    );
  },
);

describe("a signed paused run", () => {
  proves(
    ["D455"],
    "is refused by `resume` and `fork` if it was altered, and snapshots are signed",
    async () => {
      const fixture = newFixture({ signingKey: KEY });
      const role = clerk();
      const run = fixture.start(role);
      const { pausedRun } = await fixture.outcome(run);
      const text = JSON.stringify(run.snapshot());
      expect(JSON.parse(text)).toEqual(pausedRun);
      const bad = altered(text, { "agents.0.task": "Do more." });
      const { orchestrator } = fixture;
      expect([
        refusalOf(() => orchestrator.resume(readPausedRun(bad), { role })),
        refusalOf(() => orchestrator.fork(readPausedRun(bad), { role })),
      ]).toEqual([
        ["invalid_signature", "wrong"],
        ["invalid_signature", "wrong"],
      ]);
      const ended = orchestrator.fork(readPausedRun(text), {
        role: soloist([says("Hi.")], { name: "clerk" }).role,
        atStep: 0,
      });
      expect((await ended.settled).status).toBe("completed");
      expect(ended.snapshot().signature).toMatch(/^[0-9a-f]{64}$/u);
    },
  );

  proves(
    ["D455"],
    "is returned by `getResult` for a stored run, so that it can be resumed",
    async () => {
      const store = memoryStore();
      const fixture = newFixture({ signingKey: KEY, store });
      const pay = payTool();
      const role = clerk(pay);
      const paused = await fixture.run(role);
      const { pausedRun } = await fixture.orchestrator.getResult(paused.runId);
      const resumed = fixture.resume(role, pausedRun, approveAll(paused));
      expect([(await resumed.settled).status, pay.paid]).toEqual(["completed", [3]]);
    },
  );
});

describe("signing keys", () => {
  proves(["D456"], "refuse an unsigned run, and one signed by another key", async () => {
    const role = clerk();
    const unsigned = await newFixture().run(role);
    const signed = await newFixture({ signingKey: OTHER }).run(clerk());
    const answers = unsigned.questions.map((question) => approve(question));
    const resume = (run: typeof signed, options: object) => () =>
      new Orchestrator(options).resume(readPausedRun(JSON.stringify(run.pausedRun)), {
        answers,
        role,
      });
    expect([
      refusalOf(resume(unsigned, { signingKey: KEY })),
      refusalOf(resume(signed, { signingKey: KEY })),
      refusalOf(resume(signed, {})),
    ]).toEqual([
      ["invalid_signature", "missing"],
      ["invalid_signature", "wrong"],
      ["invalid_signature", "unverifiable"],
    ]);
  });

  proves(
    ["D495"],
    "do not hide that a promise or a result was passed instead of a paused run",
    async () => {
      const result = await newFixture({ signingKey: KEY }).run(clerk());
      const messageFor = (stored: unknown) => {
        const orchestrator = new Orchestrator({ signingKey: KEY });
        return thrownBy(() => Reflect.apply(orchestrator.resume, orchestrator, [stored])).message;
      };
      expect(messageFor(Promise.resolve(result.pausedRun))).toContain("it is a promise; await it");
      expect(messageFor(result)).toBe(
        "Invalid paused run: it is the result. Pass result.pausedRun complete and unchanged.",
      );
      const { signature: _none, ...unsigned } = result.pausedRun ?? {};
      expect(messageFor(unsigned)).toContain("no signature");
    },
  );

  proves(["D456"], "can be rotated: the first signs, and all verify", async () => {
    const { text } = await pauseStory({ signingKey: KEY });
    expect(await resumeStory(text, { signingKey: [OTHER, KEY] })).toMatchObject({ steps: 14 });
    const next = await pauseStory({ signingKey: [OTHER, KEY] });
    expect(await resumeStory(next.text, { signingKey: OTHER })).toMatchObject({ steps: 14 });
    expect(await resumeStory(next.text, { signingKey: KEY })).toBe("invalid_signature");
  });

  test("are rejected if they are short, missing or of another type, and never printed", () => {
    const short = "thirty-one bytes are not enough";
    expect(short).toHaveLength(31);
    for (const signingKey of [short, [], [KEY, short], new Uint8Array(31), 5, null, undefined, [5]])
      expect([
        signingKey,
        refusalOf(() => Reflect.construct(Orchestrator, [{ signingKey }])),
      ]).toEqual([signingKey, ["invalid_argument", undefined]]);
    expect(thrownBy(() => new Orchestrator({ signingKey: short })).message).toBe(
      'Expected signingKey to be at least 32 bytes, got 31. Generate a random key, for example with randomBytes(32) of "node:crypto".',
    );
    expect(inspect(new Orchestrator({ signingKey: KEY }), { depth: 9 })).not.toContain(
      "thirty-two",
    );
  });

  test("are copied, so bytes that the caller overwrites later change nothing", async () => {
    const bytes = new Uint8Array(OTHER);
    const orchestrator = new Orchestrator({ signingKey: bytes });
    bytes.fill(0);
    const role = clerk();
    const { pausedRun } = await orchestrator.start(role, "Do it.").settled;
    const again = new Orchestrator({ signingKey: OTHER });
    expect(
      refusalOf(() => again.resume(readPausedRun(JSON.stringify(pausedRun)), { role })),
    ).toEqual(["invalid_answer", "missing"]);
  });
});
