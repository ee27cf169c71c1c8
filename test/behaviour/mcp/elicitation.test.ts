// Goal: a question of a server during a call is answered by the approver of that run, or declined,
// and never answered by another one. A request for a model is refused with a reason.
// Method: the hand-made server over both transports returns the answers that it received.

import { describe, expect, test } from "vitest";

import type { Approver } from "../../../src/agent/approver.ts";
import { connectMcp, type McpServer } from "../../../src/mcp/connect-mcp.ts";
import type { McpOptions, McpTransport } from "../../../src/mcp/mcp-options.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import {
  approve,
  deny,
  provideResult,
  provideError,
  type Question,
} from "../../../src/protocol/question.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { aborted } from "../../harness/scripted-agents.ts";
import { made, textsOf } from "../../support/mcp/agents.ts";
import { ASKING, PLACE } from "../../support/mcp/hand-made-server.ts";
import { handMadeOverHttp } from "../../support/mcp/http-server.ts";
import { handMadeOverStdio } from "../../support/mcp/servers.ts";

const TRANSPORTS: Readonly<Record<string, () => Promise<McpTransport>>> = {
  stdio: () => Promise.resolve(handMadeOverStdio("asking").transport),
  HTTP: async () => (await handMadeOverHttp({ tools: ASKING })).transport,
};

async function asking(transport: McpTransport, more: Partial<McpOptions> = {}): Promise<McpServer> {
  const filter: McpOptions["filter"] = ({ name }) => /^(elicit|sample|seen)$/.test(name);
  const server = await connectMcp({
    name: "peer",
    prefix: "",
    transport,
    filter,
    elicitation: true,
    ...more,
  });
  afterwards(() => server.close());
  return server;
}

/** Returns the answer that the server receives when its tool asks, as the model reads it. */
async function answerTo(
  server: McpServer,
  options: OrchestratorOptions = {},
  input: object = {},
): Promise<unknown> {
  const [text = ""] = textsOf(await made(server.tools, [["elicit", input]], newFixture(options)));
  return JSON.parse(text);
}

const bonn: Approver = (question) => provideResult(question, { city: "Bonn" });

for (const [name, open] of Object.entries(TRANSPORTS))
  describe(`a question over ${name}`, () => {
    proves(["M78"], "is answered by the approver of the run, with defaults filled in", async () => {
      const server = await asking(await open());
      const questions: Question[] = [];
      const fixture = newFixture({
        approver: (question) => {
          questions.push(question);
          return provideResult(question, { city: "Bonn" });
        },
      });
      const [execution] = await made(server.tools, [["elicit"]], fixture);
      expect(JSON.parse(execution?.text ?? "")).toEqual({
        action: "accept",
        content: { city: "Bonn", nights: 2 },
      });
      expect(questions).toMatchObject([
        {
          kind: "external",
          toolName: "elicit",
          reason: 'The MCP server "peer" asks: Where to?',
          arguments: PLACE,
        },
      ]);
      const [said] = fixture.sink.ofType("question.answered");
      expect([said?.answer, said?.source, JSON.stringify(said).includes("Bonn")]).toEqual([
        "result",
        "approver",
        false,
      ]);
    });

    proves(
      ["M78"],
      "is declined with a reason if it requests a model, and the call continues",
      async () => {
        const server = await asking(await open());
        const [text = ""] = textsOf(await made(server.tools, [["sample"]]));
        expect(JSON.parse(text)).toEqual({
          code: -1,
          message:
            "Declined: this client does not run a model for servers. Return the data as the result of the tool: the agent that called the tool reads it.",
        });
      },
    );
  });

const NO_ANSWERS: Readonly<Record<string, readonly [approver: Approver, action: string]>> = {
  "reports a failure": [(question) => provideError(question, "Not now."), "decline"],
  "denies it": [(question) => deny(question), "decline"],
  "says nothing": [() => undefined, "cancel"],
  throws: [() => Promise.reject(new Error("The line is dead.")), "cancel"],
  "approves it, which is no answer": [(question) => approve(question), "cancel"],
  "gives what does not fit": [(question) => provideResult(question, { city: 7 }), "cancel"],
  "gives too little": [(question) => provideResult(question, {}), "cancel"],
  "gives what nobody asked for": [
    (question) => provideResult(question, { city: "Bonn", password: "x" }),
    "cancel",
  ],
};

