import { expect, test } from 'vitest';
import { bytesText, percentText } from './text.ts';

test.each([
  [0, '0 B'],
  [1_023, '1023 B'],
  [1_024, '1.0 KiB'],
  [1_536, '1.5 KiB'],
  [64 * 2 ** 20, '64 MiB'],
  [2 ** 30 - 1, '1.0 GiB'],
  [9.96 * 2 ** 30, '10 GiB'],
  [3 * 2 ** 50, '3.0 PiB'],
  [-1, '0 B'],
])('%d bytes are %s', (bytes, text) => {
  expect(bytesText(bytes)).toBe(text);
});

test.each([
  [0, '0 %'],
  [0.001, '< 1 %'],
  [0.256, '26 %'],
  [1.5, '150 %'],
])('a share of %d is %s', (share, text) => {
  expect(percentText(share)).toBe(text);
});
