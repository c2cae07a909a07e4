import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { prepareDrone, type UpDrone } from './up-drone.ts';
import { readUpRequest, type UpOptions } from './up-request.ts';

let folder: string;
let home: string;
const environment = { PATH: '/usr/bin:/bin' };
beforeEach(() => {
  folder = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'lh-drone-')));
  home = path.join(folder, '.leasehold');
  mkdirSync(home);
  for (const name of ['a.sh', 'b.sh', 'room.mjs']) writeFileSync(path.join(folder, name), '');
});
afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));

/** What `leasehold up` finds out, without writing anything. */
function prepare(options: UpOptions = {}, from = folder): UpDrone {
  const request = readUpRequest(options, { folder: from, environment });
  return prepareDrone(request, {
    home,
    environment,
    roomServerPath: path.join(folder, 'room.mjs'),
  });
}

/** `leasehold up`, up to the start of its drone. */
function up(options: UpOptions = {}, from?: string): UpDrone {
  const drone = prepare(options, from);
  drone.write();
  return drone;
}

const offered = ({ programs }: UpDrone): string[] =>
  programs.map(({ name, command, source }) => `${name}: ${command}, ${source}`);

const droneFile = (): string => path.join(home, 'drone.json');
const readDrone = () =>
  JSON.parse(readFileSync(droneFile(), 'utf8')) as { programs: Record<string, object> };

function edit(): void {
  const content = readDrone();
  content.programs['mine'] = { command: '/bin/true' };
  writeFileSync(droneFile(), JSON.stringify(content));
}

function file(programs: object): void {
  writeFileSync(path.join(folder, 'leasehold.config.json'), JSON.stringify({ programs }));
}

describe('the programs of leasehold up', () => {
  test('are the example alone at first', () => {
    expect(up()).toMatchObject({
      droneId: 'drone-1',
      bindings: { programs: ['room'], capacity: 100, addresses: ['127.0.0.0/8'] },
      programs: [{ name: 'room', isExample: true }],
      note: undefined,
    });
    expect(readDrone().programs).toHaveProperty('room.args', [path.join(folder, 'room.mjs')]);
  });

  test('are kept over restarts, from any folder, until they are forgotten', () => {
    expect(offered(up({ program: ['a=sh a.sh', 'b=sh b.sh'] }))).toEqual([
      'a: sh a.sh, from --program',
      'b: sh b.sh, from --program',
      expect.stringMatching(/^room: node .*, the example of Leasehold$/u) as string,
    ]);
    expect(offered(up({ program: ['b=sh b.sh -x'] }, folder))).toEqual([
      'b: sh b.sh -x, from --program',
      'a: sh a.sh, kept from an earlier --program; --forget-program a ends that',
      expect.stringContaining('room') as string,
    ]);

    const elsewhere = up({ forgetProgram: ['a'] }, '/');

    expect(offered(elsewhere)[0]).toMatch(/^b: sh b\.sh -x, kept/u);
    expect(elsewhere.bindings.programs).toEqual(['b', 'room']);
    expect(elsewhere.programs[0]?.scripts).toEqual([path.join(folder, 'b.sh')]);
    expect(Object.keys(readDrone().programs)).toEqual(['b', 'room']);
  });

  test('--program wins over the file, and the file over what is kept; it is read again each time', () => {
    up({ program: ['a=sh a.sh 1', 'b=sh b.sh 1'] });
    file({
      a: { command: 'sh a.sh 2' },
      b: { command: 'sh b.sh 2' },
      room: { command: 'sh a.sh' },
    });

    expect(offered(up({ program: ['b=sh b.sh 3'] }))).toEqual([
      'b: sh b.sh 3, from --program',
      'a: sh a.sh 2, from leasehold.config.json',
      'room: sh a.sh, from leasehold.config.json',
    ]);
    file({});
    expect(offered(up()).slice(0, 2)).toEqual([
      expect.stringMatching(/^a: sh a\.sh 1, kept/u) as string,
      expect.stringMatching(/^b: sh b\.sh 3, kept/u) as string,
    ]);
  });

  test('a name that is not kept cannot be forgotten, and the answer says what is', () => {
    up({ program: ['a=sh a.sh'] });
    file({ c: { command: 'sh a.sh' } });

    expect(() => prepare({ forgetProgram: ['b'] })).toThrow(/no such program is kept; kept: a\./u);
    expect(() => prepare({ forgetProgram: ['c'] })).toThrow(/is in leasehold\.config\.json/u);
  });

  test('one whose file is gone keeps everything from starting, unless it is given again or forgotten', () => {
    up({ program: ['a=sh a.sh'] });
    rmSync(path.join(folder, 'a.sh'));

    expect(() => prepare()).toThrow(/a, kept from an earlier --program: .*a\.sh does not exist/u);
    expect(() => prepare({ program: ['a=sh b.sh'] })).not.toThrow();
    expect(() => prepare({ forgetProgram: ['a'] })).not.toThrow();
  });

  test('a start that is refused keeps nothing', () => {
    prepare({ program: ['a=sh a.sh'] });

    expect(offered(up())).toHaveLength(1);
  });

  test('--warm is kept with its program, and no more than the drone has places for', () => {
    up({ program: ['mine=sh a.sh'], warm: 2 });

    up();
    expect(readDrone().programs['mine']).toMatchObject({ warm: 2 });
    expect(() => prepare({ program: ['mine=sh a.sh'], warm: 101 })).toThrow(
      /programs\.mine\.warm: must together be at most the capacity, 100/u,
    );
  });

  test('have the time that the slowest of them may take to stop', () => {
    expect(prepare().stopGraceMs).toBe(10_000);

    file({ a: { command: 'sh a.sh', stopGraceMs: 3_600_000 }, b: { command: 'sh b.sh' } });

    expect(prepare().stopGraceMs).toBe(3_600_000);
  });

  test('what no drone accepts is refused, and names the field', () => {
    file({ a: { command: 'sh a.sh', user: 'root' } });

    expect(() => prepare()).toThrow(/not valid:\n {2}programs\.a\.user: must not be root/u);
  });
});

