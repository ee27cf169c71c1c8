// Goal: a docstring keeps its paragraphs, lists, links and examples on a page of the reference.
// Method: docstrings with each of them, and the Markdown that the generator of the reference
// writes.

import { expect, test } from "vitest";

import type { Declaration, Field } from "../../scripts/reference/declarations.ts";
import { listExamples } from "../../scripts/reference/examples.ts";
import { cell, firstSentence, prose, section } from "../../scripts/reference/markdown.ts";

const HOMES = new Map([
  ["Budget", "agent.md#budget"],
  ["Limits", "agent.md#limits"],
]);

const DOCSTRING = `Shares the budget
of {@link Budget }. Modes:
- \`"pool"\`: one pool
  for all | any.
- \`"even"\`: equal parts.

Unused parts are returned to {@link
 * Pool}.

Default: \`"pool"\`.`;

test("keeps paragraphs and lists of a docstring in a section", () => {
  expect(prose(DOCSTRING, HOMES)).toBe(
    `Shares the budget of [\`Budget\`](agent.md#budget). Modes:

- \`"pool"\`: one pool for all | any.
- \`"even"\`: equal parts.

Unused parts are returned to \`Pool\`.

Default: \`"pool"\`.`,
  );
});

test("writes paragraphs and list items of a docstring in one line of a table cell", () => {
  expect(cell(DOCSTRING, HOMES)).toBe(
    [
      "Shares the budget of [`Budget`](agent.md#budget). Modes:",
      '<br>• `"pool"`: one pool for all | any.<br>• `"even"`: equal parts.',
      '<br><br>Unused parts are returned to `Pool`.<br>Default: `"pool"`.',
    ].join(""),
  );
});

test("ends the first sentence of a docstring before its list", () => {
  expect(firstSentence("Options of `share`\n- `pool`: one.")).toBe("Options of `share`");
  expect(firstSentence("Shares: one\nfor all. Others do not.")).toBe("Shares: one for all.");
});

const FIELD: Field = {
  name: "maxShare",
  type: "number",
  isOptional: true,
  text: "Largest part.",
  throws: [],
  examples: [],
};

const DECLARATION: Declaration = {
  name: "Limits",
  specifier: "espalier",
  kind: "class",
  text: "Limits of an agent.",
  signatures: [],
  throws: [],
  examples: ["new Limits();"],
  fields: [
    { ...FIELD, origin: "Limits", examples: ["const one = 1;"] },
    { ...FIELD, name: "tokens", type: "Budget", origin: "Budget", examples: ["const two = 2;"] },
    {
      ...FIELD,
      name: "raise",
      type: "raise(budget: Budget): void",
      throws: ["RangeError if it is too high.", "TypeError if it is not a number."],
      examples: ["limits.raise(budget);"],
      isMethod: true,
    },
  ],
};

test("writes examples before tables, and examples of inherited fields where they are declared", () => {
  expect(section(DECLARATION, HOMES)).toBe(`### Limits

\`import { Limits } from "espalier"\`

Limits of an agent.

\`\`\`typescript
new Limits();
\`\`\`

| name | type | description |
| --- | --- | --- |
| \`maxShare?\` | \`number\` | Largest part. |
| \`tokens?\` | \`Budget\` | Largest part. → [Budget](agent.md#budget) |

\`maxShare\`, for example:

\`\`\`typescript
const one = 1;
\`\`\`

#### Limits.raise

\`\`\`typescript
raise(budget: Budget): void
\`\`\`

Largest part.

- Throws RangeError if it is too high.
- Throws TypeError if it is not a number.

→ [Budget](agent.md#budget)

\`\`\`typescript
limits.raise(budget);
\`\`\``);
});

test("imports a name that an example spreads, but no property names", () => {
  const codes = {
    ...DECLARATION,
    name: "CODES",
    examples: ["const all = [...CODES];"],
    fields: [],
  };
  const other = { ...codes, name: "OTHER", examples: ["const one = run.CODES;"] };
  expect(listExamples([codes, other], []).map(({ module }) => module)).toEqual([
    'import { CODES } from "espalier";\nconst all = [...CODES];\nexport {};',
    "const one = run.CODES;\nexport {};",
  ]);
});
