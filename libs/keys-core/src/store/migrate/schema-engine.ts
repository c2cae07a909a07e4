import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { bindMigrationAwareSqlAdapterFactory } from '@prisma/driver-adapter-utils';
import type * as Wasm from '@prisma/schema-engine-wasm/schema_engine_bg';
import { WholeScriptAdapter } from './whole-scripts.ts';

/** Prisma's schema engine, as WebAssembly: no download, no native program. */
export type SchemaEngine = Wasm.SchemaEngine;

/** How to open the engine. */
export interface SchemaEngineOptions {
  readonly databaseUrl: string;
  /** The files of a Prisma schema, where the engine is to compare with one. */
  readonly datamodels?: [name: string, text: string][];
  /** For how long a statement of it waits for a lock before it fails with SQLSTATE 55P03. */
  readonly lockTimeoutMs: number;
}

/** The little of WebAssembly that is used; Node has it, its types do not name it. */
interface WebAssemblyApi {
  instantiate(
    binary: Uint8Array,
    imports: Record<string, unknown>,
  ): Promise<{ instance: { exports: Record<string, () => void> } }>;
}

/**
 * The package's glue holds one instance of its WebAssembly for the process: a second one would take
 * the memory from under the first. So this is the process's too, however often this module is loaded.
 */
const LOADED = Symbol.for('leasehold.schemaEngine');
const place = globalThis as { [LOADED]?: Promise<typeof Wasm> | undefined };

/** Calls `work` with an engine on the database, and gives its memory and connections back afterwards. */
export async function withSchemaEngine<T>(
  options: SchemaEngineOptions,
  work: (engine: SchemaEngine) => Promise<T>,
): Promise<T> {
  place[LOADED] ??= load();
  const { SchemaEngine: Engine } = await place[LOADED];
  const adapter = new WholeScriptAdapter({
    connectionString: options.databaseUrl,
    options: `-c lock_timeout=${String(options.lockTimeoutMs)}`,
  });
  const engine = await Engine.new(
    { datamodels: options.datamodels },
    () => undefined,
    bindMigrationAwareSqlAdapterFactory(adapter),
  );
  try {
    return await work(engine);
  } finally {
    engine.free();
    await adapter.close();
  }
}

/**
 * The package is written for bundlers that import `.wasm` files. Node does not, so the two halves are
 * put together here, by file: the package is never part of a bundle.
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
