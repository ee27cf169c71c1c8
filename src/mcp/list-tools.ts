// Lists the tools of a server. Each tool is parsed separately, so that an invalid tool does not
// affect the others. (The SDK's own listing fails as a whole.)

import {
  specTypeSchemas,
  type Client,
  type RequestOptions,
  type Tool,
} from "@modelcontextprotocol/client";
import { z } from "zod";

import { groupDigits } from "../kernel/argument-checks.ts";
import { getErrorMessage } from "../kernel/error.ts";
import { isRecord, cloneJson } from "../kernel/json.ts";
import { JsonObjectSchema } from "../protocol/json-value.ts";
import { createTooLargeFault } from "./mcp-fault.ts";
import type { McpSettings, SkippedMcpTool } from "./mcp-options.ts";

/** The listed tools of a server. */
export interface ListedTools {
  readonly tools: readonly Tool[];
  /** Entries that are not valid tools. An entry without a name gets its position as its name. */
  readonly unreadable: readonly SkippedMcpTool[];
}

const PageSchema = z.object({ tools: z.array(z.unknown()), nextCursor: z.string().optional() });

/**
 * Maximum depth of a tool. Deeper ones overflow the stack of the validator, which then rejects a
 * promise that nothing handles.
 */
const MAX_LEVELS = 200;

/** Maximum number of pages, for a server whose pages never end. */
const MAX_PAGES = 64;

/**
 * Reads the list page by page. Throws a fault `too_large` if all pages together exceed
 * `maxResponseBytes`.
 */
export async function listTools(
  client: Client,
  options: RequestOptions,
  { maxResponseBytes: maxBytes, maxTools }: Pick<McpSettings, "maxResponseBytes" | "maxTools">,
): Promise<ListedTools> {
  const listed: unknown[] = [];
  let bytes = 0;
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const params = cursor === undefined ? {} : { cursor };
    const { tools, nextCursor } = await client.request(
      { method: "tools/list", params },
      PageSchema,
      options,
    );
    for (const tool of tools) {
      try {
        bytes += Buffer.byteLength(JSON.stringify(tool));
      } catch {
        // A tool that is nested too deeply to be serialised is skipped later.
      }
      if (bytes > maxBytes) throw createTooLargeFault("the list of its tools", maxBytes);
      listed.push(tool);
    }
    if (listed.length > maxTools || nextCursor === undefined || nextCursor === cursor) break;
    cursor = nextCursor;
  }
  const tools: Tool[] = [];
  const unreadable: SkippedMcpTool[] = [];
  for (const [index, value] of listed.slice(0, maxTools).entries()) {
    const read = readListedTool(value);
    if (typeof read !== "string") tools.push(read);
    else {
      const listedName = isRecord(value) ? value["name"] : undefined;
      const name = typeof listedName === "string" ? listedName : `#${index + 1}`;
      unreadable.push({ name, reason: `It does not fit the protocol: ${read}.` });
    }
  }
  if (listed.length > maxTools) {
    const reason = `The list has more than ${groupDigits(maxTools)} tools (maxTools). This tool and all that follow are left out.`;
    unreadable.push({ name: `#${maxTools + 1}`, reason });
  }
  return { tools, unreadable };
}

/** Returns the tool, or the reason why it is invalid. */
function readListedTool(value: unknown): Tool | string {
  try {
    const copy = cloneJson(value, MAX_LEVELS);
    if (copy === undefined) return "it is nested too deeply";
    const read = specTypeSchemas.Tool["~standard"].validate(copy);
    if (read.issues !== undefined) {
      const { path = [], message } = read.issues[0] ?? { message: "" };
      return path.length === 0 ? message : `${path.map(String).join(".")}: ${message}`;
    }
    const isJson = JsonObjectSchema().safeParse(read.value.inputSchema).success;
    return isJson ? read.value : "inputSchema: not plain JSON";
  } catch (cause) {
    return getErrorMessage(cause);
  }
}