for (const [what, [approver, action]] of Object.entries(NO_ANSWERS))
  proves(["M78"], `sends ${action} to the server if an approver ${what}`, async () => {
    const server = await asking((await handMadeOverHttp({ tools: ASKING })).transport);
    expect(await answerTo(server, { approver })).toEqual({ action });
    takeWarnings();
  });

proves(["M78"], "declines without an approver, and outside of a call", async () => {
  const server = await asking(handMadeOverStdio("eager").transport);
  expect(await answerTo(server)).toEqual({ action: "decline" });
  const [seen = ""] = textsOf(await made(server.tools, [["seen"]], newFixture({ approver: bonn })));
  expect(seen.split("\n")).toContain('{"action":"decline"}');
});

proves(["M78"], "declares the capability only if it is enabled", async () => {
  const on = await handMadeOverHttp({ tools: ASKING });
  await asking(on.transport);
  const off = await handMadeOverHttp({ tools: ASKING });
  const server = await asking(off.transport, { elicitation: false });
  expect([on.server.client, off.server.client]).toEqual([
    [expect.anything(), { elicitation: { form: {} } }],
    [expect.anything(), {}],
  ]);
  // This server asks although the capability is off.
  expect(await answerTo(server, { approver: bonn })).toEqual({ action: "decline" });
});

test("refuses a schema that cannot be checked, and a URL to visit", async () => {
  const server = await asking((await handMadeOverHttp({ tools: ASKING })).transport);
  const asked: unknown[] = [];
  const approver: Approver = (question) => void asked.push(question);
  const requestedSchema = {
    type: "object",
    properties: { city: { type: "string", minLength: -1 } },
  };
  expect(await answerTo(server, { approver }, { requestedSchema })).toMatchObject({
    code: -32_602,
  });
  const visit = { mode: "url", url: "https://example.org", elicitationId: "1" };
  expect(await answerTo(server, { approver }, visit)).toMatchObject({ code: -32_602 });
  expect(asked).toEqual([]);
});

test("withdraws a question from the approver if the server withdraws it", async () => {
  const server = await asking((await handMadeOverHttp({ tools: ASKING })).transport);
  let count = 0;
  const fixture = newFixture({
    approver: async (question, { signal }) => {
      count += 1;
      if (count === 1) await aborted(signal);
      return provideResult(question, { city: "Bonn" });
    },
  });
  const [execution] = await made(server.tools, [["elicit", { withdrawn: true }]], fixture);
  expect(JSON.parse(execution?.text ?? "")).toMatchObject({ action: "accept" });
  const said = fixture.sink.events.flatMap((event) => {
    if (event.type === "question.asked") return ["asked"];
    return event.type === "question.answered" ? [event.source] : [];
  });
  expect(said).toEqual(["asked", "end", "asked", "approver"]);
});

describe("two runs with one server", () => {
  /** Returns the answers of two runs, each with its own approver. */
  async function both(transport: McpTransport): Promise<readonly unknown[]> {
    const server = await asking(transport);
    return await Promise.all(
      ["Bonn", "Rome"].map((city) => {
        const ids = sequentialIds();
        const own = { next: (kind: string) => `${city}_${ids.next(kind)}` };
        const approver: Approver = (question) => provideResult(question, { city });
        return answerTo(server, { approver, ids: own }, { together: 2 });
      }),
    );
  }

  proves(["M78"], "are each asked about their own call over HTTP", async () => {
    const answers = await both((await handMadeOverHttp({ tools: ASKING })).transport);
    expect(answers).toEqual(
      ["Bonn", "Rome"].map((city) => ({ action: "accept", content: { city, nights: 2 } })),
    );
  });

  proves(["M78"], "are not asked over stdio, where a question does not name its call", async () => {
    const answers = await both(handMadeOverStdio("asking").transport);
    expect(answers).toEqual([{ action: "decline" }, { action: "decline" }]);
  });
});
