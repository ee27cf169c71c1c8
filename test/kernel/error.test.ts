// Goal: an error of espalier is known by its mark and its code, also if it comes from another copy of the package.
// Method: the module loaded twice.

import { expect, test, vi } from "vitest";

import { invariant } from "../../src/kernel/assert.ts";
import { EspalierError, getErrorMessage } from "../../src/kernel/error.ts";
import { ModelError } from "../../src/model/model-error.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { proves } from "../harness/proves.ts";
import { soloist } from "../harness/soloist.ts";

test("an error has code, message, data and cause", () => {
  const cause = new Error("below");
  const error = new EspalierError({
    code: "invalid_argument",
    message: "Expected more.",
    data: { field: "x" },
    cause,
  });
  expect([error.name, error.code, error.message, error.data, error.cause]).toEqual([
    "EspalierError",
    "invalid_argument",
    "Expected more.",
    { field: "x" },
    cause,
  ]);
  expect(error).toBeInstanceOf(Error);
});

test("data is never missing, and a cause is there only if there is one", () => {
  const error = new EspalierError({ code: "invalid_argument", message: "Expected more." });
  expect([error.data, Object.hasOwn(error, "cause")]).toEqual([{}, false]);
});

test("an error of another copy of the package is recognised, and the other way round", async () => {
  vi.resetModules();
  const copy = await import("../../src/kernel/error.ts");
  expect(copy.EspalierError).not.toBe(EspalierError);
  const options = { code: "invalid_argument", message: "Expected more." } as const;
  const [ours, theirs] = [new EspalierError(options), new copy.EspalierError(options)];
  expect([
    theirs instanceof EspalierError,
    EspalierError.is(theirs),
    copy.EspalierError.is(ours),
  ]).toEqual([false, true, true]);
});

test("what only looks like one of our errors is none", () => {
  const marked = { [Symbol.for("espalier.error")]: true, code: "invalid_argument", message: "x" };
  const named = Object.assign(new Error("x"), { name: "EspalierError", code: "invalid_argument" });
  const others = [marked, named, new Error("x"), undefined, null, "EspalierError", 5];
  expect(others.map((value) => EspalierError.is(value))).toEqual(others.map(() => false));
});

proves(
  ["D730"],
  "each kind of error has a guard of its own, also for errors of another copy of the package",
  async () => {
    const { role } = soloist([{ error: new Error("boom") }]);
    const result = await new Orchestrator().start(role, "Do it.").result;
    if (result.status !== "failed") throw new Error(result.status);
    const load = async () => ({
      ...(await import("../../src/kernel/error.ts")),
      ...(await import("../../src/model/model-error.ts")),
      ...(await import("../../src/orchestrator/run/run-error.ts")),
      ...(await import("../../src/tools/tool-error.ts")),
    });
    const ours = await load();
    vi.resetModules();
    const theirs = await load();
    expect(theirs.RunError).not.toBe(ours.RunError);
    const guarded = (copy: typeof ours, value: unknown): readonly boolean[] =>
      [copy.EspalierError, copy.RunError, copy.ModelError, copy.ToolError, copy.ToolRetryError].map(
        (kind) => kind.is(value),
      );
    const makeAll = (copy: typeof ours): readonly unknown[] => [
      new copy.EspalierError({ code: "invalid_argument", message: "x" }),
      new copy.RunError(result),
      new copy.ModelError({ code: "model_timeout", message: "x" }),
      new copy.ToolError("x"),
      new copy.ToolRetryError("x"),
      new Error("x"),
    ];
    const expected = [
      [true, false, false, false, false],
      [true, true, false, false, false],
      [true, false, true, false, false],
      [true, false, false, true, false],
      [true, false, false, true, true],
      [false, false, false, false, false],
    ];
    for (const asking of [ours, theirs])
      for (const made of [ours, theirs])
        expect(makeAll(made).map((error) => guarded(asking, error))).toEqual(expected);
  },
);

test("an error of a model is one of espalier, and says whether it may be tried again", () => {
  const codes = [
    "model_rate_limited",
    "model_overloaded",
    "model_unavailable",
    "model_timeout",
    "model_invalid_request",
    "model_unauthorized",
    "model_protocol_error",
    "model_invalid_reply",
  ] as const;
  const errors = codes.map(
    (code) => new ModelError({ code, message: "x", retryAfterMs: 5, lostOutputTokens: 0 }),
  );
  expect(errors.map((error) => [error.code, error.isRetryable])).toEqual([
    ["model_rate_limited", true],
    ["model_overloaded", true],
    ["model_unavailable", true],
    ["model_timeout", true],
    ["model_invalid_request", false],
    ["model_unauthorized", false],
    ["model_protocol_error", false],
    ["model_invalid_reply", false],
  ]);
  expect(
    errors.every(
      (error) =>
        EspalierError.is(error) && error.retryAfterMs === 5 && error.lostOutputTokens === 0,
    ),
  ).toBe(true);
});

test("the message of anything that was thrown is text", () => {
  const thrown = [new Error("broken"), "text", undefined, null, 5, { message: "no error" }];
  expect(thrown.map(getErrorMessage)).toEqual([
    "broken",
    "text",
    "undefined",
    "null",
    "5",
    "[object Object]",
  ]);
});

// A tool may throw anything; the text that the model is shown must not be what breaks the run.
test("the message of what cannot be turned into text is text all the same", () => {
  expect(typeof getErrorMessage(Object.create(null))).toBe("string");
});

test("a broken invariant names its rule and calls itself a bug", () => {
  expect(() => invariant(true, "B1")).not.toThrow();
  expect(() => invariant(false, "B1: too much")).toThrow(
    "Broken invariant: B1: too much. This is a bug in espalier.",
  );
});
