// Definitions of roles that lack what they need, and other mistakes in them.

import { z } from "zod";

import { defineAgent, type AgentRole } from "../../../src/index.ts";
import type { Model } from "../../../src/model/model.ts";

declare const model: Model;
declare const text: string;
declare const optional: { readonly description?: string };

interface User {
  readonly userId: string;
}
const basics = { instructions: "Work.", model };

const silent = defineAgent({ ...basics, name: "silent" });
const typed = defineAgent({ ...basics, name: "typed", output: z.object({ count: z.int() }) });
const writer = defineAgent({ ...basics, name: "writer", description: "Writes." });
const other = defineAgent({ ...basics, name: "other", description: text });
const perhaps = defineAgent({ ...basics, ...optional, name: "perhaps" });
const explicit = defineAgent<undefined, User>({ ...basics, name: "a", description: "Works." });
const annotated: AgentRole = defineAgent({ ...basics, name: "annotated" });

// advice: Describe this role in one line: its parent chooses subagents by their descriptions.
defineAgent({ ...basics, name: "lead", subagents: [silent] });
// advice: Describe this role in one line: its parent chooses subagents by their descriptions.
defineAgent({ ...basics, name: "lead", subagents: [typed, writer] });

// Whether these have a description, the types do not say.
defineAgent({ ...basics, name: "lead", subagents: [writer, other, perhaps, annotated, "silent"] });
const lead = defineAgent({ ...basics, name: "lead", subagents: [writer, explicit] });
void (lead satisfies AgentRole<undefined, User>);

// error: Type 'number' is not assignable to type 'string | AgentRole<unknown, never>'.
defineAgent({ ...basics, name: "lead", subagents: [3] });
// error: Did you mean to write 'description'?
defineAgent({ ...basics, name: "lead", descriptio: "Leads." });
// error: Type 'number' is not assignable to type 'string'.
defineAgent({ ...basics, name: "lead", description: 3 });
