import { LeaseError } from '@leasehold/keys-core';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { ApiServices } from '../context.ts';
import { describeError } from '../error-map.ts';
import { oneByOne } from './lease-calls.ts';

/** Services with only what a batch needs: a place to report failures. */
function reporting(): { services: ApiServices; reported: [unknown, string][] } {
  const reported: [unknown, string][] = [];
  const services = {
    reportFailure: (error: unknown, { path }: { path: string }) => reported.push([error, path]),
  } as unknown as ApiServices;
  return { services, reported };
}

const schema = z.strictObject({ n: z.number() });

describe('a batch whose items are carried out one by one', () => {
  test('is answered in order, even when later items are done first', async () => {
    const { services } = reporting();
    const waiting: (() => void)[] = [];
    const items = [{ n: 1 }, { n: 2 }, { n: 3 }];

    const answers = oneByOne({ services, path: 'p', items, schema }, async ({ n }) => {
      await new Promise<void>((resolve) => waiting.push(resolve));
      return n;
    });
    await Promise.resolve();
    for (const finish of waiting.reverse()) finish();

    expect(await answers).toEqual([1, 2, 3]);
  });

  test('begins so many in one turn of the event loop, right or wrong, and the others in the next ones', async () => {
    const { services } = reporting();
    const turns: number[] = [];
    let begun = 0;
    const items = Array.from({ length: 1_000 }, (_, n) => (n % 2 === 0 ? { n } : { n: 'x' }));
    const countTurns = (): void => {
      turns.push(begun);
      if (begun < 500) setImmediate(countTurns);
    };
    setImmediate(countTurns);

    const answers = await oneByOne({ services, path: 'p', items, schema }, ({ n }) => {
      begun += 1;
      return Promise.resolve(n);
    });

    expect(answers).toHaveLength(1_000);
    expect(turns.slice(0, 3)).toEqual([50, 100, 150]);
  });

  test('answers refusals and invalid items without logging them', async () => {
    const { services, reported } = reporting();
    const items = [{ n: 1 }, { n: 'x' }];

    const answers = await oneByOne({ services, path: 'p', items, schema }, () =>
      Promise.reject(new LeaseError('auth.forbidden', 'no', { details: { a: 1 } })),
    );

    expect(answers).toMatchObject([
      { outcome: 'failed', error: { code: 'auth.forbidden', message: 'no', details: { a: 1 } } },
      { outcome: 'failed', error: { code: 'request.invalid', retryable: false, incidentId: null } },
    ]);
    expect(reported).toEqual([]);
  });

  test('logs an internal failure with the incident that its caller is told', async () => {
    const { services, reported } = reporting();
    const failure = new Error('select secret');
    const items = [{ n: 1 }];

    const answers = await oneByOne({ services, path: 'leases.acquireMany', items, schema }, () =>
      Promise.reject(failure),
    );

    expect(reported).toEqual([[failure, 'leases.acquireMany']]);
    expect(answers).toMatchObject([
      { error: { code: 'internal.error', incidentId: describeError(failure).incidentId } },
    ]);
    expect(JSON.stringify(answers)).not.toContain('secret');
  });
});
