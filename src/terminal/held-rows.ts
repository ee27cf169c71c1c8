// HeldRows: rows that stay on a terminal. Owns those that wait until all who have suspended the output have resumed it.

export class HeldRows {
  readonly #write: (rows: string) => void;
  #suspensions = 0;
  #held = "";

  constructor(write: (rows: string) => void) {
    this.#write = write;
  }

  get isSuspended(): boolean {
    return this.#suspensions > 0;
  }

  /** Writes rows, at once unless it is suspended. */
  add(rows: string): void {
    this.#held += rows;
    if (this.isSuspended || this.#held === "") return;
    const held = this.#held;
    this.#held = "";
    this.#write(held);
  }

  suspend(): () => void {
    this.#suspensions += 1;
    let resume = (): void => {
      resume = () => {};
      this.#suspensions -= 1;
      this.add("");
    };
    return () => resume();
  }

  /** Writes what waits, whoever has suspended it. */
  flush(): void {
    this.#suspensions = 0;
    this.add("");
  }
}
