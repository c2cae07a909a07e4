import { useMutation, useQueryClient, type UseMutationResult } from '@tanstack/react-query';
import { api, type Group, type Inputs, type Outputs, type Procedure } from './api.ts';
import { isSignedOut, toApiError, type ApiError } from './api-error.ts';
import { signedOut } from '../session/signed-out.ts';
import { useSignal } from '../signal.ts';
import { useEffect } from 'react';

/** A mutation. After it everything on the page is read again. */
export function useApiMutation<G extends Group, P extends Procedure<G>>(
  group: G,
  procedure: P,
): UseMutationResult<Outputs[G][P], ApiError, Inputs[G][P]> {
  const queryClient = useQueryClient();
  const mutation = useMutation<Outputs[G][P], ApiError, Inputs[G][P]>({
    mutationFn: async (input) => {
      try {
        return (await api.mutation(`${group}.${procedure}`, input)) as Outputs[G][P];
      } catch (error) {
        const failure = toApiError(error);
        if (isSignedOut(failure)) signedOut.raise();
        throw failure;
      }
    },
    onSettled: () => queryClient.invalidateQueries(),
  });
  // Somebody has signed in again: what was refused before that can be tried again.
  const isOver = !useSignal(signedOut) && isSignedOut(mutation.error);
  const { reset } = mutation;
  useEffect(() => {
    if (isOver) reset();
  }, [isOver, reset]);
  return mutation;
}
