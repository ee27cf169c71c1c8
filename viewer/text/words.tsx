import { readable } from "./json-text.ts";
import { Block } from "./shown-text.tsx";

/** The text of a message: words as words, and JSON as data. */
export function Words({ text }: { readonly text: string }) {
  const shown = readable(text);
  return <Block text={shown} isProse={shown === text} />;
}
