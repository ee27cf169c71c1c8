// Goal: attachments that MCP servers return are shown to a model that accepts them, including those
// of a failed call.
// Method: the hand-made server over HTTP; whole runs with scripted models.

import { expect } from "vitest";

import { connectMcp } from "../../../src/mcp/connect-mcp.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { handMadeOverHttp } from "../../support/mcp/http-server.ts";

const OBJECT = { type: "object" };
const IMAGE = { type: "image", mediaType: "image/png", data: "AAAA" };
const LINES = "Here.\n[image/png, 3 bytes]";

for (const { inputModalities, content } of [
  { inputModalities: ["image"], content: [IMAGE] },
  { inputModalities: [], content: undefined },
] as const)
  proves(
    ["M72"],
    `passes images of results and failures to a model that accepts ${inputModalities.join() || "text"}`,
    async () => {
      const { transport } = await handMadeOverHttp({
        tools: [
          { name: "paint", inputSchema: OBJECT },
          { name: "spill", inputSchema: OBJECT },
        ],
      });
      const server = await connectMcp({
        name: "odd",
        transport,
        clock: new ManualClock(),
        filter: ({ name }) => name !== "broken" && name !== "chore",
      });
      afterwards(() => server.close());
      const script = [asks("odd_paint", {}), asks("odd_spill", {}), says("Done.")];
      const { role, model } = soloist(script, { tools: server.tools }, { inputModalities });
      const { steps } = await newFixture().run(role);
      const results = model.requests[2]?.messages.filter((message) => message.role === "tool");
      expect(results).toEqual([
        expect.objectContaining({ text: LINES }),
        expect.objectContaining({ text: `odd_spill failed: ${LINES}` }),
      ]);
      expect(results?.map((result) => ("content" in result ? result.content : undefined))).toEqual([
        content,
        content,
      ]);
      const executions = steps.flatMap(({ tools }) => tools.executions);
      expect(executions.map(({ type, attachments }) => ({ type, attachments }))).toEqual([
        { type: "succeeded", attachments: [IMAGE] },
        { type: "failed", attachments: [IMAGE] },
      ]);
    },
  );
