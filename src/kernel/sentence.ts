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
