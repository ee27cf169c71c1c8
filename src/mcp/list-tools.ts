// The tools of a server, each read by itself: one that does not fit the protocol costs no other. (The SDK's own listing fails as a whole.)

import {
  specTypeSchemas,
  type Client,
  type RequestOptions,
  type Tool,
} from "@modelcontextprotocol/client";
import { z } from "zod";

import { isRecord } from "../kernel/json.ts";
import { JsonObjectSchema } from "../protocol/json-value.ts";
import { tooLarge } from "./bounded-response.ts";
import type { SkippedMcpTool } from "./skipped-mcp-tool.ts";

/** What a server lists. */
export interface ListedTools {
  readonly tools: readonly Tool[];
  /** What is no tool, or has no name: then it has its place. */
  readonly unreadable: readonly SkippedMcpTool[];
}

const PageSchema = z.object({ tools: z.array(z.unknown()), nextCursor: z.string().optional() });

/** A server whose pages never end is not read for ever. */
const MOST_PAGES = 64;

/** Reads the list, page by page. Throws a fault `too_large` if all pages together exceed `maxBytes`. */
export async function listTools(
  client: Client,
  options: RequestOptions,
  maxBytes: number,
): Promise<ListedTools> {
  const listed: unknown[] = [];
  let bytes = 0;
  let cursor: string | undefined;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const params = cursor === undefined ? {} : { cursor };
    const { tools, nextCursor } = await client.request(
      { method: "tools/list", params },
      PageSchema,
      options,
    );
    bytes += Buffer.byteLength(JSON.stringify(tools));
    if (bytes > maxBytes) throw tooLarge("the list of its tools", maxBytes);
    listed.push(...tools);
    if (nextCursor === undefined || nextCursor === cursor) break;
    cursor = nextCursor;
  }
  const tools: Tool[] = [];
  const unreadable: SkippedMcpTool[] = [];
  for (const [index, value] of listed.entries()) {
    const read = specTypeSchemas.Tool["~standard"].validate(value);
    if (read.issues === undefined && JsonObjectSchema.safeParse(read.value.inputSchema).success)
      tools.push(read.value);
    else unreadable.push(unreadableTool(value, index, read.issues?.[0]));
  }
  return { tools, unreadable };
}

/** What is said of something that is no tool; without an issue it is the schema that is no JSON. */
function unreadableTool(
  value: unknown,
  index: number,
  issue: { readonly path?: readonly unknown[] | undefined; readonly message: string } | undefined,
): SkippedMcpTool {
  const given = isRecord(value) ? value["name"] : undefined;
  const name = typeof given === "string" ? given : `#${index + 1}`;
  const where = (issue?.path ?? ["inputSchema"]).map(String).join(".");
  const what = issue?.message ?? "no plain JSON";
  return { name, reason: `It does not fit the protocol: ${where}: ${what}.` };
}
