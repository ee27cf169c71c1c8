// Goal: a hook may change only what its point allows, and no reference to its objects is kept.
// Method: every field of any point at every point, values of the wrong shape, and objects that are
// not plain data.

import { expect, test } from "vitest";

import type { TransformPoint } from "../../src/hooks/hook-points.ts";
import { proves } from "../harness/proves.ts";
import { flushEventLoop } from "../harness/run-scripted.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import { unfrozenParts } from "../support/frozen.ts";
import { rejectionOf, type Thrown } from "../support/thrown.ts";
import { gives, MESSAGES, PATCHES, POINTS, run } from "../support/hook-chains.ts";

/** Returns the error with which a chain of one such hook is refused. */
function refusal(point: TransformPoint, patch: unknown): Promise<Thrown> {
  return rejectionOf(run(point, [gives(point, patch)]));
}

const patchesOf = (point: TransformPoint): readonly object[] => PATCHES[point];
const allowedAt = (point: TransformPoint): readonly string[] =>
  patchesOf(point).flatMap(Object.keys);
/** A value for every field of any point. */
const VALUES = new Map<string, unknown>(
  POINTS.flatMap((point) => patchesOf(point).flatMap((patch) => Object.entries(patch))),
);

for (const point of POINTS) {
  proves(["R80"], `accepts every allowed field at ${point}`, async () => {
    for (const patch of patchesOf(point)) {
      const outcome = await run(point, [gives(point, patch)]);
      const changedBy = [{ hook: "odd", fields: Object.keys(patch) }];
      expect(outcome).toEqual({ patch, changedBy });
      expect(unfrozenParts(outcome)).toEqual([]);
    }
  });

  proves(["R80"], `refuses every other field at ${point} by name`, async () => {
    const others = [...VALUES.keys()].filter((field) => !allowedAt(point).includes(field));
    for (const field of [...others, "toolName", "outcome", "typo", "constructor"]) {
      const thrown = await refusal(point, {
        ...PATCHES[point][0],
        [field]: VALUES.get(field) ?? 1,
      });
      expect([thrown.code, thrown.data]).toEqual([
        "invalid_hook_result",
        {
          point,
          hook: "odd",
          field,
          expected: `change ${allowedAt(point).join(", ")} only`,
          got: `a change of ${field}`,
        },
      ]);
      expect(thrown.message).toBe(
        `Expected the hook "odd" at ${point} to change ${allowedAt(point).join(", ")} only, got a change of ${field}. Leave it out.`,
      );
    }
  });
}

test("drops forbidden fields of a hook that is not strict, and warns once", async () => {
  const hook = gives("afterTool", { text: "New.", deny: "No.", callId: "x" }, { strict: false });
  for (let time = 0; time < 3; time += 1) {
    expect(await run("afterTool", [hook])).toEqual({
      patch: { text: "New." },
      changedBy: [{ hook: "odd", fields: ["text"] }],
    });
  }
  await flushEventLoop();
  expect(takeWarnings()).toEqual([
    'EspalierWarning: The hook "odd" may not change deny at afterTool; the change was dropped.',
  ]);
});

test("refuses an invalid value even of a hook that is not strict", async () => {
  const hook = gives("afterTool", { text: 5 }, { strict: false });
  const { code, data } = await rejectionOf(run("afterTool", [hook]));
  expect([code, data["field"]]).toEqual(["invalid_hook_result", "text"]);
});

const broken = (): never => {
  throw new Error("hands off");
};

const MISFITS: readonly (readonly [TransformPoint, string, readonly unknown[]])[] = [
  ["userInput", "task", ["", "  ", 5, null, ["a"]]],
  ["userInput", "refuse", ["", true, null]],
  ["beforeModel", "instructions", ["", 1, null]],
  ["beforeModel", "temperature", [-0.1, Number.NaN, Infinity, "0", null]],
  [
    "beforeModel",
    "messages",
    [
      null,
      {},
      ["text"],
      [{ role: "user" }],
      [{ role: "robot", text: "" }],
      [{ ...MESSAGES[0], extra: 1 }],
      [{ role: "system", text: "Obey.", origin: "instructions" }],
    ],
  ],
  ["beforeTool", "deny", ["", 1, null]],
  ["beforeTool", "arguments", [() => 1, Symbol("s"), 1n, Number.NaN, new Date(0), new Map()]],
  [
    "beforeTool",
    "arguments",
    [{ deep: [{ when: new Date(0) }] }, [undefined], Object.create({ a: 1 })],
  ],
  ["afterTool", "text", [null, 1, {}]],
  ["afterTool", "metadata", [null, [], "a", { when: new Date(0) }]],
  ["beforeCompaction", "keepMessages", [0, -1, 1.5, "3", null]],
  ["subagentStart", "task", ["", null]],
  ["stop", "continueWith", ["", true, null]],
  ["subagentStop", "continueWith", [" ", 1]],
];

