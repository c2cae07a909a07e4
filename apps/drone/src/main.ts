/** A drone as a file that Node runs. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { endProcessAfter } from '@leasehold/service-kit/end-process';
import { runDroneProgram } from './drone-program.ts';

const BUILD_DIGITS = 12;
const file = process.argv[1] ?? '';

await endProcessAfter(
  runDroneProgram(
    {
      name: 'leasehold drone',
      // Read only when it is asked for: the warden stays small.
      get build() {
        return createHash('sha256').update(readFileSync(file)).digest('hex').slice(0, BUILD_DIGITS);
      },
      command: [process.execPath, file],
      licenses: () => 'See THIRD-PARTY-LICENSES.txt in the package leasehold.\n',
    },
    process.argv.slice(2),
  ),
);
