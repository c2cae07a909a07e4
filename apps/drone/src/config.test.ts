import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { UserSources } from '@leasehold/api/drone-file';
import { LeaseError } from '@leasehold/keys-core';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { loadDroneConfig } from './config.ts';
import { USER_NUMBER_MAX } from './warden/protocol.ts';

const environment = {
  LEASEHOLD_TOKEN: `lh_${'x'.repeat(32)}`,
  LEASEHOLD_URL: 'http://127.0.0.1:4600',
};

/** A machine with two accounts, on which the drone is root. */
const system: UserSources = {
  accounts: 'root:x:0:0:root:/root:/bin/sh\nwww:x:33:34::/:/bin/false\n',
  map: '         0          0 4294967295\n',
  isRoot: true,
};

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'lh-config-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
});

function written(content: unknown): string {
  const file = path.join(folder, 'drone.json');
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  return file;
}

function problemsOf(
  file: string,
  env: Record<string, string | undefined> = environment,
  users: UserSources = system,
): string[] {
  try {
    loadDroneConfig(file, env, users);
    return [];
  } catch (error) {
    if (!(error instanceof LeaseError)) throw error;
    return error.details['problems'] as string[];
  }
}

describe('warm processes in the configuration of a drone', () => {
  const room = { command: 'node', warm: 2 };
  const of = (programs: object, fields: object = {}): string[] =>
    problemsOf(written({ droneId: 'd1', programs, ...fields }));

  test('are allowed up to the capacity, of all programs together', () => {
    expect(of({ room, other: room }, { capacity: 4 })).toEqual([]);
    expect(of({ room, other: room }, { capacity: 3 })).toEqual([
      expect.stringContaining(
        'programs.room.warm, programs.other.warm: must together be at most the capacity, 3',
      ),
    ]);
  });

  test('are refused beyond instancesMax, with a fixed port, and of a container', () => {
    expect(of({ room: { ...room, resources: { instancesMax: 1 } } })).toEqual([
      expect.stringContaining('programs.room.warm: must be at most its instancesMax, 1'),
    ]);
    expect(of({ room: { ...room, port: 4_000 } })).toEqual([
      expect.stringContaining('programs.room.warm: is not possible with a fixed port'),
    ]);
    expect(of({ room: { image: 'room:1', warm: 1 } })).toEqual([
      expect.stringContaining('programs.room.warm: is not possible for a container'),
    ]);
  });
});

