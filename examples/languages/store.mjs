/**
 * A store over HTTP that knows fencing tokens: `PUT /NAME` with the header `fencing-token` writes the body,
 * and is answered with 409 if a larger token has been seen. It keeps everything in memory; a real store
 * compares and writes in one statement, see docs/recipes/fencing-other-stores.md.
 *
 * `PORT=4700 node store.mjs`
 */
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';

/** @type {Map<string, { token: bigint, value: string }>} */
const rows = new Map();

const server = createServer(async (request, response) => {
  const name = request.url ?? '/';
  const value = await text(request);
  const given = String(request.headers['fencing-token']);
  const known = rows.get(name);
  if (request.method !== 'PUT' || !/^\d{1,19}$/u.test(given)) {
    response.writeHead(400).end('PUT with a fencing-token, please\n');
  } else if (known !== undefined && BigInt(given) < known.token) {
    response.writeHead(409).end(`refused: a holder with the token ${known.token} has written\n`);
  } else {
    rows.set(name, { token: BigInt(given), value });
    response.writeHead(200).end('written\n');
  }
});

server.listen(Number(process.env.PORT ?? 4_700), '127.0.0.1', () => {
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const url = `http://127.0.0.1:${port}`;
  process.send?.({ type: 'ready', url });
  console.log(`the store answers at ${url}`);
});
