// Serves the page with all made-up runs for manual work: `node --conditions=@espalier/source
// test/page/serve-fixtures.ts [port]`.

import { REFUSED, startFixture } from "./fixture-server.ts";

const server = await startFixture({ port: Number(process.argv[2] ?? 4990), refused: REFUSED });
console.log(server.urlOf("/"));
