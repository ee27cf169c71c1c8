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

/** What a server lists. */
export interface ListedTools {
  readonly tools: readonly Tool[];
  readonly unreadable: readonly UnreadableTool[];
}

/** Something in the list that is no tool. */
export interface UnreadableTool {
  /** Its name, or its place in the list. */
  readonly name: string;
  readonly reason: string;
}

const PageSchema = z.object({ tools: z.array(z.unknown()), nextCursor: z.string().optional() });

/** A server whose pages never end is not read for ever. */
const MOST_PAGES = 64;

/** Reads the list, page by page. */
export async function listTools(client: Client, options: RequestOptions): Promise<ListedTools> {
  const listed: unknown[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const params = cursor === undefined ? {} : { cursor };
    const { tools, nextCursor } = await client.request(
      { method: "tools/list", params },
      PageSchema,
      options,
    );
    listed.push(...tools);
    if (nextCursor === undefined || nextCursor === cursor) break;
    cursor = nextCursor;
  }
  const read = listed.map(readTool);
  return {
    tools: read.flatMap(({ tool }) => tool ?? []),
    unreadable: read.flatMap(({ unreadable }) => unreadable ?? []),
  };
}

interface ReadTool {
  readonly tool?: Tool;
  readonly unreadable?: UnreadableTool;
}

function readTool(value: unknown, index: number): ReadTool {
  const read = specTypeSchemas.Tool["~standard"].validate(value);
  if (read.issues === undefined && JsonObjectSchema.safeParse(read.value.inputSchema).success)
    return { tool: read.value };
  const given = isRecord(value) ? value["name"] : undefined;
  const name = typeof given === "string" ? given : `#${index + 1}`;
  const issue = read.issues?.[0];
  const where = (issue?.path ?? ["inputSchema"]).map(String).join(".");
  const what = issue?.message ?? "no plain JSON";
  return { unreadable: { name, reason: `It does not fit the protocol: ${where}: ${what}.` } };
}
