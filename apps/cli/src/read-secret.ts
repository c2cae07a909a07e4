import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';

/**
 * Reads a line from a terminal without showing what is typed. The end of the input is an empty answer. After
 * Ctrl-C nothing is answered: `interrupted` is called, once the terminal is as it was.
 */
export function readSecret(input: NodeJS.ReadableStream, interrupted: () => void): Promise<string> {
  const output = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input, output, terminal: true });
  return new Promise((resolve) => {
    const answer = (text: string): void => {
      resolve(text);
      lines.close();
    };
    const end = (): void => answer('');
    lines.once('line', answer).once('close', end);
    lines.once('SIGINT', () => {
      lines.off('close', end).close();
      interrupted();
    });
  });
}
