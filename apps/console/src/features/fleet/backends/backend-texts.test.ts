import { expect, test } from 'vitest';
import { kindOf } from './backend-texts.ts';

test.each([
  [null, 'a command of the machine'],
  ['registry.example/room:1', 'a container of registry.example/room:1'],
])('what a backend with the image %s runs is told in words', (image, text) => {
  expect(kindOf({ image })).toBe(text);
});
