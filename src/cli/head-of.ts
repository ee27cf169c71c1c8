// Long texts as a person is shown them.

import { numberOf } from "../view/amounts.ts";

/** Code units of a text that are shown. */
const MOST_SHOWN = 100_000;

/** Returns the text, or its beginning and how much more there is. */
export function headOf(text: string): string {
  if (text.length <= MOST_SHOWN) return text;
  const more = numberOf(text.length - MOST_SHOWN, "more character");
  return `${text.slice(0, MOST_SHOWN)}… (${more}; --json shows all)`;
}

/** Returns the sections that have lines, with an empty line between them. */
export function joinSections(sections: readonly (readonly string[])[]): string {
  const filled = sections.filter((lines) => lines.length > 0);
  return filled.map((lines) => lines.join("\n")).join("\n\n");
}
