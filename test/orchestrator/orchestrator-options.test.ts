// Goal: every invalid option is refused at once with one clear coded error, and none is taken for
// "no limit".
// Method: a table of common mistakes, through calls without types.

import { expect, test } from "vitest";

import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import { QuestionIdSchema } from "../../src/protocol/ids.ts";
import { approve, deny, provideResult, provideError } from "../../src/protocol/question.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import type { Store } from "../../src/store/store.ts";
import { sequentialIds } from "../../src/testing/sequential-ids.ts";
import { proves } from "../harness/proves.ts";
import { rejectionOf, thrownBy } from "../support/thrown.ts";
import { EspalierError } from "../../src/kernel/error.ts";
import { soloist } from "../harness/soloist.ts";
import { says } from "../../src/testing/scripted-model.ts";

const CYCLE: Record<string, unknown> = {};
CYCLE["self"] = CYCLE;

const later = Promise.resolve({ steps: 0 });

const OPTIONS: readonly (readonly [field: string, options: unknown])[] = [
  ["options", null],
  ["options", later],
  ["options.limit", { limit: 3 }],
  ["limits", { limits: null }],
  ["limits", { limits: later }],
  ["limits", { limits: new Date(0) }],
  ["limits.maxDepth", { limits: { maxDepth: -1 } }],
  ["limits.maxDepth", { limits: { maxDepth: Number.NaN } }],
  ["concurrency", { concurrency: new Map() }],
  ["concurrency.modelCalls", { concurrency: { modelCalls: 0 } }],
  ["retryPolicy", { retryPolicy: 5 }],
  ["retryPolicy", { retryPolicy: later }],
  ["retryPolicy.maxAttempts", { retryPolicy: { maxAttempts: 0 } }],
  ["retryPolicy.maxDelayMs", { retryPolicy: { maxDelayMs: -1 } }],
  ["graceMs", { graceMs: null }],
  ["roles", { roles: 5 }],
  ["roles[0]", { roles: [null] }],
  ["roles[0]", { roles: [{ name: "x" }] }],
  ["sinks", { sinks: {} }],
  ["sinks[0]", { sinks: [() => 1] }],
  ["tracing", { tracing: {} }],
  ["tracing", { tracing: later }],
  ["clock", { clock: {} }],
  ["ids", { ids: null }],
];

proves(
  ["D733"],
  "names the right place for an option of a role or a run that is passed to an orchestrator",
  () => {
    const advice: Readonly<Record<string, string>> = {
      budget: "Pass budget to start() or defineAgent().",
      maxSteps: "Pass budget: { steps: … } to start() or defineAgent().",
      model: "Pass model to defineAgent().",
      tools: "Pass tools to defineAgent().",
      instructions: "Pass instructions to defineAgent().",
      session: "Pass session to start().",
      constructor: "Correct the name.",
    };
    for (const [name, sentence] of Object.entries(advice)) {
      const { message } = thrownBy(() => Reflect.construct(Orchestrator, [{ [name]: 1 }]));
      expect(message.endsWith(`, got "${name}". ${sentence}`), message).toBe(true);
    }
  },
);

proves(
  ["D733"],
  "names the right place for an option of a role or an orchestrator that is passed to a run",
  () => {
    const advice: Readonly<Record<string, string>> = {
      maxSteps: "Use budget: { steps: … }.",
      maxTurns: "Use budget: { steps: … }.",
      model: "Pass model to defineAgent().",
      tools: "Pass tools to defineAgent().",
      instructions: "Pass instructions to defineAgent().",
      store: "Pass store to new Orchestrator().",
      timeoutMs: "Use budget: { timeMs: … }.",
      maxRetries: "Pass retryPolicy: { maxAttempts: … } to new Orchestrator().",
      constructor: "Correct the name.",
    };
    const { role } = soloist([]);
    const orchestrator = new Orchestrator();
    for (const [name, sentence] of Object.entries(advice)) {
      const start = (): unknown =>
        Reflect.apply(orchestrator.start, orchestrator, [role, "t", { [name]: 1 }]);
      const { message } = thrownBy(start);
      expect(message.endsWith(`, got "${name}". ${sentence}`), message).toBe(true);
    }
  },
);

