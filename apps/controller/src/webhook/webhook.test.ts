import { expect, test } from 'vitest';
import { failureText } from './webhook.ts';

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
