// Loaded before the real server over stdio (`node --import`): it says its process id.

process.stderr.write(`pid ${process.pid}\n`);
