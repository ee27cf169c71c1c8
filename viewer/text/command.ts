// Commands as people can paste them: how the command is called where the server runs, the server has written into the page.

/** `npx espalier view`, for what follows the name of the command. */
export function commandText(rest: string): string {
  const meta = document.querySelector<HTMLMetaElement>("meta[name=command]");
  return `${meta?.content ?? "espalier"} ${rest}`;
}
