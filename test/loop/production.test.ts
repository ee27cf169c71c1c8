// Tests run with all that is shared frozen. This one looks at what users have.

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";

import { expect } from "vitest";

import { proves } from "../harness/proves.ts";

proves(
  ["H21"],
  "what leaves the core cannot be written to, whole; what its users hold can",
  async () => {
    const program = resolve("test/loop/production-program.ts");
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
