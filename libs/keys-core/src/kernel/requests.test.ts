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

  test('waiting for the newest request tells whether it has failed', async () => {
    const requests = new RequestsInProgress<string>();
    const [first, second] = [aRequest(), aRequest()];
    const failing = requests.run('a', first.run);
    const hasFailed = requests.hasFailed('a');
    first.reject(new Error('failed'));
    await expect(failing).rejects.toThrow('failed');
    expect(await hasFailed).toBe(true);
    const answered = requests.run('a', second.run);
    const hasFailedToo = requests.hasFailed('a');
    second.resolve('second');
    await answered;
    expect([await hasFailedToo, await requests.hasFailed('a')]).toEqual([false, false]);
  });

  test('of requests in turn one runs; when it fails, as many as may run at once; an answer spares the rest', async () => {
    const requests = new RequestsInProgress<string>(2);
    const all = Array.from({ length: 5 }, () => aRequest());
    const begun: number[] = [];
    const answers = all.map(({ run }, place) => {
      const request = (): Promise<string> => {
        begun.push(place);
        return run();
      };
      return requests.runInTurn('a', request, false);
    });
    expect(begun).toEqual([0]);
    all[0]?.reject(new Error('failed'));
    await expect(answers[0]).rejects.toThrow('failed');
    expect(begun).toEqual([0, 1, 2]);
    all[1]?.reject(new Error('failed'));
    await expect(answers[1]).rejects.toThrow('failed');
    expect(begun).toEqual([0, 1, 2, 3]);
    all[2]?.resolve('third');
    expect([await answers[2], await answers[4]]).toEqual([{ answer: 'third' }, undefined]);
    all[3]?.resolve('fourth');
    expect(await answers[3]).toEqual({ answer: 'fourth' });
    expect([begun.length, requests.has('a')]).toEqual([4, false]);
  });

  test('a request that has waited for one that failed waits for its turn only where as many run as may', async () => {
    const requests = new RequestsInProgress<string>(2);
    const [first, second] = [aRequest(), aRequest()];
    const begun = [
      requests.runInTurn('a', first.run, true),
      requests.runInTurn('a', second.run, true),
    ];
    const third = requests.runInTurn('a', aRequest().run, true);
    second.resolve('second');
    expect([await begun[1], await third]).toEqual([{ answer: 'second' }, undefined]);
    first.resolve('first');
    expect(await begun[0]).toEqual({ answer: 'first' });
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
