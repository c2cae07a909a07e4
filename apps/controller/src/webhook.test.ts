import { expect, test } from 'vitest';
import { readConfig } from './config.ts';
import { failureText } from './webhook.ts';

const URL_AND_SECRET = {
  LEASEHOLD_WEBHOOK_URL: 'https://hooks.example.com/a',
  LEASEHOLD_WEBHOOK_SECRET: 'a secret that is long enough for this',
};

test.each([
  ['', []],
  ['keys.revoke, holdOff.end', ['keys.revoke', 'holdOff.end']],
  ['holdOff.*', ['holdOff.end']],
  ['holdOff.*,holdOff.end', ['holdOff.end']],
])('a webhook is told of the actions that %j names', (text, actions) => {
  const { webhook } = readConfig({ ...URL_AND_SECRET, LEASEHOLD_WEBHOOK_AUDIT: text });

  expect(webhook).toMatchObject({ format: 'json', actions });
});

test('without an address there is no webhook', () => {
  expect(readConfig({}).webhook).toBeNull();
});

test.each([
  [{ LEASEHOLD_WEBHOOK_URL: 'ftp://x' }, /LEASEHOLD_WEBHOOK_URL: must be an http/u],
  [{ LEASEHOLD_WEBHOOK_URL: 'https://a:b@x' }, /LEASEHOLD_WEBHOOK_URL: must be an http/u],
  [{ LEASEHOLD_WEBHOOK_SECRET: undefined }, /LEASEHOLD_WEBHOOK_SECRET: must be set/u],
  [{ LEASEHOLD_WEBHOOK_SECRET: 'short' }, /LEASEHOLD_WEBHOOK_SECRET: must have at least/u],
  [
    { LEASEHOLD_WEBHOOK_SECRET: `whsec_${'- not base64 -'.repeat(4)}` },
    /LEASEHOLD_WEBHOOK_SECRET: with whsec_/u,
  ],
  [
    { LEASEHOLD_WEBHOOK_SECRET: `whsec_${'QUJD'.repeat(7)}` },
    /LEASEHOLD_WEBHOOK_SECRET: with whsec_/u,
  ],
  [{ LEASEHOLD_WEBHOOK_URL: undefined }, /LEASEHOLD_WEBHOOK_URL: must be set/u],
  [{ LEASEHOLD_WEBHOOK_FORMAT: 'xml' }, /LEASEHOLD_WEBHOOK_FORMAT: must be json or slack/u],
  [{ LEASEHOLD_WEBHOOK_AUDIT: 'keys.evict' }, /LEASEHOLD_WEBHOOK_AUDIT: must be actions/u],
])('what is wrong is named by its variable: %j', (change, problem) => {
  expect(() => readConfig({ ...URL_AND_SECRET, ...change })).toThrow(problem);
});

test.each(['QUJD'.repeat(8), `${'QUJD'.repeat(8)}QQ==`])(
  'a secret in the form of Standard Webhooks is taken: whsec_%s',
  (key) => {
    const secret = `whsec_${key}`;

    const { webhook } = readConfig({ ...URL_AND_SECRET, LEASEHOLD_WEBHOOK_SECRET: secret });
    expect(webhook).toMatchObject({ secret });
  },
);

const refused = (address: string): Error => new Error(`connect ECONNREFUSED ${address}:443`);

test.each<[string, unknown, string]>([
  ['with its cause', refused('10.0.0.1'), 'connect ECONNREFUSED 10.0.0.1:443'],
  [
    'with that of the first address of a host that has several',
    new AggregateError([refused('::1'), refused('127.0.0.1')]),
    'connect ECONNREFUSED ::1:443',
  ],
  ['by itself, without a cause', undefined, 'fetch failed'],
])('a message that cannot be sent is told %s', (_how, cause, text) => {
  expect(failureText(new TypeError('fetch failed', { cause }))).toBe(text);
});
