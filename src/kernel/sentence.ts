/** A text that another sentence may follow. */
export function asSentence(text: string): string {
  const trimmed = text.trimEnd();
  return /[.!?…:]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}

/** Several texts as one; a single one stays as it is. */
export function joinSentences(texts: readonly string[]): string {
  const last = texts.length - 1;
  return texts.map((text, index) => (index < last ? asSentence(text) : text)).join(" ");
}

/** The start of a text of more than so many characters, cut between two of them. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const last = text.charCodeAt(most - 1);
  const isHalf = last >= 0xd800 && last <= 0xdbff;
  return `${text.slice(0, isHalf ? most - 1 : most)}…`;
}
