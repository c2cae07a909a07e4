import { describe, expect, test } from 'vitest';
import { backendEnv, wishProblem } from './backend-env.ts';

describe('the environment of a backend', () => {
  test('C44 holds the name of its key and neither namespace, tag nor the token of the drone', () => {
    const env = backendEnv({
      inherited: {
        PATH: '/bin',
        LEASEHOLD_TOKEN: 'lh_secret',
        LEASEHOLD_URL: 'http://c',
        SHELL: '/bin/sh',
      },
      program: { MODE: 'room', PORT: '1' },
      requested: { COLOUR: 'red', LEASEHOLD_KEY: 'forged' },
      keyName: 'room/1',
      keyId: '0a1b',
      fencingToken: '17',
      backendId: 'b-1',
      port: 21_000,
    });

    expect(env).toEqual({
      PATH: '/bin',
      MODE: 'room',
      COLOUR: 'red',
      LEASEHOLD_KEY: 'room/1',
      LEASEHOLD_KEY_ID: '0a1b',
      LEASEHOLD_FENCING_TOKEN: '17',
      LEASEHOLD_BACKEND_ID: 'b-1',
      PORT: '21000',
    });
  });
});

describe('what a request may pass to a program', () => {
  const open = { allowArgs: true, allowEnv: ['COLOUR', 'LD_PRELOAD', 'PORT'] };

  test('nothing, unless the program allows it', () => {
    const closed = { allowArgs: false, allowEnv: [] };

    expect(wishProblem(closed, { args: [], env: {} })).toBeUndefined();
    expect(wishProblem(closed, { args: ['-x'], env: {} })).toMatch('takes no arguments');
    expect(wishProblem(closed, { args: [], env: { COLOUR: 'red' } })).toMatch(
      'does not take COLOUR',
    );
    expect(wishProblem(open, { args: ['-x'], env: { COLOUR: 'red' } })).toBeUndefined();
  });

  test.each([
    'PORT',
    'PATH',
    'LD_PRELOAD',
    'LD_LIBRARY_PATH',
    'NODE_OPTIONS',
    'DYLD_INSERT_LIBRARIES',
    'LEASEHOLD_KEY',
  ])('never %s, whatever the program allows', (name) => {
    expect(wishProblem({ ...open, allowEnv: [name] }, { args: [], env: { [name]: 'x' } })).toMatch(
      name,
    );
  });
});
