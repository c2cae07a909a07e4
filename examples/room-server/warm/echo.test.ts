import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { freePort, waitUntil } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';

test.each([
  ['echo.mjs', process.execPath],
  ['echo.py', 'python3'],
])(
  '%s waits for its claim, serves its key, and then takes the claim away',
  async (file, command) => {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'lh-warm-'));
    onTestFinished(() => rm(folder, { recursive: true, maxRetries: 10 }));
    const claim = path.join(folder, 'claim');
    const port = await freePort();
    const program = spawn(command, [path.join(import.meta.dirname, file)], {
      env: { ...process.env, PORT: String(port), LEASEHOLD_CLAIM_FILE: claim },
      stdio: 'ignore',
    });
    onTestFinished(async () => {
      program.kill('SIGKILL');
      await once(program, 'close');
    });

    await writeFile(`${claim}.draft`, JSON.stringify({ LEASEHOLD_KEY: 'lobby' }));
    await rename(`${claim}.draft`, claim);
    await waitUntil(() => !existsSync(claim), { what: 'the claim is taken' });

    const answer = await fetch(`http://127.0.0.1:${String(port)}/`);
    expect(await answer.text()).toBe('hello from lobby\n');
  },
);
