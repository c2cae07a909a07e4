import { test } from 'vitest';
import { expectSoundRun, RUN_MS_MAX } from './sound-run.ts';

test(
  'F3 F10 F12 F19 F20b I1 to I16 hold, and everything recovers in time, in a run that has every fault once',
  () => expectSoundRun(['--seconds', '90', '--seed', '1', '--each-once']),
  RUN_MS_MAX,
);
