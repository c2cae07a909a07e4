import { expect, test } from 'vitest';
import { systemIds } from './system-ids.ts';

test('gives ids of the right alphabet and the requested length', () => {
  const ids = systemIds();

  const many = Array.from({ length: 200 }, () => ids.alphanumeric(14));

  expect(many.every((id) => /^[a-z0-9]{14}$/.test(id))).toBe(true);
  expect(new Set(many).size).toBe(200);
  expect(ids.uuid()).toMatch(/^[0-9a-f-]{36}$/);
});

test('gives numbers from 0 to below 1', () => {
  const ids = systemIds();

  const many = Array.from({ length: 1_000 }, () => ids.random());

  expect(Math.min(...many)).toBeGreaterThanOrEqual(0);
  expect(Math.max(...many)).toBeLessThan(1);
});
