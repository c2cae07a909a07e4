/**
 * Backups of a PostgreSQL that goes on working: a copy of its data folder, as `pg_basebackup` makes one,
 * which comes with no PostgreSQL of ours.
 */
import { execFile } from 'node:child_process';
import { appendFile, chown, cp, mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import type pg from 'pg';

export interface Backup {
  /** The folder of the copy, beside which its password will be. */
  readonly folder: string;
  /**
   * `copy`: started as it is, which keeps the timeline, so that nothing in the database shows a restore.
   * `recovered`: recovered to the end of its log, which begins a timeline.
   */
  readonly kind: 'copy' | 'recovered';
}

/** Not a part of a backup: the log is copied last, the others belong to the running server. */
const LEFT_OUT = new Set(['pg_wal', 'postmaster.pid', 'postmaster.opts']);

/** Copies the cluster of a session into a new folder. What was committed before this call is in it. */
export async function backUp(
  session: pg.ClientBase,
  folder: string,
  kind: Backup['kind'],
): Promise<Backup> {
  const { rows: places } = await session.query<{ data_directory: string }>('show data_directory');
  const data = places[0]?.data_directory ?? '';
  const copied = path.join(folder, 'data');
  await mkdir(copied, { recursive: true });
  await session.query(`select pg_backup_start('a run', fast => true)`);
  const names = (await readdir(data)).filter((name) => !LEFT_OUT.has(name));
  await copy(
    names.map((name) => path.join(data, name)),
    copied,
  );
  const { rows: labels } = await session.query<{ labelfile: string }>(
    'select labelfile from pg_backup_stop(wait_for_archive => false)',
  );
  const label = path.join(copied, 'backup_label');
  await writeFile(label, labels[0]?.labelfile ?? '');
  await copy([path.join(data, 'pg_wal')], copied);
  const { uid, gid, mode } = await stat(data);
  await execute('chmod', [(mode & 0o777).toString(8), copied]);
  for (const each of [folder, copied, label]) await chown(each, uid, gid);
  return { folder, kind };
}

/** Makes a backup what a cluster is started from, with the password of the former one. @returns its folder. */
export async function adopt({ folder, kind }: Backup, former: string): Promise<string> {
  const { uid, gid } = await stat(path.join(former, 'password'));
  const password = path.join(folder, 'password');
  await cp(path.join(former, 'password'), password);
  await chown(password, uid, gid);
  if (kind === 'recovered') {
    const data = path.join(folder, 'data');
    const signal = path.join(data, 'recovery.signal');
    await writeFile(signal, '');
    await chown(signal, uid, gid);
    // Its log is complete: there is no archive to ask for more.
    await appendFile(path.join(data, 'postgresql.auto.conf'), `restore_command = 'false'\n`);
  }
  return folder;
}

/** With the owner: PostgreSQL may run as another user. Files of the running server may vanish meanwhile. */
async function copy(from: readonly string[], to: string): Promise<void> {
  await execute('cp', ['-a', ...from, to]).catch((error: unknown) => {
    const { stderr = '' } = error as { stderr?: string };
    const lines = stderr.split('\n').filter((line) => line !== '');
    const hasOnlyVanished = lines.every((line) => line.includes('No such file'));
    if (lines.length === 0 || !hasOnlyVanished) throw error;
  });
}

const execute = promisify(execFile);
