import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { createTestDatabase } from '@leasehold/testing';
import pg from 'pg';
import ts from 'typescript';
import { expect, onTestFinished, test } from 'vitest';

const run = promisify(execFile);
const packageRoot = path.join(import.meta.dirname, '..');
const dist = path.join(packageRoot, 'dist');
const root = path.join(packageRoot, '..', '..');
const installed = path.join(root, 'node_modules');

/** The service's own schema: its table `person` has the name of one of Leasehold's. */
const PRISMA_SCHEMA = `
generator client {
  provider = "prisma-client"
  output = "./generated"
  moduleFormat = "esm"
  generatedFileExtension = "ts"
  importFileExtension = "js"
}
datasource db {
  provider = "postgresql"
}
model Account {
  id      String @id
  balance Int
  @@map("account")
}
model Person {
  id   Int    @id @default(autoincrement())
  note String
  @@map("person")
}
`;

const TABLES = `
  create table account (id text primary key, balance int not null);
  insert into account values ('alice', 100);
  create table person (id serial primary key, note text not null);
  create table hold_back (reason text not null);
  create table deployment (version text not null)`;

/** A service with both kinds of client. It prints what it has seen. */
const PROGRAM = `
import { randomUUID } from 'node:crypto';
import { PrismaPg } from '@prisma/adapter-pg';
import {
  createLeaseholdCore, pgDatabase, prismaDatabase, LeaseError,
  type LeaseholdCore, type LeaseUseCase, type PgTransaction,
} from '@leasehold/core';
import pg from 'pg';
import { PrismaClient, type Prisma } from './generated/client.js';

const connection = { connectionString: process.env['DATABASE_URL'] ?? '', options: '-c search_path=public' };
const prisma = new PrismaClient({ adapter: new PrismaPg(connection) });
const pool = new pg.Pool(connection);
type Notes<Tx> = (tx: Tx, note: string) => Promise<unknown>;
const byPrisma: Notes<Prisma.TransactionClient> = (tx, note) => tx.person.create({ data: { note } });
const byPg: Notes<PgTransaction> = (tx, note) => tx.query('insert into person (note) values ($1)', [note]);
const codeOf = (error: unknown): string => (error instanceof LeaseError ? error.code : String(error));

function aLease<Tx>(hooks: Partial<LeaseUseCase<string, Tx>> = {}): LeaseUseCase<string, Tx> {
  const id = randomUUID();
  return { key: () => id, scope: () => ({ namespace: ['packed'], key: 'thing' }), durationMs: () => 60_000, ...hooks };
}

async function tryOut<Tx>(core: LeaseholdCore<Tx>, write: Notes<Tx>): Promise<Record<string, unknown>> {
  const alice = core.coordinator({ holder: 'alice' });
  const bob = core.coordinator({ holder: 'bob' });
  const lease = aLease<Tx>({ willInsert: (tx) => write(tx, 'granted'), willReleaseOk: (tx, how) => write(tx, how) });
  const grant = await alice.acquire(lease, 0);
  if (grant.outcome !== 'granted') throw new Error(grant.outcome);
  await core.fencedTransaction(grant, (tx) => write(tx, 'fenced'));
  const taking = bob.acquire(aLease<Tx>({ willInsert: (tx) => write(tx, 'taken over') }), 20_000);
  const released = await alice.releaseOk(lease, 'released');
  const taken = await taking;
  if (taken.outcome !== 'granted') throw new Error(taken.outcome);
  const revoked = await core.fencedTransaction(taken, async (tx) => {
    await write(tx, 'never');
    await pool.query("update leasehold.lease set end_reason = 'revoked' where lease_id = $1", [taken.leaseId]);
  }).catch(codeOf);
  const use = (veto: string | null) => core.withEnvironmentLease('prod', {
    action: 'deploy', holder: 'ci', veto: () => veto, record: (tx) => write(tx, 'recorded'),
  });
  const environments = [(await use('frozen')).outcome, (await use(null)).outcome];
  return { released, revoked, environments };
}

const withPrisma = await tryOut(createLeaseholdCore({ database: prismaDatabase(prisma) }), byPrisma);
const withPg = await tryOut(createLeaseholdCore({ database: pgDatabase(pool) }), byPg);
const notes = (await prisma.person.findMany({ orderBy: { id: 'asc' } })).map(({ note }) => note);
console.log(JSON.stringify({ withPrisma, withPg, notes }));
await prisma.$disconnect();
await pool.end();
`;

const TSCONFIG = {
  compilerOptions: {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    module: 'nodenext',
    target: 'es2023',
    types: ['node'],
    outDir: 'built',
  },
  include: ['*.ts', 'generated/**/*.ts'],
};

