import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { programSchema } from '@leasehold/api/drone-file';
import { KEY_LADDERS } from '@leasehold/keys-core';
import type { ContainerConfig } from '../config.ts';
import { containerRequest, installationOf, registryLogin, registryOf } from './containers.ts';

const place = { droneId: 'd1', stateDir: '/state', socket: '/engine.sock', host: '127.0.0.1' };

function containerOf(fields: Record<string, unknown> = {}): ContainerConfig {
  const program = programSchema.parse({ image: 'room:1', ...fields });
  if (program.kind !== 'container') throw new Error('not a container');
  return program;
}

function requestOf(fields: Record<string, unknown> = {}, args: string[] = []) {
  const program = containerOf(fields);
  const order = {
    identity: {
      backendId: 'b1',
      leaseId: 'lease',
      fencingToken: '7',
      programName: 'room',
      program,
      ladder: KEY_LADDERS.fast,
    },
    plan: { key: { name: 'k', namespace: 'n' }, args, env: { A: 'asked' }, lifetimeLimitMs: null },
    keyId: 'key-id',
    port: 21_000,
  };
  return containerRequest(program, 'sha256:1', { order, place }).create;
}

describe('what the engine is asked to make', () => {
  test('has no privileges and has limits, unless the configuration says otherwise', () => {
    expect(requestOf()['HostConfig']).toMatchObject({
      CapDrop: ['ALL'],
      CapAdd: [],
      SecurityOpt: ['no-new-privileges'],
      Privileged: false,
      Memory: 512 * 1_024 ** 2,
      MemorySwap: 512 * 1_024 ** 2,
      NanoCpus: 1e9,
      PidsLimit: 256,
      RestartPolicy: { Name: 'no' },
      Init: true,
      ReadonlyRootfs: false,
    });
  });

  test('publishes one port on a network of its own, and tells the program which one it is inside', () => {
    const create = requestOf({ containerPort: 8_080 });

    expect(create['HostConfig']).toMatchObject({
      NetworkMode: 'bridge',
      PortBindings: { '8080/tcp': [{ HostIp: '127.0.0.1', HostPort: '21000' }] },
    });
    expect(create['Env']).toContain('PORT=8080');
  });

  test('listens on the port itself on the network of the machine', () => {
    const create = requestOf({ network: 'host', containerPort: 8_080 });

    expect(create['HostConfig']).toMatchObject({ NetworkMode: 'host' });
    expect(create['Env']).toContain('PORT=21000');
  });

  test('has the environment of every backend, which neither configuration nor request can replace', () => {
    const { Env } = requestOf({ env: { A: 'configured', LEASEHOLD_KEY: 'other' } });

    expect(Env).toEqual([
      'A=asked',
      'LEASEHOLD_KEY=k',
      'LEASEHOLD_KEY_ID=key-id',
      'LEASEHOLD_FENCING_TOKEN=7',
      'LEASEHOLD_BACKEND_ID=b1',
      'PORT=21000',
    ]);
  });

  test('has labels of the program, and those by which Leasehold finds it', () => {
    const { Labels } = requestOf({ labels: { team: 'a' } });

    expect(Labels).toEqual({
      team: 'a',
      'leasehold.installation': installationOf('/state'),
      'leasehold.drone': 'd1',
      'leasehold.program': 'room',
      'leasehold.key': 'k',
      'leasehold.key-id': 'key-id',
      'leasehold.backend': 'b1',
      'leasehold.fencing-token': '7',
    });
  });

  test('keeps the command of the image, unless a command or arguments are given', () => {
    expect(requestOf()).not.toHaveProperty('Entrypoint');
    expect(requestOf()).not.toHaveProperty('Cmd');
    expect(requestOf({ args: ['a'] }, ['b'])).toMatchObject({ Cmd: ['a', 'b'] });
    expect(requestOf({ command: '/run' })).toMatchObject({ Entrypoint: ['/run'] });
  });
});

describe('a configuration of a container', () => {
  test.each([
    ['an image that is no name', { image: 'a b' }, 'image', /name of an image/u],
    ['memory without a unit', { memory: '512' }, 'memory', /number with a unit/u],
    ['too little memory', { memory: '1m' }, 'memory', /at least "6m"/u],
    ['no memory', { memory: '0g' }, 'memory', /from "1b"/u],
    ['a negative share of processors', { cpus: -1 }, 'cpus', /0\.01/u],
    ['no processes', { pids: 0 }, 'pids', /1/u],
    ['an unknown network', { network: 'none' }, 'network', /bridge.*host/u],
    ['an unknown way to pull', { pull: 'sometimes' }, 'pull', /missing.*always.*never/u],
    ['credentials in the file itself', { credentials: 'a:b' }, 'credentials', /"file".*"env"/u],
    [
      'a label of ours',
      { labels: { 'leasehold.key': 'x' } },
      'labels.leasehold.key',
      /leasehold\./u,
    ],
    ['a dangerous capability', { capabilities: ['SYS_ADMIN'] }, 'capabilities.0', /CHOWN/u],
    ['a field of commands', { isolation: 1 }, '', /isolation/u],
  ])('with %s is refused, naming the field', (_what, fields, field, reason) => {
    const { error } = programSchema.safeParse({ image: 'room:1', ...fields });

    expect(error?.issues).toHaveLength(1);
    expect(error?.issues[0]?.path.join('.')).toBe(field);
    expect(error?.issues[0]?.message).toMatch(reason);
  });

  test('a program with neither command nor image is told what it needs', () => {
    const { error } = programSchema.safeParse({ port: 80 });

    expect(error?.issues[0]?.path).toEqual(['command']);
    expect(error?.issues[0]?.message).toMatch(/`command`.*`image`/u);
  });
});

describe('the login for a registry', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'lh-login-'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));

  test('does not exist where the configuration names none', () => {
    expect(registryLogin(containerOf(), {})).toBeUndefined();
  });

  test('is taken from a variable, up to the first colon the user', () => {
    const program = containerOf({ credentials: { env: 'LOGIN' } });

    expect(registryLogin(program, { LOGIN: 'me:a:b\n' })).toEqual({
      username: 'me',
      password: 'a:b',
    });
  });

  test('is taken from the file that docker login writes, for the registry of the image', () => {
    const file = path.join(folder, 'config.json');
    const auths = {
      'https://index.docker.io/v1/': { auth: Buffer.from('hub:1').toString('base64') },
      'registry.example:5000': { identitytoken: 'token' },
    };
    writeFileSync(file, JSON.stringify({ auths }));
    const credentials = { file };

    expect(registryLogin(containerOf({ credentials }), {})).toEqual({
      username: 'hub',
      password: '1',
    });
    expect(
      registryLogin(containerOf({ credentials, image: 'registry.example:5000/a/room' }), {}),
    ).toEqual({ identitytoken: 'token' });
    expect(() =>
      registryLogin(containerOf({ credentials, image: 'other.example/room' }), {}),
    ).toThrow(/has no credentials for other\.example/u);
  });

  test.each([
    ['room', 'docker.io'],
    ['team/room:1', 'docker.io'],
    ['localhost/room', 'localhost'],
    ['registry.example/room', 'registry.example'],
    ['registry:5000/room', 'registry:5000'],
  ])('of %s is that of %s', (image, registry) => {
    expect(registryOf(image)).toBe(registry);
  });
});
