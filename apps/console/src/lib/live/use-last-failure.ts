'use client';

import { useState } from 'react';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ApiError } from '../api/api-error.ts';

/**
 * A first read that failed stays a failure while it is retried: a page that alternated between the
 * error and a skeleton could neither be read nor clicked.
 */
export function useLastFailure<Data>(
  read: UseQueryResult<Data, ApiError>,
  key: string,
): UseQueryResult<Data, ApiError> {
  const [failed, setFailed] = useState<Failed | null>(null);
  const isFirst = read.data === undefined || read.isPlaceholderData;
  const next = nextOf(failed, isFirst, read.error, key);
  if (next !== failed) setFailed(next);
  return next === null || read.isError ? read : asFailed(read, next.error);
}

interface Failed {
  readonly key: string;
  readonly error: ApiError;
}

/** The last failure of the first read of this key; null if it has not failed, or was answered since. */
function nextOf(
  failed: Failed | null,
  isFirst: boolean,
  error: ApiError | null,
  key: string,
): Failed | null {
  if (!isFirst) return null;
  const known = failed?.key === key ? failed : null;
  return error === null || error === known?.error ? known : { key, error };
}

function asFailed<Data>(
  read: UseQueryResult<Data, ApiError>,
  error: ApiError,
): UseQueryResult<Data, ApiError> {
  return {
    ...read,
    status: 'error',
    data: undefined,
    error,
    isError: true,
    isLoadingError: true,
    isRefetchError: false,
    isPending: false,
    isLoading: false,
    isSuccess: false,
    isPlaceholderData: false,
  };
}
