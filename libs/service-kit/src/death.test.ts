import { describe, expect, test } from 'vitest';
import { deathOf, deathText, failedStart } from './supervision.ts';

describe('the text about a death', () => {
  test.each([
    ['PANIC:  could not write to file "pg_wal/1": No space left on device', 'its disk is full'],
    ['ENOSPC: no space left on device, write', 'its disk is full'],
    ['The disk that holds /srv/home is full.', 'its disk is full'],
    ['listen EADDRINUSE: address already in use', 'its port is in use by another program'],
    ['127.0.0.1:4600 is in use: set LEASEHOLD_PORT.', 'its port is in use by another program'],
    ["EACCES: permission denied, open '/x'", 'it may not read or write what it needs'],
    ['Reached heap limit: JavaScript heap out of memory', 'it ran out of memory'],
  ])('reports %s as: %s', (line, cause) => {
    expect(deathText(deathOf('ended with code 1', ['first', line, 'at main.mjs:1']))).toBe(
      `ended with code 1: ${cause}`,
    );
  });

  test('repeats the last line of the log when it names no known cause', () => {
    expect(deathText(deathOf('ended with code 1', ['one', 'two']))).toBe('ended with code 1: two');
  });

  test('has only how the process ended when it logged nothing', () => {
    expect(deathText(deathOf('was ended by SIGKILL', []))).toBe('was ended by SIGKILL');
  });

  test('also considers the causes of the error when a start failed', () => {
    const error = new Error('It did not start.', { cause: new Error('ENOSPC') });

    expect(failedStart(error)).toMatchObject({ cause: 'disk_full', how: 'could not be started' });
  });
});
