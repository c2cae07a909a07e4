import { existsSync, mkdirSync } from 'node:fs';
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { chooseSocketPath, writeWardenRecord } from './records.ts';
import { upgradeDrone, upgradeOptions } from './upgrade.ts';
import { lineChannel, PROTOCOL_VERSION, REQUEST_LINE_MAX } from './warden/protocol.ts';

/** A running warden that answers every introduction so; the list has what it was asked. */
async function startWarden(stateDir: string, answer: object): Promise<string[]> {
  const asked: string[] = [];
  const server = net.createServer((socket) => {
    const channel = lineChannel(socket, {
      lengthMax: REQUEST_LINE_MAX,
      onLine(line) {
        const { id, op } = JSON.parse(line) as { id: number; op: string };
        asked.push(op);
        channel.send({ id, ...answer });
        if (!('value' in answer)) channel.close();
      },
    });
    socket.on('error', () => socket.destroy());
  });
  const socketPath = chooseSocketPath(stateDir);
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  onTestFinished(() => new Promise((resolve) => server.close(() => resolve())));
  writeWardenRecord(stateDir, { socketPath, clockId: 'one', pid: process.pid, secret: 'one' });
  return asked;
}

/** A drone with a warden, its installed program, and the new version. */
async function droneToUpgrade(answer: object, timeout = '1s') {
  const home = await mkdtemp(path.join(os.tmpdir(), 'lh-upgrade-'));
  onTestFinished(() => rm(home, { recursive: true, maxRetries: 10 }));
  const stateDir = path.join(home, 'state');
  const [config, program, installed] = ['drone.json', 'new.mjs', 'installed.mjs'].map((name) =>
    path.join(home, name),
  ) as [string, string, string];
  await writeFile(
    config,
    JSON.stringify({
      droneId: 'd1',
      stateDir,
      controllerUrls: ['http://127.0.0.1:1'],
      programs: { one: { command: 'true' } },
    }),
  );
  await writeFile(program, '// the new version');
  await writeFile(installed, '// the former version');
  const asked = await startWarden(stateDir, answer);
  const options = upgradeOptions(
    'drone',
    ['--config', config, '--install', installed, '--timeout', timeout],
    { LEASEHOLD_TOKEN: `lh_${'x'.repeat(32)}`, LEASEHOLD_HOME: home },
  );
  const said: string[] = [];
  const upgrade = (): Promise<void> =>
    upgradeDrone({
      ...options,
      command: [process.execPath, program],
      build: 'next',
      say: (line) => said.push(line),
    });
  return { upgrade, stateDir, program, installed, asked, said };
}

test('an upgrade to a version that cannot command the running warden is refused before anything changes', async () => {
  const problem = `this warden speaks protocol ${String(PROTOCOL_VERSION - 1)}`;
  const { upgrade, stateDir, installed, asked, said } = await droneToUpgrade({
    ok: false,
    problem,
  });

  await expect(upgrade()).rejects.toThrow(
    `This version cannot command the warden that runs (${problem}). Drain the drone, stop it with SIGTERM and start the new version.`,
  );
  expect(await readFile(installed, 'utf8')).toBe('// the former version');
  expect(existsSync(`${installed}.former`)).toBe(false);
  // An agent that is started has this log from then on.
  expect(existsSync(path.join(stateDir, 'upgrade.log'))).toBe(false);
  expect(said).toEqual([]);
  expect(asked).toEqual(['peek']);
});

test('an upgrade to what is installed already keeps the former program', async () => {
  const { upgrade, program, installed, said } = await droneToUpgrade({
    ok: true,
    value: { clockId: 'one', pid: process.pid, isolation: {} },
  });
  await copyFile(program, installed);
  await writeFile(`${installed}.former`, '// the former version');

  // The new version of this test ends at once.
  await expect(upgrade()).rejects.toThrow('The new agent did not come into command');

  expect(said).toEqual([`${installed} is this version already`]);
  expect(await readFile(installed, 'utf8')).toBe('// the new version');
  expect(await readFile(`${installed}.former`, 'utf8')).toBe('// the former version');
});

test('an upgrade whose agent ends before another one takes over says that nobody commands the backends', async () => {
  // The new version is a process, which must start in that time.
  const { upgrade, stateDir, program, said } = await droneToUpgrade(
    { ok: true, value: { clockId: 'one', pid: process.pid, isolation: {} } },
    '4s',
  );
  const record = path.join(stateDir, 'agent.json');
  // In command for a moment.
  await writeFile(
    program,
    `import { writeFileSync } from 'node:fs';
    writeFileSync('${record}', JSON.stringify({ pid: process.pid, version: 'next', build: 'next' }));
    process.exit(3);`,
  );

  await expect(upgrade()).rejects.toThrow(
    /^The new agent has ended \(exit code 3\).* no agent commands the backends.* 10 s after/u,
  );
  expect(said.at(-1)).toMatch(/^an agent of version .* commands the backends/u);
});

test('an upgrade whose agent cannot even be started puts the former program back', async () => {
  const { upgrade, stateDir, installed } = await droneToUpgrade({
    ok: true,
    value: { clockId: 'one', pid: process.pid, isolation: {} },
  });
  // In the way of the log of the new agent.
  mkdirSync(path.join(stateDir, 'upgrade.log'));

  await expect(upgrade()).rejects.toThrow('upgrade.log');

  expect(await readFile(installed, 'utf8')).toBe('// the former version');
});

test('an upgrade whose agent could not leave its record is refused before anything changes', async () => {
  const { upgrade, stateDir, installed, said } = await droneToUpgrade({
    ok: true,
    value: { clockId: 'one', pid: process.pid, isolation: {} },
  });
  // As a disk that is full.
  mkdirSync(path.join(stateDir, 'agent.json.try'));

  await expect(upgrade()).rejects.toThrow('agent.json.try');

  expect(await readFile(installed, 'utf8')).toBe('// the former version');
  expect(said).toEqual([]);
});
