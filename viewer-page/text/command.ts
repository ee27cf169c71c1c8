// Commands to copy. The server writes its command line into the page.

/** Returns a command such as `npx espalier view`. `rest` follows the name of the program. */
export function formatCommand(rest: string): string {
  const meta = document.querySelector<HTMLMetaElement>("meta[name=command]");
  return `${meta?.content ?? "espalier"} ${rest}`;
}
