// Goal: an invalid role file causes one clear error with file and line (X26).
// Method: compare the whole message for one file of each kind.

import { symlinkSync } from "node:fs";

import { expect, test } from "vitest";

import { readRoles } from "../../src/roles/read-roles.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { proves } from "../harness/proves.ts";
import { rejectionOf, thrownBy } from "../support/thrown.ts";
import { BAD_ROLE_TEXTS } from "./bad-role-texts.ts";
import { OPTIONS, parsed, roleFile } from "./role-folder.ts";

for (const [what, text, line, message] of BAD_ROLE_TEXTS) {
  proves(["X26"], `reports one error with file and line: ${what}`, async () => {
    using folder = temporaryFolder({ "a.md": roleFile("model: fast"), "researcher.md": text });
    const file = folder.at("researcher.md");
    const expected = { code: "invalid_role_file", message: `${file}:${line}: ${message}` };
    expect(await rejectionOf(readRoles(folder.path, OPTIONS))).toEqual({
      ...expected,
      data: { file, line },
    });
  });
}

test("counts lines alike for every line ending", () => {
  const text = roleFile("model: fast", "description: |", "  One", "", "  two", "budget: 5");
  const { data } = thrownBy(() => parsed(text));
  expect(data).toEqual({ file: "roles/researcher.md", line: 7 });
  expect(thrownBy(() => parsed(text.replaceAll("\n", "\r\n"))).data).toEqual(data);
  expect(thrownBy(() => parsed(`\u{FEFF}${text}`)).data).toEqual(data);
});

test("reports the error of defineAgent as the cause, with its own code", () => {
  const thrown = thrownIn(roleFile("model: fast", "budget: { costUsd: -1 }"));
  expect(thrown.message).toMatch(
    /^roles\/researcher\.md:3: Expected researcher\.budget\.costUsd to be /,
  );
  expect(
    thrownBy(() => {
      throw thrown.cause;
    }),
  ).toMatchObject({ code: "invalid_argument", data: { field: "researcher.budget.costUsd" } });
});

function thrownIn(text: string): Error {
  try {
    parsed(text);
  } catch (thrown) {
    if (thrown instanceof Error) return thrown;
  }
  throw new Error("Expected an error.");
}

test("refuses deep nesting at once in every notation", () => {
  const deep = [
    `model: ${"[".repeat(15_000)}${"]".repeat(15_000)}`,
    "[".repeat(30_000),
    "{a: ".repeat(8_000),
    "- ".repeat(15_000),
    "? ".repeat(15_000),
    `tools: ${"[".repeat(21)}${"]".repeat(21)}`,
  ];
  const message =
    "roles/researcher.md:2: Expected at most 20 levels of nesting, got more. Remove levels: no field of a role needs so many.";
  const data = { file: "roles/researcher.md", line: 2 };
  for (const yaml of deep)
    expect(thrownBy(() => parsed(roleFile(yaml)))).toEqual({
      code: "invalid_role_file",
      message,
      data,
    });
});

test("refuses aliases before they are expanded", () => {
  const bomb = ["a: &a [x, x]", "b: &b [*a, *a]", "c: [*b, *b]"];
  expect(thrownBy(() => parsed(roleFile(...bomb))).message).toBe(
    "roles/researcher.md:2: Expected plain values, got the anchor &a. Write the value out, without it.",
  );
});

test("refuses a file that is not UTF-8 and names the first invalid line", async () => {
  const bytes = Buffer.from(roleFile("model: fast", "description: Straße"), "latin1");
  const inUtf16 = Buffer.from(`\u{FEFF}${roleFile("model: fast")}`, "utf16le");
  for (const [content, line] of [
    [bytes, 3],
    [inUtf16, 1],
  ] as const) {
    using folder = temporaryFolder({ "role.md": content });
    const file = folder.at("role.md");
    expect(await rejectionOf(readRoles(folder.path, OPTIONS))).toEqual({
      code: "invalid_role_file",
      message: `${file}:${line}: Expected UTF-8, got something else. Save the file as UTF-8.`,
      data: { file, line },
    });
  }
});

test("refuses the second of two files with one role name, at the line of the name", async () => {
  using folder = temporaryFolder({
    "a.md": roleFile("name: role", "model: fast"),
    "b.md": roleFile("model: fast", "name: role"),
  });
  using unnamed = temporaryFolder({
    "a.md": roleFile("name: b", "model: fast"),
    "b.md": roleFile("model: fast"),
  });
  const [a, b] = [folder.at("a.md"), folder.at("b.md")];
  expect(await rejectionOf(readRoles(folder.path, OPTIONS))).toEqual({
    code: "invalid_role_file",
    message: `${b}:3: Expected a name that no other file has, got "role", which ${a} has. Rename one of them.`,
    data: { file: b, line: 3 },
  });
  expect((await rejectionOf(readRoles(unnamed.path, OPTIONS))).data).toEqual({
    file: unnamed.at("b.md"),
    line: 1,
  });
});

test("reports the first of several invalid files by name", async () => {
  using folder = temporaryFolder({ "c.md": "", "b.md": "", "a.md": roleFile("model: fast") });
  const { data } = await rejectionOf(readRoles(folder.path, OPTIONS));
  expect(data).toEqual({ file: folder.at("b.md"), line: 1 });
});

test("refuses a dangling symbolic link", async () => {
  using folder = temporaryFolder();
  symlinkSync(folder.at("gone"), folder.at("role.md"));
  const { code, message } = await rejectionOf(readRoles(folder.path, OPTIONS));
  expect([code, message.replaceAll(folder.path, "roles")]).toEqual([
    "invalid_role_file",
    "roles/role.md:1: Cannot read the file (ENOENT: no such file or directory, stat 'roles/role.md'). Fix it, or remove it from the folder.",
  ]);
});

test("refuses a folder that cannot be read as an invalid argument", async () => {
  using folder = temporaryFolder({ "role.md": roleFile("model: fast") });
  const advice =
    'Pass its path, or new URL("roles", import.meta.url) for a folder beside the program.';
  const { code, message, data } = await rejectionOf(readRoles(folder.at("none"), OPTIONS));
  const got = JSON.stringify(folder.at("none"));
  expect({ code, data }).toEqual({
    code: "invalid_argument",
    data: { field: "readRoles.folder", expected: "a folder that can be read", got },
  });
  expect(message.startsWith("Expected readRoles.folder to be a folder that can be read, got")).toBe(
    true,
  );
  expect(message.endsWith(`. ${advice}`)).toBe(true);
  const places = [folder.at("role.md"), new URL("https://example.org/roles"), "", "a\0b"];
  for (const place of places)
    expect((await rejectionOf(readRoles(place, OPTIONS))).code).toBe("invalid_argument");
});
