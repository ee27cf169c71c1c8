// Formats columns of text as lines. Pure. If there is not enough room, columns are narrowed, then
// dropped; no line exceeds the width.

import { measureDisplayWidth, fit, type Paint, type Style } from "./terminal-text.ts";

export interface Cell {
  readonly text: string;
  readonly style?: Style;
}

/** Column of a table with one line for each `Row`. */
export interface Column<Row> {
  readonly title: string;
  /** Returns the content of a line. Must not contain escape sequences. */
  readonly cell: (row: Row) => Cell | string;
  /** Alignment. `left` if it is absent. */
  readonly align?: "left" | "right";
  /**
   * Minimum width even if no cell needs it, so that the columns of a changing table stay in place.
   */
  readonly usualWidth?: number;
  /** Width to which it may be narrowed. It is never narrowed if this is absent. */
  readonly minWidth?: number;
  /**
   * Order of dropping: the column with the highest rank is dropped first. Without a rank, it is
   * never dropped.
   */
  readonly rank?: number;
}

const GAP = "  ";

/** Returns a title line, and one line for each row. No line exceeds `width`. */
export function formatTable<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  width: number,
  paint: Paint,
): readonly string[] {
  const whole = columns.map((column) => fillColumn(column, rows, width));
  const placed = arrangeColumns(whole, width);
  return Array.from({ length: rows.length + 1 }, (_none, row) =>
    formatTableLine(placed, row, paint),
  );
}

/** Column with its cells, the title first. */
interface FilledColumn {
  readonly cells: readonly Cell[];
  readonly isRight: boolean;
  readonly rank: number;
  /** Width of its widest cell, and its minimum width. */
  readonly full: number;
  readonly least: number;
}

/** Returns a column whose texts are cut to the width of the table. */
function fillColumn<Row>(column: Column<Row>, rows: readonly Row[], most: number): FilledColumn {
  const { title, cell, align, usualWidth = 0, minWidth = Infinity, rank = 0 } = column;
  const cells: readonly Cell[] = [
    { text: title, style: "dim" },
    ...rows.map((row) => {
      const content = cell(row);
      const { text, ...styled } = typeof content === "string" ? { text: content } : content;
      return { text: fit(text, most), ...styled };
    }),
  ];
  const full = cells.reduce(
    (most, { text }) => Math.max(most, measureDisplayWidth(text)),
    usualWidth,
  );
  return { cells, isRight: align === "right", rank, full, least: Math.min(minWidth, full) };
}

interface PlacedColumn extends FilledColumn {
  readonly width: number;
}

function arrangeColumns(columns: readonly FilledColumn[], width: number): readonly PlacedColumn[] {
  let remaining = columns;
  while (computeLeastWidth(remaining) > width) {
    const highest = Math.max(...remaining.map(({ rank }) => rank));
    if (highest === 0) break;
    const lost = remaining.findLastIndex(({ rank }) => rank === highest);
    remaining = remaining.toSpliced(lost, 1);
  }
  return widen(remaining, width);
}

/**
 * Gives each column its minimum width, then distributes the rest from left to right. If even the
 * minimum is too much, the last columns get less.
 */
function widen(columns: readonly FilledColumn[], width: number): readonly PlacedColumn[] {
  let spare = Math.max(0, width - computeLeastWidth(columns));
  let room = width;
  const placed: PlacedColumn[] = [];
  for (const column of columns) {
    const extra = Math.min(spare, column.full - column.least);
    spare -= extra;
    const granted = Math.min(column.least + extra, room);
    if (granted <= 0) break;
    room -= granted + GAP.length;
    placed.push({ ...column, width: granted });
  }
  return placed;
}

function computeLeastWidth(columns: readonly FilledColumn[]): number {
  const cells = columns.reduce((sum, { least }) => sum + least, 0);
  return cells + GAP.length * Math.max(0, columns.length - 1);
}

function formatTableLine(placed: readonly PlacedColumn[], row: number, paint: Paint): string {
  let text = "";
  let gap = "";
  for (const { cells, isRight, width } of placed) {
    const cell = cells[row];
    const fitted = fit(cell?.text ?? "", width);
    const spaces = " ".repeat(width - measureDisplayWidth(fitted));
    const painted = paint(cell?.style, fitted);
    if (fitted === "") {
      gap += spaces + GAP;
    } else if (isRight) {
      text += gap + spaces + painted;
      gap = GAP;
    } else {
      text += gap + painted;
      gap = spaces + GAP;
    }
  }
  return text;
}
