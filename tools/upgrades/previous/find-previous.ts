/** Which version the tests upgrade from: the newest tag before this commit, or the commit of `previous.json`. */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import recorded from './previous.json' with { type: 'json' };

/** What the tests call the version before. */
export interface PreviousVersion {
  readonly name: string;
  /** 40 hexadecimal digits. */
  readonly commit: string;
}

const run = promisify(execFile);
const ROOT = path.resolve(import.meta.dirname, '..', '..', '..');
const ARCHIVE_BYTES_MAX = 200 * 1_048_576;

/**
 * A tag of a release counts from the commit after it: the tests of a release upgrade from the one before.
 * @throws when this folder is no clone, or lacks the commit.
 */
export async function findPrevious(repository = ROOT): Promise<PreviousVersion> {
  const tag = await git(repository, [
    'describe',
    '--tags',
    '--abbrev=0',
    '--match=v[0-9]*',
    'HEAD^',
  ])
    .then((printed) => printed.trim())
    .catch(() => undefined);
  const { name, commit } = tag === undefined ? recorded : { name: tag, commit: tag };
  try {
    const found = await git(repository, ['rev-parse', '--verify', '--quiet', `${commit}^{commit}`]);
    return { name, commit: found.trim() };
  } catch (cause) {
    throw new Error(
      `The tests of upgrades need the source of the previous version (${name}, commit ${commit}), and it is not in ${repository}. In a shallow clone run \`git fetch --unshallow --tags\`; a folder without git cannot run these tests.`,
      { cause },
    );
  }
}

/** The files of a commit below some paths, as a tar. */
export async function archiveOf(
  { commit }: PreviousVersion,
  paths: readonly string[],
): Promise<Buffer> {
  const { stdout } = await run('git', ['archive', commit, ...paths], {
    cwd: ROOT,
    encoding: 'buffer',
    maxBuffer: ARCHIVE_BYTES_MAX,
  });
  return stdout;
}

async function git(cwd: string, args: readonly string[]): Promise<string> {
  const { stdout } = await run('git', args, { cwd });
  return stdout;
}
