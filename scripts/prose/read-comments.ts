// Reads the comments of a TypeScript source. A comment after code does not count.

/** Returns the lines of a source that belong to comments. */
export function readCommentLines(source: string): readonly string[] {
  let isInBlock = false;
  return source.split("\n").filter((raw) => {
    const line = raw.trim();
    const isComment = isInBlock || /^(\/\/|\/?\*)/.test(line);
    if (isInBlock || line.startsWith("/*")) isInBlock = !line.includes("*/");
    return isComment;
  });
}

/** Returns the text of each comment; adjacent line comments are one. */
export function readComments(source: string): readonly string[] {
  const comments: string[] = [];
  let open: "block" | "lines" | undefined;
  const append = (text: string): void => {
    comments.push(`${comments.pop() ?? ""} ${text}`);
  };
  for (const raw of source.split("\n")) {
    const line = raw.trim();
    if (open === "block") {
      append(line.replace(/\*\/.*$/, "").replace(/^\*\s?/, ""));
      if (line.includes("*/")) open = undefined;
    } else if (line.startsWith("/*")) {
      comments.push(line.replace(/^\/\*+\s?/, "").replace(/\s*\*\/.*$/, ""));
      open = line.includes("*/") ? undefined : "block";
    } else if (line.startsWith("//")) {
      const text = line.replace(/^\/\/\s?/, "");
      if (open === "lines") append(text);
      else comments.push(text);
      open = "lines";
    } else open = undefined;
  }
  return comments;
}
