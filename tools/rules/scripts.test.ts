import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const root = path.join(import.meta.dirname, '..', '..');

// npm runs a script in a shell and passes signals on to that shell alone. A shell that waits for its program dies
// of SIGTERM and leaves the program running, and does nothing at a SIGINT.
test('a signal to npm reaches the program of a script', () => {
  const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
    readonly scripts: Readonly<Record<string, string>>;
  };
  const behindAShell = Object.entries(scripts)
    .filter(([, command]) => command.split(' && ').at(-1)?.startsWith('exec ') !== true)
    .map(([name]) => name);
  expect(behindAShell).toEqual([]);
});
