import type { NextConfig } from 'next';
import { fileURLToPath } from 'node:url';

const config: NextConfig = {
  // The console's own server compresses nothing that is streamed, and this is all that it serves.
  compress: true,
  poweredByHeader: false,
  reactStrictMode: true,
  transpilePackages: ['@leasehold/api', '@leasehold/keys-core'],
  turbopack: { root: fileURLToPath(new URL('../..', import.meta.url)) },
  outputFileTracingRoot: fileURLToPath(new URL('../..', import.meta.url)),
  // Types and style are checked by the workspace's own steps.
  typescript: { ignoreBuildErrors: true },
  experimental: {
    optimizePackageImports: ['@mantine/core', '@mantine/hooks', '@tabler/icons-react'],
  },
};

export default config;
