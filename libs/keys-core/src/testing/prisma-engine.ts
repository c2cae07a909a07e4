import { readdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { PrismaPg } from '@prisma/adapter-pg';
import { bindMigrationAwareSqlAdapterFactory } from '@prisma/driver-adapter-utils';
import type * as Wasm from '@prisma/schema-engine-wasm/schema_engine_bg';

/** The small part of WebAssembly that is used; Node has it, but not in its types. */
interface WebAssemblyApi {
  instantiate(
    binary: Uint8Array,
    imports: Record<string, unknown>,
  ): Promise<{ instance: { exports: Record<string, () => void> } }>;
}

interface SchemaFile {
  readonly path: string;
  readonly content: string;
}

/** One for a process: the package keeps its WebAssembly instance in a variable of its module. */
let loading: Promise<typeof Wasm> | undefined;

type Engine = Awaited<ReturnType<(typeof Wasm.SchemaEngine)['new']>>;

const NO_FILTERS = { externalTables: [], externalEnums: [] };

/** What Prisma itself would make of the schema in `schemaDir`: the script for an empty database. */
export async function prismaScript(schemaDir: string, databaseUrl: string): Promise<string> {
  const names = await readdir(schemaDir);
  const files = await Promise.all(
    names.map(async (name) => ({
      path: name,
      content: await readFile(path.join(schemaDir, name), 'utf8'),
    })),
  );
  return withEngine(files, databaseUrl, async (engine) => {
    const { stdout } = await engine.diff({
      from: { tag: 'empty' },
      to: { tag: 'schemaDatamodel', files },
      script: true,
      exitCode: null,
      filters: NO_FILTERS,
    });
    return stdout ?? '';
  });
}

/** An application that Prisma migrates: what `prisma migrate deploy` does for it. */
export interface PrismaApplication {
  readonly schema: string;
  readonly migrations: readonly { readonly name: string; readonly sql: string }[];
}

/** @returns the names of the migrations that were applied now. */
export async function prismaDeploy(
  { schema, migrations }: PrismaApplication,
  databaseUrl: string,
): Promise<string[]> {
  const files = [{ path: 'schema.prisma', content: schema }];
  return withEngine(files, databaseUrl, async (engine) => {
    const { appliedMigrationNames } = await engine.applyMigrations({
      migrationsList: {
        baseDir: '/migrations',
        lockfile: { path: 'migration_lock.toml', content: 'provider = "postgresql"\n' },
        shadowDbInitScript: '',
        migrationDirectories: migrations.map(({ name, sql }) => ({
          path: name,
          migrationFile: { path: 'migration.sql', content: { tag: 'ok', value: sql } },
        })),
      },
      filters: NO_FILTERS,
    });
    return appliedMigrationNames;
  });
}

async function withEngine<T>(
  files: readonly SchemaFile[],
  databaseUrl: string,
  work: (engine: Engine) => Promise<T>,
): Promise<T> {
  loading ??= load();
  const { SchemaEngine } = await loading;
  const engine = await SchemaEngine.new(
    { datamodels: files.map((file): [string, string] => [file.path, file.content]) },
    () => undefined,
    bindMigrationAwareSqlAdapterFactory(new PrismaPg({ connectionString: databaseUrl })),
  );
  try {
    return await work(engine);
  } finally {
    engine.free();
  }
}

/**
 * Prisma's schema engine as WebAssembly. The package is written for bundlers that import `.wasm` files;
 * Node does not, so its two halves are put together here.
 */
async function load(): Promise<typeof Wasm> {
  const entry = createRequire(import.meta.url).resolve('@prisma/schema-engine-wasm');
  const folder = path.dirname(entry);
  const glue = (await import(
    pathToFileURL(path.join(folder, 'schema_engine_bg.js')).href
  )) as typeof Wasm;
  const binary = await readFile(path.join(folder, 'schema_engine_bg.wasm'));
  const { WebAssembly } = globalThis as unknown as { WebAssembly: WebAssemblyApi };
  const { instance } = await WebAssembly.instantiate(binary, { './schema_engine_bg.js': glue });
  glue.__wbg_set_wasm(instance.exports);
  instance.exports['__wbindgen_start']?.();
  return glue;
}