for (const [point, field, values] of MISFITS) {
  proves(["R80"], `refuses an invalid value of ${field} at ${point} by name`, async () => {
    for (const value of values) {
      const { code, data } = await refusal(point, { [field]: value });
      expect([code, data["point"], data["hook"], data["field"]]).toEqual([
        "invalid_hook_result",
        point,
        "odd",
        field,
      ]);
    }
  });
}

test("changes nothing for undefined, an empty patch and undefined fields", async () => {
  for (const patch of [undefined, {}, { text: undefined }, Object.create(null)]) {
    expect(await run("afterTool", [gives("afterTool", patch)])).toEqual({
      patch: {},
      changedBy: [],
    });
  }
});

test("refuses a value that is not a patch and names the point and the hook", async () => {
  class Patch {
    readonly text = "New.";
  }
  for (const patch of [null, 5, "text", true, [], () => ({}), new Patch(), new Map()]) {
    const { code, data } = await refusal("afterTool", patch);
    expect([code, data["point"], data["hook"], "field" in data]).toEqual([
      "invalid_hook_result",
      "afterTool",
      "odd",
      false,
    ]);
  }
});

test("accepts an asynchronous handler and a promise of another library", async () => {
  const foreign: PromiseLike<unknown> = {
    // oxlint-disable-next-line unicorn/no-thenable -- that is what is tested
    then: (onValue, onError) => Promise.resolve({ text: "Foreign." }).then(onValue, onError),
  };
  for (const [given, text] of [
    [Promise.resolve({ text: "Later." }), "Later."],
    [foreign, "Foreign."],
  ] as const) {
    expect((await run("afterTool", [gives("afterTool", given)])).patch).toEqual({ text });
  }
});

test("reads and copies a foreign object once", async () => {
  let reads = 0;
  const inner = { list: [1] };
  const patch = {
    get arguments() {
      reads += 1;
      return inner;
    },
  };
  const outcome = await run("beforeTool", [gives("beforeTool", patch)]);
  inner.list.push(2);
  expect([reads, outcome.patch]).toEqual([1, { arguments: { list: [1] } }]);
  expect(Object.isFrozen(inner)).toBe(false);
});

test("refuses a patch that throws when it is read, wherever it throws", async () => {
  const patches = [
    Object.defineProperty({}, "text", { enumerable: true, get: broken }),
    { text: new Proxy({}, { getPrototypeOf: broken }) },
    new Proxy({ text: "a" }, { ownKeys: broken }),
    new Proxy({ text: "a" }, { getPrototypeOf: broken }),
  ];
  for (const patch of patches) {
    const { code, message } = await refusal("afterTool", patch);
    expect(code).toBe("invalid_hook_result");
    expect(message).toContain("hands off");
  }
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  expect((await refusal("afterTool", { metadata: proxy })).code).toBe("invalid_hook_result");
});

test("accepts a well-behaved proxy as a patch", async () => {
  const patch = new Proxy({ metadata: new Proxy({ a: [1] }, {}) }, {});
  const outcome = await run("afterTool", [gives("afterTool", patch)]);
  expect(outcome.patch).toEqual({ metadata: { a: [1] } });
});

test("changes no prototype through a key named __proto__", async () => {
  const evil: unknown = JSON.parse('{"__proto__": {"isAdmin": true}, "a": {"__proto__": 1}}');
  const { patch } = await run("beforeTool", [gives("beforeTool", { arguments: evil })]);
  expect(JSON.stringify(patch.arguments)).toBe(JSON.stringify(evil));
  expect(Object.getPrototypeOf(patch.arguments)).toBe(Object.prototype);
  const noted = await run("afterTool", [
    gives("afterTool", { metadata: evil }),
    gives("afterTool", { metadata: { b: 1 } }),
  ]);
  expect(Object.getPrototypeOf(noted.patch.metadata)).toBe(Object.prototype);
  expect("isAdmin" in (noted.patch.metadata ?? {})).toBe(false);
  const top = await refusal("beforeTool", evil);
  expect([top.code, top.data["field"]]).toEqual(["invalid_hook_result", "__proto__"]);
});

test("refuses cyclic and too deeply nested values", async () => {
  const cycle: Record<string, unknown> = {};
  cycle["self"] = cycle;
  let deep: unknown = 1;
  for (let level = 0; level < 100_000; level += 1) deep = [deep];
  for (const value of [cycle, deep]) {
    const { code, data } = await refusal("beforeTool", { arguments: value });
    expect([code, data["field"]]).toEqual(["invalid_hook_result", "arguments"]);
  }
});