const STARTS: readonly (readonly [
  field: string,
  role: unknown,
  task: unknown,
  options: unknown,
])[] = [
  ["role", null, "t", {}],
  ["role", { name: "x", instructions: "y" }, "t", {}],
  ["task", soloist([]).role, " ", {}],
  ["task", soloist([]).role, 5, {}],
  ["start options", soloist([]).role, "t", later],
  ["start options.budgets", soloist([]).role, "t", { budgets: {} }],
  ["budget", soloist([]).role, "t", { budget: null }],
  ["budget", soloist([]).role, "t", { budget: later }],
  ["budget.tokens", soloist([]).role, "t", { budget: { tokens: 5 } }],
  ["budget.steps", soloist([]).role, "t", { budget: { steps: 1.5 } }],
  ["budget.costUsd", soloist([]).role, "t", { budget: { costUsd: Number.POSITIVE_INFINITY } }],
  ["deadlineAtMs", soloist([]).role, "t", { deadlineAtMs: "soon" }],
  ["traceparent", soloist([]).role, "t", { traceparent: "00-abc-def-01" }],
  ["start options.onStreamPart", soloist([]).role, "t", { onStreamPart: 5 }],
  ["metadata", soloist([]).role, "t", { metadata: null }],
  ["metadata", soloist([]).role, "t", { metadata: 5 }],
  ["metadata", soloist([]).role, "t", { metadata: [1] }],
  ["metadata", soloist([]).role, "t", { metadata: new Date(0) }],
  ["metadata.self", soloist([]).role, "t", { metadata: CYCLE }],
  ["metadata.run", soloist([]).role, "t", { metadata: { run: () => 1 } }],
  ["metadata.when", soloist([]).role, "t", { metadata: { when: new Date(0) } }],
  ["metadata.users[1].id", soloist([]).role, "t", { metadata: { users: [{}, { id: 1n }] } }],
  ["metadata.cache", soloist([]).role, "t", { metadata: { cache: new Map() } }],
  ["metadata.share", soloist([]).role, "t", { metadata: { share: Number.NaN } }],
  [
    "metadata",
    soloist([]).role,
    "t",
    {
      metadata: {
        get broken() {
          throw new Error("no");
        },
      },
    },
  ],
];

function refusalOf(call: () => unknown): readonly unknown[] {
  try {
    call();
  } catch (error) {
    return EspalierError.is(error)
      ? [error.data["field"], error.message.includes(", got ")]
      : [error];
  }
  return ["nothing was refused"];
}

for (const [field, options] of OPTIONS) {
  test(`refuses ${field} of an orchestrator: ${typeof options}`, () => {
    expect(refusalOf(() => Reflect.construct(Orchestrator, [options]))).toEqual([field, true]);
  });
}

for (const [field, role, task, options] of STARTS) {
  test(`refuses ${field} of a start: ${typeof options}`, () => {
    const orchestrator = new Orchestrator();
    const call = (): unknown =>
      Reflect.apply(orchestrator.start.bind(orchestrator), undefined, [role, task, options]);
    expect(refusalOf(call)).toEqual([field, true]);
  });
}

test("accepts plain metadata, even behind an interface", async () => {
  interface Owner {
    readonly name: string;
  }
  const owner: Owner = { name: "Ada" };
  const { role } = soloist([says("done")]);
  const result = await new Orchestrator().start(role, "t", { metadata: { owner } }).result;
  expect(result.agents[0]?.metadata).toEqual({ owner: { name: "Ada" } });
});

