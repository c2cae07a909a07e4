import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createLogger, REPEAT_WINDOW_MS } from './logger.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

type Line = Readonly<Record<string, unknown>>;

function openLog(): {
  logger: ReturnType<typeof createLogger>;
  lines: () => Line[];
  bytes: () => number;
} {
  let text = '';
  const logger = createLogger({
    name: 'test',
    level: 'info',
    destination: { write: (line: string) => void (text += line) },
  });
  const lines = (): Line[] =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Line);
  return { logger, lines, bytes: () => text.length };
}

test('ten thousand failures of one kind leave the first line in full, and one line with their count', () => {
  const { logger, lines, bytes } = openLog();

  for (let index = 0; index < 10_000; index += 1) {
    const err = new Error(`failure ${String(index)}`);
    logger.error({ path: 'keys.list', incidentId: `inc-${String(index)}`, err }, 'call failed');
  }
  vi.advanceTimersByTime(REPEAT_WINDOW_MS);

  expect(lines()).toHaveLength(2);
  expect(lines()[0]).toMatchObject({ msg: 'call failed', incidentId: 'inc-0', path: 'keys.list' });
  expect(lines()[1]).toMatchObject({
    level: 'error',
    msg: 'repeated: call failed',
    path: 'keys.list',
    repeated: 9_999,
    incidentIds: expect.arrayContaining(['inc-9999']) as unknown,
  });
  expect(bytes()).toBeLessThan(10_000);
});

test('a failure is written in full again in the next window, and one that came once leaves one line', () => {
  const { logger, lines } = openLog();

  logger.warn({ job: 'reap' }, 'background job failed');
  vi.advanceTimersByTime(REPEAT_WINDOW_MS);
  logger.warn({ job: 'reap' }, 'background job failed');
  vi.advanceTimersByTime(REPEAT_WINDOW_MS);

  expect(lines().map(({ msg }) => msg)).toEqual(['background job failed', 'background job failed']);
});

test('another path, code, error or level is another kind', () => {
  const { logger, lines } = openLog();

  logger.error({ path: 'keys.get' }, 'call failed');
  logger.error({ path: 'keys.list' }, 'call failed');
  logger.error({ path: 'keys.list', leaseholdCode: 'store.unavailable' }, 'call failed');
  logger.error({ path: 'keys.list', err: new TypeError('no') }, 'call failed');
  logger.info({ path: 'keys.list' }, 'call failed');
  logger.info({ path: 'keys.list' }, 'call failed');

  expect(lines()).toHaveLength(6);
});

test('lines of too many kinds are counted together', () => {
  const { logger, lines } = openLog();

  for (let index = 0; index < 5_000; index += 1) {
    logger.warn({ path: `p${String(index)}` }, 'refused');
  }
  vi.advanceTimersByTime(REPEAT_WINDOW_MS);

  expect(lines().length).toBeLessThan(110);
  expect(lines().at(-1)).toMatchObject({ msg: 'repeated: lines of many other kinds' });
});

test('an error is cut and written without its own fields, so that no whole body is logged', () => {
  const { logger, bytes, lines } = openLog();
  const body = 'x'.repeat(4_000_000);

  const cause = Object.assign(new Error(body, { cause: new Error(body) }), { code: 'P2010', body });
  logger.error({ err: new Error(body, { cause }) }, 'call failed');

  expect(bytes()).toBeLessThan(30_000);
  expect(lines()[0]).toMatchObject({ err: { type: 'Error', cause: { code: 'P2010' } } });
});