describe('the configuration of a drone', () => {
  test('has a default for everything that is not set', () => {
    const config = loadDroneConfig(
      written({ droneId: 'd1', programs: { room: { command: 'node' } } }),
      environment,
    );

    expect(config).toMatchObject({
      droneId: 'd1',
      datacenter: 'local',
      capacity: 100,
      host: '127.0.0.1',
      controllerUrls: ['http://127.0.0.1:4600'],
    });
    expect(config.stateDir).toBe(path.resolve('.leasehold/drones/d1'));
    expect(config.programs['room']).toMatchObject({
      args: [],
      port: 'auto',
      stopSignal: 'SIGTERM',
      stopGraceMs: 10_000,
      allowArgs: false,
      allowEnv: [],
      readiness: { type: 'tcp', timeoutMs: 300_000, intervalMs: 100 },
    });
  });

  test('takes what differs between machines from the environment, unless the file has it', () => {
    const programs = { room: { command: 'node' } };
    const node = { LEASEHOLD_DRONE_ID: 'ip-10-0-0-7.internal', LEASEHOLD_DRONE_HOST: '10.1.0.9' };
    const file = written({ programs });

    expect(loadDroneConfig(file, { ...environment, ...node })).toMatchObject({
      droneId: 'ip-10-0-0-7-internal',
      host: '10.1.0.9',
      stateDir: path.resolve('.leasehold/drones/ip-10-0-0-7-internal'),
    });
    expect(problemsOf(file)).toEqual([
      `${file}: droneId: is required, here or as LEASEHOLD_DRONE_ID`,
    ]);
    expect(problemsOf(file, { ...environment, LEASEHOLD_DRONE_ID: 'No Name' })).toContain(
      'LEASEHOLD_DRONE_ID: must be 1 to 64 of a-z, 0-9 and "-", not at the ends',
    );
    const own = written({ droneId: 'd1', host: '10.0.0.1', programs });
    expect(loadDroneConfig(own, { ...environment, ...node })).toMatchObject({
      droneId: 'd1',
      host: '10.0.0.1',
    });
  });

  test('gives each program a user of its own: the one that is named, or one derived from its name', () => {
    const file = written({
      droneId: 'd1',
      programs: {
        room: { command: 'node' },
        board: { command: 'node' },
        named: { command: 'node', user: 'www' },
        numbered: { command: 'node', user: '2000:3000' },
      },
    });

    const { programs } = loadDroneConfig(file, environment, system);
    const again = loadDroneConfig(file, environment, system).programs;

    expect(programs['named']).toMatchObject({ user: { uid: 33, gid: 34 }, isUserNamed: true });
    expect(programs['numbered']).toMatchObject({ user: { uid: 2_000, gid: 3_000 } });
    expect(programs['room']?.user).toEqual(again['room']?.user);
    expect(programs['room']).toMatchObject({
      user: { uid: expect.toSatisfy((uid: number) => uid >= 2_100_000_000) as number },
      isUserNamed: false,
    });
    expect(programs['room']?.user).not.toEqual(programs['board']?.user);
  });

  test.each([
    ['root by its name', { user: 'root' }, system, /programs\.room\.user: must not be root/u],
    ['root by its number', { user: '0' }, system, /must not be root/u],
    ['the group of root', { user: '5:0' }, system, /must not be root/u],
    ['an account that is not there', { user: 'nina' }, system, /no account nina/u],
    ['a user outside of the namespace', {}, { ...system, map: '0 1000 100' }, /from 0 to 99/u],
  ])('does not let a program run as %s', (_what, program, users, expected) => {
    const file = written({ droneId: 'd1', programs: { room: { command: 'node', ...program } } });

    expect(problemsOf(file, environment, users).join('\n')).toMatch(expected);
  });

  test('gives no program the user of an account, and no two programs one user, unless told to', () => {
    const range = { from: 33, to: 33 };
    const file = written({
      droneId: 'd1',
      users: range,
      programs: { room: { command: 'node' }, board: { command: 'node' } },
    });

    const problems = problemsOf(file, environment, system).join('\n');

    expect(problems).toMatch(/would be www, who has an account/u);
    expect(problems).toMatch(/programs\.board\.user: would be that of room/u);
  });

  test('a program whose folder would be hidden from it starts in its folder of data instead', () => {
    const file = written({ droneId: 'd1', programs: { room: { command: 'node' } } });
    const home = path.dirname(file);

    const { programs } = loadDroneConfig(file, { ...environment, LEASEHOLD_HOME: home }, system);

    expect(programs['room']?.cwd).toBeNull();
  });

  test.each(['memoryMax', 'fileSizeMax'])('%s is any size from a byte on', (field) => {
    const withSize = (size: string): string =>
      written({ droneId: 'd1', programs: { room: { command: 'node', [field]: size } } });

    expect(['1b', '100k', '5m', '8388607g'].flatMap((size) => problemsOf(withSize(size)))).toEqual(
      [],
    );
    for (const size of ['0b', '0g', '8388608g', '1', '1t', '1.5m', '-1m']) {
      expect(problemsOf(withSize(size))).toEqual([
        expect.stringMatching(new RegExp(`programs\\.room\\.${field}: must be`, 'u')) as string,
      ]);
    }
  });

  test('reports every problem of the file and the environment at once', () => {
    const file = written({
      droneId: 'Not An Id',
      capacity: -1,
      colour: 'red',
      programs: {
        room: { command: '', stopSignal: 'SIGKILL', allowEnv: ['LD_PRELOAD'], port: 70_000 },
      },
    });

    const problems = problemsOf(file, { LEASEHOLD_URL: 'not a url', LEASEHOLD_TOKEN: 'guess' });

    const named = [
      'LEASEHOLD_URL',
      'LEASEHOLD_TOKEN',
      'droneId',
      'capacity',
      'colour',
      'command',
      'stopSignal',
      'allowEnv',
      'port',
    ];
    expect(named.filter((name) => !problems.some((problem) => problem.includes(name)))).toEqual([]);
  });

  test.each([
    ['a field of the file', { prots: 1 }, /^has no field "prots"; allowed are droneId, .*ports/u],
    ['a field of a program', { programs: { a: { command: 'x', arg: [] } } }, /"arg".*\bargs\b/u],
    [
      'a field below it',
      { programs: { a: { command: 'x', readiness: { type: 'tcp', path: '/' } } } },
      /"path"; allowed are type, timeoutMs, intervalMs$/u,
    ],
    [
      'the name of a program',
      { programs: { 'A B': { command: 'x' } } },
      /^the name of a program must be 1 to 64 of a-z/u,
    ],
    [
      'the name of a variable',
      { programs: { a: { command: 'x', env: { 'A-B': '' } } } },
      /^the name of a variable must be letters, digits/u,
    ],
    [
      'a variable for the port',
      { programs: { a: { command: 'x', portEnv: 'LD_PRELOAD' } } },
      /choose another name/u,
    ],
  ])('%s that is unknown is refused, with what is allowed', (_what, content, expected) => {
    const file = written({ droneId: 'd1', programs: {}, ...content });

    const [problem = '', ...more] = problemsOf(file);

    expect(more).toEqual([]);
    expect(
      problem.replace(`${file}: `, '').replace(/^\S*: |^\(whole file\): |^programs\.A B: /u, ''),
    ).toMatch(expected);
  });

  test('a user may have the largest number that a warden takes, and no larger one', () => {
    const named = (user: number) =>
      problemsOf(written({ droneId: 'd1', programs: { room: { command: 'node', user } } }));

    expect(named(USER_NUMBER_MAX)).toEqual([]);
    expect(named(USER_NUMBER_MAX + 1)).toHaveLength(1);
  });

  test('takes several controllers from the file, or else from the environment', () => {
    const several = { ...environment, LEASEHOLD_URL: 'http://a/, https://b' };
    const controllersOf = (content: object): readonly string[] =>
      loadDroneConfig(written({ droneId: 'd1', programs: {}, ...content }), several).controllerUrls;

    expect(controllersOf({})).toEqual(['http://a', 'https://b']);
    expect(controllersOf({ controllerUrls: ['http://c', 'http://d'] })).toEqual([
      'http://c',
      'http://d',
    ]);
    expect(
      problemsOf(written({ droneId: 'd1', programs: {} }), {
        ...environment,
        LEASEHOLD_URL: 'http://a,b',
      }),
    ).toEqual([expect.stringContaining('LEASEHOLD_URL: entry 2 of the list must be') as string]);
  });

  test.each([
    ['a file that is not there', '/no/such/file.json', /cannot be read/u],
    ['no address of a controller', undefined, /LEASEHOLD_URL/u],
  ])('%s is reported', (_name, file, expected) => {
    const problems = problemsOf(file ?? written({ droneId: 'd1', programs: {} }), {
      ...environment,
      LEASEHOLD_URL: '',
    });

    expect(problems.join('\n')).toMatch(expected);
  });

  test('a file that is not JSON is reported, and the token is in no message', () => {
    const problems = problemsOf(written('{ "droneId": '));

    expect(problems.join('\n')).toMatch(/is not JSON/u);
    expect(problems.join('\n')).not.toContain(environment.LEASEHOLD_TOKEN);
  });
});
