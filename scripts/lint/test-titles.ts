// Plugin of the linter: the title of a test is a sentence that is clear without the test above it.

interface Node {
  readonly type: string;
  readonly name?: string;
  readonly callee?: Node;
  readonly object?: Node;
  readonly tag?: Node;
  readonly arguments?: readonly Node[];
  readonly value?: unknown;
  readonly quasis?: readonly { readonly value: { readonly raw: string } }[];
}

interface RuleContext {
  report(problem: { readonly node: Node; readonly message: string }): void;
}

const DECLARING = new Set(["describe", "it", "proves", "test"]);

/** Words that only make sense after another title, or that hide the subject of the sentence. */
const DEPENDENT = /^(also|and|it|nor|of|that)\b/i;

/** Returns the name that a call begins with: `test` for `test.each(table)("…")`. */
function findRootName(node: Node | undefined): string | undefined {
  if (node === undefined || node.type === "Identifier") return node?.name;
  return findRootName(node.callee ?? node.object ?? node.tag);
}

/** Returns the beginning of a literal text, up to its first expression. */
function readText(node: Node): string | undefined {
  if (node.type === "TemplateLiteral") return node.quasis?.[0]?.value.raw;
  return node.type === "Literal" && typeof node.value === "string" ? node.value : undefined;
}

function checkCall(context: RuleContext, call: Node): void {
  const root = findRootName(call.callee);
  if (root === undefined || !DECLARING.has(root)) return;
  const title = call.arguments?.find((argument) => readText(argument) !== undefined);
  const [word] = DEPENDENT.exec((title && readText(title)) ?? "") ?? [];
  if (title === undefined || word === undefined) return;
  const message = `Expected a title that is clear on its own, got one that begins with "${word}". Write a sentence with subject, verb and result.`;
  context.report({ node: title, message });
}

const plugin = {
  meta: { name: "test-titles" },
  rules: {
    sentence: {
      create: (context: RuleContext) => ({
        CallExpression: (call: Node) => checkCall(context, call),
      }),
    },
  },
};

export default plugin;
