// A program that uses an MCP server, closes it, and has nothing else to do: it must exit by itself.
// Run by a test.

import { connectMcp } from "../../../src/mcp/connect-mcp.ts";

const [, , ...args] = process.argv;
const server = await connectMcp({
  name: "peer",
  transport: args[0]?.startsWith("http")
    ? { type: "http", url: args[0] }
    : {
        type: "stdio",
        command: process.execPath,
        args,
        onStderr: (text) => process.stderr.write(text),
      },
  filter: ({ name }) => name === "meta",
});
await server.close();
process.stdout.write("closed\n");
