// Goal: what a role file may say cannot drift from what `defineAgent` takes, nor from what the document says.
// Method: the fields are taken from the error of `defineAgent` itself, and the document is read as text.

import { globSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { CODE_FIELDS, EXTENSION_FIELDS, FILE_FIELDS } from "../../src/roles/role-file-options.ts";
import { ScriptedModel } from "../../src/testing/scripted-model.ts";
import { thrownBy } from "../support/thrown.ts";

test("every field of a definition is said in a file, below it, or in code", () => {
  const stray = { name: "solo", instructions: "Work.", model: new ScriptedModel([]), stray: 1 };
  const { message } = thrownBy(() => defineAgent(stray));
  const [, fields = ""] = /to be one of (.*), got "stray"/.exec(message) ?? [];
  expect([...FILE_FIELDS, ...CODE_FIELDS, "instructions"].toSorted()).toEqual(
    fields.split(", ").toSorted(),
  );
});

test("code may say everything but the name and the instructions", () => {
  expect([...EXTENSION_FIELDS, "name"].toSorted()).toEqual(
    [...FILE_FIELDS, ...CODE_FIELDS].toSorted(),
  );
});

test("the document names every field that only code can say", () => {
  const document = readFileSync("docs/agent-files.md", "utf8");
  expect(CODE_FIELDS.filter((field) => !document.includes(`\`${field}\``))).toEqual([]);
});

test("the file in the document is the one of the example", () => {
  const [, sample = ""] =
    /```md\n([\s\S]*?)```/.exec(readFileSync("docs/agent-files.md", "utf8")) ?? [];
  expect(sample).toBe(readFileSync("examples/roles/researcher.md", "utf8"));
});

test("only this entry loads a parser of YAML", () => {
  const users = globSync("src/**/*.ts").filter((file) =>
    /from "yaml"|\/roles\//.test(readFileSync(file, "utf8")),
  );
  expect(users).toEqual(["src/roles/plain-yaml.ts"]);
});
