// Sizes a canvas to the device pixels of its element.

export function fitCanvas(canvas: HTMLCanvasElement) {
  const { clientWidth: widthPx, clientHeight: heightPx } = canvas;
  const context = canvas.getContext("2d");
  if (context === null || widthPx === 0 || heightPx === 0) return undefined;
  const density = devicePixelRatio;
  const width = Math.round(widthPx * density);
  const height = Math.round(heightPx * density);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  context.setTransform(density, 0, 0, density, 0, 0);
  return { context, widthPx, heightPx };
}
