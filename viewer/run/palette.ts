// The colours of the canvases: those of the style sheet, as they are just now. Fixed ones would be unreadable in the dark.

/** Each is a colour property of the style sheet. */
export interface Palette {
  readonly chat: string;
  readonly tool: string;
  readonly wait: string;
  readonly budget: string;
  readonly queue: string;
  readonly busy: string;
  readonly retry: string;
  readonly ask: string;
  readonly park: string;
  readonly bad: string;
  readonly line: string;
  readonly faint: string;
  readonly text: string;
  readonly muted: string;
  readonly hover: string;
  readonly selected: string;
  readonly surface: string;
  readonly accent: string;
  readonly good: string;
}

/** Reads them: registered as colours, they come without `light-dark()`. */
export function paletteOf(element: Element): Palette {
  const style = getComputedStyle(element);
  const colour = (name: string): string => style.getPropertyValue(`--${name}`);
  return {
    chat: colour("chat"),
    tool: colour("tool"),
    wait: colour("wait"),
    budget: colour("budget"),
    queue: colour("queue"),
    busy: colour("busy"),
    retry: colour("retry"),
    ask: colour("ask"),
    park: colour("park"),
    bad: colour("bad"),
    line: colour("line"),
    faint: colour("faint"),
    text: colour("text"),
    muted: colour("muted"),
    hover: colour("hover"),
    selected: colour("selected"),
    surface: colour("surface"),
    accent: colour("accent"),
    good: colour("good"),
  };
}

/** By their colours: a few, and each takes longer to make than all of a frame to draw. */
const hatchings = new Map<string, CanvasPattern | string>();

/** A pattern of slanted lines: what waits does not look like what works. */
export function hatched(colour: string, ground: string): CanvasPattern | string {
  const colours = `${colour} ${ground}`;
  const made = hatchings.get(colours) ?? newHatching(colour, ground);
  hatchings.set(colours, made);
  return made;
}

function newHatching(colour: string, ground: string): CanvasPattern | string {
  const tile = document.createElement("canvas");
  const size = 6;
  tile.width = size;
  tile.height = size;
  const context = tile.getContext("2d");
  if (context === null) return colour;
  context.fillStyle = ground;
  context.fillRect(0, 0, size, size);
  context.strokeStyle = colour;
  context.lineWidth = 1.2;
  context.beginPath();
  for (const shift of [-size, 0, size]) {
    context.moveTo(shift, size);
    context.lineTo(shift + size, 0);
  }
  context.stroke();
  return context.createPattern(tile, "repeat") ?? colour;
}
