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
  readonly examples: readonly string[];
  /** A method or a constructor: `type` is then its signature. */
  readonly isMethod?: true;
}

/** A public name. */
export interface Declaration {
  readonly name: string;
  /** How a user imports it. */
  readonly specifier: string;
  readonly kind: "type" | "class" | "function" | "value";
  readonly text: string;
  /** Of functions, of each form; of a type that is more than its fields, as it stands in the source. */
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
    return declared.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  }

  /** The properties of an interface of a file, each with the fields of its own type. */
  propertiesOf(
    file: string,
    name: string,
  ): readonly (Pick<Field, "name" | "text"> & { readonly fields: readonly Field[] })[] {
    const type = this.#checker.getTypeAtLocation(this.#statement(file, name));
    return type.getProperties().map((property) => ({
      name: property.name,
      text: this.#textOf(property),
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
        ? statement.declarationList.declarations.some((one) => one.name.getText() === name)
        : (ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement)) &&
          statement.name.text === name,
    );
    if (found === undefined) throw new Error(`Expected ${name} in ${file}.`);
    return found;
  }

  #declaration(name: string, specifier: string, symbol: ts.Symbol): Declaration {
    const nodes = symbol.getDeclarations() ?? [];
    const functions = nodes.filter(ts.isFunctionDeclaration);
    const forms =
      functions.length > 1 ? functions.filter(({ body }) => body === undefined) : functions;
    const kind = kindOf(nodes[0]);
    const isTyped = kind === "type" || kind === "class";
    const fields = isTyped
      ? this.#fieldsOf(this.#checker.getDeclaredTypeOfSymbol(symbol), "", 1)
      : [];
    const constructors = nodes
      .filter(ts.isClassDeclaration)
      .flatMap((node) =>
        node.members.filter(ts.isConstructorDeclaration).flatMap((one) => constructorOf(name, one)),
      );
    return {
      name,
      specifier,
      kind,
      text: this.#textOf(symbol),
      signatures: [...forms.map(withoutBody), ...nodes.flatMap(shapeOf)],
      throws: listTags(symbol, "throws"),
      examples: listExamples(symbol),
      fields: [...constructors, ...fields],
    };
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
    const text = this.#textOf(property, listTags(property, "throws"));
    const examples = listExamples(property);
    const name = `${prefix}${ts.getNameOfDeclaration(node)?.getText() ?? property.name}`;
    if (ts.isMethodSignature(node) || ts.isMethodDeclaration(node)) {
      const forms = (property.getDeclarations() ?? []).filter(
        (one) => !ts.isMethodDeclaration(one) || (one.body === undefined && !isAdvice(one)),
      );
      const shown = forms.length > 0 ? forms : [node];
      return shown.map((form) => {
        const type = withoutBody(form).replace(/^(?:async )?/, "");
        return { name, type, isOptional, text, examples, isMethod: true };
      });
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
        text,
        examples,
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
    const literals: ts.TypeLiteralNode[] = [];
    const visit = (one: ts.Node): void => {
      if (ts.isTypeLiteralNode(one)) literals.push(one);
      else if (!ts.isFunctionTypeNode(one)) ts.forEachChild(one, visit);
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

  #textOf(symbol: ts.Symbol, throws: readonly string[] = []): string {
    const said = ts.displayPartsToString(symbol.getDocumentationComment(this.#checker));
    const defaults = listTags(symbol, "default").map(
      (one) => `Default: ${one.replace(/\.$/, "")}.`,
    );
    return [said, ...defaults, ...throws.map((one) => `Throws ${one}`)]
      .filter((one) => one !== "")
      .join(" ");
  }
}

function kindOf(node: ts.Declaration | undefined): Declaration["kind"] {
  if (node !== undefined && ts.isFunctionDeclaration(node)) return "function";
  if (node !== undefined && ts.isClassDeclaration(node)) return "class";
  return node !== undefined && ts.isVariableDeclaration(node) ? "value" : "type";
}

function isShown(node: ts.Declaration): boolean {
  const isPrivate =
    ts.isClassElement(node) && node.name !== undefined && ts.isPrivateIdentifier(node.name);
  const isInternal = ts.getJSDocTags(node).some(({ tagName }) => tagName.text === "internal");
  return !isPrivate && !isInternal && !node.getSourceFile().fileName.includes("/node_modules/");
}

function constructorOf(name: string, node: ts.ConstructorDeclaration): readonly Field[] {
  if (!isShown(node)) return [];
  const type = withoutBody(node).replace(/^constructor/, `new ${name}`);
  const said = ts.getJSDocCommentsAndTags(node).find(ts.isJSDoc)?.comment;
  const text = ts.getTextOfJSDocComment(said) ?? "";
  const examples = ts
    .getJSDocTags(node)
    .filter(({ tagName }) => tagName.text === "example")
    .map(({ comment }) => unfenced(ts.getTextOfJSDocComment(comment) ?? ""));
  return [{ name: `new ${name}`, type, isOptional: false, text, examples, isMethod: true }];
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

function withoutBody(node: ts.Declaration): string {
  const body = ts.isFunctionLike(node) && "body" in node ? node.body : undefined;
  const text = node.getText();
  const end = body === undefined ? text.length : body.getStart() - node.getStart();
  return plain(
    text
      .slice(0, end)
      .replace(/^(?:export )?(?:async )?/, "")
      .replace(/;\s*$/, ""),
  );
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

function listTags(symbol: ts.Symbol, tag: string): readonly string[] {
  const tags = symbol.getJsDocTags().filter(({ name }) => name === tag);
  return tags.map(({ text }) => ts.displayPartsToString(text)).filter((text) => text !== "");
}

function listExamples(symbol: ts.Symbol): readonly string[] {
  return listTags(symbol, "example").map(unfenced);
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
