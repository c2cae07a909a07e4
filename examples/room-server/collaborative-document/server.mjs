import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { openRoomStore } from '../store.mjs';
import { createRoom } from './room.mjs';

/** Starts a room as a drone starts it: everything that it needs to know is in its environment. */
const { PORT = '0', LEASEHOLD_KEY = '', LEASEHOLD_KEY_ID } = process.env;
// The home of a program is its own and persists, also where it runs as a user of its own.
const { LEASEHOLD_FENCING_TOKEN = '0', DOCUMENTS = join(homedir(), 'documents') } = process.env;
if (LEASEHOLD_KEY_ID === undefined) {
  console.error('set LEASEHOLD_KEY_ID, which a drone does');
  process.exit(2);
}

/** The page's script, made of `page.mjs` and what it imports. A larger program makes it when it is built. */
const { outputFiles } = await build({
  entryPoints: [fileURLToPath(new URL('page.mjs', import.meta.url))],
  bundle: true,
  minify: true,
  format: 'esm',
  write: false,
});

const store = openRoomStore(DOCUMENTS, '');
// The store refuses smaller tokens once it has been shown a larger one: show it ours before all else.
const shown = await store.update(LEASEHOLD_KEY_ID, LEASEHOLD_FENCING_TOKEN, (kept) => kept);
if (shown.outcome === 'refused') {
  console.error(`refused by the store: token ${shown.newestToken} is larger than ours`);
  process.exit(3);
}

const room = await createRoom({
  keyId: LEASEHOLD_KEY_ID,
  fencingToken: LEASEHOLD_FENCING_TOKEN,
  store,
  script: outputFiles[0]?.text ?? '',
  page: (user) => `<!doctype html>
<html lang="en">
  <meta charset="utf-8" />
  <title>${escapeHtml(LEASEHOLD_KEY)}</title>
  <body data-user="${escapeHtml(user)}">
    <h1>${escapeHtml(LEASEHOLD_KEY)}</h1>
    <p>You are <strong>${escapeHtml(user)}</strong>, <span id="state">connecting</span>.</p>
    <div id="editor"></div>
    <script type="module" src="page.js"></script>
  </body>
</html>
`,
  onReplaced: () => process.exit(4),
});
room.http.listen(Number(PORT), '127.0.0.1');

// The soft stop. What has come is stored; browsers connect again by themselves.
process.once('SIGTERM', () => void room.close().then(() => process.exit(0)));

/** @param {string} text */
function escapeHtml(text) {
  return text.replace(/[&<>"']/gu, (character) => `&#${String(character.codePointAt(0))};`);
}
