import { expect, test } from 'vitest';
import { freePort } from './free-port.ts';

test('a port that nobody listens on yet is not handed out again', async () => {
  const ports: number[] = [];
  for (let count = 0; count < 200; count += 1) ports.push(await freePort());

  expect(new Set(ports).size).toBe(200);
});
