import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { parseEnvironment } from './environment.ts';

const schema = z.object({
  PORT: z.string().regex(/^\d+$/, 'must be a whole number').transform(Number).default(80),
  MODE: z.enum(['fast', 'slow'], 'must be fast or slow').default('slow'),
});

test('reports every problem at once, each by its variable, and repeats no value', () => {
  const parsed = parseEnvironment(schema, { PORT: 'hunter2', MODE: 'hunter2' });

  expect(parsed).toEqual({
    outcome: 'invalid',
    problems: ['PORT: must be a whole number', 'MODE: must be fast or slow'],
  });
});

test('treats a variable that is set to nothing as not set', () => {
  expect(parseEnvironment(schema, { PORT: '', MODE: undefined })).toEqual({
    outcome: 'valid',
    values: { PORT: 80, MODE: 'slow' },
  });
});

/** A file with this content, for one test. */
function fileWith(content: string): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'lh-secret-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'secret');
  writeFileSync(file, content);
  return file;
}

const secret = z.object({
  LEASEHOLD_TOKEN: z.string().startsWith('lh_', 'must be a token'),
  PORT: z.string().default('80'),
});

test('reads a secret from the file that its variable with _FILE names, without the line break at its end', () => {
  expect(parseEnvironment(secret, { LEASEHOLD_TOKEN_FILE: fileWith('lh_a b\n') })).toEqual({
    outcome: 'valid',
    values: { LEASEHOLD_TOKEN: 'lh_a b', PORT: '80' },
  });
});

test('refuses a secret that is also a variable, whose file cannot be read or is empty, or that is not valid', () => {
  const problemsOf = (environment: Record<string, string>): unknown => {
    const parsed = parseEnvironment(secret, environment);
    return parsed.outcome === 'invalid' ? parsed.problems : [];
  };
  const LEASEHOLD_TOKEN_FILE = fileWith('hunter2');

  expect(problemsOf({ LEASEHOLD_TOKEN_FILE, LEASEHOLD_TOKEN: 'lh_x' })).toEqual([
    'LEASEHOLD_TOKEN_FILE: must not be set together with LEASEHOLD_TOKEN',
  ]);
  expect(problemsOf({ LEASEHOLD_TOKEN_FILE: '/nowhere/at/all' })).toEqual([
    'LEASEHOLD_TOKEN_FILE: cannot be read: ENOENT',
  ]);
  expect(problemsOf({ LEASEHOLD_TOKEN_FILE: fileWith('\n') })).toEqual([
    'LEASEHOLD_TOKEN_FILE: names an empty file',
  ]);
  expect(problemsOf({ LEASEHOLD_TOKEN_FILE })).toEqual(['LEASEHOLD_TOKEN: must be a token']);
});

test('reads from files only secrets that the process has', () => {
  expect(
    parseEnvironment(secret, {
      LEASEHOLD_TOKEN: 'lh_x',
      PORT_FILE: '/nowhere',
      DATABASE_URL_FILE: '/nowhere',
    }),
  ).toMatchObject({ outcome: 'valid' });
});
