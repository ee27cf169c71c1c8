// Other tests run with all shared values frozen. This one runs with the freezing of production.

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";

import { expect } from "vitest";

import { proves } from "../../harness/proves.ts";

proves(
  ["H21"],
  "values that leave the core are frozen in depth, and values of the user are not",
  async () => {
    const program = resolve("test/behaviour/loop/production-program.ts");
    const { stdout } = await promisify(execFile)(process.execPath, [
      "--conditions=@espalier/source",
      program,
    ]);
    expect(JSON.parse(stdout)).toEqual({
      seen: [
        "approver",
        "condition",
        "event",
        "guard",
        "paused",
        "processor",
        "recovered",
        "reply",
        "report",
        "request",
        "result",
        "section",
        "selection",
        "snapshot",
        "stop",
        "stored",
        "tool",
        "transform",
      ],
      writable: [],
      frozen: [],
    });
  },
);
