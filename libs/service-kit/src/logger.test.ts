import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { transform } from 'esbuild';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createLogger } from './logger.ts';

const TOKEN = `lh_${'a1B2'.repeat(10)}xyz`;

function captured(work: (logger: ReturnType<typeof createLogger>) => void): string {
  let text = '';
  work(
    createLogger({
      name: 'test',
      level: 'info',
      destination: { write: (line: string) => void (text += line) },
    }),
  );
  return text;
}

describe('the log', () => {
  test.each([
    ['a field', { token: TOKEN }],
    ['a nested field', { request: { headers: { authorization: `Bearer ${TOKEN}` } } }],
    ['a URL', { databaseUrl: `postgresql://user:${TOKEN}@host/db` }],
    ['the cause of an error', { err: new Error('failed', { cause: new Error(`with ${TOKEN}`) }) }],
  ])('contains no secret from %s', (_place, fields) => {
    const text = captured((logger) => {
      logger.info(fields, 'something');
    });

    expect(text).toContain('something');
    expect(text).not.toContain(TOKEN);
  });

  test('contains no secret from a message', () => {
    const text = captured((logger) => {
      logger.info(`hello ${TOKEN}`);
    });

    expect(text).toContain('hello lh_***');
  });

  test('has one line for each call, and nothing that acts on a terminal, whatever a caller sent', () => {
    const sent = '\n\r\u001b[2J\u007f\u0085\u009b31m\u2028\u2029\u202e\u2066{"level":"fatal"}';

    const text = captured((logger) => {
      logger.warn({ path: sent, nested: { [sent]: sent }, err: new Error(sent) }, `said ${sent}`);
    });

    expect(text.match(/[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu)).toEqual(['\n']);
    expect(text.endsWith('\n')).toBe(true);
    expect(JSON.parse(text)).toMatchObject({ level: 'warn', path: sent, msg: `said ${sent}` });
  });

  test('leaves out lines below its level', () => {
    const text = captured((logger) => {
      logger.debug('details');
    });

    expect(text).toBe('');
  });

  test('writes one JSON object per line, with the time in UTC and the level by name', () => {
    const text = captured((logger) => {
      logger.warn({ key: 'demo' }, 'late');
    });

    expect(JSON.parse(text)).toMatchObject({
      level: 'warn',
      name: 'test',
      key: 'demo',
      msg: 'late',
    });
    expect((JSON.parse(text) as { time: string }).time).toMatch(/Z$/);
  });
});

test('an error of pg is logged without its connection', () => {
  const client = { processID: 7, secretKey: 4_711 };

  const text = captured((logger) => {
    logger.warn({ err: Object.assign(new Error('terminated'), { code: '57P01', client }) }, 'lost');
  });

  expect(JSON.parse(text)).toMatchObject({ err: { message: 'terminated', code: '57P01' } });
  expect(text).not.toContain('4711');
});

const source = readFileSync(new URL('logger.ts', import.meta.url), 'utf8');
/** The logger as Node runs it: each process would need longer to translate it than for all else. */
const { code: LOGGER } = await transform(source, { loader: 'ts', target: 'node20' });

/** Where it finds its packages. */
const cwd = import.meta.dirname;

/** The arguments of a process that logs this many lines, and then does something else. */
function logging(lines: number, afterwards: string): string[] {
  const program = `
    ${LOGGER}
    const log = createLogger({ name: 'test', level: 'info' });
    for (let line = 0; line < ${String(lines)}; line += 1) log.info({ line }, 'a line');
    ${afterwards}`;
  return ['--input-type=module', '-e', program];
}

/** What it logs. Nothing is read before this. */
function linesOf({ stdout }: ChildProcess): AsyncIterable<string> {
  return createInterface({ input: stdout as Readable });
}

/** Of lines: more than what is on its way to a reader that has stalled, and less than what is kept. */
const MANY = 6_000;

test('a log that cannot be written, on a full disk, does not end its process', async () => {
  const full = openSync('/dev/full', 'w');
  onTestFinished(() => {
    closeSync(full);
  });

  const child = spawn(process.execPath, logging(3, 'process.exitCode = 7'), {
    cwd,
    stdio: ['ignore', full, 'ignore'],
  });

  expect(await once(child, 'exit')).toEqual([7, null]);
});

/** On a terminal, of which the standard output is what it shows. */
function onTerminal(args: readonly string[]): [command: string, args: string[]] {
  const words = [process.execPath, ...args].map(
    (word) => `'${word.replaceAll("'", String.raw`'\''`)}'`,
  );
  return ['script', ['--quiet', '--return', '--command', words.join(' '), '/dev/null']];
}

test.each([
  ['in a pipe', (args: readonly string[]) => [process.execPath, args] as const],
  ['on a terminal', onTerminal],
])(
  'a log %s that nobody reads stops nothing, and is there in order once it is read',
  async (_where, commandOf) => {
    const afterwards = `process.send('goes on'); process.once('disconnect', () => process.exit(7));`;
    const [command, args] = commandOf(logging(MANY, afterwards));
    const child = spawn(command, args, { cwd, stdio: ['pipe', 'pipe', 'ignore', 'ipc'] });
    onTestFinished(() => void child.kill('SIGKILL'));

    expect(await once(child, 'message')).toContain('goes on');
    const lines: number[] = [];
    for await (const line of linesOf(child)) {
      lines.push((JSON.parse(line) as { line: number }).line);
      if (lines.length === MANY) child.disconnect();
    }

    expect(lines).toEqual(Array.from({ length: MANY }, (_line, at) => at));
  },
);

test('a log that nobody reads does not keep its process from ending', async () => {
  const child = spawn(process.execPath, logging(MANY, 'process.exit(7)'), {
    cwd,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));

  expect(await once(child, 'exit')).toEqual([7, null]);
});

test('the last lines of a process that ends are read by a reader that was late', async () => {
  // More than fit on their way, and once the reader has begun, there is room for all that are kept.
  const lines = 1_000;
  // Until the reader has begun, the process does nothing but wait: then no time passes in which it would give up.
  const afterwards = `
    import { readSync } from 'node:fs';
    process.send('ends');
    readSync(0, Buffer.alloc(1));
    process.exit(7);`;
  const child = spawn(process.execPath, logging(lines, afterwards), {
    cwd,
    stdio: ['pipe', 'pipe', 'ignore', 'ipc'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child, 'message');

  let last = '';
  for await (const line of linesOf(child)) {
    if (last === '') child.stdin?.end();
    last = line;
  }

  expect(JSON.parse(last)).toMatchObject({ line: lines - 1 });
});
