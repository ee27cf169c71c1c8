// Loaded before the real server over stdio (`node --import`): it prints its process id.

process.stderr.write(`pid ${process.pid}\n`);
