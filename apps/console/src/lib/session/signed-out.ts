import { createSignal } from '../signal.ts';

const state = createSignal(false);

/** Whether an answer has said that nobody is signed in any more. */
export const signedOut = {
  ...state,
  raise: (): void => state.set(true),
  clear: (): void => state.set(false),
};