proves(["S7.37"], "reports the key of metadata that is not JSON, and the replacement", () => {
  const start = (metadata: object) => (): unknown =>
    new Orchestrator().start(soloist([]).role, "t", { metadata });
  const data =
    "Pass plain data: strings, numbers, booleans, null, and arrays and objects of these.";
  expect(thrownBy(start({ user: { since: new Date(0) } })).message).toBe(
    "Expected metadata.user.since to be a JSON value, got a date. Pass its text: date.toISOString().",
  );
  expect(thrownBy(start({ hooks: [{ run: () => 1 }] })).message).toBe(
    `Expected metadata.hooks[0].run to be a JSON value, got a function. ${data}`,
  );
});

test("omits undefined values of metadata, as JSON does", async () => {
  const { role } = soloist([says("done")]);
  const metadata = { userId: undefined, zero: -0 };
  const result = await new Orchestrator().start(role, "t", { metadata }).result;
  expect(result.agents[0]?.metadata).toStrictEqual({ zero: 0 });
});

proves(
  ["S7.37"],
  "reports a message or a list of messages as the task, and suggests a session",
  () => {
    for (const [task, got] of [
      [[{ role: "user", content: "Hi." }], "an array"],
      [{ role: "user", content: "Hi." }, "an object"],
    ] as const)
      expect(
        thrownBy(() =>
          Reflect.apply(Orchestrator.prototype.start, new Orchestrator(), [soloist([]).role, task]),
        ),
      ).toMatchObject({
        code: "invalid_argument",
        message: `Expected task to be a string or an array of content parts, got ${got}. Pass the task as text. To continue a history, use a session: start(role, task, { session }).`,
      });
  },
);

proves(
  ["S7.37"],
  "reports an approver that is approve itself, or not a function, with an example",
  () => {
    const advice = "Write (question) => approve(question), or deny(question, reason).";
    const expected =
      "Expected approver to be a function that takes a question and returns an answer";
    const refused = (approver: unknown): unknown =>
      thrownBy(() => Reflect.construct(Orchestrator, [{ approver }])).message;
    expect(
      [approve, deny, provideResult, provideError, { approve }, "approve", true].map(refused),
    ).toEqual([
      `${expected}, got approve itself. ${advice}`,
      `${expected}, got deny itself. ${advice}`,
      `${expected}, got provideResult itself. ${advice}`,
      `${expected}, got provideError itself. ${advice}`,
      `${expected}, got an object. ${advice}`,
      `${expected}, got "approve". ${advice}`,
      `${expected}, got true. ${advice}`,
    ]);
    expect(() => new Orchestrator({ approver: (question) => approve(question) })).not.toThrow();
  },
);

test("refuses an unknown option of approve() at once", () => {
  const about = { questionId: QuestionIdSchema().parse("q"), argumentsHash: "h" };
  expect(
    thrownBy(() => Reflect.apply(approve, undefined, [about, { argument: {} }])),
  ).toMatchObject({
    code: "invalid_argument",
    data: { field: "approve options.argument" },
  });
});

proves(
  ["S7.37"],
  "refuses a run id that a second sequential id source repeats, and suggests sharing the source",
  async () => {
    const start = (store: Store): Run => {
      const { role } = soloist([says("Done.")]);
      return new Orchestrator({ store, ids: sequentialIds() }).start(role, "Do it.");
    };
    const refused = {
      code: "run_exists",
      message:
        'Cannot create run "run_1": the store already has a run of this id. Leave the option ids out, or share one id source among all orchestrators of the store, for example one sequentialIds() per test.',
      data: { runId: "run_1" },
    };
    const store = memoryStore();
    expect((await start(store).result).status).toBe("completed");
    expect(await rejectionOf(start(store).result)).toEqual(refused);
    const other = memoryStore();
    const [first, second] = [start(other), start(other)];
    const rejection = rejectionOf(second.result);
    expect([(await first.result).status, await rejection]).toEqual(["completed", refused]);
  },
);
