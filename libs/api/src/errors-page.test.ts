import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

test('docs/errors.md agrees with the registry of error codes', () => {
  const tool = fileURLToPath(new URL('../../../tools/docs-errors.mjs', import.meta.url));

  const { status, stderr } = spawnSync(process.execPath, [tool, '--check'], { encoding: 'utf8' });

  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
});
