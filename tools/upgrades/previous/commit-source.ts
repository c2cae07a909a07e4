/** The source of another commit of this repository. */
import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The 40 hexadecimal digits of a commit. @throws when the folder is no clone, or lacks the commit. */
export async function commitOf(revision: string, repository: string): Promise<string> {
  return git(repository, 'rev-parse', '--verify', '--quiet', `${revision}^{commit}`).catch(
    (cause: unknown) => {
      throw new Error(`the commit ${revision} is not in ${repository}`, { cause });
    },
  );
}

/** The newest tag of a version before this commit; undefined without one. */
export async function tagBefore(repository: string): Promise<string | undefined> {
  return git(repository, 'describe', '--tags', '--abbrev=0', '--match=v[0-9]*', 'HEAD^').catch(
    () => undefined,
  );
}

/** Writes the files of a commit into a folder: those below some paths, or all. */
export async function unpackCommit(
  commit: string,
  of: { readonly repository: string; readonly folder: string; readonly paths?: readonly string[] },
): Promise<void> {
  const tar = path.join(of.folder, 'source.tar');
  await git(of.repository, 'archive', `--output=${tar}`, commit, ...(of.paths ?? []));
  await run('tar', ['-xf', tar], { cwd: of.folder });
  await rm(tar);
}

async function git(repository: string, ...args: readonly string[]): Promise<string> {
  const { stdout } = await run('git', [...args], { cwd: repository });
  return stdout.trim();
}
