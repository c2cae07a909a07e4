import { expect, test } from 'vitest';
import { messageParts } from './controller-client.ts';

test('more calls than a controller accepts at once are sent in several messages, in order', () => {
  const calls = Array.from({ length: 1_201 }, (_, id) => ({ id, method: 'mutation', params: {} }));

  const parts = messageParts(JSON.stringify(calls)).map((part) => JSON.parse(part) as unknown[]);

  expect(parts.map((part) => part.length)).toEqual([500, 500, 201]);
  expect(parts.flat()).toEqual(calls);
});

test('calls that are too long together are sent in separate messages', () => {
  const calls = Array.from({ length: 3 }, (_, id) => ({ id, text: 'x'.repeat(700_000) }));

  expect(messageParts(JSON.stringify(calls))).toHaveLength(3);
});

test.each(['PING', '{"id":1}', '[{"id":1},{"id":2}]', `"${'x'.repeat(2_000_000)}"`])(
  'anything else is one message: %.20s',
  (message) => {
    expect(messageParts(message)).toEqual([message]);
  },
);
