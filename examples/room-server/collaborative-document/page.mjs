/**
 * The page: an editor whose text is a Yjs document. Yjs keeps what was typed while no room could be reached, and
 * sends it to the next one.
 */
import { basicSetup, EditorView } from 'codemirror';
import { yCollab } from 'y-codemirror.next';
import { WebsocketProvider } from 'y-websocket';
import * as Y from 'yjs';

const { document, location } = globalThis;

const doc = new Y.Doc();
const text = doc.getText('text');

// The room is where the page is, whatever address that has: `/k/_/minutes/` of a gateway becomes
// `wss://…/k/_/minutes/socket`.
const here = new URL('.', location.href);
here.protocol = here.protocol === 'https:' ? 'wss:' : 'ws:';
const provider = new WebsocketProvider(here.href.replace(/\/$/u, ''), 'socket', doc, {
  // Pages of one browser meet in the room, too, and not behind its back.
  disableBc: true,
  maxBackoffTime: 1_000,
});

const user = document.body.dataset['user'] ?? '';
provider.awareness.setLocalStateField('user', { name: user });

const state = /** @type {HTMLElement} */ (document.getElementById('state'));
provider.on('status', ({ status }) => {
  state.textContent = status;
});

new EditorView({
  extensions: [basicSetup, EditorView.lineWrapping, yCollab(text, provider.awareness)],
  parent: /** @type {HTMLElement} */ (document.getElementById('editor')),
});