describe('an edited file of the drone', () => {
  test('is used as it is, and that is said, until it is removed', () => {
    up({ program: ['a=sh a.sh'] });
    edit();
    const text = readFileSync(droneFile(), 'utf8');

    const edited = up();

    expect(edited.note).toMatch(/was edited: it is used as it is\. Remove it/u);
    expect(edited.programs.map(({ name }) => name)).toEqual(['a', 'room', 'mine']);
    expect(edited.bindings.programs).toContain('mine');
    expect(readFileSync(droneFile(), 'utf8')).toBe(text);
    rmSync(droneFile());
    expect(offered(up())).toHaveLength(2);
    expect(up().note).toBeUndefined();
  });

  test('is not overwritten when the programs change too: then nothing starts', () => {
    up({ program: ['a=sh a.sh'] });
    edit();
    const text = readFileSync(droneFile(), 'utf8');
    const refusal = /was edited, and the programs that are given would change it too/u;

    expect(() => up({ program: ['b=sh b.sh'] })).toThrow(refusal);
    expect(() => up({ forgetProgram: ['a'] })).toThrow(refusal);
    file({ c: { command: 'sh a.sh' } });
    expect(() => up()).toThrow(refusal);
    expect(readFileSync(droneFile(), 'utf8')).toBe(text);
  });

  test('that is not valid is refused, naming the field', () => {
    up();
    writeFileSync(droneFile(), '{ "droneId": "drone-1", "programs": { "a": { "cmd": "x" } } }');

    expect(() => up()).toThrow(
      /drone\.json is not valid:[^]*programs\.a\.command: must be a text/u,
    );
  });

  test('a crash between the two files that are written is no edit', () => {
    up();
    const before = readFileSync(droneFile(), 'utf8');
    up({ program: ['a=sh a.sh'] });
    writeFileSync(droneFile(), before);

    expect(up().note).toBeUndefined();
    expect(Object.keys(readDrone().programs)).toEqual(['a', 'room']);
  });
});

describe('--drone-config', () => {
  const config = (content: object): string => {
    const name = path.join(folder, 'own.json');
    writeFileSync(name, JSON.stringify(content));
    return name;
  };

  test('is used as it is: its drone, its folders and its programs alone', () => {
    up({ program: ['a=sh a.sh'] });
    const droneConfig = config({
      droneId: 'machine-7',
      stateDir: '/var/lib/x',
      capacity: 3,
      host: '10.0.0.7',
      programs: { b: { command: 'sh', args: ['b.sh'] } },
    });

    expect(up({ droneConfig })).toMatchObject({
      droneId: 'machine-7',
      configPath: droneConfig,
      stateDir: '/var/lib/x',
      bindings: { programs: ['b'], capacity: 3, addresses: ['10.0.0.7/32'] },
      programs: [{ name: 'b', command: 'sh b.sh', source: `from ${droneConfig}` }],
    });
    expect(offered(up())).toHaveLength(2);
  });

  test.each<[string, object, RegExp]>([
    ['a wrong field', { droneId: 'm', programs: {}, port: 1 }, /has no field "port"; allowed are/u],
    ['no id', { programs: {} }, /droneId: is required/u],
    [
      'controllers',
      { droneId: 'm', programs: {}, controllerUrls: ['http://a'] },
      /controllerUrls: must be left out/u,
    ],
    [
      'a missing command',
      { droneId: 'm', programs: { a: { command: '/no' } } },
      /programs\.a\.command: \/no does not exist/u,
    ],
    [
      'a user that is not there',
      { droneId: 'm', programs: { a: { command: 'sh', user: 'nn-n' } } },
      /no account nn-n/u,
    ],
  ])('with %s is refused before anything starts', (_what, content, problem) => {
    expect(() => prepare({ droneConfig: config(content) })).toThrow(problem);
  });
});

describe('--watch', () => {
  test('needs a program of one’s own, and a file to watch', () => {
    expect(() => prepare({ watch: true })).toThrow(/no program to watch/u);
    expect(() => prepare({ watch: true, program: ['a=sh -c true'] })).toThrow(
      /no word of a \(sh -c true\) is a script/u,
    );
  });

  test('of a program with warm processes is refused: those would be of the version before', () => {
    file({ mine: { command: '/bin/true', warm: 1, watch: ['.'] } });

    expect(() => prepare()).toThrow(/mine is watched and has `warm`/u);
    expect(() => prepare({ program: ['mine=sh a.sh'], warm: 1, watch: true })).toThrow(
      /mine is watched and has `warm`/u,
    );
  });

  test('watches the paths that are given, or those of a program in the file, or its scripts', () => {
    file({ a: { command: 'sh a.sh', watch: ['.'] }, b: { command: 'sh b.sh' } });
    const watched = (options: UpOptions) =>
      prepare(options).targets.map(({ name, paths }) => [name, ...paths.map(relative)]);
    const relative = (name: string): string => path.relative(folder, name);

    expect(watched({})).toEqual([['a', '']]);
    expect(watched({ watch: true })).toEqual([
      ['a', ''],
      ['b', 'b.sh'],
    ]);
    expect(watched({ watchPath: ['room.mjs'] })).toEqual([
      ['a', 'room.mjs'],
      ['b', 'room.mjs'],
    ]);
    expect(watched({ watch: false })).toEqual([]);
  });
});
