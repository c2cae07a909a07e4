/** Which version the tests upgrade from: the newest tag before this commit, or the commit of `previous.json`. */
import path from 'node:path';
import { commitOf, tagBefore } from './commit-source.ts';
import recorded from './previous.json' with { type: 'json' };

/** What the tests call the version before. */
export interface PreviousVersion {
  readonly name: string;
  /** 40 hexadecimal digits. */
  readonly commit: string;
}

const ROOT = path.resolve(import.meta.dirname, '..', '..', '..');

/**
 * A tag of a release counts from the commit after it: the tests of a release upgrade from the one before.
 * @throws when this folder is no clone, or lacks the commit.
 */
export async function findPrevious(repository = ROOT): Promise<PreviousVersion> {
  const tag = await tagBefore(repository);
  const { name, commit } = tag === undefined ? recorded : { name: tag, commit: tag };
  try {
    return { name, commit: await commitOf(commit, repository) };
  } catch (cause) {
    throw new Error(
      `The tests of upgrades need the source of the previous version (${name}, commit ${commit}), and it is not in ${repository}. In a shallow clone run \`git fetch --unshallow --tags\`; a folder without git cannot run these tests.`,
      { cause },
    );
  }
}