/**
 * An empty project with the packed library in it. The packages that a service brings itself are
 * linked from those installed here, so that no registry is needed.
 */
async function aProject(): Promise<string> {
  if (!existsSync(dist)) throw new Error(`${dist} is missing: run \`npm run build\` first`);
  const project = await mkdtemp(path.join(os.tmpdir(), 'leasehold-core-packed-'));
  onTestFinished(() => rm(project, { recursive: true, force: true, maxRetries: 10 }));
  // Packed from a copy: a build may be under way.
  const copy = path.join(project, 'package');
  await cp(dist, copy, { recursive: true });
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', project], {
    cwd: copy,
  });
  const [packed] = JSON.parse(stdout) as { filename: string }[];
  await rm(copy, { recursive: true, maxRetries: 10 });
  await writeFile(path.join(project, 'package.json'), '{ "private": true, "type": "module" }');
  const brought = ['@prisma/client', '@prisma/adapter-pg', 'pg', '@types/pg', '@types/node'];
  const links = [...brought, 'typescript'].map((name) => path.join(installed, name));
  const flags = ['--offline', '--ignore-scripts', '--no-audit', '--no-fund', '--no-save'];
  await run('npm', ['install', ...flags, `./${packed?.filename ?? ''}`, ...links], {
    cwd: project,
  });
  await writeFile(path.join(project, 'tsconfig.json'), JSON.stringify(TSCONFIG));
  await generateClient(project);
  return project;
}

async function generateClient(project: string): Promise<void> {
  await writeFile(path.join(project, 'schema.prisma'), PRISMA_SCHEMA);
  const env = {
    ...process.env,
    // Naming any program keeps Prisma from downloading an engine that generating does not need.
    PRISMA_SCHEMA_ENGINE_BINARY: path.join(root, 'tools', 'install', 'no-schema-engine.sh'),
    CHECKPOINT_DISABLE: '1',
  };
  const prisma = path.join(installed, 'prisma', 'build', 'index.js');
  await run(process.execPath, [prisma, 'generate', '--no-hints', '--schema', 'schema.prisma'], {
    cwd: project,
    env,
  });
}

/** The programs of the README, unchanged. */
async function readmeBlocks(): Promise<string[]> {
  const text = await readFile(path.join(packageRoot, 'README.md'), 'utf8');
  return [...text.matchAll(/^```ts\n(.*?)^```$/gmsu)].map(([, code]) => code ?? '');
}

/** A database with the service's tables beside Leasehold's. */
async function aDatabase(): Promise<string> {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const options = '-c search_path=public';
  const client = new pg.Client({ connectionString: database.url, options });
  await client.connect();
  await client.query(TABLES);
  await client.end();
  return database.url;
}

test('the packed library and its README work in a project with a Prisma client and a pool of its own', async () => {
  const [project, databaseUrl] = await Promise.all([aProject(), aDatabase()]);
  await writeFile(path.join(project, 'service.ts'), PROGRAM);
  const blocks = await readmeBlocks();
  for (const [nth, block] of blocks.entries()) {
    await writeFile(path.join(project, `readme-${String(nth)}.ts`), block);
  }

  const compiler = path.join(project, 'node_modules/typescript/bin/tsc');
  const problems = await run(process.execPath, [compiler], { cwd: project }).then(
    () => '',
    (error: unknown) => (error as { stdout: string }).stdout,
  );
  expect(problems).toBe('');
  const env = { PATH: process.env['PATH'], DATABASE_URL: databaseUrl };
  const { stdout } = await run(process.execPath, ['built/service.js'], { cwd: project, env });

  const seen = {
    released: 'released',
    revoked: 'lease.not_held',
    environments: ['vetoed', 'recorded'],
  };
  const notes = ['granted', 'fenced', 'released', 'taken over', 'recorded'];
  expect(JSON.parse(stdout)).toEqual({
    withPrisma: seen,
    withPg: seen,
    notes: [...notes, ...notes],
  });
  expect(blocks.length).toBeGreaterThan(2);
  for (const nth of blocks.keys()) {
    const program = `built/readme-${String(nth)}.js`;
    const said = await run(process.execPath, [program], { cwd: project, env });
    expect(said.stderr).toBe('');
  }
});

test('the published code and types need nothing but Node', async () => {
  for (const file of ['index.d.ts', 'index.js']) {
    const text = await readFile(path.join(dist, file), 'utf8');
    const imported = ts.preProcessFile(text).importedFiles.map(({ fileName }) => fileName);

    expect(imported.filter((id) => !/^(?:node:.*|os|\..*)$/u.test(id))).toEqual([]);
  }
});
