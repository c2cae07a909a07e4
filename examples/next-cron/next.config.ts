import type { NextConfig } from 'next';
import { fileURLToPath } from 'node:url';

const workspace = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Inside this repository the packages are sources, and nx keeps what a build wrote. An app that installs
 * the packages needs none of this.
 */
const config: NextConfig = {
  transpilePackages: [
    '@leasehold/client',
    '@leasehold/core',
    '@leasehold/api',
    '@leasehold/keys-core',
    '@leasehold/service-kit',
    // Next would link to these from the build otherwise, and nx keeps no links.
    'pg',
    '@prisma/client',
  ],
  turbopack: { root: workspace },
  outputFileTracingRoot: workspace,
  // Types are checked by the repository's own steps.
  typescript: { ignoreBuildErrors: true },
};

export default config;
