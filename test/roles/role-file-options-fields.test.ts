// Goal: the fields of a role file match those of `defineAgent` and of the document.
// Method: take the fields from the error of `defineAgent`, and read the document as text.

import { globSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { CODE_FIELDS, EXTENSION_FIELDS, FILE_FIELDS } from "../../src/roles/role-file-options.ts";
import { ScriptedModel } from "../../src/testing/scripted-model.ts";
import { thrownBy } from "../support/thrown.ts";

test("covers every field of a definition by file, instructions or code", () => {
  const stray = { name: "solo", instructions: "Work.", model: new ScriptedModel([]), stray: 1 };
  const { message } = thrownBy(() => defineAgent(stray));
  const [, fields = ""] = /to be one of (.*), got "stray"/.exec(message) ?? [];
  expect([...FILE_FIELDS, ...CODE_FIELDS, "instructions"].toSorted()).toEqual(
    fields.split(", ").toSorted(),
  );
});

test("lets code set every field except the name and the instructions", () => {
  expect([...EXTENSION_FIELDS, "name"].toSorted()).toEqual(
    [...FILE_FIELDS, ...CODE_FIELDS].toSorted(),
  );
});

test("documents every field that only code can set", () => {
  const document = readFileSync("docs/agent-files.md", "utf8");
  expect(CODE_FIELDS.filter((field) => !document.includes(`\`${field}\``))).toEqual([]);
});

test("shows the file of the example in the document", () => {
  const [, sample = ""] =
    /```md\n([\s\S]*?)```/.exec(readFileSync("docs/agent-files.md", "utf8")) ?? [];
  expect(sample).toBe(readFileSync("examples/roles/researcher.md", "utf8"));
});

test("loads a YAML parser only in this entry point", () => {
  const users = globSync("src/**/*.ts").filter((file) =>
    /from "yaml"|\/roles\//.test(readFileSync(file, "utf8")),
  );
  expect(users).toEqual(["src/roles/plain-yaml.ts"]);
});
