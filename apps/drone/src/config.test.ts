import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { LeaseError } from '@leasehold/keys-core';
import { loadDroneConfig } from './config.ts';

const environment = {
  LEASEHOLD_TOKEN: `lh_${'x'.repeat(32)}`,
  LEASEHOLD_URL: 'http://127.0.0.1:4600',
};

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'lh-config-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function written(content: unknown): string {
  const file = path.join(folder, 'drone.json');
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  return file;
}

function problemsOf(file: string, env: Record<string, string | undefined> = environment): string[] {
  try {
    loadDroneConfig(file, env);
    return [];
  } catch (error) {
    if (!(error instanceof LeaseError)) throw error;
    return error.details['problems'] as string[];
  }
}

describe('the configuration of a drone', () => {
  test('has a value for everything that is not said', () => {
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

  test('tells every problem of the file and the environment at once', () => {
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
    ['a file that is not there', '/no/such/file.json', /cannot be read/u],
    ['no address of a controller', undefined, /LEASEHOLD_URL/u],
  ])('%s is said', (_name, file, expected) => {
    const problems = problemsOf(file ?? written({ droneId: 'd1', programs: {} }), {
      ...environment,
      LEASEHOLD_URL: '',
    });

    expect(problems.join('\n')).toMatch(expected);
  });

  test('a file that is not JSON is said, and the token is in no message', () => {
    const problems = problemsOf(written('{ "droneId": '));

    expect(problems.join('\n')).toMatch(/is not JSON/u);
    expect(problems.join('\n')).not.toContain(environment.LEASEHOLD_TOKEN);
  });
});
