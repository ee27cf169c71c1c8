// Colours for canvases, from the style sheet. They depend on the theme.

import { SPAN_KINDS } from "../../src/read-model/viewer-data.ts";

const COLOURS = [
  ...SPAN_KINDS,
  ...(["bad", "line", "faint", "text", "muted", "hover", "selected", "surface"] as const),
] as const;
type Colour = (typeof COLOURS)[number];

// Registered as a colour, a property is resolved without `light-dark()`.
for (const name of COLOURS)
  CSS.registerProperty({
    name: `--${name}`,
    syntax: "<color>",
    inherits: true,
    initialValue: "#888",
  });

/** Returns a colour of the style sheet by its name. */
export type Palette = (name: Colour) => string;

export function readPalette(element: Element): Palette {
  const style = getComputedStyle(element);
  const colours = new Map(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`)]));
  return (name) => colours.get(name) ?? "";
}

/** Cache by colours. There are few, and creating one takes longer than drawing a frame. */
const hatchings = new Map<string, CanvasPattern | string>();

/** Returns a hatched pattern, which distinguishes waiting from work. */
export function getHatching(colour: string, ground: string): CanvasPattern | string {
  const colours = `${colour} ${ground}`;
  const hatching = hatchings.get(colours) ?? createHatching(colour, ground);
  hatchings.set(colours, hatching);
  return hatching;
}

function createHatching(colour: string, ground: string): CanvasPattern | string {
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
