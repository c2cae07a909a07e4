import { spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { build } from 'esbuild';
import { BUNDLE_OPTIONS, root } from './bundle-options.mjs';

/**
 * Bundles a tool from the sources and runs its entry `main`, with the arguments of this process, whose
 * exit code then is the tool's. The other entries are files beside it that it starts.
 * @param folder the tool's, below the folder of the repository.
 * @param entryPoints paths below the folder of the repository, by name.
 * @param nodeOptions options of Node itself.
 */
export async function runBundled(folder, entryPoints, nodeOptions = []) {
  const outdir = path.join(root, folder, 'dist', String(process.pid));
  await build({
    ...BUNDLE_OPTIONS,
    entryPoints,
    outdir,
    outExtension: { '.js': '.mjs' },
    sourcemap: true,
  });
  const args = [...nodeOptions, path.join(outdir, 'main.mjs'), ...process.argv.slice(2)];
  const child = spawn(process.execPath, args, { stdio: 'inherit' });
  // Ctrl-C reaches the whole group; the child cleans up, and this process waits for it.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
  process.exitCode = await new Promise((resolve) => {
    child.once('exit', (exitCode, signal) => resolve(exitCode ?? (signal === null ? 1 : 130)));
  });
  await rm(outdir, { recursive: true, force: true });
}
