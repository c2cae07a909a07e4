import { openRoomStore } from '../store.mjs';
import { createRoom } from './room.mjs';

/** Starts a room as a drone starts it: everything that it needs to know is in its environment. */
const { PORT = '0', LEASEHOLD_KEY_ID, LEASEHOLD_FENCING_TOKEN = '0', ROOM_STORE } = process.env;

if (LEASEHOLD_KEY_ID === undefined || ROOM_STORE === undefined) {
  console.error('set LEASEHOLD_KEY_ID, which a drone does, and ROOM_STORE, a folder for documents');
  process.exit(2);
}
const store = openRoomStore(ROOM_STORE, /** @type {readonly string[]} */ ([]));

// The store refuses smaller tokens once it has been shown a larger one: show it ours before all else.
const shown = await store.update(LEASEHOLD_KEY_ID, LEASEHOLD_FENCING_TOKEN, (lines) => lines);
if (shown.outcome === 'refused') {
  console.error(`refused by the store: token ${shown.newestToken} is larger than ours`);
  process.exit(3);
}

const room = createRoom({
  keyId: LEASEHOLD_KEY_ID,
  fencingToken: LEASEHOLD_FENCING_TOKEN,
  store,
});
room.listen(Number(PORT), '127.0.0.1');

// The soft stop. Each edit that a client has seen is stored already; clients connect again by themselves.
process.once('SIGTERM', () => process.exit(0));
