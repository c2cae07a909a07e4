import { LeaseHeldError } from '@leasehold/client';
import { describe, expect, test } from 'vitest';
import { runHere } from '../testing/in-process.ts';
import { heldFailure } from './acquire.ts';
import { checkedGraceMs } from './run.ts';

const DEFAULTS = { ttl: 30_000, heldExit: 1 };

describe('checkedGraceMs', () => {
  test.each([
    [1_000, 166],
    [6_000, 1_000],
    [30_000, 5_000],
    [86_400_000, 5_000],
  ])(
    'with a TTL of %i ms a command is asked to stop %i ms before its lease is lost',
    (ttl, graceMs) => {
      expect(checkedGraceMs({ ...DEFAULTS, ttl })).toBe(graceMs);
    },
  );

  test.each([
    // Renewed from 2 s to 5 s: half of that is the most.
    [{ ttl: 6_000, grace: 1_501 }, '--grace'],
    [{ heldExit: 256 }, '--held-exit'],
  ])('%j is wrong usage of %s', (options, option) => {
    expect(() => checkedGraceMs({ ...DEFAULTS, ...options })).toThrow(
      expect.objectContaining({
        code: 'cli.usage',
        message: expect.stringContaining(option) as string,
      }) as Error,
    );
  });
});

describe('several scopes of leases run', () => {
  test.each([
    [['jobs/clean', 'jobs/tidy']],
    [['clean', '/tidy']],
    [['--namespace', 'jobs', 'clean', 'tidy']],
  ])('%j are scopes', async (words) => {
    const ended = await runHere(['leases', 'run', ...words, '--', 'no-such-command']);

    expect(ended.stderr).toContain('There is no command no-such-command.');
  });

  test('a word of the command before the "--" is wrong usage, with where the "--" belongs', async () => {
    const words = ['jobs/clean', 'ssh', 'host', '--', 'rm', '-rf', '/srv'];
    const { exitCode, stderr } = await runHere(['leases', 'run', ...words]);

    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/ssh is before the "--", but no scope: .*\n.*Put the "--" before/u);
  });
});

describe('the failure of a run that was not granted its lease', () => {
  const since = '2026-11-25T03:12:00.000Z';

  test.each([
    [
      { by: 'worker-1', since, remainingMs: 20_000 },
      `is held by worker-1 since ${since}, for another 20.0 s unless it is renewed.`,
    ],
    [
      { by: 'worker-1', since, remainingMs: 0 },
      `is about to be granted to worker-1, who has waited since ${since}.`,
    ],
    // In a hold-off nobody may have looked.
    [
      { by: 'unknown', since: new Date(0).toISOString(), remainingMs: 0 },
      'was not granted: who has it is not known now.',
    ],
  ])('%j: %s', (known, text) => {
    const heldBy = { ...known, waitedMs: 0, comment: null, action: null, waiters: 0 };
    const error = new LeaseHeldError({ face: 'lease', namespace: ['jobs'], key: 'clean' }, heldBy);

    const failure = heldFailure(error, { waitMs: 0, heldExitCode: 1, heldHint: 'Try later.' });

    expect(failure.message).toBe(`jobs/clean ${text}`);
  });
});
