import { expect, onTestFinished, test, vi } from 'vitest';
import { createReadLane } from './pacing.ts';

/** Reads that end when the test ends them. */
function heldReads(): {
  run: (name: string) => () => Promise<string>;
  begun: string[];
  end: (name: string) => Promise<void>;
} {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  return {
    begun,
    run: (name) => async () => {
      begun.push(name);
      await new Promise<void>((resolve) => ends.set(name, resolve));
      return name;
    },
    async end(name) {
      ends.get(name)?.();
      await new Promise(setImmediate);
    },
  };
}

test('however many reads one principal asks for, another one gets a place at once', async () => {
  const lane = createReadLane(() => performance.now());
  const reads = heldReads();
  const names = Array.from({ length: 100 }, (_, index) => `greedy ${String(index)}`);
  const all = names.map((name) => lane.through('greedy', reads.run(name)));
  const other = lane.through('other', reads.run('other'));

  expect(reads.begun).toEqual(['greedy 0', 'greedy 1', 'greedy 2', 'other']);
  expect(lane.waitingCount).toBe(97);

  await reads.end('other');
  expect(await other).toBe('other');
  for (const name of names) await reads.end(name);
  expect(await Promise.all(all)).toEqual(names);
  expect(lane.waitingCount).toBe(0);
});

test('principals that wait are served in turn, however many reads each of them waits for', async () => {
  const lane = createReadLane(() => performance.now());
  const reads = heldReads();
  const busy = ['p1', 'p2', 'p3', 'p4'].flatMap((principal) =>
    [1, 2].map((nth) => lane.through(principal, reads.run(`${principal} ${String(nth)}`))),
  );
  const greedy = Array.from({ length: 5 }, (_, nth) =>
    lane.through('greedy', reads.run(`greedy ${String(nth)}`)),
  );
  const modest = lane.through('modest', reads.run('modest'));

  await reads.end('p1 1');
  await reads.end('p1 2');

  expect(reads.begun.slice(8)).toEqual(['greedy 0', 'modest']);
  for (const name of ['p2 1', 'p2 2', 'p3 1', 'p3 2', 'p4 1', 'p4 2', 'modest']) {
    await reads.end(name);
  }
  for (let nth = 0; nth < 5; nth += 1) await reads.end(`greedy ${String(nth)}`);
  await Promise.all([...busy, ...greedy, modest]);
});

test('exports and streams that are behind leave places to reads that somebody waits for', async () => {
  const lane = createReadLane(() => performance.now());
  const reads = heldReads();
  const exports = ['a', 'b', 'c', 'd'].map((principal) =>
    lane.through(principal, reads.run(principal), 'background'),
  );
  const asked = lane.through('viewer', reads.run('viewer'));

  expect(reads.begun).toEqual(['a', 'b', 'viewer']);
  for (const name of ['viewer', 'a', 'b', 'c', 'd']) await reads.end(name);
  await Promise.all([...exports, asked]);
});

test('a read that fails gives its place back, and one too many is refused with a code', async () => {
  const lane = createReadLane(() => performance.now());
  await expect(lane.through('p', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  const reads = heldReads();
  const waiting = Array.from({ length: 1_003 }, (_, nth) =>
    lane.through('p', reads.run(String(nth))),
  );

  await expect(lane.through('p', reads.run('one more'))).rejects.toMatchObject({
    code: 'request.rate_limited',
    details: { limit: 'reads' },
  });
  for (let nth = 0; nth < 1_003; nth += 1) await reads.end(String(nth));
  await Promise.all(waiting);
});

test('a principal that gets large answers waits until its rate allows the next read, and nobody else does', async () => {
  vi.useFakeTimers();
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const lane = createReadLane(() => Date.now());
  const begun: string[] = [];
  const read = (principal: string): Promise<void> =>
    lane.through(principal, () => {
      begun.push(principal);
      return Promise.resolve();
    });
  const page = 512 * 1_024;
  for (let nth = 0; nth < 4; nth += 1) lane.answered('large', page);
  // Too small to count.
  lane.answered('large', 1);

  const waiting = read('large');
  await read('other');
  vi.advanceTimersByTime(249);
  expect(begun).toEqual(['other']);
  vi.advanceTimersByTime(1);
  await waiting;

  expect(begun).toEqual(['other', 'large']);
  lane.answered('large', page);
  await read('large');
});
