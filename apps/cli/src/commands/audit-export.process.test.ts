import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { CliStage, heldLease } from '../testing/cli-controller.ts';
import { runCommand, startCommand } from '../testing/command-line.ts';

let cli: CliStage;
let folder: string;
let leaseId: string;
beforeAll(async () => {
  cli = await CliStage.open();
  folder = await mkdtemp(join(tmpdir(), 'leasehold-export-'));
  ({ leaseId } = await heldLease(cli.api(), ['exported'], 'import'));
  await cli.api().leases.revoke.mutate({ leaseId, mode: 'force', reason: '=stuck' });
});
afterAll(async () => {
  await cli.close();
  await rm(folder, { recursive: true, maxRetries: 10 });
});

test('audit export prints all that operators did, with the filters of audit ls', async () => {
  const ended = await cli.run('audit', 'export', '--resource', 'import');
  const other = await cli.run('audit', 'export', '--resource', 'import', '--actor', 'nobody');

  expect(ended).toMatchObject({ exitCode: 0, stderr: '' });
  expect(JSON.parse(ended.stdout)).toMatchObject([
    {
      action: 'leases.revoke',
      resource: `lease:${leaseId}`,
      reason: '=stuck',
      detail: { face: 'lease', namespace: 'exported', name: 'import' },
    },
  ]);
  expect(JSON.parse(other.stdout)).toEqual([]);
});

test('audit export --file writes a file in which no cell is a formula', async () => {
  const output = join(folder, 'audit.csv');

  const said = await cli.answer('audit', 'export', '--format', 'csv', '--file', output);

  expect(said).toEqual({ file: output });
  expect(await readFile(output, 'utf8')).toMatch(
    new RegExp(`^id,at,actor,[^\n]*\r\n[^\n]*,lease:${leaseId},'=stuck,`, 'u'),
  );
});

test.each([
  [['--from', 'yesterday'], 2, 'from: must be an ISO-8601 instant'],
  [['--format', 'xml'], 2, 'xml'],
])(
  'audit export %j ends with %i, says why, and leaves no file',
  async (args, exitCode, message) => {
    const before = await readdir(folder);

    const ended = await cli.run('audit', 'export', '--file', join(folder, 'none'), ...args);

    expect(ended.exitCode).toBe(exitCode);
    expect(ended.stderr).toContain(message);
    expect(await readdir(folder)).toEqual(before);
  },
);

test('audit export goes no further than its reader', async () => {
  // An audit without an end.
  const server = createServer((_request, response) => {
    const more = (): void => {
      while (response.write('x'.repeat(65_536)));
    };
    response.on('drain', more).on('error', () => undefined);
    more();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;

  const { child, ended } = startCommand(['audit', 'export'], { ...cli.env, LEASEHOLD_URL: url });
  child.stdout?.once('data', () => child.stdout?.destroy());

  expect(await ended).toMatchObject({ exitCode: 0, stderr: '' });
});

test('calls and exports skip a controller that does not answer', async () => {
  const env = { ...cli.env, LEASEHOLD_URL: `http://127.0.0.1:1,${cli.controller().url}` };

  const listed = await runCommand(['leases', 'show', 'exported/import', '--json'], env);
  const exported = await runCommand(['audit', 'export', '--resource', 'import'], env);

  expect(listed).toMatchObject({ exitCode: 0, stderr: '' });
  expect(exported).toMatchObject({ exitCode: 0, stderr: '' });
  expect(exported.stdout).toContain('=stuck');
});
