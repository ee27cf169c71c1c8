// What the public names of the package are: their docstrings, signatures and fields, out of the source.
//
// The types are read with the TypeScript that API Extractor brings, since version 7 of the compiler, which checks the sources, has no
// interface for programs. Its doc model has the docstring of a field, but not those of what is nested in it, and needs a build.

import ts from "../../node_modules/@microsoft/api-extractor/node_modules/typescript/lib/typescript.js";

/** A field of a type, or of an object within one: `usage.tokens`, `questions[].toolName`. */
export interface Field {
  readonly name: string;
  readonly type: string;
  readonly isOptional: boolean;
  readonly text: string;
  readonly throws: readonly string[];
  readonly examples: readonly string[];
  /** Name of the type that declares the field, from which others inherit it. */
  readonly origin?: string | undefined;
  /** True for a method, a constructor and a further overload: `type` is then the signature. */
  readonly isMethod?: true;
}

/** A public name. */
export interface Declaration {
  readonly name: string;
  /** How a user imports it. */
  readonly specifier: string;
  readonly kind: "type" | "class" | "function" | "value";
  readonly text: string;
  /** Signature of a function, or source of a type that is more than its fields. */
  readonly signatures: readonly string[];
  readonly throws: readonly string[];
  readonly examples: readonly string[];
  readonly fields: readonly Field[];
}

/** A member of a union of texts, with the comment before it. */
export interface Word {
  readonly word: string;
  readonly text: string;
}

/** A constant of an object, with the comment before it. */
export interface Constant {
  readonly value: string;
  readonly text: string;
}

/** An example of a docstring. */
export interface Example {
  /** The public name, and its field if the example belongs to one. */
  readonly name: string;
  readonly code: string;
  /** The code with its imports. */
  readonly module: string;
}

const DEEPEST = 3;

export class Source {
  readonly #program: ts.Program;
  readonly #checker: ts.TypeChecker;

  constructor(files: readonly string[]) {
    const config: { config?: unknown } = ts.readConfigFile("tsconfig.json", ts.sys.readFile);
    const { options } = ts.parseJsonConfigFileContent(config.config, ts.sys, ".");
    this.#program = ts.createProgram([...files], options);
    this.#checker = this.#program.getTypeChecker();
  }

