// Schemas of arguments and of typed results that are not schemas, and other mistakes beside them.

import { z } from "zod";

import {
  defineAgent,
  defineDelegation,
  defineTool,
  type DelegationContext,
} from "../../../src/index.ts";
import type { ToolInput } from "../../../src/extend.ts";
import { jsonSchema } from "../../../src/tools/json-schema.ts";
import type { Model } from "../../../src/model/model.ts";

declare const model: Model;
declare const either: ToolInput;

const delegate = (_input: unknown, { spawn }: DelegationContext) => spawn({ role: "a", task: "b" });
const basics = { name: "find", description: "Finds a city." };
const role = { name: "clerk", instructions: "Work.", model };
const shape = { city: z.string() };
const foreign = { type: "object", properties: { city: { type: "string" } } } as const;

// advice: Use z.object({ ... }), or jsonSchema({ ... }) for a schema from elsewhere
defineTool({ ...basics, inputSchema: { city: z.string() }, execute: () => "" });
// advice: Use z.object({ ... }), or jsonSchema({ ... }) for a schema from elsewhere
defineTool({ ...basics, inputSchema: shape, execute: () => "" });
// advice: Use z.object({ ... }), or jsonSchema({ ... }) for a schema from elsewhere
defineTool({ ...basics, inputSchema: foreign });
// advice: Use z.object({ ... }), or jsonSchema({ ... }) for a schema from elsewhere
defineTool({ ...basics, inputSchema: "city", execute: () => "" });
// advice: Use z.object({ ... }), or jsonSchema({ ... }) for a schema from elsewhere
defineDelegation({ ...basics, inputSchema: shape, execute: delegate });
// advice: Use z.object({ ... }), or jsonSchema({ ... }) for a schema from elsewhere
defineAgent({ ...role, output: { verdict: z.string() } });
// advice: Use z.object({ ... }), or jsonSchema({ ... }) for a schema from elsewhere
defineAgent({ ...role, output: foreign });
// advice: Use z.object({ ... }), or jsonSchema({ ... }) for a schema from elsewhere
defineAgent({ ...role, output: "text" });

defineTool({ ...basics, inputSchema: z.object(shape), execute: ({ city }) => city.length });
defineTool({ ...basics, execute: ({ city }) => city.length, inputSchema: z.object(shape) });
defineTool({
  ...basics,
  inputSchema: jsonSchema<{ city: string }>(foreign),
  execute: ({ city }) => city.length,
});
defineTool({ ...basics, inputSchema: either, execute: (input) => input });
defineTool({ ...basics, inputSchema: either });
defineAgent({ ...role, output: jsonSchema<{ city: string }>(foreign) });

/** A helper of a user, whose schema is known where it is called. */
export function defineReader<Schema extends z.ZodType>(inputSchema: Schema): void {
  defineTool({ ...basics, inputSchema, execute: () => "" });
}

// error: Property 'cty' does not exist on type '{ city: string; }'.
defineTool({ ...basics, inputSchema: z.object(shape), execute: ({ cty }) => cty });
// error: Type 'number' is not assignable to type 'string'.
defineTool({ ...basics, description: 3, inputSchema: z.object(shape), execute: () => "" });
// error: Did you mean to write 'inputSchema'?
defineTool({ ...basics, inputschema: z.object(shape), execute: () => "" });
// error: Did you mean to write 'outputMode'?
defineAgent({ ...role, output: z.object(shape), outputmode: "tool" });
