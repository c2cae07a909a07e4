import type { BackendStatus } from '@leasehold/keys-core';
import type { Outputs } from '~/lib/api/api.ts';

/** A backend as the API returns it. */
export type Backend = Outputs['backends']['list']['items'][number];
/** With every state that it was in. */
export type BackendWithStates = Outputs['backends']['get'];
export type BackendState = BackendWithStates['states'][number];

/** What a backend does in a status, for people who do not know the word. */
export const STATUS_TEXTS: Record<BackendStatus, string> = {
  scheduled: 'Its drone has been told to start it.',
  loading: 'The drone makes it ready to start, and pulls its image if it is a container.',
  starting: 'Its process is being started.',
  waiting: 'It runs, and has not reported yet that it is ready.',
  ready: 'It accepts requests.',
  terminating: 'It has been asked to stop.',
  hard_terminating: 'It is being killed.',
  terminated: 'It has ended, and its key was released.',
};

/** Why a backend cannot be stopped in its present status; undefined when it can. */
export function terminateProblem(status: BackendStatus): string | undefined {
  if (status === 'terminated') return 'It has ended already.';
  return status === 'hard_terminating' ? 'It is being killed already.' : undefined;
}

/** What kind of program a backend runs. */
export function kindOf({ image }: Pick<Backend, 'image'>): string {
  return image === null ? 'a command of the machine' : `a container of ${image}`;
}
