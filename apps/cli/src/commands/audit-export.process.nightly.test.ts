import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { CliStage, heldLease } from '../testing/cli-controller.ts';
import { runCommand, startCommand } from '../testing/command-line.ts';
import { runHere } from '../testing/in-process.ts';

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

/** The address of what answers an export so. */
async function exporting(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
}

test('an export that the controller ends early is told from one without a controller, and leaves no file', async () => {
  const before = await readdir(folder);
  const url = await exporting((_request, response) => {
    response.write('[', () => response.destroy());
  });
  const env = { ...cli.env, LEASEHOLD_URL: url };

  const printed = await runHere(['audit', 'export', '--json'], env);
  const written = await runHere(['audit', 'export', '--file', join(folder, 'part')], env);

  expect(JSON.parse(printed.stderr)).toMatchObject({
    error: { code: 'cli.export_incomplete', retryable: false },
  });
  expect(written).toMatchObject({ exitCode: 3, stdout: '' });
  expect(written.stderr).toMatch(
    /ended before the export was complete: other side closed\.[^]*use --from and --to/u,
  );
  expect(await readdir(folder)).toEqual(before);
});

test('a refused export has the incident and the details of the refusal', async () => {
  const url = await exporting((_request, response) => {
    const data = { leaseholdCode: 'internal.error', details: { at: 'x' }, incidentId: 'in-1' };
    response.writeHead(500).end(JSON.stringify({ error: { message: 'It failed.', data } }));
  });

  const ended = await runHere(['audit', 'export', '--json'], { ...cli.env, LEASEHOLD_URL: url });

  expect(JSON.parse(ended.stderr)).toMatchObject({
    error: { code: 'internal.error', incidentId: 'in-1', details: { at: 'x' } },
  });
});

test('audit export goes no further than its reader', async () => {
  // An audit without an end.
  const url = await exporting((_request, response) => {
    const more = (): void => {
      while (response.write('x'.repeat(65_536)));
    };
    response.on('drain', more).on('error', () => undefined);
    more();
  });

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
