import type { BuildOptions } from 'esbuild';

/** The folder of the repository. */
export const root: string;
export const BUNDLE_OPTIONS: BuildOptions;
