import { createLeasehold } from '@leasehold/client';
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

  const published = there.publish('terms', 'new', () =>
    here.read('terms', (text) => Promise.resolve(text)),
  );
  const line = { namespace: 'documents', name: 'terms' };
  await waitUntil(async () => {
    const { items } = await stage.api('admin').leases.waiters.query(line);
    return items.length === 1;
  });
  end.open();

  expect(await Promise.all(reads)).toEqual(['old, then old', 'old, then old']);
  // Read by another process, while the one that has written it still uses it.
  expect(await published).toBe('new');
});
