/**
 * A backend that listens on all ports of its drone, to be handed out in place of others. It is told which they
 * are by a JSON file, and prints a line when it has them.
 *
 *   node squatter.mjs TARGETS
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const { ports } = JSON.parse(readFileSync(process.argv[2], 'utf8'));

const taken = await Promise.all(
  Array.from({ length: ports.to - ports.from + 1 }, (_, nth) => {
    const server = createServer((_request, response) => response.end('stolen'));
    return new Promise((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(ports.from + nth, '127.0.0.1', () => resolve(true));
    });
  }),
);
console.log(JSON.stringify({ attack: 'done', taken: taken.filter(Boolean).length }));
