// Goal: the options for role files are validated, and their faults are distinguished from faults of
// the files.
// Method: a valid file with wrong options, one at a time.

import { expect, test } from "vitest";

import type { Model } from "../../src/model/model.ts";
import { readRoles, parseRoleFileNames } from "../../src/roles/read-roles.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { proves } from "../harness/proves.ts";
import { spyTool } from "../harness/tools.ts";
import { rejectionOf, thrownBy } from "../support/thrown.ts";
import { fast, OPTIONS, parsed, roleFile, search } from "./role-folder.ts";

test("reports a fault in code as invalid_argument instead of invalid_role_file", () => {
  const text = roleFile("model: fast", "budget: { steps: 1 }");
  const hooks = { extend: { researcher: { hooks: 5 } } };
  const inGroup = { extend: { researcher: { budget: { totalTokens: -1 } } } };
  const codes = [hooks, inGroup].map((options) => thrownBy(() => parsed(text, options)).code);
  expect(codes).toEqual(["invalid_argument", "invalid_argument"]);
  const wrong = roleFile("model: fast", "budget: { steps: -1 }");
  const right = { extend: { researcher: { budget: { totalTokens: 1 } } } };
  expect(thrownBy(() => parsed(wrong, right)).code).toBe("invalid_role_file");
});

const noModel = (): undefined => undefined;
const lateModel = async (): Promise<Model> => fast;
const brokenModels = (): never => {
  throw new Error("no such model");
};

test("reports an unavailable model at the file that names it", () => {
  const text = roleFile("model: mini");
  const start =
    'roles/researcher.md:2: Expected researcher.model to be the name of a model that models() returns, got "mini".';
  expect(thrownBy(() => parsed(text, { models: noModel })).message).toBe(
    `${start} Correct the name.`,
  );
  expect(thrownBy(() => parsed(text, { models: brokenModels })).message).toBe(
    `${start} models() threw: no such model.`,
  );
  expect(thrownBy(() => parsed(text, { models: lateModel })).message).toBe(
    'roles/researcher.md:2: Expected researcher.model to be a model, got a promise. Use openai("…") or a model of your own.',
  );
});

test("refuses invalid options", () => {
  const text = roleFile("model: fast");
  const faults: readonly (readonly [object, string])[] = [
    [{ tols: [] }, "parseRole.tols"],
    [{ models: undefined }, "parseRole.models"],
    [{ models: "fast" }, "parseRole.models"],
    [{ tools: search }, "parseRole.tools"],
    [{ tools: [5] }, "parseRole.tools[0]"],
    [{ tools: [search, spyTool("search")] }, "parseRole.tools"],
    [{ extend: [] }, "parseRole.extend"],
    [{ extend: { researcher: 5 } }, "parseRole.extend.researcher"],
    [{ extend: { researcher: { name: "other" } } }, "parseRole.extend.researcher.name"],
    [{ extend: { researcher: { instructions: "x" } } }, "parseRole.extend.researcher.instructions"],
    [{ extend: { writer: {} } }, "parseRole.extend.writer"],
    [{ file: "" }, "parseRole.file"],
  ];
  const fields = faults.map(([options]) => {
    return thrownBy(() => parsed(text, options)).data["field"];
  });
  expect(fields).toEqual(faults.map(([, field]) => field));
});

test("refuses an extension of a role that no file defines, and lists the roles", async () => {
  using folder = temporaryFolder({ "a.md": roleFile("model: fast") });
  const options = { ...OPTIONS, extend: { b: {} } };
  expect((await rejectionOf(readRoles(folder.path, options))).message).toBe(
    'Expected readRoles.extend.b to be the name of a role in the files (a), got "b". Correct the name.',
  );
});

proves(["V51"], "selects tools by name prefix, each once, in the given order", () => {
  const tools = ["files_read", "files_write", "save"].map((name) => spyTool(name));
  const named = (list: string): readonly string[] =>
    parsed(roleFile("model: fast", `tools: ${list}`), { tools }).tools.map(({ name }) => name);
  expect(named("[files_*]")).toEqual(["files_read", "files_write"]);
  expect(named("[save, files_write, files_*]")).toEqual(["save", "files_write", "files_read"]);
  for (const wrong of ['["*"]', "[gone_*]", "[files_]", '["files_*read"]'])
    expect(thrownBy(() => named(wrong)).message).toContain(
      "Expected researcher.tools[0] to be the name of a given tool (files_read, files_write, save)",
    );
});

proves(["V51"], "uses the default model for a file without a model", () => {
  const options = { defaultModel: fast };
  expect(parsed(roleFile(), options).model.id).toBe("fast");
  expect(parsed(roleFile("model: strong"), options).model.id).toBe("strong");
  const extended = { ...options, extend: { researcher: { model: OPTIONS.models.strong } } };
  expect(parsed(roleFile(), extended).model.id).toBe("strong");
  expect(thrownBy(() => parsed(roleFile(), { defaultModel: "fast" })).data["field"]).toBe(
    "parseRole.defaultModel",
  );
});

proves(["V51"], "parses the names in a file before models and tools are available", () => {
  const text = roleFile(
    "name: web",
    "model: m",
    "tools: [files_*, a]",
    "subagents: [b]",
    "limits: 5",
  );
  expect(parseRoleFileNames(text, "roles/researcher.md")).toEqual({
    name: "web",
    model: "m",
    tools: ["files_*", "a"],
    subagents: ["b"],
  });
  expect(parseRoleFileNames(roleFile("tools: a"), "a.md")).toEqual({
    name: undefined,
    model: undefined,
    tools: [],
    subagents: [],
  });
  expect(thrownBy(() => parseRoleFileNames("no front matter", "a.md")).message).toMatch(
    /^a\.md:1: /,
  );
});
