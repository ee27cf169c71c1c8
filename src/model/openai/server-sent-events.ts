// EventSplitter: cuts a stream of server-sent events into the data of each.
// Owns the text of the line and of the event that have not ended yet. Names, ids and comments are skipped: nothing here uses them.

const DATA_FIELD = "data:";

export class EventSplitter {
  #line = "";
  #data: string | undefined;

  /** Takes the next piece of the stream and hands over the data of each event that it completes. */
  push(piece: string, take: (data: string) => void): void {
    const text = this.#line + piece;
    let start = 0;
    for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", start)) {
      this.#endLine(text.slice(start, text.charAt(end - 1) === "\r" ? end - 1 : end), take);
      start = end + 1;
    }
    this.#line = start === 0 ? text : text.slice(start);
  }

  /** Hands over the last event of a stream that ended without the empty line behind it. */
  end(take: (data: string) => void): void {
    this.push("\n\n", take);
  }

  #endLine(line: string, take: (data: string) => void): void {
    if (line.startsWith(DATA_FIELD)) {
      const value = line.slice(
        line.charAt(DATA_FIELD.length) === " " ? DATA_FIELD.length + 1 : DATA_FIELD.length,
      );
      this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
    } else if (line === "" && this.#data !== undefined) {
      const data = this.#data;
      this.#data = undefined;
      take(data);
    }
  }
}
