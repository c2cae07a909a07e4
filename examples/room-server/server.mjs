import { takeClaim } from './claim.mjs';
import { createRoom } from './room.mjs';
import { openRoomStore } from './store.mjs';

/**
 * Starts a room as a drone starts it: everything that it needs to know is in its environment, or in the claim of a
 * process that the drone has kept warm.
 * Exits with 3 when the store has seen a larger token: then this run was replaced before it began.
 */
const servesNow = await takeClaim();
const {
  PORT = '0',
  LEASEHOLD_KEY = '',
  LEASEHOLD_KEY_ID = '',
  LEASEHOLD_FENCING_TOKEN = '0',
  LEASEHOLD_BACKEND_ID = '',
  ROOM_STORE,
} = process.env;

if (ROOM_STORE !== undefined && LEASEHOLD_KEY_ID === '') {
  console.error('LEASEHOLD_KEY_ID is not set: it names what this room stores');
  process.exit(2);
}
const store = ROOM_STORE === undefined ? null : openRoomStore(ROOM_STORE, 0);

// The store refuses smaller tokens only once it has been shown a larger one. So show it ours before
// anything else: from here on, an earlier run of this room writes nothing.
const shown = await store?.update(LEASEHOLD_KEY_ID, LEASEHOLD_FENCING_TOKEN, (value) => value);
if (shown?.outcome === 'refused') {
  console.error(`refused by the store: token ${shown.newestToken} is larger than ours`);
  process.exit(3);
}

const room = createRoom({
  key: LEASEHOLD_KEY,
  keyId: LEASEHOLD_KEY_ID,
  fencingToken: LEASEHOLD_FENCING_TOKEN,
  backendId: LEASEHOLD_BACKEND_ID,
  store,
});

room.listen(Number(PORT), '127.0.0.1', () => {
  servesNow();
  const address = room.address();
  const port = address !== null && typeof address === 'object' ? address.port : PORT;
  console.log(`room ${JSON.stringify(LEASEHOLD_KEY)} listens on port ${String(port)}`);
});

// The soft stop. Requests in flight are answered; idle connections are closed. The drone waits for
// the program's grace, and then kills it.
for (const signal of /** @type {const} */ (['SIGTERM', 'SIGINT'])) {
  process.once(signal, () => {
    console.log(`${signal}: closing`);
    room.close();
    room.closeIdleConnections();
  });
}
