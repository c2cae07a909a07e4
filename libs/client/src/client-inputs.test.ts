/** What clients are made with, and what the test double is told. */
import { expect, onTestFinished, test } from 'vitest';
import { createTestLeasehold } from './double/index.ts';
import { createLeasehold } from './index.ts';
import { failureOf } from './testing/outcomes.ts';
import { createControllerClient } from './transport/controller-client.ts';

test('a definition with a TTL that no controller takes is refused at once', () => {
  const client = createTestLeasehold().client();

  expect(() => client.defineLease(['a'], { ttlMs: 500 })).toThrow('The TTL must be from');
});

test.each([
  ['callTimeoutMs', Infinity],
  ['callTimeoutMs', 2 ** 31],
  ['callTimeoutMs', '5000'],
  ['pingMs', NaN],
  ['pongTimeoutMs', 0],
  ['reconnectMsMax', -1],
  ['transport', 'WS'],
  ['token', 'lh_secret\nx'],
  ['onAnswer', 'loud'],
])('createControllerClient refuses the %s %s and repeats no secret', (field, value) => {
  const options = { url: 'http://127.0.0.1:1', token: '', transport: 'http', [field]: value };

  const make = (): unknown => createControllerClient(options as never);

  expect(make).toThrow(new RegExp(`^${field} must be`, 'u'));
  expect(make).not.toThrow('secret');
});

test.each(['5000', NaN, Infinity, -1])('a test cannot let %s ms pass', async (ms) => {
  const leasehold = createTestLeasehold();
  onTestFinished(() => leasehold.close());
  const wrong = ms as number;

  for (const pass of [
    () => leasehold.advance(wrong),
    () => leasehold.stall(wrong),
    () => leasehold.freeze({ namespace: [], key: 'e' }, { reason: 'audit', forMs: wrong }),
  ]) {
    const failure = await failureOf(Promise.resolve().then(pass));
    expect(failure).toMatchObject({ code: 'request.invalid' });
  }
});

test.each(['é'.repeat(127), '😀'.repeat(60)])(
  'the holder that is made of the client name %s is one that a controller takes',
  async (clientName) => {
    const client = createLeasehold({
      url: 'http://127.0.0.1:1',
      token: '',
      transport: 'http',
      clientName,
    });
    onTestFinished(() => client.close());

    const failure = await failureOf(
      client.defineLease(['n']).tryAcquire('k', { holder: undefined }),
    );

    expect(failure).not.toMatchObject({ code: 'request.invalid' });
  },
);

test('a backend cannot be watched over HTTP, and is told so as any wrong input', async () => {
  const client = createLeasehold({ url: 'http://127.0.0.1:1', token: '', transport: 'http' });
  onTestFinished(() => client.close());

  const failure = await failureOf(client.backends.watch('bk-1')[Symbol.asyncIterator]().next());

  expect(failure).toMatchObject({
    code: 'request.invalid',
    message: expect.stringContaining('transport') as string,
  });
});
