import { describe, expect, onTestFinished, test } from 'vitest';
import { createLogger } from '@leasehold/service-kit';
import { expectPrompt, someOf, startUrlProxy, waitUntil } from '@leasehold/testing';
import { revoke } from '../grants/sql/revoke.ts';
import { pause } from '../postgres/kernel-store.ts';
import { type Kernel, MACHINE_CLOCK, openKernel } from '../testing/kernel-fixture.ts';
import { createWhileLeader } from './index.ts';

const TTL_MS = 4_000;

/** From when to when a controller did the job. */
interface Term {
  readonly fromMs: number;
  toMs: number | undefined;
}

/** A controller that does `job` whenever it can until the test ends, and the times at which it did. */
function aController(kernel: Kernel, holder: string, ttlMs = TTL_MS) {
  const whileLeader = createWhileLeader({
    store: kernel.store,
    holder,
    ttlMs,
    log: createLogger({ name: 'test', level: 'silent' }),
  });
  const stopping = new AbortController();
  const terms: Term[] = [];
  const work = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      const term: Term = { fromMs: MACHINE_CLOCK.nowMs(), toMs: undefined };
      terms.push(term);
      const end = (): void => {
        term.toMs = MACHINE_CLOCK.nowMs();
        resolve();
      };
      if (signal.aborted) end();
      else signal.addEventListener('abort', end);
    });
  const round = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      await whileLeader('job', work, stopping.signal).catch(() => pause(kernel.store, 50));
    }
  };
  const ended = round();
  const stop = async (): Promise<void> => {
    stopping.abort();
    await ended;
  };
  onTestFinished(stop);
  return { terms, stop };
}

/** Until the lease has been renewed: all others that asked for it have been refused by then. */
async function renewed({ store }: Kernel): Promise<void> {
  await waitUntil(async () => {
    const [row] = await store.general.$queryRaw<{ isRenewed: boolean }[]>`
      select renewed_at > granted_at as "isRenewed" from lease`;
    return row?.isRenewed;
  });
}

/** Two controllers; the first one has the lease, and its connection to the database is the proxy. */
async function twoControllers(ttlMs = TTL_MS) {
  const kernel = await openKernel();
  const { proxy, url } = await startUrlProxy(kernel.databaseUrl);
  onTestFinished(() => proxy.close());
  const one = aController(await openKernel({ databaseUrl: url }), 'one', ttlMs);
  await waitUntil(() => one.terms.length === 1);
  const two = aController(kernel, 'two', ttlMs);
  await renewed(kernel);
  return { kernel, proxy, one, two };
}

function kindsOf({ store }: Kernel): Promise<{ kind: string }[]> {
  return store.general.$queryRaw`select kind, actor, namespace, name from lease_event order by id`;
}

/** The job went from one controller to the other after the first had stopped, and by no expiry. */
async function expectPassedOn(kernel: Kernel, former?: Term, next?: Term): Promise<void> {
  const gapMs = (next?.fromMs ?? NaN) - (former?.toMs ?? NaN);
  expect(gapMs).toBeGreaterThanOrEqual(0);
  expect((await kindsOf(kernel)).map(({ kind }) => kind)).not.toContain('expired');
  expectPrompt(gapMs, TTL_MS / 2);
}

describe('work that only one controller does', () => {
  test('is done by only one of eight that start at once, under a lease whose only event is its grant', async () => {
    const kernel = await openKernel();
    const other = await openKernel({ databaseUrl: kernel.databaseUrl });
    const all = Array.from({ length: 8 }, (_, at) =>
      aController(at % 2 === 0 ? kernel : other, `holder ${String(at)}`),
    );

    await renewed(kernel);

    expect(all.flatMap(({ terms }) => terms)).toMatchObject([{ toMs: undefined }]);
    expect(await kindsOf(kernel)).toEqual([
      { kind: 'granted', actor: 'leasehold', namespace: 'leasehold', name: 'job' },
    ]);
  });

  test('passes on at once when its controller stops', async () => {
    const { kernel, one, two } = await twoControllers();

    await one.stop();
    const [term] = await waitUntil(() => (two.terms.length > 0 ? two.terms : undefined));

    await expectPassedOn(kernel, one.terms[0], term);
  });

  test('passes on at once when its controller stops while another one asks for the lease', async () => {
    const kernel = await openKernel();
    const one = aController(kernel, 'one');
    await waitUntil(() => one.terms.length === 1);
    const other = await openKernel({ databaseUrl: kernel.databaseUrl });
    const { store } = other;
    // The answer that the first one has the lease is on its way when it stops.
    const late = new Proxy(store.transitions, {
      get: (transitions, name) => {
        if (name !== '$queryRaw') return Reflect.get(transitions, name) as unknown;
        return async (...statement: Parameters<typeof transitions.$queryRaw>) => {
          const rows: unknown = await transitions.$queryRaw(...statement);
          if (tellsOf(rows, 'one')) {
            const hint = store.hints.next('leader:job', store.clock.nowMs() + 60_000);
            await one.stop();
            await hint;
          }
          return rows;
        };
      },
    });
    const two = aController({ ...other, store: { ...store, transitions: late } }, 'two');
    const [term] = await waitUntil(() => (two.terms.length > 0 ? two.terms : undefined));

    await expectPassedOn(kernel, one.terms[0], term);
  });

  test('stops in a controller that is cut off from the database before another one starts it', async () => {
    // It waits for the expiry.
    const { proxy, one, two } = await twoControllers(TTL_MS / 2);

    proxy.refuse();
    const [term] = await waitUntil(() => (two.terms.length > 0 ? two.terms : undefined));

    expect(one.terms[0]?.toMs).toBeLessThan(term?.fromMs ?? 0);
  });

  test.each(someOf(['graceful', 'force'] as const))(
    'passes to another controller when an operator revokes its lease (%s)',
    async (mode) => {
      const { kernel, one, two } = await twoControllers();
      const [held] = await kernel.store.general.$queryRaw<{ leaseId: string }[]>`
        select lease_id as "leaseId" from lease`;

      await revoke(kernel.store.general, 'lease', [
        { leaseId: held?.leaseId ?? '', mode, abandon: false, ...BY_OPERATOR },
      ]);
      await waitUntil(() => two.terms.length > 0);

      expect(one.terms).toHaveLength(1);
    },
  );
});

function tellsOf(rows: unknown, holder: string): boolean {
  return Array.isArray(rows) && rows.some((row: { holder?: string }) => row.holder === holder);
}

const BY_OPERATOR = { actor: 'op', reason: 'move it', namespaces: null };
