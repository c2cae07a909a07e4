import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ISOLATION_LEVELS } from '@leasehold/api/drone-file';
import { room } from '../testing/agent-stage.ts';
import { NOT_ISOLATED } from '../testing/simulated-warden.ts';
import type { IsolationFacts } from '../warden/protocol.ts';
import { type DronePlace, placeOf, requireIsolation } from './work.ts';

const FULL: IsolationFacts = {
  user: 'own',
  pidNamespace: true,
  privateProc: true,
  hiddenHome: true,
  noNewPrivs: true,
  detail: '',
};

let folder: string;
let drone: DronePlace;
beforeEach(() => {
  folder = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'lh-place-')));
  for (const name of ['home/drone', 'app', 'locked/app']) {
    mkdirSync(path.join(folder, name), { recursive: true, mode: 0o755 });
  }
  chmodSync(folder, 0o755);
  chmodSync(at('home'), 0o700);
  chmodSync(at('locked'), 0o700);
  writeFileSync(at('drone.json'), '{}');
  drone = {
    facts: FULL,
    stateDir: at('home/drone'),
    home: at('home'),
    steering: [at('drone.json')],
    searchPath: '/nowhere',
  };
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
});

function at(name: string): string {
  return path.join(folder, name);
}

describe('where a program runs', () => {
  test('the folders of Leasehold are hidden from it', () => {
    const { places, user } = placeOf({ ...room, cwd: at('app') }, drone);

    expect(user).toEqual(room.user);
    expect(places.hidden).toEqual([at('home'), at('home/drone')]);
    expect(places.reads).toContain(at('app'));
    expect(places.fixed).toEqual([]);
  });

  test('a parent folder that its user may not enter is covered, and that is no problem', () => {
    const { places, problems } = placeOf({ ...room, cwd: at('locked/app') }, drone);

    expect(places.blocked).toContain(at('locked'));
    expect(places.reads).toContain(at('locked/app'));
    expect(problems).toEqual([]);
  });

  test('a folder that its configuration names is shown to it in a cover', () => {
    const { places } = placeOf({ ...room, cwd: at('app'), reads: [at('locked/app')] }, drone);

    expect(places.blocked).toContain(at('locked'));
    expect(places.reads).toContain(at('locked/app'));
  });

  test('without a view of its own, the problem names the user and the folder', () => {
    const facts = { ...FULL, hiddenHome: false };
    const { problems } = placeOf({ ...room, cwd: at('locked/app') }, { ...drone, facts });

    expect(problems).toEqual([expect.stringContaining(`may not enter ${at('locked')}`)]);
    expect(problems[0]).toContain(String(room.user.uid));
  });

  test('a folder that its user may not read, that does not exist or that is hidden is reported', () => {
    chmodSync(at('app'), 0o700);

    for (const [cwd, problem] of [
      [at('app'), /its user 2100000001 may not read the folder (\S+app): .*`chmod o\+rx \1`$/u],
      [at('gone'), /the folder .*gone does not exist/u],
      [at('home'), /home is hidden from programs: put its files elsewhere/u],
      [at('home/drone/inner'), /inner is hidden from programs/u],
    ] as const) {
      expect(placeOf({ ...room, cwd }, drone).problems).toEqual([expect.stringMatching(problem)]);
    }
  });

  test('a script in its folder that its user may not read is reported', () => {
    writeFileSync(at('app/own.mjs'), '', { mode: 0o600 });
    const node = { ...room, cwd: at('app'), args: ['-v', 'own.mjs', 'none.mjs'] };

    expect(placeOf(node, drone).problems).toEqual([
      `its user 2100000001 may not read the file ${at('app/own.mjs')}: make it the owner, or \`chmod o+r ${at('app/own.mjs')}\``,
    ]);
    expect(placeOf(node, { ...drone, facts: NOT_ISOLATED }).problems).toEqual([]);
  });

  test.each([
    ['longer than any path', 'x'.repeat(5_000)],
    ['with a NUL', 'a\0b'],
    ['below a file', '/etc/hostname/x'],
  ])('an argument %s is no file', (_which, word) => {
    expect(placeOf({ ...room, args: ['-e', word] }, drone).problems).toEqual([]);
  });

  test('a command is found in the PATH of programs, then in that of the drone, and is reported if missing', () => {
    const elsewhere = { ...drone, searchPath: `relative:${at('app')}` };
    writeFileSync(at('app/tool'), '', { mode: 0o755 });

    expect(placeOf({ ...room, command: 'sh' }, drone).command).toMatch(/^\/.*\/sh$/u);
    expect(placeOf({ ...room, command: 'tool' }, elsewhere).command).toBe(at('app/tool'));
    expect(placeOf({ ...room, command: 'tool' }, drone).problems).toEqual([
      'the command tool does not exist',
    ]);
  });

  test('a program with a configured user is refused where the drone may not change users', () => {
    const other = { ...drone, facts: NOT_ISOLATED };

    expect(placeOf({ ...room, isUserNamed: true }, drone).refusal).toBeUndefined();
    expect(placeOf(room, other)).toMatchObject({ user: null, refusal: undefined });
    expect(placeOf({ ...room, isUserNamed: true }, other).refusal).toMatch(/user 2100000001/u);
  });
});

const own: IsolationFacts = {
  user: 'own',
  pidNamespace: true,
  privateProc: true,
  hiddenHome: true,
  noNewPrivs: true,
  detail: 'missing: something',
};

test.each([
  ['everything', own, ['none', 'namespaces', 'own-user']],
  ['no users of their own', { ...own, user: 'shared' } as const, ['none', 'namespaces']],
  ['no PID namespace', { ...own, pidNamespace: false }, ['none']],
  ["the machine's /proc", { ...own, privateProc: false }, ['none']],
  ["the drone's folders", { ...own, hiddenHome: false }, ['none']],
  ['new privileges', { ...own, noNewPrivs: false }, ['none']],
])('a machine with %s meets exactly the expected levels', (_what, facts, met) => {
  const levels = ISOLATION_LEVELS.filter((level) => {
    try {
      requireIsolation(facts, level);
      return true;
    } catch {
      return false;
    }
  });

  expect(levels).toEqual(met);
});
