import { describe, expect, test } from 'vitest';
import { RequestsInProgress } from './requests.ts';

function aRequest(): {
  readonly run: () => Promise<string>;
  readonly resolve: (answer: string) => void;
  readonly reject: (error: Error) => void;
} {
  let resolve = (_answer: string): void => undefined;
  let reject = (_error: Error): void => undefined;
  const answer = new Promise<string>((settle, fail) => {
    [resolve, reject] = [settle, fail];
  });
  return {
    run: () => answer,
    resolve: (text) => {
      resolve(text);
    },
    reject: (error) => {
      reject(error);
    },
  };
}

describe('requests in progress', () => {
  test('a key is in progress until all its requests have settled, and other keys are not', async () => {
    const requests = new RequestsInProgress<string>();
    const [first, second] = [aRequest(), aRequest()];
    const running = [requests.run('a', first.run), requests.run('a', second.run)];
    expect([requests.has('a'), requests.has('b')]).toEqual([true, false]);
    second.resolve('second');
    await running[1];
    expect(requests.has('a')).toBe(true);
    first.reject(new Error('failed'));
    await expect(running[0]).rejects.toThrow('failed');
    expect(requests.has('a')).toBe(false);
  });

  test('waiting for the newest request gives its answer, and nothing if it fails', async () => {
    const requests = new RequestsInProgress<string>();
    const [first, second] = [aRequest(), aRequest()];
    const older = requests.run('a', first.run);
    const newer = requests.run('a', second.run);
    const found = requests.newest('a');
    second.resolve('second');
    expect(await found).toBe('second');
    await newer;
    first.reject(new Error('failed'));
    await expect(older).rejects.toThrow('failed');
    const third = aRequest();
    const failing = requests.run('a', third.run);
    const notFound = requests.newest('a');
    third.reject(new Error('failed'));
    expect(await notFound).toBeUndefined();
    await expect(failing).rejects.toThrow('failed');
    expect(await requests.newest('a')).toBeUndefined();
  });

  test('callers that share a request get its answer or its failure; the next caller runs its own', async () => {
    const requests = new RequestsInProgress<string>();
    const first = aRequest();
    const shared = [requests.share('a', first.run), requests.share('a', aRequest().run)];
    first.reject(new Error('failed'));
    for (const one of shared) await expect(one).rejects.toThrow('failed');
    const second = aRequest();
    const own = requests.share('a', second.run);
    second.resolve('second');
    expect(await own).toBe('second');
  });
});
