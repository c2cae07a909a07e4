import { createControllerClient } from '@leasehold/client';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { controllerThatAnswers } from '../testing/in-process.ts';
import { lookAtStart, type StartingKey, startText, tellingWhile } from './connect-waiting.ts';

/** An answer that a test gives later. */
function lateAnswer() {
  let give: (answer: string) => void = () => undefined;
  const promise = new Promise<string>((resolve) => {
    give = resolve;
  });
  return { promise, give };
}

const AT = '2030-01-02T03:04:05.000Z';
const LATER = '2030-01-02T03:05:05.000Z';

/** A client of a controller where the key looks so; its backend waits on a port, or what `detail` says. */
async function openClient(key: object | null, detail: string | null = 'port 21107') {
  const { env } = await controllerThatAnswers((path) =>
    path.includes('keys.get') ? key : { states: [{ status: 'waiting', detail }] },
  );
  const { LEASEHOLD_URL: url, LEASEHOLD_TOKEN: token } = env;
  const connection = createControllerClient({ url, token, transport: 'http' });
  onTestFinished(() => connection.close());
  return connection.api;
}

const keyThatIs = (
  backendStatus: StartingKey['backendStatus'],
  more: Partial<StartingKey> = {},
): StartingKey => ({
  name: 'alpha',
  namespace: '',
  backendId: 'bk-1',
  backendStatus,
  droneId: 'd1',
  failing: null,
  expiresAt: LATER,
  asOf: AT,
  datacenter: 'local',
  ...more,
});

describe('what a connect waits for', () => {
  test.each<[StartingKey['backendStatus'], Partial<StartingKey>, RegExp]>([
    ['scheduled', {}, /^backend bk-1 is scheduled: the drone d1 has not/u],
    ['loading', {}, /^backend bk-1 is loading$/u],
    ['starting', {}, /^backend bk-1 is starting$/u],
    [
      'waiting',
      {},
      /^backend bk-1 runs, nothing answers on its port 21107 yet; `leasehold backends logs bk-1 --datacenter local` shows/u,
    ],
    ['waiting', { datacenter: 'dc2' }, /`leasehold backends logs bk-1 --datacenter dc2`/u],
    ['terminating', {}, /^backend bk-1 is stopping; alpha is free .*, by 2030-01-02T03:05/u],
    ['hard_terminating', {}, /^backend bk-1 is stopping/u],
    [
      'terminated',
      { failing: { failures: 4, startAt: LATER } },
      /^the last 4 backends of alpha have failed; the next may start at 2030-01-02T03:05/u,
    ],
  ])('is said of a backend that is %s', async (status, more, said) => {
    const key = keyThatIs(status, more);
    const client = await openClient(key);

    expect(await lookAtStart(client, { name: 'alpha', namespace: '' }, 'web')).toMatch(said);
  });

  test.each([
    ['its backend is ready', keyThatIs('ready')],
    ['it may start at once', keyThatIs('terminated', { failing: { failures: 1, startAt: AT } })],
    ['there is no such key yet', null],
  ])('is not said of a key when %s', async (_when, key) => {
    const client = await openClient(key);

    expect(await lookAtStart(client, { name: 'alpha', namespace: '' }, 'web')).toBeUndefined();
  });

  test('leaves the port out when the drone does not say it', async () => {
    const client = await openClient(null, 'by a warm process');

    expect(await startText(client, keyThatIs('waiting'))).toMatch(/runs, it does not answer yet;/u);
  });

  test('of a key without a name is its program', async () => {
    const client = await openClient(null);

    expect(await lookAtStart(client, { name: undefined, namespace: '' }, 'web')).toMatch(
      /^web does not answer yet; .* --program web/u,
    );
  });
});

test('what is waited for is printed again only when it has changed, until the answer', async () => {
  const looks = ['starting', 'starting', undefined, 'waiting', 'waiting'];
  const printed: string[] = [];
  const answer = lateAnswer();
  let looked = 0;
  const look = (): Promise<string | undefined> => Promise.resolve(looks[looked++] ?? 'waiting');
  const print = (text: string): void => void printed.push(text);

  const telling = tellingWhile(answer.promise, look, { print, silentMs: 0, everyMs: 1 });
  await waitUntil(() => looked > looks.length);
  answer.give('ready');

  expect(await telling).toBe('ready');
  expect(printed).toEqual(['waiting: starting\n', 'waiting: waiting\n']);
});

test('an answer that comes soon is printed alone, and so is one when nothing can be seen', async () => {
  const printed: string[] = [];
  const print = (text: string): void => void printed.push(text);
  let looked = 0;
  const look = (): Promise<never> => {
    looked += 1;
    return Promise.reject(new Error('forbidden'));
  };
  const late = lateAnswer();

  const soon = await tellingWhile(Promise.resolve('ready'), look, { print });
  expect(looked).toBe(0);
  const telling = tellingWhile(late.promise, look, { print, silentMs: 0, everyMs: 1 });
  await waitUntil(() => looked > 2);
  late.give('ready');

  expect([soon, await telling]).toEqual(['ready', 'ready']);
  expect(printed).toEqual([]);
});
