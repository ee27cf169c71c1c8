// Reads the names, the texts and the test titles of a TypeScript source from its syntax tree.

import { parseSync, Visitor, type ESTree } from "vite";

export interface Code {
  /** Functions and types that the file declares at its top level. */
  readonly functions: readonly string[];
  readonly types: readonly string[];
  /** Literals that are texts: messages, prompts, help and labels. */
  readonly texts: readonly string[];
}

/** Stands for the values inside a text, such as those of a template. */
const VALUE = "…";
/** A shorter literal is a name, a key or a unit. */
const MIN_WORDS = 3;
/** Statements of SQL, and scripts for shells. */
const IS_CODE = /^\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|WITH|#|_\w+\(\))/i;
/**
 * `test("…"`, `test.for([…])("…"`, `proves(["R1"], "…"`. A pattern, since parsing all tests takes
 * three seconds.
 */
const TEST_TITLE =
  /(?:\b(?:describe|it|test)(?:\.\w+)*\(|\bproves\(\s*\[[^\]]*\],|\)\()\s*(["'`])((?:(?!\1)[^\\]|\\.)+)\1,/g;

export function readCode(file: string, source: string): Code {
  const { program } = parseSync(file, source);
  return { ...readNames(program), texts: readTexts(program) };
}

function readNames({ body }: ESTree.Program): Omit<Code, "texts"> {
  const functions: string[] = [];
  const types: string[] = [];
  for (const statement of body) {
    const declaration = "declaration" in statement ? statement.declaration : statement;
    if (declaration === null) continue;
    if (declaration.type === "FunctionDeclaration") {
      if (declaration.id !== null) functions.push(declaration.id.name);
    } else if (declaration.type === "VariableDeclaration")
      functions.push(
        ...declaration.declarations.flatMap(({ id, init }) =>
          id.type === "Identifier" && init?.type === "ArrowFunctionExpression" ? id.name : [],
        ),
      );
    else if (
      declaration.type === "ClassDeclaration" ||
      declaration.type === "TSInterfaceDeclaration" ||
      declaration.type === "TSTypeAliasDeclaration"
    ) {
      if (declaration.id !== null) types.push(declaration.id.name);
    }
  }
  return { functions, types };
}

function readTexts(program: ESTree.Program): readonly string[] {
  const texts: string[] = [];
  const parts = new Set<unknown>();
  const join = (node: ESTree.Expression | ESTree.PrivateIdentifier): string => {
    parts.add(node);
    if (node.type === "BinaryExpression" && node.operator === "+")
      return join(node.left) + join(node.right);
    return readLiteral(node) ?? VALUE;
  };
  const visit = (node: ESTree.Expression): void => {
    if (!parts.has(node)) texts.push(join(node));
  };
  new Visitor({
    BinaryExpression: (node) => {
      if (node.operator === "+") visit(node);
    },
    Literal: visit,
    TemplateLiteral: visit,
    JSXText: (node) => {
      texts.push(node.value);
    },
  }).visit(program);
  return texts.filter(
    (text) => text.trim().split(/\s+/).length >= MIN_WORDS && !IS_CODE.test(text),
  );
}

/** Returns the titles of the tests and of the groups of tests in a file. */
export function readTestTitles(source: string): readonly string[] {
  return [...source.matchAll(TEST_TITLE)].map(([, , title = ""]) =>
    title.replaceAll(/\$\{[^}]*\}|\$\w+/g, VALUE),
  );
}

/** Returns the text of a literal, or `undefined` for another expression. */
function readLiteral(node: ESTree.Expression | ESTree.PrivateIdentifier): string | undefined {
  if (node.type === "Literal") return typeof node.value === "string" ? node.value : undefined;
  if (node.type !== "TemplateLiteral") return undefined;
  return node.quasis.map(({ value }) => value.cooked ?? "").join(VALUE);
}
