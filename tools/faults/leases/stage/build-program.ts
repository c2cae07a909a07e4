import path from 'node:path';
import { build } from 'esbuild';
import { BUNDLE_OPTIONS } from '../../../build/bundle-options.mjs';

const FOLDER = import.meta.dirname;

export type ProgramName = 'holder' | 'updater';

/** Where the programs of this run of the tests are. */
export const PROGRAMS_FOLDER = path.join(FOLDER, 'dist', String(process.pid));

/** Bundles a program of this folder from the sources of the libraries. @returns the file to run. */
export function buildProgram(name: ProgramName): Promise<string> {
  return bundleProgram(path.join(FOLDER, `${name}.ts`));
}

/** Bundles any program. Its file is gone when the stage is closed. @returns the file to run. */
export async function bundleProgram(entry: string): Promise<string> {
  const outfile = path.join(PROGRAMS_FOLDER, `${path.basename(entry, '.ts')}.mjs`);
  await build({ ...BUNDLE_OPTIONS, entryPoints: [entry], outfile, keepNames: true });
  return outfile;
}