  /** All that an entry exports, by name. */
  exportsOf(specifier: string, file: string): readonly Declaration[] {
    const module = this.#checker.getSymbolAtLocation(this.#file(file));
    if (module === undefined) throw new Error(`Expected a module, got ${file}.`);
    const declared = this.#checker.getExportsOfModule(module).map((symbol) => {
      const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0;
      const target = isAlias ? this.#checker.getAliasedSymbol(symbol) : symbol;
      return this.#declaration(symbol.name, specifier, target);
    });
    return declared.toSorted((declaration, other) => (declaration.name < other.name ? -1 : 1));
  }

  /** The properties of an interface of a file, each with the fields of its own type. */
  propertiesOf(
    file: string,
    name: string,
  ): readonly (Pick<Field, "name" | "text" | "examples"> & {
    readonly fields: readonly Field[];
  })[] {
    const type = this.#checker.getTypeAtLocation(this.#statement(file, name));
    return type.getProperties().map((property) => ({
      name: property.name,
      ...this.#docsOf(property),
      fields: this.#fieldsOf(this.#checker.getTypeOfSymbol(property), "", 1),
    }));
  }

  /** The texts of a union, in the order of the source; those of a union that is named in it are left out. */
  wordsOf(file: string, name: string): readonly Word[] {
    const statement = this.#statement(file, name);
    if (!ts.isTypeAliasDeclaration(statement) || !ts.isUnionTypeNode(statement.type))
      throw new Error(`Expected ${name} to be a union.`);
    let end = statement.type.getFullStart();
    return statement.type.types.flatMap((member) => {
      if (!ts.isLiteralTypeNode(member) || !ts.isStringLiteral(member.literal)) return [];
      const before = statement.getSourceFile().text.slice(end, member.getStart());
      end = member.getEnd();
      return { word: member.literal.text, text: lastComment(before) };
    });
  }

  /** The texts that are values of an object, in the order of the source. */
  constantsOf(file: string, name: string): readonly Constant[] {
    const found: Constant[] = [];
    const visit = (node: ts.Node): void => {
      if (
        ts.isPropertyAssignment(node) &&
        (ts.isStringLiteral(node.initializer) ||
          ts.isNoSubstitutionTemplateLiteral(node.initializer))
      )
        found.push({ value: node.initializer.text, text: commentBefore(node) });
      ts.forEachChild(node, visit);
    };
    visit(this.#statement(file, name));
    return found;
  }

  /**
   * Compiles the examples of docstrings, each as a module of its own. Names that an entry exports need no import, and the names of
   * `example-names.ts` stand for values that an example does not make. Returns a line for each error.
   */
  compileExamples(examples: readonly Example[]): readonly string[] {
    const options = {
      ...this.#program.getCompilerOptions(),
      noUnusedLocals: false,
      noPropertyAccessFromIndexSignature: false,
    };
    const folder = `${ts.sys.getCurrentDirectory()}/examples/docstrings/`;
    const byFile = new Map(
      examples.map((example, index): [string, Example] => [`${folder}${index}.ts`, example]),
    );
    const host = ts.createCompilerHost(options);
    const { getSourceFile, fileExists, readFile } = host;
    const textOf = (file: string): string | undefined => byFile.get(file)?.module;
    host.fileExists = (file) => byFile.has(file) || fileExists(file);
    host.readFile = (file) => textOf(file) ?? readFile(file);
    host.getSourceFile = (file, languageVersion, ...rest) => {
      const text = textOf(file);
      return text === undefined
        ? (this.#program.getSourceFile(file) ?? getSourceFile(file, languageVersion, ...rest))
        : ts.createSourceFile(file, text, languageVersion, true);
    };
    const program = ts.createProgram([...byFile.keys()], options, host);
    return [...byFile].flatMap(([file, { name, code }]) => {
      const source = program.getSourceFile(file);
      return [
        ...program.getSyntacticDiagnostics(source),
        ...program.getSemanticDiagnostics(source),
      ].map(
        ({ messageText }) =>
          `The example of ${name} does not compile: ${ts.flattenDiagnosticMessageText(messageText, "\n")}\n${code}`,
      );
    });
  }

  #file(file: string): ts.SourceFile {
    const source = this.#program.getSourceFile(file);
    if (source === undefined) throw new Error(`Expected ${file} to be reachable from an entry.`);
    return source;
  }

  #statement(file: string, name: string): ts.Statement {
    const found = this.#file(file).statements.find((statement) =>
      ts.isVariableStatement(statement)
        ? statement.declarationList.declarations.some(
            (declaration) => declaration.name.getText() === name,
          )
        : (ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement)) &&
          statement.name.text === name,
    );
    if (found === undefined) throw new Error(`Expected ${name} in ${file}.`);
    return found;
  }

  #declaration(name: string, specifier: string, symbol: ts.Symbol): Declaration {
    const nodes = symbol.getDeclarations() ?? [];
    const functions = nodes.filter(ts.isFunctionDeclaration);
    const overloads =
      functions.length > 1 ? functions.filter(({ body }) => body === undefined) : functions;
    // The most general overload comes last in the source, and first for a reader.
    const [main, ...others] = overloads.toReversed().map((node) => this.#form(name, node));
    const kind = kindOf(nodes[0]);
    const isTyped = kind === "type" || kind === "class";
    const fields = isTyped
      ? this.#fieldsOf(this.#checker.getDeclaredTypeOfSymbol(symbol), "", 1)
      : [];
    const constructors = nodes
      .filter(ts.isClassDeclaration)
      .flatMap(({ members }) => members.filter(ts.isConstructorDeclaration).filter(isShown))
      .map((node) => this.#form(`new ${name}`, node));
    return {
      name,
      specifier,
      kind,
      ...(main ?? this.#docsOf(symbol)),
      signatures: main === undefined ? nodes.flatMap(shapeOf) : [main.type],
      fields: [...constructors, ...others, ...fields],
    };
  }

  /** One overload of a function or a method, or a constructor. */
  #form(name: string, node: ts.SignatureDeclaration): Field {
    const signature = this.#checker.getSignatureFromDeclaration(node);
    if (signature === undefined) throw new Error(`Expected ${name} to have a signature.`);
    const type = withoutBody(node).replace(/^constructor/, name);
    return { name, type, isOptional: false, ...this.#docsOf(signature), isMethod: true };
  }

  #fieldsOf(type: ts.Type, prefix: string, depth: number): readonly Field[] {
    if (type.isUnion() || ((type.flags & ts.TypeFlags.Object) === 0 && !type.isIntersection()))
      return [];
    if (this.#checker.isArrayLikeType(type) || type.getCallSignatures().length > 0) return [];
    return type.getProperties().flatMap((property) => this.#field(property, prefix, depth));
  }

  #field(property: ts.Symbol, prefix: string, depth: number): readonly Field[] {
    const node = property.getDeclarations()?.[0];
    if (node === undefined || !isShown(node)) return [];
    const isOptional = (property.flags & ts.SymbolFlags.Optional) !== 0;
    const name = `${prefix}${ts.getNameOfDeclaration(node)?.getText() ?? property.name}`;
    const origin = nameOf(node.parent);
    if (ts.isMethodSignature(node) || ts.isMethodDeclaration(node)) {
      const forms = (property.getDeclarations() ?? []).filter(
        (declaration) =>
          !ts.isMethodDeclaration(declaration) ||
          (declaration.body === undefined && !isAdvice(declaration)),
      );
      return (forms.length > 0 ? forms : [node])
        .filter((form) => ts.isMethodSignature(form) || ts.isMethodDeclaration(form))
        .map((form) => ({ ...this.#form(name, form), origin }));
    }
    const typeNode =
      ts.isPropertySignature(node) || ts.isPropertyDeclaration(node) || ts.isGetAccessor(node)
        ? node.type
        : undefined;
    const { type, nested, isList } = this.#typeOf(property, typeNode);
    const within = nested !== undefined && depth < DEEPEST;
    return [
      {
        name,
        type: isOptional ? type.replace(/ \| undefined$/, "") : type,
        isOptional,
        origin,
        ...this.#docsOf(property),
      },
      ...(within ? this.#fieldsOf(nested, `${name}${isList ? "[]" : ""}.`, depth + 1) : []),
    ];
  }

  /** How a type is shown, and the object in it whose fields are shown below. */
  #typeOf(
    property: ts.Symbol,
    node: ts.TypeNode | undefined,
  ): { readonly type: string; readonly nested?: ts.Type; readonly isList?: boolean } {
    if (node === undefined)
      return { type: this.#checker.typeToString(this.#checker.getTypeOfSymbol(property)) };
    if (ts.isIndexedAccessTypeNode(node)) {
      const type = this.#checker.getTypeFromTypeNode(node);
      const isObject = (type.flags & ts.TypeFlags.Object) !== 0 && type.aliasSymbol === undefined;
      return isObject
        ? { type: "object", nested: type }
        : { type: this.#checker.typeToString(type, undefined, ts.TypeFormatFlags.NoTruncation) };
    }
    if (ts.isUnionTypeNode(node) && node.types.some(isAdviceType)) {
      const members = node.types.filter((member) => !isAdviceType(member));
      return { type: members.map((member) => plain(member.getText())).join(" | ") };
    }
    const literals: ts.TypeLiteralNode[] = [];
    const visit = (child: ts.Node): void => {
      if (ts.isTypeLiteralNode(child)) literals.push(child);
      else if (!ts.isFunctionTypeNode(child)) ts.forEachChild(child, visit);
    };
    visit(node);
    const [literal] = literals;
    const text = plain(node.getText());
    if (literal === undefined || literals.length > 1) return { type: text };
    const shown = plain(node.getText().replace(literal.getText(), "object"));
    return {
      type: shown.replace(/readonly (\(?)object/, "$1object"),
      nested: this.#checker.getTypeFromTypeNode(literal),
      isList: shown.includes("object[]"),
    };
  }

  #docsOf(documented: Documented): Pick<Field, "text" | "throws" | "examples"> {
    return {
      text: this.#textOf(documented),
      throws: listTags(documented, "throws"),
      examples: listTags(documented, "example").map(unfenced),
    };
  }

  #textOf(documented: Documented): string {
    const text = ts.displayPartsToString(documented.getDocumentationComment(this.#checker));
    const defaults = listTags(documented, "default").map((tag) => {
      const value = tag.replace(/\.$/, "").replaceAll(/\s+/g, " ");
      return `Default: ${LITERAL.test(value) ? `\`${value}\`` : value}.`;
    });
    return [text, ...defaults].filter((part) => part !== "").join("\n\n");
  }
}

type Documented = Pick<ts.Symbol | ts.Signature, "getDocumentationComment" | "getJsDocTags">;

/** A default that is a value of the language, such as `30_000`, `"auto"`, `{}` or `process.env`. */
const LITERAL = /^(?:[\d._]+|"[^"]*"|true|false|\{.*\}|\[[^\]]*\]|[a-zA-Z]+[.A-Z]\w+)$/;

function kindOf(node: ts.Declaration | undefined): Declaration["kind"] {
  if (node !== undefined && ts.isFunctionDeclaration(node)) return "function";
  if (node !== undefined && ts.isClassDeclaration(node)) return "class";
  return node !== undefined && ts.isVariableDeclaration(node) ? "value" : "type";
}

/** Name of an interface or a class. */
function nameOf(node: ts.Node): string | undefined {
  return ts.isInterfaceDeclaration(node) || ts.isClassDeclaration(node)
    ? node.name?.text
    : undefined;
}

function isShown(node: ts.Declaration): boolean {
  const isPrivate =
    ts.isClassElement(node) && node.name !== undefined && ts.isPrivateIdentifier(node.name);
  const isInternal = ts.getJSDocTags(node).some(({ tagName }) => tagName.text === "internal");
  return !isPrivate && !isInternal && !node.getSourceFile().fileName.includes("/node_modules/");
}

/** The whole type, where fields do not say all of it. */
function shapeOf(node: ts.Declaration): readonly string[] {
  if (ts.isVariableDeclaration(node) && node.type !== undefined)
    return [`const ${node.name.getText()}: ${node.type.getText()}`];
  if (isListOfValues(node)) return [`const ${node.getText()}`];
  if (!ts.isTypeAliasDeclaration(node) || ts.isTypeLiteralNode(node.type)) return [];
  return [
    node
      .getText()
      .replace(/^export /, "")
      .replace(/;$/, ""),
  ];
}

/** True for a list that a type takes its values from. */
function isListOfValues(node: ts.Declaration): boolean {
  const value = ts.isVariableDeclaration(node) ? node.initializer : undefined;
  return (
    value !== undefined && ts.isAsExpression(value) && ts.isArrayLiteralExpression(value.expression)
  );
}

/** True for an overload that only reports a mistake at compile time. */
function isAdvice({ type }: ts.MethodDeclaration): boolean {
  return type?.kind === ts.SyntaxKind.NeverKeyword;
}

/** True for a member of a union that only explains a mistake at compile time. */
function isAdviceType(node: ts.TypeNode): boolean {
  return (
    ts.isTypeLiteralNode(node) &&
    node.members.every(
      (member) =>
        ts.isPropertySignature(member) && member.type?.kind === ts.SyntaxKind.NeverKeyword,
    )
  );
}

/** A signature as the source has it, comments and lines included. */
function withoutBody(node: ts.SignatureDeclaration): string {
  const body = "body" in node ? node.body : undefined;
  const text = node.getText();
  const end = body === undefined ? text.length : body.getStart() - node.getStart();
  const { character } = node.getSourceFile().getLineAndCharacterOfPosition(node.getStart());
  return text
    .slice(0, end)
    .replaceAll(`\n${" ".repeat(character)}`, "\n")
    .replace(/^(?:export )?(?:async )?/, "")
    .replace(/;?\s*$/, "");
}

/** Code in one line, without comments. */
function plain(code: string): string {
  return code
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .replace(/\s+/g, " ")
    .replace(/\(\s*\| /g, "(")
    .replace(/^\| /, "")
    .replace(/([(<]) /g, "$1")
    .replace(/,? ([)>])(?!=)/g, "$1")
    .trim();
}

function listTags(documented: Documented, tag: string): readonly string[] {
  const tags = documented.getJsDocTags().filter(({ name }) => name === tag);
  return tags.map(({ text }) => ts.displayPartsToString(text)).filter((part) => part !== "");
}

/** Removes the fence around an example. */
function unfenced(example: string): string {
  return (/^```ts\n([\s\S]*)\n```$/.exec(example.trim())?.[1] ?? example).trim();
}

function commentBefore(node: ts.Node): string {
  return lastComment(node.getFullText().slice(0, node.getStart() - node.getFullStart()));
}

/** The words of the docstring that stands last in what is before a node. */
function lastComment(code: string): string {
  const [, text = ""] = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/(?![\s\S]*\*\/)/.exec(code) ?? [];
  return text.replace(/^\s*\* ?/gm, "").trim();
}
