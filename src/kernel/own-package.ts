/**
 * Name and version that espalier sends to providers and servers and writes to traces. `npm run
 * release` writes the version.
 */
export const OWN_PACKAGE = { name: "espalier", version: "0.1.0" } as const;
