import type { Diary } from '../diary.ts';
import type { Random } from '../../../../simulate/engine/random.ts';
import type { WorkerSettings } from './settings.ts';

export interface WorkerParts {
  readonly settings: WorkerSettings;
  readonly diary: Diary;
  readonly random: Random;
  /** Aborts when nothing new is to be begun. */
  readonly signal: AbortSignal;
}
