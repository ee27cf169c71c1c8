/** Returns all texts of an iterable. */
export async function textsOf(texts: AsyncIterable<string>): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const text of texts) found.push(text);
  return found;
}
