import { describe, expect, test } from 'vitest';
import { backendEnv, requestProblem } from './work.ts';

describe('the environment of a backend', () => {
  test('C44 holds the name of its key and neither namespace, tag nor the token of the drone', () => {
    const env = backendEnv({
      inherited: {
        PATH: '/srv/bin',
        HOME: '/srv',
        LANG: 'C.UTF-8',
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
      PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      PYTHONUNBUFFERED: '1',
      LANG: 'C.UTF-8',
      MODE: 'room',
      COLOUR: 'red',
      LEASEHOLD_KEY: 'room/1',
      LEASEHOLD_KEY_ID: '0a1b',
      LEASEHOLD_FENCING_TOKEN: '17',
      LEASEHOLD_BACKEND_ID: 'b-1',
      PORT: '21000',
    });
  });

  test('what Python prints can be followed at once, unless the program has it otherwise', () => {
    const rest = { keyName: 'k', keyId: '0a', fencingToken: '1', backendId: 'b', port: 21_000 };
    const envOf = (program: Record<string, string>): Record<string, string> =>
      backendEnv({ inherited: {}, program, requested: {}, ...rest });

    expect(envOf({})).toMatchObject({ PYTHONUNBUFFERED: '1' });
    expect(envOf({ PYTHONUNBUFFERED: '' })).toMatchObject({ PYTHONUNBUFFERED: '' });
  });

  test('the port is also in the variable that the program reads it from', () => {
    const env = backendEnv({
      inherited: {},
      program: { HTTP_PORT: '1' },
      requested: {},
      keyName: 'k',
      keyId: '0a',
      fencingToken: '1',
      backendId: 'b',
      port: 21_000,
      portEnv: 'HTTP_PORT',
    });

    expect(env).toMatchObject({ PORT: '21000', HTTP_PORT: '21000' });
  });
});

describe('what a request may pass to a program', () => {
  const open = { allowArgs: true, allowEnv: ['COLOUR', 'LD_PRELOAD', 'PORT'] };

  test('nothing, unless the program allows it', () => {
    const closed = { allowArgs: false, allowEnv: [] };

    expect(requestProblem(closed, { args: [], env: {} })).toBeUndefined();
    expect(requestProblem(closed, { args: ['-x'], env: {} })).toMatch('takes no arguments');
    expect(requestProblem(closed, { args: [], env: { COLOUR: 'red' } })).toMatch(
      'does not take COLOUR',
    );
    expect(requestProblem(open, { args: ['-x'], env: { COLOUR: 'red' } })).toBeUndefined();
  });

  test.each([
    'PORT',
    'PATH',
    'HOME',
    'TMPDIR',
    'LEASEHOLD_KEY',
    'LEASEHOLD_KEY_ID',
    'LD_PRELOAD',
    'LD_LIBRARY_PATH',
    'DYLD_INSERT_LIBRARIES',
    'GCONV_PATH',
    'LOCPATH',
    'GLIBC_TUNABLES',
    'MALLOC_TOP_PAD_',
    'HOSTALIASES',
    'OPENSSL_CONF',
    'SSLKEYLOGFILE',
    'BASH_ENV',
    'ENV',
    'SHELLOPTS',
    'BASHOPTS',
    'PS4',
    'IFS',
    'PROMPT_COMMAND',
    'ZDOTDIR',
    'BASH_FUNC_ls',
    'PERL5OPT',
    'PERL5LIB',
    'PERL5DB',
    'PYTHONSTARTUP',
    'PYTHONPATH',
    'PYTHONHOME',
    'RUBYOPT',
    'RUBYLIB',
    'GEM_PATH',
    'NODE_OPTIONS',
    'NODE_PATH',
    'PHPRC',
    'JAVA_TOOL_OPTIONS',
    '_JAVA_OPTIONS',
    'JDK_JAVA_OPTIONS',
    'CLASSPATH',
    'LUA_INIT',
    'DOTNET_STARTUP_HOOKS',
    'CORECLR_PROFILER',
    'GIT_SSH_COMMAND',
    'EDITOR',
    'PAGER',
    'LESSOPEN',
    'npm_config_script_shell',
    'XDG_CONFIG_HOME',
    'GTK_MODULES',
    'MAKEFLAGS',
  ])('never %s, whatever the program allows', (name) => {
    const request = { args: [], env: { [name]: 'x' } };

    expect(requestProblem({ ...open, allowEnv: [name] }, request)).toMatch(name);
  });

  test.each(['COLOUR', 'NODE_ENV', 'LOG_LEVEL', 'DATABASE_URL', 'PORTS', 'ENVIRONMENT', 'REGION'])(
    '%s, if the program allows it',
    (name) => {
      const request = { args: [], env: { [name]: 'x' } };

      expect(requestProblem({ ...open, allowEnv: [name] }, request)).toBeUndefined();
    },
  );
});
