// For working on the page by hand: `node --conditions=@espalier/source test/page/serve-fixtures.ts [port]` serves it with all that is made up.

import { REFUSED, startFixture } from "./fixture-server.ts";

const server = await startFixture({ port: Number(process.argv[2] ?? 4990), refused: REFUSED });
console.log(server.urlOf("/"));
