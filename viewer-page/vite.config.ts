// Build of the viewer's page: one HTML file, one script and one style sheet, without further
// requests.

import { defineConfig } from "vite";

export default defineConfig({
  root: import.meta.dirname,
  // The server inserts its base path into the two addresses.
  base: "./",
  build: {
    outDir: "../dist/viewer-page",
    emptyOutDir: true,
    // The first versions that support `light-dark()` and set methods.
    target: ["chrome123", "edge123", "firefox127", "safari17.5"],
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: {
        entryFileNames: "viewer.js",
        assetFileNames: "viewer[extname]",
        codeSplitting: false,
      },
    },
  },
});
