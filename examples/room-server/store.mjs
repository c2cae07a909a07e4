import { createHash, randomUUID } from 'node:crypto';
import { link, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * A store that knows fencing tokens: it refuses a write whose token is smaller than the largest
 * one that it has been shown.
 *
 * Every write is a new file `<version>.json` that holds the value and the token of its writer. A
 * writer reads the newest version n, compares tokens, and creates version n + 1 with `link`, which
 * fails when the file exists. So the comparison and the write are one step: if anybody wrote in
 * between, also from another process, the link fails and the writer starts again from what is
 * there now. No lock is left behind by a process that is killed.
 *
 * In a database the same thing is one statement:
 *
 *     update room set value = $2, token = $3 where key_id = $1 and token <= $3
 *
 * Old versions are kept: a file that was deleted could be created a second time by a writer that
 * slept for long, and its write would be lost although it was accepted.
 *
 */

/**
 * @template T
 * @typedef {{ value: T, fencingToken: string, version: number }} StoredRecord
 */
/**
 * @template T
 * @typedef {{ outcome: 'written', record: StoredRecord<T> }
 *         | { outcome: 'refused', newestToken: string }} WriteOutcome
 */

/**
 * @template T
 * @typedef {{
 *   read(keyId: string): Promise<StoredRecord<T> | null>,
 *   update(keyId: string, fencingToken: string, change: (value: T) => T): Promise<WriteOutcome<T>>,
 * }} RoomStore
 */

/**
 * @template T what is stored for each key, as JSON
 * @param {string} directory created when it is missing
 * @param {T} initial the value of a key that was never written
 * @returns {RoomStore<T>}
 */
export function openRoomStore(directory, initial) {
  /**
   * The folder of a key. An id is opaque and so never used as a path: it is hashed.
   * @param {string} keyId
   */
  async function folderOf(keyId) {
    const folder = join(directory, createHash('sha256').update(keyId).digest('hex'));
    await mkdir(folder, { recursive: true });
    return folder;
  }

  /**
   * @param {string} folder
   * @returns {Promise<StoredRecord<T> | null>}
   */
  async function newestIn(folder) {
    const versions = (await readdir(folder)).filter((name) => /^\d+\.json$/u.test(name)).sort();
    const newest = versions.at(-1);
    return newest === undefined ? null : JSON.parse(await readFile(join(folder, newest), 'utf8'));
  }

  return {
    async read(keyId) {
      return newestIn(await folderOf(keyId));
    },

    async update(keyId, fencingToken, change) {
      const folder = await folderOf(keyId);
      for (;;) {
        const newest = await newestIn(folder);
        if (newest !== null && BigInt(fencingToken) < BigInt(newest.fencingToken)) {
          return { outcome: 'refused', newestToken: newest.fencingToken };
        }
        const record = {
          value: change(newest?.value ?? initial),
          fencingToken,
          version: (newest?.version ?? 0) + 1,
        };
        if (await createVersion(folder, record)) return { outcome: 'written', record };
      }
    },
  };
}

/**
 * Creates a version that does not exist yet.
 * @param {string} folder
 * @param {StoredRecord<unknown>} record
 * @returns {Promise<boolean>} false when somebody else has created it
 */
async function createVersion(folder, record) {
  const draft = join(folder, `${randomUUID()}.draft`);
  await writeFile(draft, JSON.stringify(record), { flush: true });
  try {
    // Names sort as their numbers do up to version 10^9 - 1.
    await link(draft, join(folder, `${String(record.version).padStart(9, '0')}.json`));
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}
