import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { until } from '../testing/wait.ts';
import {
  foldersOf,
  makeFolders,
  mountTableOf,
  prepareFolders,
  removeTemporary,
  type ViewRequest,
} from './program-files.ts';

const nothing: ViewRequest = {
  workshop: '/state/view',
  hidden: ['/state'],
  blocked: [],
  reads: [],
  writes: [],
};

/** The mounts of a table, as `source target type`. */
function mountsOf(request: Partial<ViewRequest>): string[] {
  return mountTableOf({ ...nothing, ...request })
    .trimEnd()
    .split('\n')
    .map((line) => line.split(' ').slice(0, 3).join(' '));
}

describe('the view of a program', () => {
  test('covers what is hidden, and shows its own folders in the cover', () => {
    expect(mountsOf({ writes: ['/state/data/room'] })).toEqual([
      'tmpfs /state/view tmpfs',
      'tmpfs /state/view/0 tmpfs',
      '/state/data/room /state/view/0/data/room none',
      '/state/view/0 /state none',
    ]);
  });

  test('covers a folder that its user may not enter, and shows in it what it reads', () => {
    const mounts = mountsOf({
      hidden: ['/srv/clone/home', '/srv/clone/home/drone'],
      blocked: ['/srv'],
      reads: ['/srv/clone/examples/room', '/usr/bin'],
      writes: ['/srv/clone/home/drone/data/room'],
      workshop: '/srv/clone/home/drone/view',
    });

    expect(mounts.slice(2)).toEqual([
      '/srv/clone/examples/room /srv/clone/home/drone/view/0/clone/examples/room none',
      '/srv/clone/home/drone/data/room /srv/clone/home/drone/view/0/clone/home/drone/data/room none',
      '/srv/clone/home/drone/view/0 /srv none',
    ]);
  });

  test('puts the cover over the folder in which covers are built in its place last', () => {
    const mounts = mountsOf({ blocked: ['/other'], reads: ['/other/app'] });

    expect(mounts.slice(-2)).toEqual(['/state/view/0 /other none', '/state/view/1 /state none']);
  });

  test('hides again what is hidden in a folder that is shown', () => {
    const mounts = mountsOf({
      hidden: ['/srv/clone/home'],
      blocked: ['/srv'],
      reads: ['/srv/clone'],
    });

    expect(mounts).toContain('tmpfs /state/view/0/clone/home tmpfs');
    expect(mounts.indexOf('tmpfs /state/view/0/clone/home tmpfs')).toBeGreaterThan(
      mounts.indexOf('/srv/clone /state/view/0/clone none'),
    );
  });

  test('escapes blanks and backslashes of a path as the table requires', () => {
    expect(mountTableOf({ ...nothing, writes: ['/state/data/a b\\c#d\ne'] })).toContain(
      String.raw`/state/data/a\040b\134c\043d\012e /state/view/0/data/a\040b\134c\043d\012e none`,
    );
  });
});

describe('the folders of programs that cannot be in the state folder', () => {
  const user = { uid: 2_100_000_001, gid: 2_100_000_001 };
  const means = { mount: null, drop: () => [] };
  const fail = (problem: string): never => expect.fail(problem);
  const of = { program: 'room', id: 'b1', user, isWarm: true };
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'lh-folders-'));
    vi.stubEnv('TMPDIR', folder);
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  });

  test('are no other drone’s', () => {
    const [one, other] = ['/state/one', '/state/other'].map((stateDir) =>
      foldersOf(stateDir, { mount: null }, of),
    );

    expect(one?.data.startsWith(folder)).toBe(true);
    expect(other?.data).not.toBe(one?.data);
  });

  test('have their root before a program needs it, where one may', () => {
    const [root = ''] = foldersOf('/state/one', { mount: null }, of).above;

    prepareFolders('/state/one', { ...means, mount: 'mount' }, fail);
    expect(existsSync(root)).toBe(false);
    prepareFolders('/state/one', means, fail);

    expect(existsSync(root)).toBe(process.getuid?.() === 0);
  });

  test('are emptied by the next warden, except for those that stay', async () => {
    const { above, data, temporary, claim } = foldersOf('/state/one', { mount: null }, of);
    makeFolders({ above, data, temporary, claim }, null);

    prepareFolders('/state/one', means, fail);
    await until(
      'what is temporary is removed',
      () => !existsSync(temporary) && !existsSync(claim ?? ''),
    );

    expect(existsSync(data)).toBe(true);
  });
});

test('temporary files stay where the machine refuses the process that removes them', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'lh-temporary-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  // No kernel takes a word of this length.
  const drop = () => ['rm', 'x'.repeat(1_048_576)] as const;

  removeTemporary(folder, null, { mount: null, drop });

  expect(existsSync(folder)).toBe(true);
});
