// The examples of docstrings, as modules that the compiler can check.

import type { Declaration, Example } from "./declarations.ts";

const NAMES = "../../scripts/reference/example-names.ts";

/** Returns the examples of all public names. `given`: the names that `example-names.ts` exports. */
export function listExamples(
  declarations: readonly Declaration[],
  globals: readonly string[],
): readonly Example[] {
  const specifiers = new Map<string, Declaration>();
  // A name that two entries export is imported from the root, which comes first.
  for (const declaration of declarations)
    if (!specifiers.has(declaration.name)) specifiers.set(declaration.name, declaration);
  const seen = new Set<string>();
  return declarations.flatMap(({ name, examples, fields }) =>
    [
      ...examples.map((code) => ({ name, code })),
      ...fields.flatMap((field) =>
        field.examples.map((code) => ({ name: `${name}.${field.name}`, code })),
      ),
    ]
      // An inherited field has its docstring in every type.
      .filter(({ code }) => !seen.has(code) && seen.add(code))
      .map((example) => ({ ...example, module: toModule(example.code, specifiers, globals) })),
  );
}

function toModule(
  code: string,
  specifiers: ReadonlyMap<string, Declaration>,
  globals: readonly string[],
): string {
  const used = new Set(code.match(/(?<![\w$]|(?<!\.\.)\.)[A-Za-z_$][\w$]*/g));
  const declared = new Set(
    Array.from(
      code.matchAll(/\b(?:const|let|function|class|interface|type|import)\s+(?:type\s+)?([\w$]+)/g),
      ([, name = ""]) => name,
    ),
  );
  for (const [, list = ""] of code.matchAll(
    /(?:import|const|let)\s+(?:type\s+)?[{[]([^}\]]*)[}\]]/g,
  ))
    for (const name of list.match(/[\w$]+(?=\s*(?:,|$|=))/g) ?? []) declared.add(name);
  const imports = [...used]
    .filter((name) => !declared.has(name))
    .flatMap((name) => {
      if (globals.includes(name)) return [`import { ${name} } from "${NAMES}";`];
      const found = specifiers.get(name);
      if (found === undefined) return [];
      return [
        `import ${found.kind === "type" ? "type " : ""}{ ${name} } from "${found.specifier}";`,
      ];
    });
  return [...imports, code, "export {};"].join("\n");
}
