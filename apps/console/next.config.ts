import type { NextConfig } from 'next';
import { PHASE_DEVELOPMENT_SERVER } from 'next/constants.js';
import { fileURLToPath } from 'node:url';

const workspace = fileURLToPath(new URL('../..', import.meta.url));

const config: NextConfig = {
  poweredByHeader: false,
  // No page shows a picture that is to be made smaller.
  images: { unoptimized: true },
  reactStrictMode: true,
  transpilePackages: ['@leasehold/api', '@leasehold/keys-core', '@leasehold/service-kit'],
  turbopack: { root: workspace },
  outputFileTracingRoot: workspace,
  // Types and style are checked by the workspace's own steps.
  typescript: { ignoreBuildErrors: true },
  experimental: {
    optimizePackageImports: ['@mantine/core', '@mantine/hooks', '@tabler/icons-react'],
  },
};

/** In development Next itself passes calls on to the controller; otherwise `src/server` does. */
function development(): NextConfig {
  const [controllerUrl = ''] = (process.env['LEASEHOLD_URL'] ?? 'http://127.0.0.1:4600').split(',');
  const passed = ['/trpc/:path*', '/api/auth/:path*', '/export/:path*'];
  return {
    ...config,
    distDir: process.env['NEXT_DIST'] ?? '.next-dev',
    // Events must not wait for a compressor to fill its buffer.
    compress: false,
    rewrites: () =>
      Promise.resolve(
        passed.map((source) => ({ source, destination: `${controllerUrl}${source}` })),
      ),
  };
}

export default function configOf(phase: string): NextConfig {
  return phase === PHASE_DEVELOPMENT_SERVER ? development() : config;
}
