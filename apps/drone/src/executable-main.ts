/** A drone as one executable, which needs no Node: `tools/build/drone-binary.mjs` makes it. */
import { getAsset } from 'node:sea';
import { endProcessAfter } from '@leasehold/service-kit/end-process';
import { runDroneProgram } from './drone-program.ts';

/** The commit, which the build puts here. */
declare const LEASEHOLD_BUILD: string;

void endProcessAfter(
  runDroneProgram(
    {
      name: 'leasehold-drone',
      build: LEASEHOLD_BUILD,
      command: [process.execPath],
      licenses: () => getAsset('licenses', 'utf8'),
    },
    process.argv.slice(2),
  ),
);
