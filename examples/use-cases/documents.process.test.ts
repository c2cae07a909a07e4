import { createLeasehold, LeaseRevoked } from '@leasehold/client';
import { openTestStage, type Stage, waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createDocuments, type DocumentStore } from './documents.ts';
import { aGate } from './testing/service.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await openTestStage();
});
afterAll(() => stage.close());

/** Documents in memory, which two processes use. */
function setUp() {
  const texts = new Map([['terms', 'old']]);
  const store: DocumentStore = {
    read: (id) => Promise.resolve(texts.get(id) ?? ''),
    write(id, text) {
      texts.set(id, text);
      return Promise.resolve();
    },
  };
  const connect = () => {
    const leasehold = createLeasehold({ url: stage.url, token: stage.credentials.client });
    onTestFinished(() => leasehold.close());
    return createDocuments(leasehold, store);
  };
  return { texts, here: connect(), there: connect() };
}

test('many read at once, a writer waits for them, and readers come in beside it when it has written', async () => {
  const { texts, here, there } = setUp();
  const [first, second, end] = [aGate(), aGate(), aGate()];
  const reads = [first, second].map((gate, at) =>
    (at === 0 ? here : there).read('terms', async (text) => {
      gate.open();
      await end.opened;
      return `${text}, then ${texts.get('terms') ?? ''}`;
    }),
  );
  await Promise.all([first.opened, second.opened]);

  const [written, used] = [aGate(), aGate()];
  const published = there.publish('terms', 'new', async () => {
    written.open();
    await used.opened;
  });
  const line = { namespace: 'documents', name: 'terms' };
  await waitUntil(async () => {
    const { items } = await stage.api('admin').leases.waiters.query(line);
    return items.length === 1;
  });
  end.open();

  expect(await Promise.all(reads)).toEqual(['old, then old', 'old, then old']);
  // Read by another process, while the one that has written it still uses it.
  await written.opened;
  expect(await here.read('terms', (text) => Promise.resolve(text))).toBe('new');
  used.open();
  await published;
});

test('I15 a use whose lease is revoked is told by its signal, and does not end as if it had been guarded', async () => {
  const { here } = setUp();
  const using = aGate();
  let toldBy: unknown;
  const read = here.read('terms', async (_text, signal) => {
    using.open();
    await new Promise((resolve) => {
      signal.addEventListener('abort', resolve);
    });
    toldBy = signal.reason;
  });
  read.catch(() => undefined);
  await using.opened;
  const operator = stage.api('admin');
  const held = await operator.leases.get.query({ namespace: ['documents'], key: 'terms' });

  await operator.leases.revoke.mutate({
    leaseId: held?.leaseId ?? '',
    mode: 'force',
    reason: 'the document is being moved',
  });

  await expect(read).rejects.toBeInstanceOf(LeaseRevoked);
  expect(toldBy).toBeInstanceOf(LeaseRevoked);
});
