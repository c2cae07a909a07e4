/** The script of the backup in Kubernetes, with its folders in a place of the test and without a database. */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { WORKLOADS } from './manifests.ts';

const commandSchema = z.tuple([z.literal('sh'), z.literal('-euc'), z.string()]);
const PLAIN = 'postgresql://owner@database:5432/leasehold';

/** What the manifest runs. */
function commandOf(): z.infer<typeof commandSchema> {
  const backup = WORKLOADS.find(({ kind }) => kind === 'CronJob');
  const container = z
    .object({ containers: z.tuple([z.looseObject({ command: commandSchema })]) })
    .parse(findPod(backup?.whole));
  return container.containers[0].command;
}

/** The pod within a cron job, as it was written. */
function findPod(whole: unknown): unknown {
  const template = z.object({ spec: z.looseObject({}) });
  const job = z.object({ template });
  const cronJob = z.object({ spec: z.object({ jobTemplate: z.object({ spec: job }) }) });
  return cronJob.parse(whole).spec.jobTemplate.spec.template.spec;
}

interface Place {
  readonly folder: string;
  readonly backups: string;
  readonly dumps: () => string[];
}

function aVolume(dumps: number): Place {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'lh-backup-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const backups = path.join(folder, 'backups');
  mkdirSync(backups);
  for (let day = 1; day <= dumps; day += 1) {
    const name = `leasehold-2026-01-${String(day).padStart(2, '0')}T02-17-00Z.dump`;
    writeFileSync(path.join(backups, name), 'x');
  }
  return {
    folder,
    backups,
    dumps: () => readdirSync(backups).filter((name) => name.endsWith('.dump')),
  };
}

/** Runs it with a pg_dump that writes down how it was called, and what there was at that time. */
function backUp({ folder, backups }: Place, { url = PLAIN, exitCode = 0 } = {}) {
  const tools = path.join(folder, 'tools');
  mkdirSync(tools);
  writeFileSync(path.join(folder, 'database-url'), `${url}\n`);
  const program = (name: string, text: string): void => {
    writeFileSync(path.join(tools, name), `#!/bin/sh\n${text}\n`);
    chmodSync(path.join(tools, name), 0o755);
  };
  program(
    'pg_dump',
    `for word in "$@"; do
       echo "$word" >>"${folder}/words"
       case $word in --file=*) echo dump >"\${word#--file=}" ;; esac
     done
     printf %s "\${PGPASSWORD-none}" >"${folder}/password"
     ls "${backups}" >"${folder}/found"
     exit ${String(exitCode)}`,
  );
  program('pg_restore', ':');
  const [shell, flags, text] = commandOf();
  const script = text.replaceAll('/backups', backups).replaceAll('/run/secrets/leasehold', folder);
  const ended = spawnSync(shell, [flags, script], {
    encoding: 'utf8',
    env: { PATH: `${tools}:${process.env['PATH'] ?? ''}`, HOSTNAME: 'backup-7' },
  });
  const read = (name: string): string => readFileSync(path.join(folder, name), 'utf8');
  return {
    exitCode: ended.status,
    stderr: ended.stderr,
    words: read('words').trim().split('\n'),
    password: read('password'),
    found: read('found').trim().split('\n'),
  };
}

test('makes room before it dumps: the oldest are gone although the dump fails, and no part stays', () => {
  const volume = aVolume(16);

  const { exitCode, found } = backUp(volume, { exitCode: 1 });

  expect(exitCode).toBe(1);
  expect(found.filter((name) => name.endsWith('.dump'))).toHaveLength(13);
  expect(readdirSync(volume.backups)).toEqual(volume.dumps());
  expect(volume.dumps()[0]).toContain('2026-01-04');
});

test.each([
  ['the first', 0, 1],
  ['one of few', 1, 2],
  ['one of many', 20, 14],
])('has %s under its name when it is whole, and keeps fourteen', (_which, before, after) => {
  const volume = aVolume(before);

  expect(backUp(volume)).toMatchObject({ exitCode: 0, stderr: '' });

  expect(readdirSync(volume.backups)).toHaveLength(after);
  expect(volume.dumps()).toHaveLength(after);
});

test('a part has the name of its pod, and one that another pod writes now is left alone', () => {
  const volume = aVolume(0);
  const [now, old] = ['now.dump.backup-8.part', 'old.dump.backup-6.part'].map((name) =>
    path.join(volume.backups, name),
  ) as [string, string];
  writeFileSync(now, '');
  writeFileSync(old, '');
  const yesterday = new Date(Date.now() - 86_400_000);
  utimesSync(old, yesterday, yesterday);

  const { words } = backUp(volume);

  expect(words.at(-1)).toMatch(/^--file=.*\.dump\.backup-7\.part$/u);
  expect([now, old].map((file) => existsSync(file))).toEqual([true, false]);
});

test.each([
  [PLAIN, PLAIN, 'leasehold', 'none'],
  [`${PLAIN}?schema=locks&pgbouncer=true`, PLAIN, 'locks', 'none'],
  [
    'postgres://owner:p%40ss%2Fw%C3%B6rd@[::1]:5432/db?pgbouncer=true&sslmode=verify-full&schema=a_1&sslrootcert=/ca.pem',
    'postgres://owner@[::1]:5432/db?sslmode=verify-full&sslrootcert=/ca.pem',
    'a_1',
    'p@ss/wörd',
  ],
  ['postgresql://owner:a:b@database', 'postgresql://owner@database', 'leasehold', 'a:b'],
])(
  'dumps %s without what libpq does not know, and without a password in its arguments',
  (url, address, schema, password) => {
    const answer = backUp(aVolume(0), { url });

    expect(answer).toMatchObject({ exitCode: 0, stderr: '', password });
    expect(answer.words.slice(0, 2)).toEqual([`--dbname=${address}`, `--schema=${schema}`]);
  },
);
