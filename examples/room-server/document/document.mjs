import { WebSocket } from 'ws';

/** How long to wait before the key is asked for again, in milliseconds. */
const AGAIN_MS = 250;

/**
 * A document as one of its editors sees it. It follows the document to the next backend when the
 * present one ends or is replaced. A line that was sent and not seen when that happens may be stored or
 * not; it is not sent again. `connect` is Leasehold's answer for the document's key; `onChange` receives the whole
 * document.
 *
 * @param {{
 *   connect: () => Promise<{ address: string | null }>,
 *   onChange: (lines: readonly string[]) => void,
 *   onProblem?: (problem: unknown) => void,
 * }} of
 */
export function openDocument({ connect, onChange, onProblem = console.error }) {
  /** @type {WebSocket | undefined} */
  let socket;
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  let isClosed = false;
  /** @type {readonly string[]} */
  let lines = [];

  function again() {
    if (!isClosed) timer = setTimeout(() => void follow(), AGAIN_MS);
  }

  async function follow() {
    try {
      const { address } = await connect();
      if (isClosed || address === null) return again();
      socket = new WebSocket(`ws://${address}`);
      socket.on('error', onProblem);
      socket.on('close', again);
      socket.on('message', (message) => {
        const said = JSON.parse(String(message));
        lines = said.kind === 'document' ? said.lines : [...lines, said.text];
        onChange(lines);
      });
    } catch (problem) {
      onProblem(problem);
      again();
    }
  }

  void follow();
  return {
    /**
     * @param {string} line
     * @returns {boolean} whether it was sent; not while no backend is there
     */
    add(line) {
      if (socket?.readyState !== WebSocket.OPEN) return false;
      socket.send(JSON.stringify({ add: line }));
      return true;
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
      socket?.close();
    },
  };
}
