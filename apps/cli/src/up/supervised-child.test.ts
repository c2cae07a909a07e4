import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deathText, type Death, type Supervision } from '@leasehold/service-kit/supervision';
import { waitUntil } from '@leasehold/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  alarmOf,
  lineReader,
  openBoundedLog,
  superviseChild,
  type ChildHooks,
  type SupervisedChild,
} from './supervised-child.ts';

const HOUR_MS = 3_600_000;

let directory: string;
let child: SupervisedChild | undefined;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'supervised-child-'));
});

afterEach(async () => {
  await child?.stop();
  child = undefined;
  await rm(directory, { recursive: true, maxRetries: 10 });
});

/** What the supervisor reports. */
class Said implements ChildHooks {
  readonly deaths: string[] = [];
  readonly gaveUpOn: Death[] = [];
  restartCount = 0;

  alarm(): void {
    // What a process says before it dies is in its death.
  }

  restarting(_name: string, death: Death): void {
    this.deaths.push(deathText(death));
  }

  restarted(): void {
    this.restartCount += 1;
  }

  gaveUp(_name: string, death: Death): void {
    this.gaveUpOn.push(death);
  }
}

/** Time that passes only in pauses, each of which lasts `pauseMs`. */
function timeOfPauses(pauseMs: number): Supervision {
  let nowMs = 0;
  return {
    random: () => 0,
    stop: new AbortController().signal,
    time: {
      nowMs: () => nowMs,
      pause() {
        nowMs += pauseMs;
        return Promise.resolve();
      },
    },
  };
}

/** A real process that is ready and then runs `then`. */
async function supervise(then: string, said: Said, supervision: Supervision): Promise<void> {
  child = await superviseChild(
    {
      name: 'program',
      args: ['-e', `process.send({ type: 'ready' }, () => { ${then} });`],
      env: {},
      logPath: join(directory, 'program.log'),
      stopTimeoutMs: 5_000,
    },
    said,
    supervision,
  );
}

describe('superviseChild', () => {
  test('H-restart-count: a process that dies once an hour is started again each time', async () => {
    const said = new Said();
    await supervise('process.exit(3)', said, timeOfPauses(HOUR_MS));

    await waitUntil(() => said.restartCount >= 8);

    expect(said.deaths[0]).toBe('ended with code 3');
    expect(said.gaveUpOn).toEqual([]);
  });

  test('a process that dies at once, again and again, is given up, and its last output is reported', async () => {
    const said = new Said();
    await supervise(
      `console.error('EACCES: permission denied'); process.exit(1)`,
      said,
      timeOfPauses(1_000),
    );

    await waitUntil(() => said.gaveUpOn.length > 0);

    expect(said.restartCount).toBe(7);
    expect(said.gaveUpOn).toEqual([
      {
        how: 'ended with code 1',
        cause: 'not_permitted',
        lastLines: ['EACCES: permission denied'],
      },
    ]);
  });

  test('a process that cannot start on a full disk is retried until it runs', async () => {
    const said = new Said();
    const log = join(directory, 'program.log');
    const words = 'ENOSPC: no space left on device\\n';
    // It fails for as long as its log is short: three times.
    const start = `
      if (require('fs').statSync(${JSON.stringify(log)}).size < ${String(3 * words.length - 3)}) {
        process.stderr.write('${words}', () => process.exit(1));
      } else process.send({ type: 'ready' });`;

    child = await superviseChild(
      { name: 'program', args: ['-e', start], env: {}, logPath: log, stopTimeoutMs: 5_000 },
      said,
      timeOfPauses(0),
    );

    expect(said.deaths).toEqual(
      Array(3).fill('ended with code 1 before it was ready: its disk is full'),
    );
  });
});

describe('lineReader', () => {
  test('joins chunks into lines, even where a character is split between two', () => {
    const lines: string[] = [];
    const read = lineReader((line) => lines.push(line));
    const bytes = Buffer.from('naïve\nsecond\nrest');

    read(bytes.subarray(0, 3));
    read(bytes.subarray(3));

    expect(lines).toEqual(['naïve', 'second']);
  });
});

describe('alarmOf', () => {
  test('ignores a line that is not a warning', () => {
    expect(alarmOf('{"level":"info","msg":"listens"}', 'stdout')).toBeUndefined();
  });

  test('reports a warning together with its cause', () => {
    const line = '{"level":"warn","msg":"tries again","err":{"message":"connection refused"}}';

    expect(alarmOf(line, 'stdout')).toEqual({
      level: 'warn',
      message: 'tries again: connection refused',
    });
  });

  test('reports what a crashing process writes to its standard error', () => {
    expect(alarmOf('Error: boom', 'stderr')).toEqual({ level: 'error', message: 'Error: boom' });
  });

  test('ignores plain text on the standard output', () => {
    expect(alarmOf('hello', 'stdout')).toBeUndefined();
  });
});

test('control characters that an alarm quotes do not act on the terminal', () => {
  const sent = 'a\u001b[2J\nb\u009b31m';
  const line = JSON.stringify({ level: 'warn', msg: sent, err: { message: sent } });

  for (const alarm of [alarmOf(line, 'stdout'), alarmOf('a\u001b[2J', 'stderr')]) {
    expect(alarm?.message).not.toMatch(/\p{Cc}/u);
  }
});

describe('openBoundedLog', () => {
  test('sets a full log aside, and keeps two files', async () => {
    const path = join(directory, 'a.log');
    const log = openBoundedLog(path, 10);

    for (const text of ['first\n', 'second\n', 'third\n']) log.write(Buffer.from(text));
    log.close();

    expect(await readFile(path, 'utf8')).toBe('third\n');
    expect(await readFile(`${path}.1`, 'utf8')).toBe('second\n');
  });

  test('goes on after somebody has removed its file, or what it sets aside cannot be', async () => {
    const path = join(directory, 'a.log');
    const log = openBoundedLog(path, 10);
    log.write(Buffer.from('first\n'));
    await rm(path);
    for (const text of ['second\n', 'third\n']) log.write(Buffer.from(text));
    const afterRemoval = [await readFile(path, 'utf8'), await readFile(`${path}.1`, 'utf8')];

    await rm(`${path}.1`);
    await mkdir(`${path}.1`);
    for (const text of ['fourth\n', 'fifth\n']) log.write(Buffer.from(text));
    log.close();

    expect(afterRemoval).toEqual(['third\n', 'second\n']);
    expect(await readFile(path, 'utf8')).toBe('fifth\n');
  });

  test('appends to the log of an earlier run', async () => {
    const path = join(directory, 'a.log');
    for (const text of ['one\n', 'two\n']) {
      const log = openBoundedLog(path);
      log.write(Buffer.from(text));
      log.close();
    }

    expect(await readFile(path, 'utf8')).toBe('one\ntwo\n');
  });

  test('loses lines and throws nothing when it cannot be written', () => {
    const log = openBoundedLog('/dev/full');

    expect(() => {
      log.write(Buffer.from('lost\n'));
    }).not.toThrow();
    log.close();
  });
});
