// Goal: a link leads to the right page whatever a name contains, and an invalid address is refused
// at once.
// Method: compare whole addresses and how a browser parses them, with hostile names and addresses.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { jaegerLinks } from "../../src/terminal/jaeger-links.ts";
import { thrownBy } from "../support/thrown.ts";

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const links = jaegerLinks("http://localhost:16686");

test("links to the four pages of a run", () => {
  expect([
    links.trace(TRACE_ID),
    links.agent(TRACE_ID, "lead/researcher#2"),
    links.failures(TRACE_ID),
    links.search({ service: "espalier", tags: { error: "true" }, operation: "chat gpt 5" }),
  ]).toEqual([
    `http://localhost:16686/trace/${TRACE_ID}`,
    `http://localhost:16686/trace/${TRACE_ID}?uiFind=espalier.agent.path%3Dlead%2Fresearcher%232`,
    `http://localhost:16686/trace/${TRACE_ID}?uiFind=error%3Dtrue%20status%3Derror`,
    "http://localhost:16686/search?service=espalier&operation=chat%20gpt%205&tags=%7B%22error%22%3A%22true%22%7D&lookback=1h&limit=20",
  ]);
});

test("links to a search without tags and with a longer lookback", () => {
  expect(links.search({ service: "espalier", lookback: "2d" })).toBe(
    "http://localhost:16686/search?service=espalier&lookback=2d&limit=20",
  );
});

test.each([
  ["http://localhost:16686/", "http://localhost:16686/trace/ID"],
  ["https://tools.example.org/jaeger", "https://tools.example.org/jaeger/trace/ID"],
  ["https://tools.example.org/jaeger//", "https://tools.example.org/jaeger/trace/ID"],
  ["http://[::1]:16686", "http://[::1]:16686/trace/ID"],
  ["HTTP://LOCALHOST:80", "http://localhost/trace/ID"],
])("accepts %s as an address of Jaeger", (baseUrl, page) => {
  expect(jaegerLinks(baseUrl).trace(TRACE_ID)).toBe(page.replace("ID", TRACE_ID));
});

test.each([
  "",
  "localhost:16686",
  "//localhost",
  "javascript:alert(1)",
  "file:///etc/passwd",
  "http://localhost:16686/?x=1",
  "http://localhost:16686/#here",
  "http://user@localhost:16686",
  "http://",
])("refuses %j as an address of Jaeger", (baseUrl) => {
  const { code, message } = thrownBy(() => jaegerLinks(baseUrl));
  expect([code, message]).toEqual([
    "invalid_argument",
    expect.stringMatching(
      /^Expected baseUrl to be an http or https URL without query, fragment and password, got .*\. Pass the address of its pages, /,
    ),
  ]);
});

test("does not repeat the password of an address in the error", () => {
  const given = ["http://user:secret@localhost", "http://user:secret@:none", "http:/u:secret@x"];
  given.push(
    "http:u:secret@x/?q",
    "http:\\\\u:secret@x",
    "http://x/?key=secret",
    "http://x/#secret",
  );
  for (const baseUrl of given)
    expect(JSON.stringify(thrownBy(() => jaegerLinks(baseUrl)))).not.toContain("secret");
});

test("refuses a non-string address", () => {
  const nothing: unknown = { base: undefined };
  const { code, message } = thrownBy(() => Reflect.apply(jaegerLinks, undefined, [nothing]));
  expect([code, message]).toEqual(["invalid_argument", expect.stringContaining("got an object")]);
});

test("refuses an invalid search and names the field", () => {
  const slips: readonly (readonly [unknown, string])[] = [
    [undefined, "search to be a plain object, got undefined"],
    [null, "search to be a plain object, got null"],
    [{}, "search.service to be a non-empty string, got undefined"],
    [{ service: "a", limit: 5 }, "search.limit to be one of"],
    [{ service: "a", operation: 5 }, "search.operation to be a non-empty string"],
    [{ service: "a", lookback: 5 }, "search.lookback to be a number and its unit"],
    [{ service: "a", lookback: "" }, "search.lookback to be a number and its unit"],
    [{ service: "a", tags: null }, "search.tags to be an object of string values, got null"],
    [{ service: "a", tags: ["b"] }, "search.tags to be an object of string values, got an array"],
    [{ service: "a", tags: { b: 1 } }, "search.tags.b to be text, got 1"],
  ];
  for (const [query, words] of slips) {
    const { code, message } = thrownBy(() => Reflect.apply(links.search, undefined, [query]));
    expect([code, message]).toEqual([
      expect.stringMatching(/^invalid_/),
      expect.stringContaining(`Expected ${words}`),
    ]);
  }
});

test("never leaves the page for any name, and encodes each name without loss", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", minLength: 1 }), (name) => {
      fc.pre(name.trim() !== "");
      const whole = name.toWellFormed();
      const agent = new URL(links.agent(TRACE_ID, name));
      expect(agent.href.startsWith(`${links.trace(TRACE_ID)}?`)).toBe(true);
      expect([...agent.searchParams]).toEqual([["uiFind", `espalier.agent.path=${whole}`]]);
      const search = new URL(links.search({ service: name, tags: { [name]: name } }));
      expect([...search.searchParams]).toEqual([
        ["service", whole],
        ["tags", JSON.stringify({ [name]: name })],
        ["lookback", "1h"],
        ["limit", "20"],
      ]);
    }),
  );
});

test("refuses an empty name and an invalid trace id", () => {
  const attempts = [
    () => links.trace(""),
    () => links.trace("../search"),
    () => links.failures(`${TRACE_ID}?x`),
    () => links.agent(".", "lead"),
    () => links.agent(TRACE_ID, " "),
    () => links.search({ service: "" }),
  ];
  expect(attempts.map((attempt) => thrownBy(attempt).code)).toEqual([
    "invalid_argument",
    "invalid_argument",
    "invalid_argument",
    "invalid_argument",
    "invalid_argument",
    "invalid_argument",
  ]);
});
