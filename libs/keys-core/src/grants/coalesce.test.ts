import { describe, expect, test } from 'vitest';
import { createCoalescer as createKernelCoalescer } from '../kernel/coalesce.ts';
import { type CoalescerOptions, createCoalescer } from './coalesce.ts';

interface Statement {
  readonly items: readonly string[];
  answer(): void;
  fail(error: unknown): void;
}

/** A coalescer of strings whose statements the test answers by hand. */
function setUp(options: Partial<CoalescerOptions<string, string>> = {}) {
  const statements: Statement[] = [];
  const coalescer = createCoalescer<string, string>({
    run: (items) =>
      new Promise((resolve, reject) => {
        statements.push({
          items,
          answer: () => {
            resolve(items.map((item) => `${item}!`));
          },
          fail: reject,
        });
      }),
    keysOf: (item) => [item.split('#')[0] ?? item],
    batchSizeMax: 100,
    inFlightMax: 2,
    queueMax: 1_000,
    ...options,
  });
  return { coalescer, statements };
}

/** Lets every promise that can settle do so. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function databaseError(sqlState: string): Error {
  return Object.assign(new Error('failed'), {
    meta: { driverAdapterError: { cause: { originalCode: sqlState } } },
  });
}

describe('coalescer', () => {
  test('sends the first call at once and alone when it is idle', () => {
    const { coalescer, statements } = setUp();

    void coalescer.submit('a');

    expect(statements.map((statement) => statement.items)).toEqual([['a']]);
  });

  test('runs a batch within what began its own calls, and not those of the batch before', async () => {
    const ran: (readonly unknown[])[] = [];
    let present = '';
    const answers: (() => void)[] = [];
    const coalescer = createKernelCoalescer<string, string>({
      run: (items) => new Promise((resolve) => answers.push(() => resolve([...items]))),
      keysOf: (item) => [item],
      failureOf: () => undefined,
      batchSizeMax: 10,
      inFlightMax: 1,
      queueMax: 10,
      origins: {
        read: () => present,
        run: (origins, work) => {
          ran.push(origins);
          return work();
        },
      },
    });
    for (const item of ['a', 'b', 'c']) {
      present = `caller of ${item}`;
      void coalescer.submit(item);
    }

    answers[0]?.();
    await settle();

    expect(ran).toEqual([['caller of a'], ['caller of b', 'caller of c']]);
  });

  test('batches calls that come while statements are in flight, and answers each caller', async () => {
    const { coalescer, statements } = setUp();
    const answers = ['a', 'b', 'c', 'd', 'e'].map((item) => coalescer.submit(item));

    statements[0]?.answer();
    await settle();
    statements[1]?.answer();
    statements[2]?.answer();

    expect(await Promise.all(answers)).toEqual(['a!', 'b!', 'c!', 'd!', 'e!']);
    expect(statements.map((statement) => statement.items)).toEqual([['a'], ['b'], ['c', 'd', 'e']]);
  });

  test('never has more in flight, in a statement or in the queue than allowed', async () => {
    const { coalescer, statements } = setUp({ batchSizeMax: 2, queueMax: 3 });
    const calls = ['a', 'b', 'c', 'd', 'e'].map((item) => coalescer.submit(item));

    await expect(coalescer.submit('f')).rejects.toMatchObject({ code: 'request.rate_limited' });
    expect(statements).toHaveLength(2);
    statements[0]?.answer();
    await settle();
    expect(statements[2]?.items).toEqual(['c', 'd']);
    statements[1]?.answer();
    statements[2]?.answer();
    await settle();
    statements[3]?.answer();
    expect(await Promise.all(calls)).toHaveLength(5);
  });

  test('C54 the second call for one key waits until the statement of the first has ended', async () => {
    const { coalescer, statements } = setUp();
    const calls = ['k#1', 'x', 'k#2', 'y', 'k#3'].map((item) => coalescer.submit(item));

    statements[1]?.answer();
    await settle();
    expect(statements[2]?.items).toEqual(['y']);
    statements[0]?.answer();
    await settle();
    expect(statements[3]?.items).toEqual(['k#2']);
    statements[2]?.answer();
    statements[3]?.answer();
    await settle();
    expect(statements[4]?.items).toEqual(['k#3']);
    statements[4]?.answer();
    expect(await Promise.all(calls)).toEqual(['k#1!', 'x!', 'k#2!', 'y!', 'k#3!']);
  });

  test('C54 one bad item among 99 good ones fails alone', async () => {
    const items = Array.from({ length: 100 }, (_, index) => `item-${String(index)}`);
    const coalescer = createCoalescer<string, string>({
      run: (batch) =>
        batch.includes('item-42')
          ? Promise.reject(databaseError('22P05'))
          : Promise.resolve(batch.map((item) => `${item}!`)),
      keysOf: (item) => [item],
      batchSizeMax: 100,
      inFlightMax: 1,
      queueMax: 1_000,
    });

    const answers = await Promise.allSettled(items.map((item) => coalescer.submit(item)));

    const failed = answers.flatMap((answer, index) =>
      answer.status === 'rejected' ? [items[index]] : [],
    );
    expect(failed).toEqual(['item-42']);
  });

  test('C53 a statement that lost a deadlock is sent again, and no caller notices', async () => {
    let tries = 0;
    const { coalescer } = setUp({
      run: (items) => {
        tries += 1;
        return tries === 1 ? Promise.reject(databaseError('40P01')) : Promise.resolve([...items]);
      },
    });

    expect(await coalescer.submit('a')).toBe('a');
    expect(tries).toBe(2);
  });

  test('a caller that gave up in the queue is dropped when the batch is formed', async () => {
    const { coalescer, statements } = setUp({ inFlightMax: 1 });
    const gone = new AbortController();
    const first = coalescer.submit('a');
    const second = coalescer.submit('b', gone.signal);
    const third = coalescer.submit('c');

    gone.abort(new Error('gone'));
    statements[0]?.answer();

    await expect(second).rejects.toThrow('gone');
    expect(await first).toBe('a!');
    expect(statements[1]?.items).toEqual(['c']);
    statements[1]?.answer();
    expect(await third).toBe('c!');
  });

  test('an item that must be tried alone does not delay its neighbours', async () => {
    const { coalescer } = setUp({
      inFlightMax: 1,
      run: (items) =>
        Promise.resolve(
          items.map((item) => (item === 'slow' ? new Promise<string>(() => undefined) : item)),
        ),
    });

    void coalescer.submit('slow');
    const fast = coalescer.submit('fast');

    expect(await fast).toBe('fast');
  });

  test('a failure that no single item caused reaches every caller of the batch', async () => {
    const { coalescer, statements } = setUp({ inFlightMax: 1 });
    const calls = Promise.allSettled([
      coalescer.submit('a'),
      coalescer.submit('b'),
      coalescer.submit('c'),
    ]);

    statements[0]?.answer();
    await settle();
    statements[1]?.fail(new Error('defect'));

    expect((await calls).map((call) => call.status)).toEqual(['fulfilled', 'rejected', 'rejected']);
  });

  test('the items of one call share statements, and their answers come in their order', async () => {
    const { coalescer, statements } = setUp();
    const answers = coalescer.submitAll(['a', 'b', 'a#2', 'c']);

    statements[0]?.answer();
    await settle();
    statements[1]?.answer();

    expect(await answers).toEqual(['a!', 'b!', 'a#2!', 'c!']);
    expect(statements.map((statement) => statement.items)).toEqual([['a', 'b', 'c'], ['a#2']]);
  });

  test('a call of many items waits for those that are retried alone, and fails if one of them fails', async () => {
    let answerLater = (_answer: string): void => undefined;
    const alone: Record<string, Promise<string>> = {
      b: new Promise((resolve) => {
        answerLater = resolve;
      }),
      d: Promise.reject(new Error('refused')),
    };
    const { coalescer } = setUp({
      run: (items) => Promise.resolve(items.map((item) => alone[item] ?? `${item}!`)),
    });
    const patient = coalescer.submitAll(['a', 'b']);
    const failing = coalescer.submitAll(['c', 'd']);
    failing.catch(() => undefined);

    answerLater('b, at last');

    expect(await patient).toEqual(['a!', 'b, at last']);
    await expect(failing).rejects.toThrow('refused');
  });

  test('a call of more items than the queue holds is refused whole, and an empty one is answered', async () => {
    const { coalescer, statements } = setUp({ queueMax: 2 });

    await expect(coalescer.submitAll(['a', 'b', 'c'])).rejects.toMatchObject({
      code: 'request.rate_limited',
    });
    expect(await coalescer.submitAll([])).toEqual([]);
    expect(statements).toEqual([]);
  });
});
