import { MutationObserver, QueryClient, QueryObserver } from '@tanstack/react-query';
import { afterEach, expect, test } from 'vitest';
import { readingAgain } from './use-live-query.ts';

const client = new QueryClient();
afterEach(() => client.clear());

/** Shows a read whose answers `answer` gives; ends with its first one. */
async function show(answer: () => Promise<string>): Promise<() => void> {
  const shown = new QueryObserver(client, { queryKey: ['shown'], queryFn: answer });
  const leave = shown.subscribe(() => undefined);
  await shown.fetchOptimistic(client.defaultQueryOptions({ queryKey: ['shown'], queryFn: answer }));
  return leave;
}

test('the failure of an act is told without waiting for what is read again', async () => {
  let reads = 0;
  const leave = await show(() => {
    reads += 1;
    return reads === 1 ? Promise.resolve('before') : new Promise(() => undefined);
  });

  const act = new MutationObserver(client, {
    mutationFn: () => Promise.reject(new Error('refused')),
    ...readingAgain(client),
  });
  await expect(act.mutate()).rejects.toThrow('refused');

  expect(act.getCurrentResult().isPending).toBe(false);
  expect(reads).toBe(2);
  leave();
});

test('an act that succeeds is over when the page shows it', async () => {
  let reads = 0;
  const leave = await show(() => Promise.resolve(`read ${String((reads += 1))}`));

  const act = new MutationObserver(client, {
    mutationFn: () => Promise.resolve('done'),
    ...readingAgain(client),
  });
  await act.mutate();

  expect(client.getQueryData(['shown'])).toBe('read 2');
  leave();
});
