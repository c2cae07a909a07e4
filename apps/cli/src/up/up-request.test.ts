import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CliFailure } from '../failures.ts';
import { readUpRequest, UP_FILE_NAME, type UpOptions } from './up-request.ts';

let folder: string;
let bin: string;
beforeEach(() => {
  folder = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'lh-request-')));
  bin = path.join(folder, 'bin');
  for (const name of ['bin', 'src', 'data']) mkdirSync(path.join(folder, name));
  for (const name of ['echo.mjs', 'src/api.mjs', 'drone.json']) writeFileSync(at(name), '');
  writeFileSync(at('bin/node'), '');
  chmodSync(at('bin/node'), 0o755);
});
afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));

function at(name: string): string {
  return path.join(folder, name);
}

function file(content: object, name = UP_FILE_NAME): void {
  writeFileSync(at(name), JSON.stringify(content));
}

function request(options: UpOptions, environment: Record<string, string> = {}) {
  return readUpRequest(options, { folder, environment: { PATH: bin, ...environment } });
}

function failure(options: UpOptions): { code: string; message: string } {
  try {
    request(options);
  } catch (error) {
    if (error instanceof CliFailure) return { code: error.code, message: error.message };
    throw error;
  }
  return { code: '', message: '' };
}

const echo = (fields: object = {}) => ({
  command: at('bin/node'),
  args: ['echo.mjs'],
  cwd: folder,
  env: { PATH: bin },
  ...fields,
});

test('--no-watch with a --watch-path is refused', () => {
  expect(failure({ watch: false, watchPath: ['src'] }).code).toBe('cli.usage');
});

describe('--program', () => {
  test('may be repeated, and the options about programs are about each of them', () => {
    const { given } = request({
      program: ['echo=MODE=own node echo.mjs', "api=node 'src/api.mjs' --x=1"],
      cwd: 'data',
      env: ['MODE=dev', 'URL=a=b', 'EMPTY='],
      portEnv: 'HTTP_PORT',
      warm: 2,
    });

    const env = { PATH: bin, MODE: 'dev', URL: 'a=b', EMPTY: '' };
    const shared = { cwd: at('data'), portEnv: 'HTTP_PORT', warm: 2 };
    expect(given).toEqual({
      echo: echo({ ...shared, args: [at('echo.mjs')], env: { ...env, MODE: 'own' } }),
      api: echo({ ...shared, args: [at('src/api.mjs'), '--x=1'], env }),
    });
  });

  test.each<[UpOptions, RegExp]>([
    [{ program: ['echo'] }, /^--program must be NAME=COMMAND, .* not "echo"\.$/u],
    [{ program: ['=node'] }, /^--program must be NAME=COMMAND/u],
    [{ program: ['A B=node'] }, /^--program: the name "A B" must be 1 to 64 of a-z/u],
    [{ program: ['echo='] }, /^--program echo: the command is empty/u],
    [{ program: ["echo=node 'a"] }, /^--program echo: the command has a quote .* not closed/u],
    [{ program: ['echo=node $X'] }, /^--program echo: the command needs a shell for \$X/u],
    [{ program: ['a=node', 'a=node'] }, /^--program a is given twice/u],
    [{ program: ['a=node'], env: ['X'] }, /^--env must be NAME=VALUE, not "X"/u],
    [{ program: ['a=node'], env: ['A-B=1'] }, /^--env: the name "A-B" must be letters/u],
    [{ program: ['a=node'], portEnv: '1X' }, /^--port-env: the name "1X" must be/u],
    [{ program: ['a=node'], portEnv: 'LEASEHOLD_KEY' }, /^--port-env: .* choose another name/u],
    [{ program: ['a=node'], cwd: '' }, /^--cwd must be a folder/u],
    [{ cwd: 'src' }, /^--cwd is about a program: give --program/u],
    [{ env: ['A=1'] }, /^--env is about a program/u],
    [{ portEnv: 'A' }, /^--port-env is about a program/u],
    [{ warm: 2 }, /^--warm is about a program/u],
    [{ program: ['a=node'], forgetProgram: ['a'] }, /^--forget-program a: --program gives it/u],
    [{ program: ['a=node'], droneConfig: 'drone.json' }, /used as it is/u],
    [{ config: 'none.json' }, /^--config: .*none\.json does not exist/u],
  ])('%o is wrong usage, which names the option', (options, message) => {
    expect(failure(options)).toEqual({
      code: 'cli.usage',
      message: expect.stringMatching(message) as string,
    });
  });

  test('all that cannot be found is reported at once', () => {
    file({ programs: { api: { command: 'node src/apy.mjs' }, web: { command: 'nod' } } });

    const { code, message } = failure({ program: ['echo=node ehco.mjs'], watchPath: ['lib'] });

    expect(code).toBe('up.cannot_start');
    expect(message.split('\n').slice(1)).toEqual([
      `  --program echo: ${at('ehco.mjs')} does not exist`,
      `  ${UP_FILE_NAME}: programs.api.command: ${at('src/apy.mjs')} does not exist`,
      `  ${UP_FILE_NAME}: programs.web.command: there is no command nod in PATH`,
      `  what to watch: ${at('lib')} does not exist`,
    ]);
  });
});

describe('leasehold.config.json', () => {
  test('its paths start from its own folder, wherever it is named from', () => {
    file({ programs: { api: { command: 'node api.mjs', cpuMax: 1 } } }, 'src/up.json');

    expect(request({ config: 'src/up.json' }).ofFile).toEqual({
      name: 'src/up.json',
      programs: { api: echo({ args: ['api.mjs'], cwd: at('src'), cpuMax: 1 }) },
    });
  });

  test('options win over the environment, that over the file, and the file over defaults', () => {
    const programs = { api: { command: 'node src/api.mjs', watch: ['src'] } };
    file({ port: 1, consolePort: 2, preset: 'fast', console: false, programs });
    const ofPrograms = { api: [at('src')] };

    expect(request({}, { LEASEHOLD_PRESET: '' })).toMatchObject({
      environment: { LEASEHOLD_PORT: '1', LEASEHOLD_CONSOLE_PORT: '2', LEASEHOLD_PRESET: 'fast' },
      withConsole: false,
      ofFile: { programs: { api: echo({ args: ['src/api.mjs'] }) } },
      watch: { paths: [], ofPrograms, scripts: false },
    });
    const options = { port: '5', console: true, watchPath: ['echo.mjs'] };
    expect(request(options, { LEASEHOLD_PORT: '3', LEASEHOLD_CONSOLE_PORT: '4' })).toMatchObject({
      environment: { LEASEHOLD_PORT: '5', LEASEHOLD_CONSOLE_PORT: '4', LEASEHOLD_PRESET: 'fast' },
      withConsole: true,
      watch: { paths: [at('echo.mjs')], ofPrograms, scripts: false },
    });
    expect(request({ watch: false }).watch).toBeNull();
    expect(request({ watch: true }).watch).toEqual({ paths: [], ofPrograms, scripts: true });
    file({ programs, watch: false });
    expect(request({}).watch).toBeNull();
  });

  test('a drone config takes the place of its programs, which need not be there then', () => {
    file({ programs: { gone: { command: 'nod' } } });
    expect(request({ droneConfig: 'drone.json' })).toMatchObject({
      droneConfig: at('drone.json'),
      ofFile: { programs: {} },
    });

    file({ droneConfig: '../drone.json' }, 'src/up.json');
    expect(request({ config: 'src/up.json' }).droneConfig).toBe(at('drone.json'));
    expect(failure({ config: 'src/up.json', program: ['a=node'] }).message).toMatch(/as it is/u);
  });
});
