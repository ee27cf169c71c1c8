// Goal: an error of espalier is recognised by its mark and its code, even if it comes from another
// copy of the package.
// Method: the module loaded twice.

import { expect, test, vi } from "vitest";

import { invariant } from "../../src/kernel/invariant.ts";
import { EspalierError, getErrorMessage } from "../../src/kernel/error.ts";
import { ModelError } from "../../src/model/model-error.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { proves } from "../harness/proves.ts";
import { soloist } from "../harness/soloist.ts";

test("has a code, a message, data and a cause", () => {
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

test("always has data, and a cause only if one is given", () => {
  const error = new EspalierError({ code: "invalid_argument", message: "Expected more." });
  expect([error.data, Object.hasOwn(error, "cause")]).toEqual([{}, false]);
});

test("recognises an error of another copy of the package, and vice versa", async () => {
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

test("does not recognise a value that only looks like an error of espalier", () => {
  const marked = { [Symbol.for("espalier.error")]: true, code: "invalid_argument", message: "x" };
  const named = Object.assign(new Error("x"), { name: "EspalierError", code: "invalid_argument" });
  const others = [marked, named, new Error("x"), undefined, null, "EspalierError", 5];
  expect(others.map((value) => EspalierError.is(value))).toEqual(others.map(() => false));
});

proves(
  ["D730"],
  "has a guard for each kind of error, even if it comes from another copy of the package",
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

test("reports whether an error of a model is retryable", () => {
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

test("returns text as the message of any thrown value", () => {
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

// A tool may throw any value, and the text that the model is shown must not break the run.
test("returns text as the message of a value that cannot be converted to text", () => {
  expect(typeof getErrorMessage(Object.create(null))).toBe("string");
});

test("names the rule of a broken invariant and calls it a bug", () => {
  expect(() => invariant(true, "B1")).not.toThrow();
  expect(() => invariant(false, "B1: too much")).toThrow(
    "Broken invariant: B1: too much. This is a bug in espalier.",
  );
});
