import { createServer } from 'node:http';

/**
 * A room: the backend of one key. It answers who it is, and keeps a counter in a store that many
 * runs of the room share over time. Every write carries this run's fencing token, so that a run
 * which was paused, lost its key and woke up again cannot overwrite what its successor wrote.
 *
 * The counter is stored by the id of the key, not by its name: two namespaces may both have a key
 * `lobby`, and these are two rooms.
 *
 * `GET /` `{ key, fencingToken, backendId, requests }`, `GET /counter`, and `PUT /counter`, which
 * adds one.
 *
 * @param {{
 *   key: string,
 *   keyId: string,
 *   fencingToken: string,
 *   backendId: string,
 *   store: import('./store.mjs').RoomStore<number> | null,
 * }} room
 * @returns {import('node:http').Server}
 */
export function createRoom({ key, keyId, fencingToken, backendId, store }) {
  let requests = 0;

  /**
   * @param {string} method
   * @param {string} path
   * @returns {Promise<[status: number, body: unknown]>}
   */
  async function answer(method, path) {
    if (path === '/' && method === 'GET') {
      requests += 1;
      return [200, { key, fencingToken, backendId, requests }];
    }
    if (path !== '/counter') return [404, { error: 'try GET /, GET /counter or PUT /counter' }];
    if (store === null) return [503, { error: 'set ROOM_STORE to a folder to have a counter' }];
    if (method === 'GET') return [200, (await store.read(keyId)) ?? { value: 0 }];
    if (method !== 'PUT') return [405, { error: 'use GET or PUT' }];

    const outcome = await store.update(keyId, fencingToken, (value) => value + 1);
    if (outcome.outcome === 'written') return [200, outcome.record];
    return [
      409,
      {
        error: 'this run of the room has been replaced: the store has seen a larger fencing token',
        fencingToken,
        newestToken: outcome.newestToken,
      },
    ];
  }

  return createServer((req, res) => {
    const path = new URL(req.url ?? '/', 'http://room').pathname;
    answer(req.method ?? 'GET', path)
      .catch((error) => {
        console.error(error);
        return /** @type {[number, unknown]} */ ([500, { error: 'the store failed' }]);
      })
      .then(([status, body]) => {
        res.writeHead(status, { 'content-type': 'application/json' });
        res.end(`${JSON.stringify(body)}\n`);
      });
  });
}
