import { expect, test } from 'vitest';
import { eventAddress, eventBefore, parseEventAddress } from './event-address.ts';

test('an event of another datacenter is named with it', () => {
  const event = { id: '77.1204', datacenter: 'fra' };

  expect(eventAddress(event, 'fra')).toBe('77.1204');
  expect(parseEventAddress(eventAddress(event, 'lon'))).toEqual(event);
  expect(parseEventAddress('77.1204')).toEqual({ id: '77.1204' });
  expect(parseEventAddress('yesterday')).toBeUndefined();
  expect(parseEventAddress(null)).toBeUndefined();
});

test('the id before one leads to it', () => {
  expect(eventBefore('77.1204')).toBe('77.1203');
});
