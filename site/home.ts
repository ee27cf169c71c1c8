// Makes the home page from README.md: its beginning becomes the hero, the rest is the body.

export interface Home {
  readonly hero: object;
  /** The commands that install the library and run the demo. */
  readonly commands: string;
  readonly body: string;
}

/** Divides README.md into the hero and the body. The hero has the title, the first paragraph and the commands with `npm install espalier`. Throws if a part of the hero is missing. */
export function parseHome(readme: string): Home {
  const [beginning, name = "", tagline = ""] = /^# (.+)\n\n((?:.+\n)+)/.exec(readme) ?? [];
  const [install, commands = ""] =
    /(?:^.+:\n\n)?^```sh\n([^`]*\bnpm install espalier\b[^`]*)```\n+/m.exec(readme) ?? [];
  if (beginning === undefined || install === undefined)
    throw new Error(
      "Expected README.md to start with a title and a paragraph, and to have a block of commands with npm install espalier.",
    );
  return {
    hero: {
      name,
      text: "Trees of agents that stay within limits",
      tagline: tagline.trim().replaceAll("\n", " "),
      actions: [
        { theme: "brand", text: "Get started", link: "/guides/first-tree" },
        { theme: "alt", text: "What it does", link: "/overview" },
      ],
    },
    commands: commands.trim(),
    body: readme.slice(beginning.length).replace(install, ""),
  };
}
