// Goal: known secrets are found in texts in every form in which they may be quoted, and nothing
// else is.
// Method: headers of all kinds, and texts that quote them, compared in full.

import { describe, expect, test } from "vitest";

import {
  findHeaderSecrets,
  findKeySecrets,
  hasSecret,
  redactCutValues,
  redactValues,
} from "../../src/kernel/redact-values.ts";
import { proves } from "../harness/proves.ts";

const BASIC = Buffer.from("ada:pass:word").toString("base64");

describe("the secrets of headers", () => {
  test.each<[Record<string, string>, readonly string[]]>([
    [{ "x-key": "s3cr3t" }, ["s3cr3t"]],
    [{ "X-Key": "  s3cr3t " }, ["s3cr3t"]],
    [{ authorization: "Bearer abc123" }, ["Bearer abc123", "Bearer%20abc123", "abc123"]],
    [
      { authorization: `Basic ${BASIC}` },
      [
        `Basic ${BASIC}`,
        `Basic%20${encodeURIComponent(BASIC)}`,
        BASIC,
        encodeURIComponent(BASIC),
        "pass:word",
        "pass%3Aword",
      ],
    ],
    [{ cookie: "a=short; sid=0123456=" }, expect.arrayContaining(["0123456="])],
    [{ "x-title": "Our application" }, ["Our application", "Our%20application"]],
    [{ "x-key": 'quo"ted' }, ['quo"ted', String.raw`quo\"ted`, "quo%22ted"]],
  ])("are found in %j as %j", (headers, values) => {
    const found = findHeaderSecrets(headers).map(({ value }) => value);
    expect(found).toEqual(values);
  });

  proves(["D408"], "are not found in harmless headers, short values and absent headers", () => {
    const headers = {
      "Content-Type": "application/json",
      accept: "text/event-stream",
      "user-agent": "espalier",
      "OpenAI-Organization": "org-12345678",
      "x-tier": "gold",
      "x-short": "abcde",
    };
    expect([findHeaderSecrets(headers), findHeaderSecrets(undefined)]).toEqual([[], []]);
    expect([findKeySecrets("abcde"), findKeySecrets(undefined)]).toEqual([[], []]);
  });
});

describe("a text", () => {
  const secrets = findHeaderSecrets({ authorization: "Bearer abc123", "x-$&": "s3cr3t" });

  test.each([
    ["Got Bearer abc123 and abc123.", "Got [header authorization] and [header authorization]."],
    ["Got s3cr3t, s3cr3t", "Got [header x-$&], [header x-$&]"],
    ["Got Bearer, abc12 and s3cr3 alone", "Got Bearer, abc12 and s3cr3 alone"],
  ])("is redacted from %j to %j", (text, redacted) => {
    expect(redactValues(text, secrets)).toBe(redacted);
  });

  test("is also redacted at the beginning of a secret that was cut", () => {
    const key = findKeySecrets("0123456789");
    const texts = ["a 01234567…", "a 01234…", "… 012345… 0123456…", "…", "0123456789…"];
    expect(texts.map((text) => redactCutValues(text, key))).toEqual([
      "a [API key]…",
      "a 01234…",
      "… [API key]… [API key]…",
      "…",
      "[API key]…",
    ]);
  });

  test("is redacted in one pass per secret if it has 1 MB", () => {
    const text = "abc12 ".repeat(170_000);
    expect(redactValues(`${text}abc123`, secrets)).toBe(`${text}[header authorization]`);
  });
});

test("finds a secret in the message, the fields and the causes of an error", () => {
  const secrets = findKeySecrets("0123456789");
  const cause = new Error("outer", { cause: new Error("0123456789") });
  const found = [
    new Error("0123456789"),
    Object.assign(new Error("x"), { sent: { headers: { key: "0123456789" } } }),
    new Error("outermost", { cause }),
    "0123456789",
  ].map((thrown) => hasSecret(thrown, secrets));
  expect(found).toEqual([true, true, true, true]);
  expect([hasSecret(new Error("012345678"), secrets), hasSecret("0123456789", [])]).toEqual([
    false,
    false,
  ]);
});

test("does not throw for an error that some versions of Node cannot print", () => {
  const hostile = {
    get [Symbol.toStringTag](): string {
      throw new Error("cannot be read");
    },
  };
  expect(() => hasSecret(hostile, findKeySecrets("0123456789"))).not.toThrow();
});
