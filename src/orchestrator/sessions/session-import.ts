// Imports messages of another program into a new session. Pure, except for the given ids.

import { mismatch } from "../../kernel/argument-checks.ts";
import type { IdSource } from "../../kernel/id-source.ts";
import { deepFreeze } from "../../kernel/json.ts";
import { AgentIdSchema, createMessageId, ExecutionIdSchema } from "../../protocol/ids.ts";
import { z } from "../../protocol/lazy-schema.ts";
import { ImportedMessageSchema } from "../../protocol/message.ts";
import { findSessionProblem, type SessionRecord } from "./session-record.ts";

/** Returns the session with these messages. Throws `invalid_argument` for invalid messages. */
export function importMessages(record: SessionRecord, list: unknown, ids: IdSource): SessionRecord {
  const { data = [], error } = z.array(ImportedMessageSchema()).safeParse(list);
  const agentId = AgentIdSchema().parse(ids.next("agent"));
  const executionId = ExecutionIdSchema().parse(ids.next("execution"));
  const messages = data.map((message, index) => {
    const messageId = createMessageId(executionId, index + 1);
    return { ...message, messageId, agentId, executionId };
  });
  const imported = { ...record, messages, importId: executionId };
  const [issue] = error?.issues ?? [];
  const problem = issue
    ? `${issue.message} at "${issue.path.join(".")}"`
    : findSessionProblem(record.sessionId, imported);
  if (problem === undefined) return deepFreeze(structuredClone(imported));
  const advice = `Correct them: ${problem}. Leave out system messages.`;
  throw mismatch("messages", "complete messages of users, models and tools", list, advice);
}
