// Goal: the command helps a user who guesses: wrong words are refused with the right ones, and a suggested
// command can be pasted. Method: the command within the test, in a folder with a store or without one.

import { expect, test } from "vitest";

import { temporaryFolder } from "../examples/temporary-folder.ts";
import { performed } from "./performed.ts";

test("the help of an unknown command fails with the nearest names", async () => {
  using folder = temporaryFolder({});
  expect(await performed(["help", "shaw"], { cwd: folder.path })).toEqual({
    code: 2,
    stdout: "",
    stderr: "Unknown command 'shaw'. Did you mean show? See: espalier --help [usage]\n",
  });
  expect((await performed(["help", "show"], { cwd: folder.path })).code).toBe(0);
});

test("an amount with a second equals sign is refused", async () => {
  using folder = temporaryFolder({});
  const args = ["run", "lead.md", "Go.", "--budget", "cost=1=2"];
  expect(await performed(args, { cwd: folder.path })).toEqual({
    code: 2,
    stdout: "",
    stderr:
      'Expected cost in --budget to be dollars, for example 0.5, got "1=2". Use cost=none for no limit. [usage]\n',
  });
});
